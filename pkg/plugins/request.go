package plugins

import (
	"net/netip"
	"time"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
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

// Stay is how a request waited for room.
type Stay struct {
	Waited time.Duration `json:"waitedNanos"`
	Band   int32         `json:"band"`           // the priority of those among whom it waited
	Flow   string        `json:"flow,omitempty"` // the tenant; empty for requests without one
	Why    string        `json:"why"`            // full: its pool was; empty: it had no endpoint; nowhere: none was left for this request; choice: the one it was best at was
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

	// Headers: FairnessID names the flow that the request shares capacity in, and Objective what it is meant for, as the control
	// headers say; empty where they say nothing, or are not trusted. From resolve on FairnessID is the subscription, where
	// one is known. Both may be parts of a larger string: who keeps them copies them.
	FairnessID string
	Objective  string

	// Bytes of the body that have come so far.
	Bytes int64

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

	// Owner runs the request; it is nobody else's business. Place is the queue's: where the request waits, nil for nowhere.
	Owner any
	Place any

	// Admit: how the request waited; nil if it did not. The queue writes it, and leaves it alone when the waiting is over.
	Stay *Stay

	// Refused is why the exchange refuses the request; 0 while it does not, and where the client went away.
	Refused reason.ID

	values []cell
	wake   func()
	notes  []Note
	once   []reason.ID // those that were noted by Cycle.NoteOnce
}

// Note is an occurrence of a reason that a plugin tells of.
type Note struct {
	ID     reason.ID
	Detail string
}

// Note tells of something that the request goes on without. Stages and describers call it; the exchange counts it and keeps
// it for the record.
func (r *Request) Note(id reason.ID, detail string) { r.notes = append(r.notes, Note{id, detail}) }

// TakeNotes returns what was noted since the last call; it must not be kept.
func (r *Request) TakeNotes() []Note {
	notes := r.notes
	r.notes = r.notes[:0]
	return notes
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
