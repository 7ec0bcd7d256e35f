package bench_test

import (
	"fmt"
	"testing"

	"github.com/fairlead/fairlead/benchmarks/bench"
	"github.com/fairlead/fairlead/benchmarks/policy"
	"github.com/fairlead/fairlead/simulator/scenarios"
)

// A policy that reads the engines more often than the scenario says is given its readings, and none is given fewer.
func TestAPolicyReadsAsOftenAsItsProject(t *testing.T) {
	scrapes := func(every, name string) int64 {
		s, err := scenarios.Parse([]byte(fmt.Sprintf(`name: reads
fleet: [{pods: 2, hardware: h100-sxm, model: llama-3.1-8b}]
signals: {every: %s}
workload: {duration: 10s, arrivals: {type: constant, rate: 2}, independent: {input: 100, output: 10}}
`, every)))
		if err != nil {
			t.Fatal(err)
		}
		setup, err := bench.Prepare(s)
		if err != nil {
			t.Fatal(err)
		}
		p, err := policy.Named(name)
		if err != nil {
			t.Fatal(err)
		}
		r, err := setup.Run(p, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		return r.Scrapes
	}
	for _, tt := range []struct {
		every, policy string
		least, most   int64
	}{
		{"1s", "rule-dynamo", 18, 22},
		{"1s", "rule-llm-d-2-2-3", 380, 420}, // every 50 ms
		{"20ms", "rule-llm-d-2-2-3", 940, 1040},
		{"20ms", "default", 940, 1040},
	} {
		if n := scrapes(tt.every, tt.policy); n < tt.least || n > tt.most {
			t.Errorf("%s in a scenario with readings every %s: %d of two pods in ten seconds, want %d to %d", tt.policy, tt.every, n, tt.least, tt.most)
		}
	}
}
