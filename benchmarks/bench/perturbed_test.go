package bench_test

import (
	"math"
	"testing"

	"github.com/fairlead/fairlead/benchmarks/bench"
	"github.com/fairlead/fairlead/benchmarks/policy"
	"github.com/fairlead/fairlead/simulator/scenarios"
)

func lone(t *testing.T, knobs string) *bench.Setup {
	t.Helper()
	s, err := scenarios.Parse([]byte(`name: lone
fleet: [{pods: 1, hardware: h100-sxm, model: llama-3.1-8b` + knobs + `}]
workload:
  requests: 200
  arrivals: {type: constant, rate: 0.2}
  independent: {input: 8000, output: 200}
`))
	if err != nil {
		t.Fatal(err)
	}
	out, err := bench.Prepare(s)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Engines that are other than they are known to be: prefill shows in the first token, steps in those behind it.
func TestPerturbedEngines(t *testing.T) {
	measure := func(s *bench.Setup) (ttft, itl, output float64) {
		p, err := policy.Named("round-robin")
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Run(p, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		f := s.Figures(r)
		for i := range r.Outcomes {
			output += float64(r.Outcomes[i].Output) / float64(len(r.Outcomes))
		}
		return float64(f.TTFT.P50), float64(f.ITL.P50), output
	}
	ttft, itl, output := measure(lone(t, ""))
	near := func(what string, got, want, tolerance float64) {
		t.Helper()
		if math.Abs(got/want-1) > tolerance {
			t.Errorf("%s is %.4f, want %.4f", what, got, want)
		}
	}
	near("the answer", output, 200, 0)
	for _, tt := range []struct {
		name               string
		s                  *bench.Setup
		ttft, itl, outputs float64
	}{
		{"slower prompts", lone(t, "").Perturbed(bench.Perturbation{Prefill: 1.3}), 1.3, 1, 1},
		{"slower prompts, by the scenario", lone(t, ", prefillFactor: 1.3"), 1.3, 1, 1},
		{"slower steps", lone(t, "").Perturbed(bench.Perturbation{Step: 1.3}), 1, 1.3, 1},
		{"slower steps, by the scenario", lone(t, ", stepFactor: 1.3"), 1, 1.3, 1},
		{"answers of other lengths", lone(t, "").Perturbed(bench.Perturbation{Output: 0.5}), 1, 1, 1},
		{"nothing", lone(t, "").Perturbed(bench.Perturbation{}), 1, 1, 1},
	} {
		gotTTFT, gotITL, gotOutput := measure(tt.s)
		near(tt.name+": TTFT", gotTTFT/ttft, tt.ttft, 0.05)
		near(tt.name+": ITL", gotITL/itl, tt.itl, 0.05)
		near(tt.name+": output", gotOutput/output, tt.outputs, 0.1)
	}
	if _, err := scenarios.Parse([]byte("name: x\nfleet: [{pods: 1, hardware: h100-sxm, model: llama-3.1-8b, stepFactor: -1}]\nworkload: {requests: 1}\n")); err == nil {
		t.Error("a negative factor is taken")
	}
}
