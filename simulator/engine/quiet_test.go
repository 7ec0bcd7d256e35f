package engine_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fairlead/fairlead/simulator/engine"
)

// Nothing is to be told before Quiet says so, whatever mix of prompts, preemptions and waiting requests runs.
func TestNothingIsToldBeforeQuiet(t *testing.T) {
	far := 0
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		p := profile(t, "h100-sxm")
		p.Blocks, p.MaxSeqs, p.MaxBatchedTokens = 20+r.Int32N(200), 1+r.Int32N(12), 16+r.Int32N(400)
		e := newEngine(t, p, engine.Options{})
		e.SetSlowdown(0.5 + r.Float64())
		now := time.Duration(0)
		for range 30 {
			if _, err := e.Add(now, engine.Request{Prompt: 1 + r.Int32N(200), Output: 1 + r.Int32N(100)}); err != nil {
				t.Fatal(err)
			}
			if _, busy := e.Next(); !busy {
				e.Step(now)
			}
			quiet := e.Quiet()
			for range r.IntN(60) {
				next, busy := e.Next()
				if !busy {
					break
				}
				if quiet < next {
					quiet = e.Quiet()
				}
				if quiet < next {
					t.Fatalf("seed %d: quiet until %v, before the running step's end at %v", seed, quiet, next)
				}
				if quiet > next {
					far++
				}
				now = next
				for _, token := range e.Step(now).Tokens {
					if now < quiet && (token.Count == 1 || token.Last) {
						t.Fatalf("seed %d: token %d (last: %v) at %v, and Quiet said %v", seed, token.Count, token.Last, now, quiet)
					}
				}
			}
		}
	}
	if far < 1000 {
		t.Errorf("Quiet was beyond the running step %d times; the test shows little", far)
	}
}
