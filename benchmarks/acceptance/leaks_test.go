//go:build acceptance

package acceptance_test

import (
	"fmt"
	"testing"

	"github.com/fairlead/fairlead/benchmarks/acceptance"
	"github.com/fairlead/fairlead/benchmarks/policy"
	"github.com/fairlead/fairlead/simulator/fleet"
)

// mayLeak is a scenario of a million requests, of which more than one in twenty loses its client before its end.
func mayLeak(rate int, streams ...string) string {
	text := fmt.Sprintf(`name: a million requests
fleet: [{pods: 8, hardware: h100-sxm, model: llama-3.1-8b}]
workload:
  blockTokens: 256
  requests: 1000000
  arrivals: {type: poisson, rate: %d}
  streams:
`, rate)
	for _, of := range streams {
		text += "  - {" + of + `, aborts: {share: 0.08, after: {type: exponential, mean: 0.04}},
      sharedPrefix: {groups: 400, system: 600, question: 100, output: {type: exponential, mean: 4, min: 1}}}
`
	}
	return text
}

// leaks plays it, and returns how the requests ended, the reasons of those that were refused, and what is left.
func leaks(t *testing.T, p policy.Policy, scenario string) (ended map[fleet.Status]int, refused map[string]int, left string) {
	const requests = 1_000_000
	d, err := p.New(1)
	if err != nil {
		t.Fatal(err)
	}
	r, err := acceptance.Scenario(t, scenario).RunWith(d, 1)
	if err != nil {
		t.Fatal(err)
	}
	ended, refused = map[fleet.Status]int{}, map[string]int{}
	for i := range r.Outcomes {
		o := &r.Outcomes[i]
		ended[o.Status]++
		if o.Reason != "" {
			refused[o.Reason]++
		}
	}
	if len(r.Outcomes) != requests || ended[fleet.Unfinished] > 0 || ended[fleet.Aborted] < requests/20 {
		t.Errorf("%d requests, ended %v; want %d, none unfinished, and at least 5 %% aborted", len(r.Outcomes), ended, requests)
	}
	return ended, refused, d.(*policy.Production).Left()
}

// A million requests, of which more than one in twenty loses its client before its end, leave nothing in the books.
func TestLeaks(t *testing.T) {
	ended, _, left := leaks(t, acceptance.Policies(t, policy.Default)[0], mayLeak(500, "share: 1"))
	acceptance.Say(t, acceptance.Is(left == ""), "1000000 requests, %d aborted: %s", ended[fleet.Aborted], orNothing(left))
}

// The same through a queue in which most of them wait, some too long, and of which running ones are taken back: nothing is left in
// the books, and no place in the queue.
func TestLeaksQueued(t *testing.T) {
	p := acceptance.Policies(t, withQueue("saturationDetectorRef: load-detector, defaultRequestTTL: 200ms, maxRequests: 40, enableEviction: true",
		"{type: load-detector, parameters: {maxRequests: 4}}"))[0]
	ended, refused, left := leaks(t, p, mayLeak(600, "share: 0.6, tenants: 20", "share: 0.2, tenants: 5, priority: 10", "share: 0.2, tenants: 5, priority: -10"))
	for _, why := range []string{"queue_timeout", "queue_full", "evicted"} {
		if refused[why] < 1000 {
			t.Errorf("%d requests ended with %s; want at least 1000, for the run to show something", refused[why], why)
		}
	}
	acceptance.Say(t, acceptance.Is(left == ""), "1000000 requests, %d aborted, %d refused after waiting, %d for a full queue, %d taken back: %s",
		ended[fleet.Aborted], refused["queue_timeout"], refused["queue_full"], refused["evicted"], orNothing(left))
}

func orNothing(left string) string {
	if left == "" {
		return "nothing left"
	}
	return left
}
