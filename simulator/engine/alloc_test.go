package engine_test

import (
	"testing"

	"github.com/fairlead/fairlead/simulator/engine"
)

// steady is an engine that always has as many requests as it was given: each that ends is replaced.
type steady struct {
	e       *engine.Engine
	request []engine.Request
	added   int
}

func newSteady(t testing.TB, p engine.Profile, o engine.Options, requests int) *steady {
	s := &steady{e: newEngine(t, p, o)}
	for i := range 64 {
		r := engine.Request{Prompt: int32(100 + i*5), Output: int32(100 + i*8)}
		r.Hashes = contents(p, string(rune('a'+i)), "s", 100, int(r.Prompt+r.Output))
		s.request = append(s.request, r)
	}
	for range requests {
		s.add(t)
	}
	s.e.Step(0)
	return s
}

func (s *steady) add(t testing.TB) {
	at, _ := s.e.Next()
	if _, err := s.e.Add(at, s.request[s.added%len(s.request)]); err != nil {
		t.Fatal(err)
	}
	s.added++
}

func (s *steady) step(t testing.TB) {
	now, _ := s.e.Next()
	for range s.e.Step(now).Finished {
		s.add(t)
	}
}

func TestAStepAllocatesNothing(t *testing.T) {
	p := profile(t, "h100-mig-3g.40gb")
	p.Blocks = 1500 // so that blocks are evicted and requests preempted all the time
	for name, o := range map[string]engine.Options{"nobody listens": {}, "somebody listens": {BlockEvents: true}} {
		s := newSteady(t, p, o, 100)
		for range 5000 {
			s.step(t)
		}
		if allocs := testing.AllocsPerRun(2000, func() { s.step(t) }); allocs != 0 {
			t.Errorf("%s: %v allocations per step, want 0", name, allocs)
		}
		if c := s.e.Counters(); c.Preemptions == 0 || c.PrefixHits == 0 || o.BlockEvents != (s.e.Batches() > 0) {
			t.Errorf("%s: %+v, %d batches: the load preempts, hits or tells nothing; it should", name, c, s.e.Batches())
		}
	}
}

func BenchmarkStep(b *testing.B) {
	for _, c := range []struct {
		name     string
		requests int
	}{{"1 request", 1}, {"32 requests", 32}, {"128 requests", 128}} {
		b.Run(c.name, func(b *testing.B) {
			s := newSteady(b, profile(b, "h100-sxm"), engine.Options{}, c.requests)
			for range 2000 {
				s.step(b)
			}
			b.ReportAllocs()
			for b.Loop() {
				s.step(b)
			}
		})
	}
}
