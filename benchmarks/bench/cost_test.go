package bench_test

import (
	"testing"

	"github.com/fairlead/fairlead/benchmarks/bench"
	"github.com/fairlead/fairlead/benchmarks/policy"
	"github.com/fairlead/fairlead/simulator/fleet"
	"github.com/fairlead/fairlead/simulator/scenarios"
)

// underDefault runs a scenario once under the default.
func underDefault(t *testing.T, s *bench.Setup) *fleet.Result {
	t.Helper()
	p, err := policy.Named(policy.Default)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Run(p, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// A pod that becomes half as fast loses its share within a minute, and has it back a minute after its recovery.
func TestAPodThatBecomesSlowLosesItsShare(t *testing.T) {
	whole(t)
	scenario, err := scenarios.Parse([]byte(`name: slow
title: A pod that becomes half as fast for a while
shows: its share
fleet:
- {pods: 6, hardware: h100-sxm, model: llama-3.1-8b}
events:
- {at: 40s, kind: slow, pod: 2, factor: 2}
- {at: 140s, kind: slow, pod: 2, factor: 1}
targets: {ttft: 1s, itl: 50ms}
workload:
  blockTokens: 64
  duration: 240s
  arrivals: {type: poisson, rate: 40}
  independent: {input: {type: lognormal, mean: 1000, stdDev: 500, min: 50, max: 8000}, output: {type: lognormal, mean: 150, stdDev: 80, min: 10, max: 800}}
`))
	if err != nil {
		t.Fatal(err)
	}
	s, err := bench.Prepare(scenario)
	if err != nil {
		t.Fatal(err)
	}
	r := underDefault(t, s)
	share := func(from, to float64) float64 {
		all, slow := 0, 0
		for i := range r.Outcomes {
			if at := float64(r.Outcomes[i].Arrived) / 1e9; at >= from && at < to {
				all++
				if r.Outcomes[i].Pod == 2 {
					slow++
				}
			}
		}
		return float64(slow) / float64(all)
	}
	before, slow, again := share(10, 40), share(100, 140), share(200, 240)
	t.Logf("share of one of six pods %.3f, half as fast %.3f, recovered %.3f", before, slow, again)
	if before < 0.14 || slow > 0.6*before || again < 0.85*before {
		t.Error("want it to fall by 40 % at least, and to come back")
	}
}

// A slice gets what it can do beside a whole GPU, though nobody says that it is one.
func TestSlicesGetTheirShare(t *testing.T) {
	r := underDefault(t, load(t, "s6").Unlabelled())
	var tokens [6]float64
	for i := range r.Outcomes {
		tokens[r.Outcomes[i].Pod] += float64(r.Outcomes[i].Prompt + r.Outcomes[i].Output)
	}
	gpu, slice := (tokens[0]+tokens[1])/2, (tokens[2]+tokens[3]+tokens[4]+tokens[5])/4
	// The slice has 0.45 of the compute and half of the bandwidth.
	if ratio := slice / gpu; ratio < 0.3 || ratio > 0.6 {
		t.Errorf("a slice gets %.2f of what a whole GPU gets; it can do 0.45 to 0.5", ratio)
	} else {
		t.Logf("a slice gets %.2f of what a whole GPU gets", ratio)
	}
}

// The first tokens of short prompts are hardly later where one prompt in twenty has 100,000 tokens.
func TestShortPromptsAmongLongOnes(t *testing.T) {
	s := load(t, "s17")
	p99 := func(s *bench.Setup) float64 {
		f := s.Figures(underDefault(t, s))
		for i := range f.Classes {
			if f.Classes[i].Name == "short" {
				return float64(f.Classes[i].TTFT.P99)
			}
		}
		return float64(f.TTFT.P99) // there is no other class
	}
	mixed := p99(s)
	scenario, err := scenarios.Parse([]byte(`name: short
title: The short prompts of s17 alone
shows: what they would have
fleet:
- {pods: 8, hardware: h100-sxm, model: llama-3.1-8b}
targets: {ttft: 1s, itl: 100ms}
warmup: 20s
workload:
  blockTokens: 256
  duration: 120s
  arrivals: {type: poisson, rate: 8.55}
  streams:
  - {name: short, share: 1, independent: {input: {type: lognormal, mean: 1000, stdDev: 500, min: 50, max: 8000}, output: 200}}
`))
	if err != nil {
		t.Fatal(err)
	}
	rest, err := bench.Prepare(scenario)
	if err != nil {
		t.Fatal(err)
	}
	if ratio := mixed / p99(rest); ratio > 1.5 {
		t.Errorf("p99 TTFT %.3f s, %.2f times that without long ones", mixed, ratio)
	} else {
		t.Logf("p99 TTFT %.3f s, %.2f times that without long ones", mixed, ratio)
	}
}
