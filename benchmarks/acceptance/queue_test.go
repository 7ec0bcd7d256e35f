//go:build acceptance

package acceptance_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/benchmarks/acceptance"
	"github.com/fairlead/fairlead/benchmarks/bench"
	"github.com/fairlead/fairlead/benchmarks/policy"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/simulator/fleet"
)

// withQueue is the default with a queue of these parameters, in YAML's flow style, and what they refer to.
func withQueue(parameters string, others ...string) string {
	more := ""
	for _, o := range others {
		more += "- " + o + "\n"
	}
	return `apiVersion: fairlead.dev/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: approx-prefix-cache-producer
- type: load-model-producer
- type: cost-scorer
- type: max-score-picker
` + more + "- {type: flow-control, parameters: {" + parameters + "}}\n"
}

var goodRate = func(f *bench.Figures) bench.Number { return f.GoodRate }

// At twice what four pods can do, nine tenths of what they can do come in time, the highest class as if nobody else were there, and
// the lowest pays. What they can do is the most that comes in time at any rate, without a queue or with one.
func TestOverload(t *testing.T) {
	const seeds = 4
	s := acceptance.Scenario(t, "s13-priority-overload")
	three := acceptance.Policies(t, policy.Default, withQueue("defaultRequestTTL: 1s, usageLimitPolicyRef: priority-holdback-policy",
		"{type: priority-holdback-policy, parameters: {minCeiling: 0.5}}"), "classic")
	capacity, at := 0.0, 0.0
	for _, scale := range []float64{0.6, 0.7, 0.75, 0.8, 0.9} {
		for _, p := range acceptance.Play(t, s.Scaled(scale), 1, seeds, three...) {
			if good := acceptance.Mean(acceptance.Of(p.Figures(), goodRate)); good > capacity {
				capacity, at = good, scale
			}
		}
	}
	offered := 50.0 // requests/s of the scenario
	if at == 0.6 || at == 0.9 {
		t.Errorf("the most was served at %v of the scenario's rate, the end of those that were tried", at)
	}
	twice := acceptance.Play(t, s.Scaled(2*capacity/offered), 1, seeds, three...)
	f := twice[1].Figures()
	good := acceptance.Mean(acceptance.Of(f, goodRate)) / capacity
	class := func(name string) float64 {
		return acceptance.Mean(acceptance.Of(f, acceptance.Class(name, func(g *bench.Group) bench.Number { return g.Goodput })))
	}
	critical, normal, batch := class("critical"), class("normal"), class("batch")
	rate := func(i int) float64 {
		return 100 * acceptance.Mean(acceptance.Of(twice[i].Figures(), goodRate)) / capacity
	}
	acceptance.Say(t, acceptance.Is(good >= 0.9 && critical >= 0.99 && batch < normal && batch < 0.05),
		"capacity %.1f/s; at twice that %.0f %% of it is in time (by the default's queue %.0f %%, without one %.0f %%); in time of critical %.1f %%, of normal %.0f %%, of batch %.1f %%",
		capacity, 100*good, rate(0), rate(2), 100*critical, 100*normal, 100*batch)
}

// served are the tokens that the engines computed for each tenant in a window: uncached prompts, and answers twice.
func served(r *fleet.Result, from, to pool.Instant) map[int32]float64 {
	out := map[int32]float64{}
	for i := range r.Outcomes {
		if o := &r.Outcomes[i]; o.Sent >= from && o.Sent < to {
			out[o.Tenant] += float64(o.Prompt-o.Cached) + 2*float64(o.Generated)
		}
	}
	return out
}

// Two tenants of which one offers ten times the other's tokens, and each more than its half, are served the same number of tokens.
func TestFairness(t *testing.T) {
	const from, to = 60, 160 // seconds: the first answers have ended, and arrivals go on
	p := acceptance.Policies(t, withQueue("defaultRequestTTL: 20s, maxRequests: 0"))[0]
	worst, said := 1.0, []string{}
	for _, r := range []struct{ name, loud, quiet string }{
		{"equal sizes", "rate: 200}, independent: {input: 1000, output: 128}", "rate: 20}, independent: {input: 1000, output: 128}"},
		{"the loud one's prompts are longer", "rate: 80}, independent: {input: 6000, output: 32}", "rate: 40}, independent: {input: 400, output: 160}"},
		{"the loud one's answers are longer", "rate: 120}, independent: {input: 100, output: 500}", "rate: 30}, independent: {input: 1500, output: 60}"},
	} {
		s := acceptance.Scenario(t, fmt.Sprintf(`name: ten to one
fleet: [{pods: 1, hardware: h100-sxm, model: llama-3.1-8b}]
workload:
  blockTokens: 64
  duration: 160s
  streams:
  - {name: loud, ownArrivals: {type: poisson, %s}
  - {name: quiet, ownArrivals: {type: poisson, %s}
`, r.loud, r.quiet))
		for i, run := range acceptance.Play(t, s, 1, 2, p)[0].Runs {
			got := served(run, from*1e9, to*1e9)
			ratio := max(got[0]/got[1], got[1]/got[0])
			waited := map[int32]int{}
			for j := range run.Outcomes {
				if o := &run.Outcomes[j]; o.Arrived >= from*1e9 && o.Arrived < to*1e9 && (o.Sent == 0 || o.Sent > o.Arrived) {
					waited[o.Tenant]++
				} else if o.Arrived >= from*1e9 && o.Arrived < to*1e9 {
					waited[o.Tenant] -= 1000 // it did not wait: its tenant takes less than its half
				}
			}
			if waited[0] <= 0 || waited[1] <= 0 {
				t.Errorf("%s, seed %d: not all of both wait: %v", r.name, i+1, waited)
			}
			worst = max(worst, ratio)
			said = append(said, fmt.Sprintf("%.3f", ratio))
		}
	}
	acceptance.Say(t, acceptance.Is(worst <= 1.1), "tokens served to one and the other, 3 mixes of sizes with 2 seeds: %s; at most %.3f", strings.Join(said, ", "), worst)
}

// Where prompts are cached counts in a queue: requests that wait for the endpoint of their choice, and are overtaken, come in time
// more often than those that take any room; and where nothing is cached it costs nothing.
func TestLookAhead(t *testing.T) {
	const seeds = 2
	both := acceptance.Policies(t, withQueue("defaultRequestTTL: 3s, lookAhead: 0"), withQueue("defaultRequestTTL: 3s"))
	ok, said := true, []string{}
	for _, r := range []struct {
		scenario string
		scale    float64
		least    float64 // of what comes in time without
	}{{"s1-shared-prefix", 1.2, 1.1}, {"s4-mooncake-synthetic", 1.4, 1.1}, {"s17-long-context", 1.3, 1.05}, {"s12-noisy-neighbour", 1, 0.98}} {
		played := acceptance.Play(t, acceptance.Scenario(t, r.scenario).Scaled(r.scale), 1, seeds, both...)
		a := acceptance.Mean(acceptance.Of(played[0].Figures(), acceptance.Goodput))
		b := acceptance.Mean(acceptance.Of(played[1].Figures(), acceptance.Goodput))
		ok = ok && b >= r.least*a
		said = append(said, fmt.Sprintf("%s at %.1f %.0f %%, without %.0f %%", r.scenario, r.scale, 100*b, 100*a))
	}
	acceptance.Say(t, acceptance.Is(ok), "in time of %s", strings.Join(said, "; "))
}
