package plugins

import (
	"net/netip"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/pool"
)

// Target is where a request goes, as the resolve phase found it.
type Target struct {
	Pool         string `json:"pool"`
	Model        string `json:"model,omitempty"` // as the engine shall see it
	Adapter      string `json:"adapter,omitempty"`
	Provider     string `json:"provider,omitempty"`
	Subscription string `json:"subscription,omitempty"`
	Priority     int32  `json:"priority,omitempty"`
}

// Request is what is known so far, grouped by the phase that writes it. It lives until Settle has run and is not kept
// beyond by anybody.
type Request struct {
	// Begin.
	ID     string // of the decision; ours, never a client's header
	Number uint64 // of this run; seeds the decision
	Now    pool.Instant
	Since  int64 // when this process began, in seconds since 1970; 0 where nobody says

	// Headers.
	API     openai.API
	Method  string
	Path    string
	Headers openai.Headers // the client's, control and identity headers taken out
	Steered []string       // endpoints that test-epp-endpoint-selection names; only who is told to heeds them

	// Headers: what the control headers said, where they are trusted. FairnessID is whose share of the capacity the request uses,
	// Objective the name of what is wanted of it; empty where nothing was said.
	FairnessID, Objective string

	// Body: model, flags, limits, prompt spans; nil without a body, or with one that is passed through unread.
	Body *openai.Summary

	// Resolve: written by a stage AtResolve, else by the exchange for the only pool.
	Target    Target
	PoolIndex int // of Target.Pool in the configuration; -1 before

	// Schedule: the membership over which the last cycle ran, and to which the ids in legs belong; nil before.
	Snapshot *pool.Snapshot

	// Respond.
	Status   int            // of the answer; 0 before, and where the transport does not show it
	Served   pool.Ref       // who answers; zero Incarnation before
	ServedAt netip.AddrPort // what the transport says of that; invalid where it says nothing

	values []cell
	wake   func()
}

// Wake has the adapter call Resume. Ports call it, from any goroutine; calling it without cause or after the end is
// harmless.
func (r *Request) Wake() {
	if r.wake != nil {
		r.wake()
	}
}

// Model returns the model name of the body, or "".
func (r *Request) Model() string {
	if r.Body == nil {
		return ""
	}
	return r.Body.Model
}

// Prepare makes r ready for a new exchange under configuration b: all fields zero, all facts unset. wake is called by
// Wake.
func (r *Request) Prepare(b *Built, wake func()) {
	values, ok := b.released.Get().([]cell)
	if !ok {
		values = b.newCells(false)
	}
	for _, v := range values {
		if v != nil {
			v.reset(1)
		}
	}
	*r = Request{values: values, wake: wake, PoolIndex: -1}
}

// Release gives the storage of r's facts back, for another request under the same configuration. Nobody reads a fact of r
// afterwards.
func (r *Request) Release(b *Built) {
	if r.values != nil {
		b.released.Put(r.values) //nolint:staticcheck // one slice header per request
		r.values = nil
	}
}
