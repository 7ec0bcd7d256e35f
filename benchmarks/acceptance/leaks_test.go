//go:build acceptance

package acceptance_test

import (
	"testing"

	"github.com/fairlead/fairlead/benchmarks/acceptance"
	"github.com/fairlead/fairlead/benchmarks/policy"
	"github.com/fairlead/fairlead/simulator/fleet"
)

// A million requests, of which more than one in twenty loses its client before its end, leave nothing in the books.
func TestLeaks(t *testing.T) {
	const requests = 1_000_000
	s := acceptance.Scenario(t, `name: a million requests
fleet: [{pods: 8, hardware: h100-sxm, model: llama-3.1-8b}]
workload:
  blockTokens: 256
  requests: 1000000
  arrivals: {type: poisson, rate: 500}
  sharedPrefix:
    groups: 400
    system: 600
    question: 100
    output: {type: exponential, mean: 4, min: 1}
  aborts: {share: 0.08, after: {type: exponential, mean: 0.04}}
`)
	p := acceptance.Policies(t, policy.Default)[0]
	d, err := p.New(1)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.RunWith(d, 1)
	if err != nil {
		t.Fatal(err)
	}
	ended := map[fleet.Status]int{}
	for i := range r.Outcomes {
		ended[r.Outcomes[i].Status]++
	}
	left := d.(*policy.Production).Left()
	if len(r.Outcomes) != requests || ended[fleet.Unfinished] > 0 || ended[fleet.Aborted] < requests/20 {
		t.Errorf("%d requests, ended %v; want %d, none unfinished, and at least 5 %% aborted", len(r.Outcomes), ended, requests)
	}
	acceptance.Say(t, acceptance.Is(left == ""), "%d requests, %d aborted: %s", len(r.Outcomes), ended[fleet.Aborted], orNothing(left))
}

func orNothing(left string) string {
	if left == "" {
		return "nothing left"
	}
	return left
}
