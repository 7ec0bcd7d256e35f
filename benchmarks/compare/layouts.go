package compare

import (
	"context"
	"fmt"

	"github.com/fairlead/fairlead/benchmarks/bench"
	"github.com/fairlead/fairlead/benchmarks/policy"
	"github.com/fairlead/fairlead/simulator/scenarios"
)

// Layout is one way to use the devices of a set.
type Layout struct {
	Scenario string `json:"scenario"`
	Title    string `json:"title"`

	// Refused says why it does not fit; then nothing was measured.
	Refused string `json:"refused,omitempty"`

	// Estimated says which of its figures nobody measured.
	Estimated string `json:"estimated,omitempty"`

	Policy string `json:"policy,omitempty"`
	Copies int    `json:"copies,omitempty"` // fleets side by side, each with its own model
	Arm    *Arm   `json:"figures,omitempty"`

	// Total is the capacity of all copies, in requests per second.
	Total bench.Number `json:"totalCapacityPerSecond"`
}

// Layouts measures every layout of a set on the same requests, with the policy given where one engine does everything, and
// the plain split of least-request where prompts are computed apart. It returns them in order, and the name of the best: that
// which serves one model at the highest rate within the targets.
func Layouts(ctx context.Context, set string, p policy.Policy, seeds int, seed uint64) (all []Layout, best string, err error) {
	names := scenarios.Set(set)
	if len(names) == 0 {
		return nil, "", fmt.Errorf("no set of layouts %q; there is mig-two-slots", set)
	}
	split, err := policy.Named("least-request")
	if err != nil {
		return nil, "", err
	}
	most := bench.Number(-1)
	for _, name := range names {
		s, err := scenarios.Get(name)
		if err != nil {
			return nil, "", err
		}
		l := Layout{Scenario: name, Title: s.Title, Estimated: s.Transfer.Source, Copies: max(s.Copies, 1), Total: bench.Unknown}
		setup, err := bench.Prepare(s)
		if err != nil {
			l.Refused = err.Error()
			all = append(all, l)
			continue
		}
		use := p
		for i := range s.Fleet {
			if s.Fleet[i].Role != "" {
				use = split
			}
		}
		r, err := Run(ctx, Plan{Scenarios: []*bench.Setup{setup}, Policies: []policy.Policy{use}, Seeds: seeds, Seed: seed, Capacities: true})
		if err != nil {
			return nil, "", err
		}
		l.Policy, l.Arm = use.Name, &r.Cells[0].Arms[0]
		l.Total = l.Arm.CapacityRate * bench.Number(l.Copies)
		if l.Arm.CapacityRate > most { // what one model gets, whichever has more of them
			most, best = l.Arm.CapacityRate, name
		}
		all = append(all, l)
	}
	return all, best, nil
}
