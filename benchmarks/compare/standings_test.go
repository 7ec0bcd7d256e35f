package compare_test

import (
	"math"
	"slices"
	"testing"

	"github.com/fairlead/fairlead/benchmarks/bench"
	"github.com/fairlead/fairlead/benchmarks/compare"
)

func score(policy string, ttft bench.Number, goodput ...bench.Number) compare.Score {
	return compare.Score{Policy: policy, Commit: "a", Goodput: goodput, TTFT: slices.Repeat([]bench.Number{ttft}, len(goodput))}
}

func TestStanding(t *testing.T) {
	for _, tt := range []struct {
		name   string
		scores []compare.Score
		best   string
		mean   float64
		lost   bool
	}{
		{"the best rule is that with the most goodput", []compare.Score{score("own", 1, 0.9, 0.9), score("rule-a", 1, 0.5, 0.7), score("rule-b", 1, 0.8, 0.8)}, "rule-b", 0.125, false},
		{"what is no rule of another router does not count", []compare.Score{score("own", 1, 0.5), score("classic", 1, 0.9), score("rule-a", 1, 0.5)}, "rule-a", 0, false},
		{"of equal goodputs that with the better tail", []compare.Score{score("own", 1, 1), score("rule-a", 3, 1), score("rule-b", 2, 0.9995)}, "rule-b", 0.0005, false},
		{"2 % less is not lost", []compare.Score{score("own", 1, 0.981, 0.981), score("rule-a", 1, 1, 1)}, "rule-a", -0.019, false},
		{"more than that is", []compare.Score{score("own", 1, 0.979, 0.979), score("rule-a", 1, 1, 1)}, "rule-a", -0.021, true},
		{"a share of the best, not points", []compare.Score{score("own", 1, 0.09), score("rule-a", 1, 0.1)}, "rule-a", -0.1, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := compare.Row{Scores: tt.scores}
			s, ok := r.Standing("own")
			if !ok || s.Best.Policy != tt.best || math.Abs(s.Goodput.Mean-tt.mean) > 1e-3 || s.Lost() != tt.lost {
				t.Errorf("%v: beside %+v by %+v, lost %v", ok, s.Best, s.Goodput, s.Lost())
			}
		})
	}
	for name, scores := range map[string][]compare.Score{
		"without a rule": {score("own", 1, 1), score("random", 1, 1)},
		"without itself": {score("rule-a", 1, 1)},
	} {
		if _, ok := (&compare.Row{Scores: scores}).Standing("own"); ok {
			t.Errorf("%s there is a standing", name)
		}
	}
	r := compare.Row{Scores: []compare.Score{score("own", 1, 1), score("rule-a", 1, 1)}}
	r.Scores[1].Saturated = true
	if s, _ := r.Standing("own"); s.TTFT != nil {
		t.Errorf("a ratio of latencies past saturation: %+v", s.TTFT)
	}
}

// What is run again replaces what was, and the rest stays; the policy in question stands first.
func TestStandingsWithEarlierOnes(t *testing.T) {
	earlier := &compare.Standings{Seeds: 1, Seed: 1, Policies: []string{"rule-a", "own"}, Rows: []compare.Row{
		{Scenario: "s1", Scores: []compare.Score{score("rule-a", 1, 0.7), score("own", 1, 0.1)}},
		{Scenario: "s2", Scores: []compare.Score{score("rule-a", 1, 0.6), score("own", 1, 0.2)}},
	}}
	now := &compare.Standings{Seeds: 1, Seed: 1, Policies: []string{"own"}, Rows: []compare.Row{
		{Scenario: "s1", Scores: []compare.Score{score("own", 1, 0.9)}},
		{Scenario: "s3", Scores: []compare.Score{score("own", 1, 0.8)}},
	}}
	both, err := now.With(earlier)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(both.Policies, []string{"own", "rule-a"}) || len(both.Rows) != 3 {
		t.Fatalf("policies %q, %d scenarios", both.Policies, len(both.Rows))
	}
	for i, want := range []map[string]float64{{"own": 0.9, "rule-a": 0.7}, {"own": 0.2, "rule-a": 0.6}, {"own": 0.8}} {
		r := &both.Rows[i]
		for policy, goodput := range want {
			if s := r.Score(policy); s == nil || s.MeanGoodput() != goodput || len(r.Scores) != len(want) {
				t.Errorf("%s: %s has %+v of %d, want %v", r.Scenario, policy, s, len(r.Scores), goodput)
			}
		}
	}
	now.Seed = 2
	if _, err := now.With(earlier); err == nil {
		t.Error("other seeds are put together")
	}
}
