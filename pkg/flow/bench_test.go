package flow

import (
	"fmt"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// passing is a queue as it stands in a configuration by default, over n endpoints, and a request that need not wait.
func passing(tb testing.TB, n int) (pass func(now pool.Instant)) {
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
	for _, id := range s.Members {
		p.Observe(second, s.Slots[id].Ref, pool.Sample{At: second, Running: 3, Blocks: 1000, BlockTokens: 16, KVUsage: 0.3})
	}
	r := &plugins.Request{}
	r.Prepare(built, nil)
	r.PoolIndex = 0
	c := built.Plans[0].NewCycle(reason.Discard{})
	if no := c.Prepare(r, s, p.StaleAfter(), 1, nil); no != nil {
		tb.Fatal(no)
	}
	var books *pool.Books
	p.Decide(func(_ *pool.Snapshot, b *pool.Books) { books = b }) // kept: nobody else is here
	return func(now pool.Instant) {
		r.Now, c.Now = now, now
		if v := q.Enter(r); !v.Passes() {
			tb.Fatal("it does not pass")
		}
		if fits, no := q.Fits(c, books); !fits || no != nil {
			tb.Fatal("it does not fit")
		}
		q.Admitted(r, s.Slots[0].Ref, pool.Load{})
	}
}

func BenchmarkEmptyQueue(b *testing.B) {
	for _, n := range []int{8, 100} {
		b.Run(fmt.Sprint("endpoints=", n), func(b *testing.B) {
			pass := passing(b, n)
			b.ReportAllocs()
			for b.Loop() {
				pass(2 * second)
			}
		})
	}
}

func TestAnEmptyQueueAllocatesNothing(t *testing.T) {
	pass := passing(t, 8)
	if n := testing.AllocsPerRun(1000, func() { pass(2 * second) }); n != 0 {
		t.Errorf("%v allocations, want none", n)
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
