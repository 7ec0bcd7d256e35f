package sessions

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/reason"
)

// Agent reads which agent's session a request belongs to, from the headers that coding agents send: x-claude-code-session-id,
// x-session-affinity, session-id, session_id, in this order, and then those that the configuration adds. Session affinity
// uses it with the strategy session_id and the source {attribute: agent-identity}.
//
// A request that names no flow (x-llm-d-inference-fairness-id) is of the flow of its session, so that agents share a queue evenly
// however many calls each makes at a time. It is not where a subscription is known, nor where headers are not trusted.
type Agent struct {
	// AdditionalSessionHeaders are further headers, tried after the known ones.
	AdditionalSessionHeaders []string `json:"additionalSessionHeaders,omitempty" schema:"max=16"`

	headers []string
	id      plugins.RequestValue[string]
}

var (
	_ plugins.Stage      = (*Agent)(nil)
	_ plugins.Describer  = (*Agent)(nil)
	_ plugins.BodyReader = (*Agent)(nil)
)

// NewAgent returns an Agent with its defaults.
func NewAgent() *Agent { return &Agent{} }

// Provision says what is made, and refuses what is no header's name.
func (a *Agent) Provision(b *plugins.Builder) error {
	a.id = plugins.Provides(b, plugins.AgentID)
	a.headers = []string{"x-claude-code-session-id", "x-session-affinity", "session-id", "session_id"}
	var errs []error
	for i, given := range a.AdditionalSessionHeaders {
		name, err := plugins.HeaderName(fmt.Sprintf("additionalSessionHeaders[%d]", i), given)
		errs, a.headers = append(errs, err), append(a.headers, name)
	}
	return errors.Join(errs...)
}

// Reads asks for the headers alone.
func (*Agent) Reads() plugins.Reads { return plugins.ReadsHeaders }

// Phase is that of headers: whether they are trusted is decided later.
func (*Agent) Phase() plugins.Phase { return plugins.AtHeaders }

// flowBytesMax is how long the name of a flow may be, as in the headers that name one.
const flowBytesMax = 253

// Enter names the flow of a request that names none. It never refuses.
func (a *Agent) Enter(r *plugins.Request) plugins.Verdict {
	if r.FairnessID != "" {
		return plugins.Verdict{}
	}
	if id := a.of(r); len(id) <= flowBytesMax {
		r.FairnessID = id
	} else {
		r.Note(reason.IdentityIgnored, "the id of an agent's session is longer than "+strconv.Itoa(flowBytesMax)+" bytes")
	}
	return plugins.Verdict{}
}

// Describe tells of the session.
func (a *Agent) Describe(r *plugins.Request) { a.id.Set(r, a.of(r)) }

// of returns the first header that is there.
func (a *Agent) of(r *plugins.Request) string {
	for _, name := range a.headers {
		if id := r.Headers.Get(name); id != "" {
			return id
		}
	}
	return ""
}
