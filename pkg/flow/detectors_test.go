package flow

import (
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/pool"
)

// engine is one endpoint and what is known of it.
type engine struct {
	role             string
	drains           bool
	waiting, running int32         // as its engine says
	kv               float64       // likewise
	age              time.Duration // of what it says; below 0: it never said anything
	prompts          []int64       // tokens of own requests that are there, without first byte
	answers          int64         // tokens that each is expected to generate
}

// seen has a world of these engines, and calls look inside the pool's lock.
func seen(t *testing.T, engines []engine, look func(w *world, v *View)) {
	t.Helper()
	w := newWorld(t, settings(nil), len(engines))
	members := append([]pool.Endpoint{}, w.p.Snapshot().Slots...)
	for i, e := range engines {
		members[i].Draining = e.drains
		if e.role != "" {
			members[i].Labels = map[string]string{roleLabel: e.role}
		}
	}
	w.p.Update(w.now, members)
	w.now += pool.Instant(time.Minute)
	for i, e := range engines {
		ref := w.p.Snapshot().Slots[i].Ref
		if e.age >= 0 {
			s := pool.NoSample()
			s.At, s.Waiting, s.Running, s.KVUsage = w.now-pool.Instant(e.age), e.waiting, e.running, e.kv
			w.p.Observe(w.now, ref, s)
		}
		w.p.Decide(func(_ *pool.Snapshot, b *pool.Books) {
			for _, n := range e.prompts {
				b.Book(ref, pool.Load{UncachedPrefill: n, Decode: e.answers}, w.now+pool.Instant(time.Hour))
			}
		})
	}
	w.p.Decide(func(s *pool.Snapshot, b *pool.Books) {
		var m membership
		m.see(s)
		look(w, &View{Now: w.now, Books: b, StaleAfter: 2 * time.Second, Members: m.members, Stages: m.stages})
	})
}

func TestDetectors(t *testing.T) {
	utilization := NewUtilizationDetector() // 5 requests, 0.8 of the cache
	patient := NewUtilizationDetector()
	patient.MetricsStalenessThreshold = 5 * time.Second
	counts := func(mode string) *ConcurrencyDetector {
		return &ConcurrencyDetector{MaxConcurrency: 10, ConcurrencyMode: mode, MaxTokenConcurrency: 1000}
	}
	load := &LoadDetector{MaxBacklog: time.Hour, MaxPending: 4, MaxKVUsage: 0.8, AtHand: 0}
	const never = -time.Second
	for _, r := range []struct {
		name    string
		d       Detector
		engines []engine
		wants   Saturation
	}{
		{"utilization by the queue", utilization, []engine{{waiting: 2, kv: 0.2}}, Saturation{Value: 0.4, Decode: 0.4}},
		{"utilization by the cache", utilization, []engine{{waiting: 2, kv: 0.6}}, Saturation{Value: 0.75, Decode: 0.75}},
		{"utilization is the mean", utilization, []engine{{waiting: 10}, {waiting: 0}}, Saturation{Value: 1, Decode: 1}},
		{"utilization that nobody has told", utilization, []engine{{age: never}, {waiting: 0}}, Saturation{Value: 0.5, Decode: 0.5, Stale: 1, Unread: 1}},
		{"utilization as it was once", utilization, []engine{{age: 3 * time.Second}}, Saturation{Value: 1, Decode: 1, Stale: 1, Unread: 1}},
		{"utilization that may be older", patient, []engine{{age: 3 * time.Second, waiting: 2}}, Saturation{Value: 0.4, Decode: 0.4}},
		{"utilization that is too old for that", patient, []engine{{age: 6 * time.Second, waiting: 2}}, Saturation{Value: 1, Decode: 1, Stale: 1, Unread: 1}},
		{"who drains does not count", utilization, []engine{{waiting: 1}, {waiting: 50, drains: true}}, Saturation{Value: 0.2, Decode: 0.2}},

		{"concurrency by requests", counts("requests"), []engine{{prompts: []int64{100, 200}, answers: 50}}, Saturation{Value: 0.2, Decode: 0.2}},
		{"concurrency by tokens", counts("tokens"), []engine{{prompts: []int64{100, 200}, answers: 50}}, Saturation{Value: 0.4, Decode: 0.4}},
		{"concurrency by both, more tokens", counts("hybrid"), []engine{{prompts: []int64{100, 200}, answers: 50}}, Saturation{Value: 0.4, Decode: 0.4}},
		{"concurrency by both, more requests", counts("hybrid"), []engine{{prompts: []int64{1, 1, 1}}}, Saturation{Value: 0.3, Decode: 0.3}},
		{"new endpoints are room", counts("requests"), []engine{{prompts: []int64{1, 1}}, {age: never}}, Saturation{Value: 0.1, Decode: 0.1}},

		{"the stage that is fuller: prefill", utilization, []engine{{role: "prefill", waiting: 4}, {role: "decode", waiting: 1}}, Saturation{Value: 0.8, Prefill: 0.8, Decode: 0.2}},
		{"the stage that is fuller: decode", utilization, []engine{{role: "prefill", waiting: 1}, {role: "decode", waiting: 4}}, Saturation{Value: 0.8, Prefill: 0.2, Decode: 0.8}},
		{"who does both counts in both", utilization, []engine{{role: "both", waiting: 2}, {role: "decode", waiting: 4}}, Saturation{Value: 0.6, Prefill: 0.4, Decode: 0.6}},

		{"load by what others have waiting", load, []engine{{waiting: 3, age: 0}}, Saturation{Value: 0.75, Decode: 0.75}},
		{"load by the cache", load, []engine{{kv: 0.6}}, Saturation{Value: 0.75, Decode: 0.75}},
		{"load that nobody has told", load, []engine{{age: never}}, Saturation{Stale: 1}},
	} {
		t.Run(r.name, func(t *testing.T) {
			seen(t, r.engines, func(_ *world, v *View) {
				got := r.d.Saturation(v)
				for _, of := range []*Saturation{&got, &r.wants} {
					of.Value, of.Prefill, of.Decode = rounded(of.Value), rounded(of.Prefill), rounded(of.Decode)
				}
				if got != r.wants {
					t.Errorf("got %+v, want %+v", got, r.wants)
				}
			})
		})
	}
}

func rounded(v float64) float64 { return float64(int64(v*1e6+0.5)) / 1e6 }

// An endpoint has room as far as its books, its cache and what others have waiting there let it.
func TestWhoHasRoomByLoad(t *testing.T) {
	by := func(change func(*LoadDetector)) *LoadDetector {
		d := &LoadDetector{MaxBacklog: time.Hour, MaxPending: 4, MaxKVUsage: 0.8}
		change(d)
		return d
	}
	plain, atHand := by(func(*LoadDetector) {}), by(func(d *LoadDetector) { d.AtHand = 2 })
	for _, r := range []struct {
		name string
		d    *LoadDetector
		of   engine
		room bool
	}{
		{"idle", plain, engine{}, true},
		{"nothing is known of it", plain, engine{age: -1}, true},
		{"below the bound of its cache", plain, engine{kv: 0.79}, true},
		{"at the bound of its cache", plain, engine{kv: 0.8}, false},
		{"its cache was full once", plain, engine{kv: 0.9, age: 3 * time.Second}, true},
		{"its cache is full, and nothing is at hand", atHand, engine{kv: 0.9}, true},
		{"its cache is full, and something is", atHand, engine{kv: 0.9, prompts: []int64{1, 1}}, false},
		{"its cache is full, and others have something at hand", atHand, engine{kv: 0.9, waiting: 2}, false},
		{"others have three waiting", plain, engine{waiting: 3}, true},
		{"others have as many waiting as may", plain, engine{waiting: 4}, false},
		{"those that wait are our own", plain, engine{waiting: 3, prompts: []int64{1, 1, 1}}, true},
		{"as many of our own as may", plain, engine{prompts: []int64{1, 1, 1, 1}}, false},
	} {
		t.Run(r.name, func(t *testing.T) {
			seen(t, []engine{r.of}, func(_ *world, v *View) {
				if got := r.d.HasRoom(v, 0); got != r.room {
					t.Errorf("it has room: %v", got)
				}
				if full := r.d.Saturation(v).Value >= 1; full == r.room {
					t.Errorf("its saturation is %v", r.d.Saturation(v).Value)
				}
			})
		})
	}
}
