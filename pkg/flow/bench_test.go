package flow

import (
	"fmt"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// passing is a queue as it stands in a configuration by default, over n endpoints of which so many are full, and a request that need
// not wait. books has it booked and ended besides, which is what the pool costs without a queue.
func passing(tb testing.TB, n, full int) (pass, books func(now pool.Instant)) {
	q := NewQueue()
	built, err := plugins.Build(plugins.Spec{
		Plugins:  []plugins.PluginSpec{instance("picker", pickFirst{}), instance("handler", handle{}), instance("queue", q)},
		Profiles: []plugins.ProfileSpec{{Name: "p", Plugins: []plugins.RefSpec{{Ref: "picker"}}}},
		Pools:    []plugins.PoolSpec{{Name: "p", Profiles: []string{"p"}, Handler: "handler"}},
	}, nil)
	if err != nil {
		tb.Fatal(err)
	}
	p := pool.New("p", reason.Discard{})
	w := &world{t: tb, p: p, c: q.Control, now: second}
	q.Attach([]*pool.Pool{p}, reason.Discard{})
	w.members(n)
	s := p.Snapshot()
	for i, id := range s.Members {
		usage := 0.3
		if i < full {
			usage = 0.99
		}
		p.Observe(second, s.Slots[id].Ref, pool.Sample{At: second, Running: 3, Blocks: 1000, BlockTokens: 16, KVUsage: usage})
	}
	r := &plugins.Request{}
	r.Prepare(built, nil)
	r.PoolIndex = 0
	c := built.Plans[0].NewCycle(reason.Discard{})
	candidates := func() {
		if no := c.Prepare(r, s, p.StaleAfter(), 1, nil); no != nil {
			tb.Fatal(no)
		}
	}
	candidates()
	var kept *pool.Books
	p.Decide(func(_ *pool.Snapshot, b *pool.Books) { kept = b }) // nobody else is here
	last := s.Slots[s.Members[n-1]].Ref
	pass = func(now pool.Instant) {
		if full > 0 {
			candidates() // they were narrowed
		}
		r.Now, c.Now = now, now
		if v := q.Enter(r); !v.Passes() {
			tb.Fatal("it does not pass")
		}
		if fits, no := q.Fits(c, kept); !fits || no != nil {
			tb.Fatal("it does not fit")
		}
		q.Admitted(r, last, pool.Load{})
	}
	return pass, func(now pool.Instant) {
		h := kept.Book(last, pool.Load{UncachedPrefill: 100, Decode: 20}, now+second)
		p.FirstByte(now, h)
		p.Progress(now, h, 20)
		p.End(now, h)
	}
}

func BenchmarkEmptyQueue(b *testing.B) {
	for _, n := range []int{8, 100} {
		pass, books := passing(b, n, 0)
		b.Run(fmt.Sprint("endpoints=", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				pass(2 * second)
			}
		})
		b.Run(fmt.Sprint("endpoints=", n, "/books alone"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				books(2 * second)
			}
		})
		b.Run(fmt.Sprint("endpoints=", n, "/and books"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				pass(2 * second)
				books(2 * second)
			}
		})
	}
}

func TestAnEmptyQueueAllocatesNothing(t *testing.T) {
	for _, full := range []int{0, 3} {
		pass, _ := passing(t, 8, full)
		if n := testing.AllocsPerRun(1000, func() { pass(2 * second) }); n != 0 {
			t.Errorf("%d of 8 full: %v allocations, want none", full, n)
		}
	}
}

// counting counts how often it is asked whether an endpoint has room.
type counting struct {
	*LoadDetector
	asked int
}

func (c *counting) HasRoom(v *View, id pool.ID) bool {
	c.asked++
	return c.LoadDetector.HasRoom(v, id)
}

// What a request costs that need not wait hangs on what happened since the last one, and not on how many endpoints there are.
func TestAnEmptyQueueAsksAboutWhatWasWritten(t *testing.T) {
	d := &counting{LoadDetector: NewLoadDetector()}
	w := newWorld(t, settings(func(s *Settings) { s.Detector, s.Patient = d, true }), 100)
	w.end(w.come()) // the first looks at all
	for range 50 {
		before := d.asked
		r := w.come()
		w.firstByte(r)
		w.end(r)
		if n := d.asked - before; n > 2 {
			t.Fatalf("asked about %d endpoints, want those that the request before this one was at", n)
		}
	}
}

// BenchmarkDrain lets 100,000 requests of 100 tenants go, each handed out, found to fit, booked and settled.
func BenchmarkDrain(b *testing.B) {
	const waiting, tenants = 100_000, 100
	d := &ConcurrencyDetector{MaxConcurrency: 1, ConcurrencyMode: "requests", MaxTokenConcurrency: 1}
	w := newWorld(b, settings(func(s *Settings) {
		s.Detector, s.Default.Fairness, s.MaxFlows, s.Default.TTL = d, NewTokenDeficit(), 1000, time.Hour
	}), 8)
	for b.Loop() {
		b.StopTimer()
		all := make([]request, waiting)
		d.MaxConcurrency = 1
		for range 8 + 1 {
			w.come() // one waits
		}
		for i := range all {
			r := &all[i].Request
			r.Prepare(w.built, nil)
			r.Now, r.PoolIndex, r.Owner, r.Number = w.now, 0, &all[i], uint64(i)
			r.Target.Subscription = fmt.Sprint("t", i%tenants)
			if v := w.c.Enter(w.now, r); v.Passes() || v.Refusal != nil {
				b.Fatal("it does not wait", v.Refusal)
			}
		}
		d.MaxConcurrency = 1 << 40
		e := w.p.Snapshot().Slots[0].Ref
		b.StartTimer()
		n := 0
		for {
			r, _, ok := w.c.Next(w.now)
			if !ok {
				break
			}
			w.c.Booked(w.now, r, e, pool.Load{UncachedPrefill: 100})
			w.c.Settle(w.now, r, 100, 20)
			n++
		}
		b.StopTimer()
		if n != waiting+1 {
			b.Fatalf("%d went, want %d", n, waiting+1)
		}
		for _, r := range w.went {
			w.p.End(w.now, r.booking)
		}
		w.went = w.went[:0]
		b.StartTimer()
	}
	b.ReportMetric(float64(b.N)*waiting/b.Elapsed().Seconds(), "requests/s")
}
