package admission

import (
	"sync/atomic"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/reason"
)

// Objectives gives a request the priority of the objective that it names, in the header x-llm-d-inference-objective (or
// x-gateway-inference-objective), as the configuration's objectives say. A request that names none, or one that is unknown
// for its pool, has priority 0; the latter is noted. Below 0 a request may be dropped when endpoints are short. It is added
// by itself where a configuration has objectives.
//
// Anybody who reaches the gateway can send these headers, and those that name a flow (x-llm-d-inference-fairness-id), unless
// the gateway sets or strips them. With trustHeaders false they say nothing, and a request is told from others by its
// subscription alone. Where a subscription is known it is the flow in any case.
type Objectives struct {
	// TrustHeaders has the headers for fairness ids and objectives mean what they say.
	TrustHeaders bool `json:"trustHeaders"`

	pool  string // the only one; empty if there are several
	table atomic.Pointer[objectiveTable]
}

// objectiveTable has the priorities by name and pool; it is replaced as a whole.
type objectiveTable map[objectiveKey]int32

type objectiveKey struct{ name, pool string }

var (
	_ plugins.Stage       = (*Objectives)(nil)
	_ plugins.BodyReader  = (*Objectives)(nil)
	_ plugins.Provisioner = (*Objectives)(nil)
)

// NewObjectives returns Objectives with their defaults, which are llm-d's.
func NewObjectives() *Objectives { return &Objectives{TrustHeaders: true} }

// Provision takes the configuration's objectives.
func (o *Objectives) Provision(b *plugins.Builder) error {
	if len(b.Pools) == 1 {
		o.pool = b.Pools[0].Name
	}
	o.Replace(b.Objectives)
	return nil
}

// Replace puts other objectives in place, for the requests that are resolved from here on. It may be called at any time, from
// any goroutine. Of two with the same name and pool the last counts.
func (o *Objectives) Replace(by []plugins.Objective) {
	t := make(objectiveTable, len(by))
	for _, one := range by {
		t[objectiveKey{one.Name, one.Pool}] = one.Priority
	}
	o.table.Store(&t)
}

// Phase is the resolve phase.
func (*Objectives) Phase() plugins.Phase { return plugins.AtResolve }

// Reads asks for the headers alone.
func (*Objectives) Reads() plugins.Reads { return plugins.ReadsHeaders }

// Enter sets the request's priority. It never refuses.
func (o *Objectives) Enter(r *plugins.Request) plugins.Verdict {
	if !o.TrustHeaders && (r.FairnessID != "" || r.Objective != "") {
		r.FairnessID, r.Objective = "", ""
		r.Note(reason.IdentityIgnored, "trustHeaders is false")
	}
	if r.Objective == "" {
		return plugins.Verdict{}
	}
	pool := r.Target.Pool
	if pool == "" {
		pool = o.pool
	}
	t := *o.table.Load()
	priority, known := t[objectiveKey{r.Objective, pool}]
	if !known {
		priority, known = t[objectiveKey{name: r.Objective}]
	}
	if !known {
		r.Note(reason.ObjectiveUnknown, r.Objective)
	}
	r.Target.Priority = priority
	return plugins.Verdict{}
}
