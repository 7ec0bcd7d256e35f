package sessions

import (
	"errors"
	"fmt"

	"github.com/fairlead/fairlead/pkg/plugins"
)

// Agent reads which agent's session a request belongs to, from the headers that coding agents send: x-claude-code-session-id,
// x-session-affinity, session-id, session_id, in this order, and then those that the configuration adds. Session affinity
// uses it with the strategy session_id and the source {attribute: agent-identity}.
type Agent struct {
	// AdditionalSessionHeaders are further headers, tried after the known ones.
	AdditionalSessionHeaders []string `json:"additionalSessionHeaders,omitempty" schema:"max=16"`

	headers []string
	id      plugins.RequestValue[string]
}

var (
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

// Describe takes the first header that is there.
func (a *Agent) Describe(r *plugins.Request) {
	a.id.Set(r, "")
	for _, name := range a.headers {
		if id := r.Headers.Get(name); id != "" {
			a.id.Set(r, id)
			return
		}
	}
}
