//go:build acceptance

package acceptance_test

import (
	"testing"

	"github.com/fairlead/fairlead/benchmarks/acceptance"
	"github.com/fairlead/fairlead/benchmarks/bench"
)

// One prompt in twenty of 100,000 tokens among those of 1,000: the short ones' tail stays near what it is without the long ones.
func TestLongAmongShort(t *testing.T) {
	const seeds = 8
	ours := acceptance.Policies(t, "default")
	mixed := acceptance.Play(t, acceptance.Scenario(t, "s17"), 501, seeds, ours...)[0]
	alone := acceptance.Play(t, acceptance.Scenario(t, `name: the short prompts of s17 alone
fleet: [{pods: 8, hardware: h100-sxm, model: llama-3.1-8b}]
targets: {ttft: 1s, itl: 100ms}
warmup: 20s
workload:
  blockTokens: 256
  duration: 120s
  arrivals: {type: poisson, rate: 8.55}
  independent: {input: {type: lognormal, mean: 1000, stdDev: 500, min: 50, max: 8000}, output: 200}
`), 501, seeds, ours...)[0]
	short := acceptance.Class("short", func(g *bench.Group) bench.Number { return g.TTFT.P99 })
	a, b := acceptance.Mean(acceptance.Of(alone.Figures(), acceptance.TailTTFT)), acceptance.Mean(acceptance.Of(mixed.Figures(), short))
	acceptance.Say(t, acceptance.Is(b <= 1.5*a), "p99 TTFT of short prompts %.3f s among long ones, %.3f s alone: %.1fx", b, a, b/a)
}
