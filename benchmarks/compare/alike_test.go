package compare

import (
	"testing"

	"github.com/fairlead/fairlead/benchmarks/bench"
	"github.com/fairlead/fairlead/benchmarks/policy"
)

// A policy beside itself on the same requests of a simulated fleet, with draws of its own, and beside itself on engines that take
// 3 % longer, in 200 comparisons of ten seeds each: the ten that begin with each of 200. The first is equal by every metric, the
// second is seen in the time of answers.
func TestTwoHundredComparisonsOnAFleet(t *testing.T) {
	if testing.Short() {
		t.Skip("needs 600 runs")
	}
	const seeds, each = 200, 10
	same := setup(t, small)
	slower := same.Perturbed(bench.Perturbation{Step: 1.03, Prefill: 1.03})
	p, err := policy.Named("least-request")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorkers(0, nil)
	arms := map[string][]*bench.Figures{"itself": make([]*bench.Figures, seeds), "again": make([]*bench.Figures, seeds), "slower": make([]*bench.Figures, seeds)}
	for seed := range uint64(seeds) {
		for name, of := range map[string]struct {
			s    *bench.Setup
			salt uint64
		}{"itself": {same, 0}, "again": {same, 1}, "slower": {slower, 1}} {
			w.run(t.Context(), func() error {
				f, err := measure(of.s, p, 1+seed, of.salt)
				arms[name][seed] = f
				return err
			})
		}
	}
	if err := w.wait(); err != nil {
		t.Fatal(err)
	}
	window := func(name string, from int) *Arm {
		a := &Arm{Policy: name, Capacity: bench.Unknown, CapacityRate: bench.Unknown}
		for k := range each {
			a.Runs = append(a.Runs, arms[name][(from+k)%seeds])
		}
		a.Saturated = mostSaturated(a.Runs)
		return a
	}
	equal, found := 0, 0
	for from := range seeds {
		reference, again, slower := window("itself", from), window("again", from), window("slower", from)
		if again.against(reference, 0.02); again.Verdict == Equal {
			equal++
		}
		slower.against(reference, 0.02)
		for _, d := range slower.Differences {
			if d.Metric == "E2E p50" && d.Verdict == Worse {
				found++
			}
		}
	}
	t.Logf("of %d comparisons of a policy with itself %d are equal; 3 %% more time is found in %d", seeds, equal, found)
	if equal < seeds*97/100 || found < seeds*90/100 {
		t.Errorf("%d of %d are equal, and 3 %% is found in %d; want 97 and 90 %%", equal, seeds, found)
	}
}
