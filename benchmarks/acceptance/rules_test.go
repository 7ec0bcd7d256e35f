//go:build acceptance

package acceptance_test

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/benchmarks/acceptance"
	"github.com/fairlead/fairlead/benchmarks/bench"
	"github.com/fairlead/fairlead/benchmarks/compare"
	"github.com/fairlead/fairlead/benchmarks/policy"
	"github.com/fairlead/fairlead/benchmarks/report"
)

// The default in every scenario of the recorded matrix, beside the recorded scores of the rules of other routers. That these
// would come out again, but for the draws of ties, is tried with one rule.
func TestOtherRouters(t *testing.T) {
	recorded, err := report.ReadStandings("../results/matrix.json")
	if err != nil {
		t.Fatal(err)
	}
	var setups []*bench.Setup
	for i := range recorded.Rows {
		s := acceptance.Scenario(t, recorded.Rows[i].Scenario)
		if err := s.Runs(); err != nil {
			t.Skipf("needs the traces of the recorded matrix: %v", err)
		}
		setups = append(setups, s)
	}
	run := func(name string, setups []*bench.Setup) *compare.Standings {
		r, err := compare.Run(context.Background(), compare.Plan{
			Scenarios: setups, Policies: acceptance.Policies(t, name), Seeds: recorded.Seeds, Seed: recorded.Seed, NoCapacities: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		return compare.StandingsOf(r, recorded.Date, recorded.Commit)
	}
	const again = "rule-lmetric"
	few := slices.DeleteFunc(slices.Clone(setups), func(s *bench.Setup) bool {
		return !slices.Contains([]string{"s5-azure-code-burst", "s8-multi-turn"}, s.Name)
	})
	for _, row := range run(again, few).Rows {
		i := slices.IndexFunc(recorded.Rows, func(r compare.Row) bool { return r.Scenario == row.Scenario })
		if got, want := row.Score(again), recorded.Rows[i].Score(again); want == nil || math.Abs(got.MeanGoodput()-want.MeanGoodput()) > 0.01 {
			t.Errorf("%s in %s: %+v, recorded %+v; record anew with make matrix", again, row.Scenario, got, want)
		}
	}

	both, err := run(policy.Default, setups).With(recorded)
	if err != nil {
		t.Fatal(err)
	}
	var lost []string
	won := 0
	for i := range both.Rows {
		s, ok := both.Rows[i].Standing(policy.Default)
		if !ok {
			t.Fatalf("%s: nothing to compare with", both.Rows[i].Scenario)
		}
		if s.Lost() {
			lost = append(lost, both.Rows[i].Scenario)
		}
		if s.Goodput.Mean >= 0.2 && s.Certain() {
			won++
		}
	}
	figure := "none lost by more than 2 %"
	if len(lost) > 0 {
		figure = "lost by more than 2 %: " + strings.Join(lost, ", ")
	}
	acceptance.Say(t, acceptance.Is(len(lost) == 0 && won > 0), "%d scenarios, %d rules: %s; %d won by a fifth", len(both.Rows), rules(both), figure, won)
}

func rules(s *compare.Standings) int {
	n := 0
	for _, p := range s.Policies {
		if strings.HasPrefix(p, compare.Peer) {
			n++
		}
	}
	return n
}
