package bench_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/benchmarks/bench"
	"github.com/fairlead/fairlead/benchmarks/compare"
	"github.com/fairlead/fairlead/benchmarks/policy"
	"github.com/fairlead/fairlead/simulator/fleet"
	"github.com/fairlead/fairlead/simulator/scenarios"
)

const (
	prefixAlone = "testdata/prefix-alone.yaml"
	loadAlone   = "testdata/load-alone.yaml"
	seeds       = 3

	adaptersTogether = "testdata/adapters-together.yaml"
	tokensCounted    = "testdata/tokens-counted.yaml"

	affinityAlone = "testdata/affinity-alone.yaml"
)

// cell is one scenario under several policies, by name.
type cell map[string]*compare.Arm

func (c cell) mean(policy string, of func(*bench.Figures) bench.Number) float64 {
	var v []float64
	for _, f := range c[policy].Runs {
		v = append(v, float64(of(f)))
	}
	return compare.Mean(v)
}

func (c cell) goodput(policy string) float64 {
	return c.mean(policy, func(f *bench.Figures) bench.Number { return f.Goodput })
}

func (c cell) hits(policy string) float64 {
	return c.mean(policy, func(f *bench.Figures) bench.Number { return f.HitRate })
}

func (c cell) ttft(policy string) float64 {
	return c.mean(policy, func(f *bench.Figures) bench.Number { return f.TTFT.P50 })
}

func (c cell) tail(policy string) float64 {
	return c.mean(policy, func(f *bench.Figures) bench.Number { return f.TTFT.P99 })
}

// whole leaves the tests of scenarios out of short runs: under the race detector they take minutes, on one goroutine each.
func whole(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs minutes under the race detector")
	}
}

func load(t *testing.T, name string) *bench.Setup {
	t.Helper()
	whole(t)
	s, err := bench.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func compared(t *testing.T, scenario *bench.Setup, names ...string) cell {
	t.Helper()
	p := compare.Plan{Scenarios: []*bench.Setup{scenario}, Seeds: seeds, Seed: 1, NoCapacities: scenario.Name != "s1-shared-prefix"}
	for _, name := range names {
		pol, err := policy.Named(name)
		if err != nil {
			t.Fatal(err)
		}
		p.Policies = append(p.Policies, pol)
	}
	r, err := compare.Run(context.Background(), p)
	if err != nil {
		t.Fatal(err)
	}
	c := cell{}
	for i := range r.Cells[0].Arms {
		c[r.Cells[0].Arms[i].Policy] = &r.Cells[0].Arms[i]
	}
	return c
}

// Each scenario shows what it says, in figures.
func TestScenariosShowWhatTheySay(t *testing.T) {
	tests := []struct {
		scenario string
		policies []string
		want     map[string]func(c cell) bool
	}{
		{"s1", []string{"round-robin", "default"}, map[string]func(c cell) bool{
			"round robin is past its capacity":             func(c cell) bool { return c["round-robin"].Saturated },
			"default keeps p99 TTFT below a second":        func(c cell) bool { return c.tail("default") < 1 && c.goodput("default") > 0.99 },
			"its capacity is at least twice round robin's": func(c cell) bool { return c["default"].CapacityRate > 2*c["round-robin"].CapacityRate },
		}},
		{"s2", []string{prefixAlone, "default"}, map[string]func(c cell) bool{
			"the longest prefix alone leaves one pod with everything": func(c cell) bool {
				return c.mean(prefixAlone, func(f *bench.Figures) bench.Number { return f.Imbalance }) > 7.5 && c[prefixAlone].Saturated
			},
			"with load in the price it spreads": func(c cell) bool {
				return c.mean("default", func(f *bench.Figures) bench.Number { return f.Imbalance }) < 1.2 && c.goodput("default") > 0.7
			},
		}},
		{"s3", []string{loadAlone, "default"}, map[string]func(c cell) bool{
			"the weight of the prefix neither helps nor harms": func(c cell) bool {
				d, l := c.goodput("default"), c.goodput(loadAlone)
				return d > 0.99*l && d < 1.01*l && c.ttft("default") < 1.05*c.ttft(loadAlone)
			},
		}},
		{"s4", []string{"round-robin", "default"}, map[string]func(c cell) bool{
			"more than twice as much is found in caches":    func(c cell) bool { return c.hits("default") > 2*c.hits("round-robin") },
			"the median TTFT falls by a third at least":     func(c cell) bool { return c.ttft("default") < 0.67*c.ttft("round-robin") },
			"goodput rises by a fifth of the rest at least": func(c cell) bool { return c.goodput("default") > 1.2*c.goodput("round-robin") },
		}},
		{"s5", []string{"random", "least-request", "default"}, map[string]func(c cell) bool{
			"who counts its own requests does better than chance": func(c cell) bool {
				return c.goodput("default") > c.goodput("random")+0.03 && c.goodput("least-request") > c.goodput("random")+0.02
			},
		}},
		{"s6", []string{"round-robin", "default"}, map[string]func(c cell) bool{
			"taking turns overloads the slices":    func(c cell) bool { return c["round-robin"].Saturated && c.goodput("round-robin") < 0.6 },
			"looking at what engines say does not": func(c cell) bool { return c.goodput("default") > 0.97 },
		}},
		{"s7", []string{"classic", "default"}, map[string]func(c cell) bool{
			"requests are preempted": func(c cell) bool {
				return c.mean("default", func(f *bench.Figures) bench.Number { return bench.Number(f.Preemptions) }) > 20
			},
			"it is past its capacity":                   func(c cell) bool { return c["classic"].Saturated && c.goodput("classic") < 0.3 },
			"a queue keeps most in time, and in memory": func(c cell) bool { return c.goodput("default") > c.goodput("classic")+0.4 },
		}},
		{"s8", []string{"round-robin", "default"}, map[string]func(c cell) bool{
			"a turn finds most of its conversation": func(c cell) bool { return c.hits("default") > 0.6 && c.hits("round-robin") < 0.35 },
			"the median TTFT is a third at most":    func(c cell) bool { return c.ttft("default") < 0.34*c.ttft("round-robin") },
		}},
		{"s9", []string{"round-robin", "default"}, map[string]func(c cell) bool{
			"an agent's step finds its context": func(c cell) bool { return c.hits("default") > 0.85 && c.hits("round-robin") < 0.6 },
			"and goodput follows":               func(c cell) bool { return c.goodput("default") > c.goodput("round-robin")+0.2 },
		}},
		{"s10", []string{"round-robin", adaptersTogether}, map[string]func(c cell) bool{
			"adapters wait for places wherever all go everywhere": func(c cell) bool { return c.goodput("round-robin") < 0.5 && c.ttft("round-robin") > 1 },
			"kept together they do not":                           func(c cell) bool { return c.goodput(adaptersTogether) > 0.9 && c.ttft(adaptersTogether) < 0.1 },
		}},
		{"s12", []string{"default"}, map[string]func(c cell) bool{
			"the steady tenants pay for the bursts": func(c cell) bool {
				return c.mean("default", func(f *bench.Figures) bench.Number { return f.Classes[0].Goodput }) < 0.95
			},
		}},
		{"s13", []string{"classic", "default"}, map[string]func(c cell) bool{
			"without a queue the critical class is not served better than batch": func(c cell) bool {
				critical := c.mean("classic", func(f *bench.Figures) bench.Number { return f.Classes[0].Goodput })
				batch := c.mean("classic", func(f *bench.Figures) bench.Number { return f.Classes[2].Goodput })
				return critical < batch+0.1 && critical < 0.7
			},
			"with one the critical class is in time, and batch waits": func(c cell) bool {
				critical := c.mean("default", func(f *bench.Figures) bench.Number { return f.Classes[0].Goodput })
				batch := c.mean("default", func(f *bench.Figures) bench.Number { return f.Classes[2].Goodput })
				return critical > 0.9 && batch < 0.5
			},
		}},
		{"s14", []string{"default"}, map[string]func(c cell) bool{
			"old readings cost little where the own requests count": func(c cell) bool { return c.goodput("default") > 0.97 },
		}},
		{"s15", []string{"default", "rule-dynamo-events"}, map[string]func(c cell) bool{
			"a gap of cache events costs nobody who asks for what was missed": func(c cell) bool {
				return c.goodput("rule-dynamo-events") > 0.98 && c.hits("rule-dynamo-events") > 0.7
			},
			"a crash loses what ran on the pod and no more": func(c cell) bool {
				lost := c.mean("default", func(f *bench.Figures) bench.Number { return bench.Number(f.Failed + f.Refused) })
				return lost > 0 && lost < 40 && c.goodput("default") > 0.98
			},
		}},
		{"s16", []string{"classic", "default"}, map[string]func(c cell) bool{
			"the larger fleet keeps its targets": func(c cell) bool { return c.goodput("default") > 0.97 },
			"who prices the load uses new pods": func(c cell) bool {
				uneven := func(f *bench.Figures) bench.Number { return f.Imbalance }
				return c.mean("default", uneven) < 1.4 && c.mean("classic", uneven) > 1.8
			},
		}},
		{"s17", []string{"round-robin", "classic", "default", tokensCounted}, map[string]func(c cell) bool{
			"who counts tokens keeps them away from the long ones": func(c cell) bool {
				p90 := func(f *bench.Figures) bench.Number { return f.TTFT.P90 }
				return c.mean(tokensCounted, p90) < 0.5*c.mean("classic", p90) && c.goodput(tokensCounted) > c.goodput("classic")
			},
			"who looks at queues keeps more of the short ones in time": func(c cell) bool { return c.goodput("classic") > c.goodput("round-robin")+0.2 },
			"who prices what others wait keeps nearly all in time":     func(c cell) bool { return c.goodput("default") > 0.97 },
		}},
		{"h1", []string{"round-robin", affinityAlone, policy.Default}, map[string]func(c cell) bool{
			"who keeps the prefix where it is loses its pods": func(c cell) bool { return c.goodput(affinityAlone) < 0.6 },
			"who takes turns computes every other prefix on every pod": func(c cell) bool {
				return c.hits("round-robin") < 0.85 && c.goodput("round-robin") < 0.6
			},
			"copied ahead of need, nearly all is found and no pod has half as much again": func(c cell) bool {
				return c.hits(policy.Default) > 0.9 && c.goodput(policy.Default) > 0.99 &&
					c.mean(policy.Default, func(f *bench.Figures) bench.Number { return f.Imbalance }) < 1.2
			},
		}},
		{"h2", []string{affinityAlone, policy.Default}, map[string]func(c cell) bool{
			"copies take the tail off the first token": func(c cell) bool { return c.tail(policy.Default) < 0.8*c.tail(affinityAlone) },
			"and cost few hits":                        func(c cell) bool { return c.hits(policy.Default) > c.hits(affinityAlone)-0.03 },
		}},
	}
	shown := map[string]bool{}
	for _, tt := range tests {
		shown[tt.scenario] = true
		t.Run(tt.scenario, func(t *testing.T) {
			t.Parallel()
			c := compared(t, load(t, tt.scenario), tt.policies...)
			for name, holds := range tt.want {
				if !holds(c) {
					t.Errorf("not so: %s", name)
					for _, p := range tt.policies {
						t.Logf("%s: goodput %.3f, hits %.3f, TTFT p50 %.3f s, p99 %.3f s, saturated %v, capacity %.3g/s; %+v", p, c.goodput(p), c.hits(p), c.ttft(p), c.tail(p), c[p].Saturated, float64(c[p].CapacityRate), c[p].Runs[0].Classes)
					}
				}
			}
		})
	}
	for _, name := range scenarios.Names() {
		head, _, _ := strings.Cut(name, "-")
		if !shown[head] && head != "mig" && head != "s11" && head != "c" && head != "p" { // cells of comparisons and published ones: they show no one thing
			t.Errorf("nothing is said of %s", name)
		}
	}
}

// Prefill and decode apart: shorter gaps between tokens, and a later first one.
func TestPrefillAndDecodeApart(t *testing.T) {
	apart, together := compared(t, load(t, "s11-pd"), "least-request"), compared(t, load(t, "s11-unified"), "round-robin")
	itl := func(f *bench.Figures) bench.Number { return f.ITL.P50 }
	if a, b := apart.mean("least-request", itl), together.mean("round-robin", itl); a > 0.8*b {
		t.Errorf("ITL p50 %.4f s apart, %.4f s together; want at most 0.8 of it", a, b)
	}
	if a, b := apart.ttft("least-request"), together.ttft("round-robin"); a < b {
		t.Errorf("TTFT p50 %.3f s apart, %.3f s together; the transfer and four prefillers in place of eight should cost something", a, b)
	}
}

// New pods are used at once by who counts requests, though they have nothing cached.
func TestNewPodsGetTraffic(t *testing.T) {
	s := load(t, "s16")
	p, err := policy.Named("least-request")
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Run(p, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	var late, fresh int
	for i := range r.Outcomes {
		if o := &r.Outcomes[i]; o.Arrived > 40e9 {
			late++
			if o.Pod >= 4 {
				fresh++
			}
		}
	}
	if share := float64(fresh) / float64(late); share < 0.4 || share > 0.6 {
		t.Errorf("%.2f of the requests go to the four new pods, ten seconds after they came", share)
	}
}

// A crash costs the requests in the pod, which are few at any time, and none that came after.
func TestOnlyWhatRanOnACrashedPodFails(t *testing.T) {
	s := load(t, "s15")
	p, err := policy.Named(policy.Default)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Run(p, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		if o.Status == fleet.Failed && (o.Pod != 2 || o.Arrived > 20e9) {
			t.Errorf("request %d failed: %+v", i, o)
		}
		if o.Status == fleet.Refused || o.Status == fleet.Unfinished {
			t.Errorf("request %d: %+v", i, o)
		}
	}
}

// How old readings are matters little to who counts its own requests.
func TestStaleReadings(t *testing.T) {
	for _, age := range []time.Duration{5 * time.Millisecond, time.Second, 4 * time.Second} {
		s := load(t, "s14")
		own := *s.Scenario
		own.Signals.Age, own.Signals.Jitter = age, 0
		s.Scenario = &own
		if g := compared(t, s, policy.Default).goodput(policy.Default); g < 0.95 {
			t.Errorf("readings %v old: goodput %.3f", age, g)
		}
	}
}

func TestTwoSlots(t *testing.T) {
	whole(t)
	p, err := policy.Named(policy.Default)
	if err != nil {
		t.Fatal(err)
	}
	all, best, err := compare.Layouts(context.Background(), "mig-two-slots", p, seeds, 1)
	if err != nil {
		t.Fatal(err)
	}
	if best != "mig-two-slots-unified" {
		t.Errorf("%s is recommended, want unified", best)
	}
	refused := map[string]string{"mig-two-slots-both": "needs 3 x h100-mig-3g.40gb", "mig-two-slots-multi-node": "cannot reach each other"}
	for _, l := range all {
		switch why, no := refused[l.Scenario]; {
		case no && !strings.Contains(l.Refused, why):
			t.Errorf("%s: refused with %q, want %q", l.Scenario, l.Refused, why)
		case !no && l.Refused != "":
			t.Errorf("%s is refused: %s", l.Scenario, l.Refused)
		case l.Scenario == "mig-two-slots-disaggregated" && !strings.Contains(l.Estimated, "estimate"):
			t.Errorf("%s does not say that its transfer is an estimate", l.Scenario)
		}
	}
	if len(all) != 5 {
		t.Errorf("%d layouts, want 5", len(all))
	}
}
