//go:build acceptance

package acceptance_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/benchmarks/acceptance"
	"github.com/fairlead/fairlead/benchmarks/bench"
	"github.com/fairlead/fairlead/benchmarks/compare"
)

// perturbations are the ways in which engines may differ from their model.
var perturbations = []struct {
	name string
	by   bench.Perturbation
}{
	{"as modelled", bench.Perturbation{}},
	{"step 0.7", bench.Perturbation{Step: 0.7}},
	{"step 1.3", bench.Perturbation{Step: 1.3}},
	{"prefill 0.7", bench.Perturbation{Prefill: 0.7}},
	{"prefill 1.3", bench.Perturbation{Prefill: 1.3}},
	{"answers noisy", bench.Perturbation{Output: 0.5}},
}

// What the default is better or worse than must not depend on engines being as fast as their model, nor on answers being as long as
// the workload says. A pair of policies whose order turns around is not decided.
func TestRanking(t *testing.T) {
	policies := acceptance.Policies(t, "default", "classic", "least-request", "round-robin")
	var same, faded, turned int
	var which []string
	for _, name := range []string{"s1", "s4", "s6", "s8", "s17"} {
		s := acceptance.Scenario(t, name)
		plan := compare.Plan{Policies: policies, Seeds: 5, Seed: 301, NoCapacities: true}
		for _, p := range perturbations {
			plan.Scenarios = append(plan.Scenarios, s.Perturbed(p.by))
		}
		r, err := compare.Run(context.Background(), plan)
		if err != nil {
			t.Fatal(err)
		}
		for k := 1; k < len(policies); k++ {
			was := r.Cells[0].Arms[k].Verdict
			for i := 1; i < len(r.Cells); i++ {
				is := r.Cells[i].Arms[k].Verdict
				switch {
				case is == was:
					same++
				case was == compare.Better && is == compare.Worse, was == compare.Worse && is == compare.Better:
					turned++
					which = append(which, fmt.Sprintf("%s: %s is %s than the default, %s with %s", s.Name, policies[k].Name, was, is, perturbations[i].name))
				default:
					faded++
				}
			}
		}
	}
	verdict, turns := acceptance.Holds, ""
	if turned > 0 {
		verdict, turns = acceptance.NotDecided, " ("+strings.Join(which, "; ")+")"
	}
	acceptance.Say(t, verdict, "of %d comparisons under other engines %d come out the same, %d equal or past capacity where they were not or the reverse, %d turned around%s",
		same+faded+turned, same, faded, turned, turns)
}
