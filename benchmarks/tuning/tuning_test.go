package tuning_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/fairlead/fairlead/benchmarks/bench"
	"github.com/fairlead/fairlead/benchmarks/tuning"
	"github.com/fairlead/fairlead/simulator/scenarios"
)

// Each candidate is a configuration that loads, and no two are the same.
func TestCandidates(t *testing.T) {
	all := tuning.Candidates(220)
	if len(all) != 220 {
		t.Fatalf("%d candidates, want 220", len(all))
	}
	seen := map[string]int{}
	for i, c := range all {
		if _, err := c.Policy(); err != nil {
			t.Errorf("candidate %d: %v", i, err)
		}
		if before, twice := seen[c.String()]; twice {
			t.Errorf("candidates %d and %d are the same: %s", before, i, c)
		}
		seen[c.String()] = i
	}
	if !reflect.DeepEqual(all, tuning.Candidates(220)) {
		t.Error("the candidates of one number differ")
	}
}

const scenario = `name: shared
fleet: [{pods: 4, hardware: h100-sxm, model: llama-3.1-8b}]
targets: {ttft: 300ms, itl: 50ms}
warmup: 1s
workload:
  blockTokens: 128
  duration: 6s
  arrivals: {type: poisson, rate: 60}
  sharedPrefix: {groups: 20, system: 4000, question: 200, output: 50}
`

// The search ends with who is better for the workload, and is a function of its plan.
func TestSearch(t *testing.T) {
	s, err := scenarios.Parse([]byte(scenario))
	if err != nil {
		t.Fatal(err)
	}
	setup, err := bench.Prepare(s)
	if err != nil {
		t.Fatal(err)
	}
	plan := tuning.Plan{Setup: setup, Candidates: tuning.Candidates(16), Seed: 1, Last: 3, MostSeeds: 4, Parallel: 2}
	one, err := tuning.Run(context.Background(), plan)
	if err != nil {
		t.Fatal(err)
	}
	plan.Parallel = 1
	two, err := tuning.Run(context.Background(), plan)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(one, two) {
		t.Errorf("two searches differ:\n%+v\n%+v", one, two)
	}
	if want := []tuning.Round{{16, 1}, {6, 2}, {3, 4}}; !reflect.DeepEqual(one.Rounds, want) {
		t.Errorf("rounds %v, want %v", one.Rounds, want)
	}
	prefix := false
	for _, p := range one.Best[0].Candidate {
		prefix = prefix || p.Type == "prefix-cache-scorer" || p.Type == "prefix-cache-affinity-filter"
	}
	if !prefix {
		t.Errorf("where prompts share most, the best looks at no prefix: %s", one.Best[0].Candidate)
	}
	for i := 1; i < len(one.Best); i++ {
		if one.Best[i].Goodput > one.Best[0].Goodput*1.01 {
			t.Errorf("number %d has goodput %v, the first %v", i, one.Best[i].Goodput, one.Best[0].Goodput)
		}
	}
}
