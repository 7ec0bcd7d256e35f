package flow

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fairlead/fairlead/pkg/pool"
)

// Whatever comes, goes, drains and leaves: when nothing runs nobody waits, and nothing is left.
func TestNobodyIsForgottenWhateverHappens(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		draw := func(what string, n int) int { return rapid.IntRange(0, n-1).Draw(rt, what) }
		fairness := [...]func() Fairness{
			func() Fairness { return NewGlobalStrict() }, func() Fairness { return NewRoundRobin() },
			func() Fairness { return NewTokenDeficit() }, func() Fairness { return NewProgramAware() },
		}[draw("fairness", 4)]
		w := newWorld(t, choosy(func(s *Settings) {
			s.Default.Fairness, s.DefaultNegative.Fairness = fairness(), fairness()
			s.Weighted, s.LookAhead, s.MostPassed = draw("weighted", 2) == 1, draw("ahead", 5)*draw("ahead", 5), int32(1+draw("overtaken", 4))
			s.Patience, s.MaxFlows = time.Duration(1+draw("patience", 3))*time.Second, 1000
			s.Default.MaxRequests, s.MaxRequests, s.MaxBytes = int64(draw("most", 8)), int64(draw("most in all", 12)), int64(draw("bytes in all", 60))
			s.Default.YieldAfter = time.Duration(draw("yields", 2)) * time.Second
		}), 4)
		var all []*request
		which := func(of func(*request) bool) *request {
			var some []*request
			for _, r := range all {
				if of(r) {
					some = append(some, r)
				}
			}
			if len(some) == 0 {
				return nil
			}
			return some[draw("which", len(some))]
		}
		runs := func(r *request) bool { return r.runs }
		open := func() bool { return len(w.p.Snapshot().Open) > 0 }
		for range draw("steps", 80) {
			switch draw("what", 11) {
			case 0, 1, 2, 3:
				all = append(all, w.come(bestAt(draw("best", 5)), tenantIs(fmt.Sprint("t", draw("tenant", 12))), priority(int32(draw("priority", 3)-1)), bytes(int64(draw("bytes", 20)))))
			case 4:
				if r := which(runs); r != nil {
					w.end(r)
				}
			case 5:
				if r := which(runs); r != nil {
					w.firstByte(r)
				}
			case 6:
				if r := which(func(r *request) bool { return r.held }); r != nil {
					w.cancel(r)
				}
			case 7:
				w.pass(time.Duration(draw("ms", 1500)) * time.Millisecond)
			case 8:
				var m []pool.Endpoint
				for i := range 4 {
					if draw("leaves", 4) > 0 {
						m = append(m, pool.Endpoint{Namespace: "ns", Name: fmt.Sprint("e", i), Draining: draw("drains", 3) == 0,
							Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)}), 8000)})
					}
				}
				w.p.Update(w.now, m)
				w.dispatch()
			case 10: // somebody read the clock before the others
				back := pool.Instant(draw("back", 1500)) * pool.Instant(time.Millisecond)
				w.now -= back
				all = append(all, w.come(bestAt(draw("best", 5)), tenantIs(fmt.Sprint("t", draw("tenant", 12)))))
				if r := which(runs); r != nil {
					w.end(r)
				}
				w.now += back
			case 9:
				w.p.Decide(func(s *pool.Snapshot, b *pool.Books) {
					if len(s.Members) > 0 {
						b.Limit(s.Members[draw("at", len(s.Members))], int32(draw("limit", 3)), w.now+pool.Instant(draw("for", 2000))*pool.Instant(time.Millisecond))
					}
				})
			}
			for _, l := range w.c.lines {
				for _, b := range l.bands {
					b.check(rt.Fatalf)
					owed, requests := 0, 0
					for _, f := range b.waiting {
						if f.due {
							owed++
						}
						if requests += len(f.heap); !f.waits || len(f.heap) == 0 {
							rt.Fatalf("flow %s stands among those that wait: %v, %d", f.ID, f.waits, len(f.heap))
						}
					}
					if owed != b.owed || int64(requests) != b.holds[byRequests] {
						rt.Fatalf("owed %d, counted %d; %d wait, counted %d", owed, b.owed, requests, b.holds[byRequests])
					}
				}
			}
		}
		if !open() {
			w.members(4)
		}
		for n := 0; slices.ContainsFunc(all, runs); n++ {
			w.end(which(runs))
			if n > 1000 {
				rt.Fatal("they run without end")
			}
		}
		if n := w.c.Stats(w.now).Requests; n != 0 {
			rt.Fatalf("nothing runs, and %d wait", n)
		}
		w.wantWaiting(0)
		if s := w.c.Stats(w.now); s.Places != 0 || w.p.Open() != 0 {
			rt.Fatalf("left are %d places and %d bookings", s.Places, w.p.Open())
		}
	})
}

// check compares what a band and its flows count of those that hold places with what there is.
func (b *Band) check(fatal func(string, ...any)) {
	holds, flows := [measures]int64{}, map[*Flow]*[measures]int64{}
	last, fresh := map[*Flow]*item{}, map[*Flow]*item{}
	for it := b.first; it != nil; it = it.next {
		f := it.flow
		if flows[f] == nil {
			flows[f] = &[measures]int64{}
		}
		for by := range measures {
			holds[by] += by.of(it)
			flows[f][by] += by.of(it)
		}
		if it.older != last[f] {
			fatal("of flow %q one stands behind another than came before it", f.ID)
		}
		if last[f] = it; !it.yields && fresh[f] == nil {
			fresh[f] = it
		}
	}
	if holds != b.holds {
		fatal("a band holds %v, and counts %v", holds, b.holds)
	}
	for _, f := range b.flows {
		if has := flows[f]; has == nil && f.holds != [measures]int64{} || has != nil && *has != f.holds || last[f] != f.last || fresh[f] != f.fresh {
			fatal("flow %q holds %v, and counts %v", f.ID, has, f.holds)
		}
	}
	for by, c := range b.crowds {
		if len(c) != len(flows) {
			fatal("%d flows stand by what they hold, of %d", len(c), len(flows))
		}
		for i, f := range c {
			if f.rank[by] != i+1 || i > 0 && f.holds[by] > c[(i-1)/2].holds[by] {
				fatal("flow %q, which holds %d, is in place %d, and not %d", f.ID, f.holds[by], i, f.rank[by]-1)
			}
		}
	}
}
