package conformance

import (
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
)

// Served tells the client who served, in the answer's header x-conformance-test-served-endpoint: the address that the
// gateway says (metadata x-gateway-destination-endpoint-served), or "fail: missing …" where it says none.
type Served struct{}

var _ plugins.AnswerHook = (*Served)(nil)

// NewServed returns a Served; it has no parameters.
func NewServed() *Served { return &Served{} }

// Answer sets the header.
func (*Served) Answer(r *plugins.Request, set openai.Headers) openai.Headers {
	value := "fail: missing x-gateway-destination-endpoint-served"
	if r.ServedAt.IsValid() {
		value = r.ServedAt.String()
	}
	return set.Set("x-conformance-test-served-endpoint", value)
}
