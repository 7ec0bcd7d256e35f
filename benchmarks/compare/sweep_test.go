package compare

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/benchmarks/bench"
	"github.com/fairlead/fairlead/benchmarks/policy"
	"github.com/fairlead/fairlead/simulator/scenarios"
)

// Ten stages between 1 and 4 are ten different rates.
func TestZ02SweepRates(t *testing.T) {
	a, err := ParseAxis("rate=1..4/10")
	if err != nil {
		t.Fatal(err)
	}
	want := []float64{1, 4.0 / 3, 5.0 / 3, 2, 7.0 / 3, 8.0 / 3, 3, 10.0 / 3, 11.0 / 3, 4}
	if len(a.Values) != 10 || len(slices.Compact(slices.Clone(a.Values))) != 10 {
		t.Fatalf("%v; want 10 distinct rates", a.Values)
	}
	for i, v := range a.Values {
		if d := v - want[i]; d > 1e-12 || d < -1e-12 {
			t.Errorf("rate %d is %v, want %v", i, v, want[i])
		}
	}
}

func TestAxes(t *testing.T) {
	if a, err := ParseAxis("prefix-cache-scorer=0, 1,2.5"); err != nil || !slices.Equal(a.Values, []float64{0, 1, 2.5}) {
		t.Errorf("%v, %v", a, err)
	}
	for text, want := range map[string]string{
		"rate": "want NAME=", "rate=": "want NAME=", "rate=1,x": `"x"`, "rate=0,1": "above 0", "pods=1.5": "whole number", "pods=0": "whole number",
		"event-loss=0,1.1": "share from 0 to 1", "event-delay-ms=-1": "at least 0",
		"rate=4..1/3": "rising", "rate=1..4": "FROM..TO/N", "queue-scorer=-1": "at least 0",
	} {
		if _, err := ParseAxis(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
}

const small = `name: small
title: A small one
fleet: [{pods: 4, hardware: h100-sxm, model: llama-3.1-8b}]
targets: {ttft: 300ms, itl: 50ms}
workload:
  blockTokens: 64
  requests: 300
  arrivals: {type: poisson, rate: 30}
  sharedPrefix: {groups: 20, system: 2000, question: 200, output: 100}
`

func setup(t *testing.T, text string) *bench.Setup {
	t.Helper()
	s, err := scenarios.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	b, err := bench.Prepare(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func named(t *testing.T, name string) policy.Policy {
	t.Helper()
	p, err := policy.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestSweepVariesWhatItSays(t *testing.T) {
	axes := []Axis{{"prefix-cache-scorer", []float64{0, 5}}, {"rate", []float64{0.5, 2}}}
	s, err := RunSweep(context.Background(), setup(t, small), named(t, policy.Classic), axes, 2, 1, 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	hits := func(i int) float64 { return float64(s.Points[i].Arm.Runs[0].HitRate) }
	rate := func(i int) float64 { return float64(s.Points[i].Arm.Runs[0].OfferedRate) }
	if len(s.Points) != 4 || hits(2) < hits(0)+0.05 {
		t.Errorf("hit rates %.3f and %.3f with weights 0 and 5 of the prefix", hits(0), hits(2))
	}
	if r := rate(1) / rate(0); r < 3.8 || r > 4.2 {
		t.Errorf("rates %.3f and %.3f; want four times as much", rate(0), rate(1))
	}
	pods, err := RunSweep(context.Background(), setup(t, small), named(t, "round-robin"), []Axis{{"pods", []float64{1, 8}}}, 1, 1, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if one, eight := pods.Points[0].Arm.Runs[0].TTFT.P99, pods.Points[1].Arm.Runs[0].TTFT.P99; one < eight {
		t.Errorf("p99 TTFT %.3f s on one pod, %.3f s on eight", float64(one), float64(eight))
	}
	if pods.Best() != 1 {
		t.Errorf("one pod of 1 and 8 is best")
	}
	if _, err := RunSweep(context.Background(), setup(t, small), named(t, policy.Classic), []Axis{{"queue-scorrer", []float64{1}}}, 1, 1, 1, nil); err == nil || !strings.Contains(err.Error(), "queue-scorer") {
		t.Errorf("%v; want the scorers that there are", err)
	}
	if _, err := RunSweep(context.Background(), setup(t, small), named(t, "random"), []Axis{{"queue-scorer", []float64{1}}}, 1, 1, 1, nil); err == nil || !strings.Contains(err.Error(), "no weights") {
		t.Errorf("%v; want that it has no weights", err)
	}
}

// A policy beside itself is equal, though it draws anew; a fleet whose step times are 3 % longer is found, seed by seed.
func TestComparisonsEndToEnd(t *testing.T) {
	ctx := context.Background()
	a := setup(t, small)
	p := named(t, "random")
	equal := 0
	if testing.Short() {
		t.Skip("needs minutes under the race detector")
	}
	const rounds = 12
	for i := range rounds {
		r, err := Run(ctx, Plan{Scenarios: []*bench.Setup{a}, Policies: []policy.Policy{p, p}, Seeds: 10, Seed: uint64(1 + 100*i)})
		if err != nil {
			t.Fatal(err)
		}
		if r.Cells[0].Arms[1].Verdict == Equal {
			equal++
		}
	}
	if equal < rounds-1 {
		t.Errorf("%d of %d comparisons of a policy with itself come out equal", equal, rounds)
	}
	slower := setup(t, strings.Replace(small, "model: llama-3.1-8b", "model: llama-3.1-8b, slow: 1.03", 1))
	found := 0
	for i := range rounds {
		var itl [2][]float64
		for seed := range 10 {
			for k, s := range []*bench.Setup{a, slower} {
				f, err := measure(s, p, uint64(1+100*i+seed), 0)
				if err != nil {
					t.Fatal(err)
				}
				itl[k] = append(itl[k], float64(f.ITL.P50))
			}
		}
		if Judge(Relative(itl[0], itl[1]), 0.02, false) == Worse {
			found++
		}
	}
	if found < rounds*9/10 {
		t.Errorf("steps that take 3 %% longer are found in %d of %d comparisons", found, rounds)
	}
}

// What runs beside what changes nothing.
func TestParallelRunsAreTheSame(t *testing.T) {
	report := func(parallel int) *Report {
		r, err := Run(context.Background(), Plan{Scenarios: []*bench.Setup{setup(t, small)}, Policies: []policy.Policy{named(t, "round-robin"), named(t, policy.Default)}, Seeds: 3, Seed: 1, Parallel: parallel})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	one, four := report(1), report(4)
	for k := range one.Cells[0].Arms {
		for i := range one.Cells[0].Arms[k].Runs {
			a, b := one.Cells[0].Arms[k].Runs[i], four.Cells[0].Arms[k].Runs[i]
			if a.Goodput != b.Goodput || a.TTFT != b.TTFT || a.E2E != b.E2E {
				t.Errorf("%s, seed %d: %+v with one worker, %+v with four", one.Policies[k], i, a.TTFT, b.TTFT)
			}
		}
	}
}

func TestACancelledComparisonEnds(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if _, err := Run(ctx, Plan{Scenarios: []*bench.Setup{setup(t, small)}, Policies: []policy.Policy{named(t, "random")}, Seeds: 3}); err == nil {
		t.Error("no error")
	}
}

// Past saturation there are no ratios of latencies, and the capacities are there instead.
func TestNoRatiosPastSaturation(t *testing.T) {
	s := setup(t, strings.Replace(small, "rate: 30", "rate: 400", 1))
	r, err := Run(context.Background(), Plan{Scenarios: []*bench.Setup{s}, Policies: []policy.Policy{named(t, "round-robin"), named(t, policy.Default)}, Seeds: 2, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	a, b := &r.Cells[0].Arms[0], &r.Cells[0].Arms[1]
	if !a.Saturated {
		t.Fatal("400 requests/s saturate nobody")
	}
	for _, d := range b.Differences {
		if strings.HasPrefix(d.Metric, "TTFT") && (d.Verdict != Saturated || d.Relative != nil) {
			t.Errorf("%s: %s, %v; want no ratio", d.Metric, d.Verdict, d.Relative)
		}
	}
	if !a.Capacity.Known() || a.Capacity >= 1 {
		t.Errorf("round robin's capacity is %v of the rate at which it is saturated", a.Capacity)
	}
}

func TestGate(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	scenario := write("small.yaml", strings.Replace(small, "rate: 30", "rate: 120", 1))
	gate := func(check string) (*Gate, error) {
		return ReadGate(write("gate.yaml", "seeds: 5\nchecks:\n- {scenario: "+scenario+", policy: default, against: round-robin, "+check+"}\n"))
	}
	for check, want := range map[string]string{
		"verdict: better": "",
		"verdict: worse":  "better, recorded is worse",
		"verdict: better, atLeast: {hit rate: 0.5}":     "",
		"verdict: better, atLeast: {hit rate: 1.5}":     "at least 1.5",
		"verdict: better, atMost: {TTFT p99: 0.000001}": "at most 1e-06",
		"verdict: better, atMost: {imbalance: 4}":       "",
	} {
		g, err := gate(check)
		if err != nil {
			t.Fatal(err)
		}
		found, err := g.Run(context.Background(), 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(found[0].Wrong, "; "); (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", check, got, want)
		}
	}
	if _, err := gate("atLeast: {goodness: 1}"); err == nil || !strings.Contains(err.Error(), `"goodness"`) {
		t.Errorf("%v; want that there is no such metric", err)
	}
	if _, err := ReadGate(write("empty.yaml", "seeds: 3\nchecks: []\n")); err == nil {
		t.Error("a gate without checks passes")
	}
}

// Cache events are varied for who hears them, and refused for others, on whom they have no effect.
func TestSweepOverCacheEvents(t *testing.T) {
	axes := []Axis{{"event-delay-ms", []float64{0, 5000}}, {"event-loss", []float64{0, 0.5}}}
	hears, err := policy.Named("rule-dynamo-events")
	if err != nil {
		t.Fatal(err)
	}
	s, err := RunSweep(context.Background(), setup(t, small), hears, axes, 1, 1, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	at := func(i int) float64 { return float64(s.Points[i].Arm.Runs[0].HitRate) }
	if !(at(0) > at(2)+0.02) || !slices.Equal(s.Points[2].At, []float64{5000, 0}) {
		t.Errorf("hit rates %.3f, %.3f, %.3f, %.3f; want clearly less with events five seconds late", at(0), at(1), at(2), at(3))
	}
	deaf, err := policy.Named("rule-dynamo")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := RunSweep(context.Background(), setup(t, small), deaf, axes, 1, 1, 0, nil); err == nil || !strings.Contains(err.Error(), "hears no cache events") {
		t.Errorf("%v; want that the policy hears none", err)
	}
	if _, err := MetricNamed("hits"); err == nil || !strings.Contains(err.Error(), "hit rate") {
		t.Errorf("%v; want the names that there are", err)
	}
}
