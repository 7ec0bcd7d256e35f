package filters

import (
	"slices"

	"github.com/fairlead/fairlead/pkg/plugins"
)

// RoleLabel is the label that says which part of serving an endpoint takes: decode, prefill, encode, prefill-decode (or both),
// encode-prefill, or encode-prefill-decode.
const RoleLabel = "llm-d.ai/role"

// Decode keeps the endpoints that decode: those whose label llm-d.ai/role is decode, prefill-decode, both or
// encode-prefill-decode, and those without the label.
type Decode struct{ role }

// Prefill keeps the endpoints that prefill: those whose label llm-d.ai/role is prefill, encode-prefill, prefill-decode, both
// or encode-prefill-decode.
type Prefill struct{ role }

// Encode keeps the endpoints that encode images, video and sound: those whose label llm-d.ai/role is encode, encode-prefill
// or encode-prefill-decode.
type Encode struct{ role }

var _, _, _ plugins.Filter = (*Decode)(nil), (*Prefill)(nil), (*Encode)(nil)

// NewDecode returns a Decode; it has no parameters.
func NewDecode() *Decode {
	return &Decode{role{values: []string{"decode", "prefill-decode", "both", "encode-prefill-decode"}, unlabelled: true}}
}

// NewPrefill returns a Prefill; it has no parameters.
func NewPrefill() *Prefill {
	return &Prefill{role{values: []string{"prefill", "encode-prefill", "prefill-decode", "both", "encode-prefill-decode"}}}
}

// NewEncode returns an Encode; it has no parameters.
func NewEncode() *Encode {
	return &Encode{role{values: []string{"encode", "encode-prefill", "encode-prefill-decode"}}}
}

// role keeps the endpoints of some roles.
type role struct {
	values     []string
	unlabelled bool
	labels     plugins.EndpointValues[map[string]string]
}

// Provision says what Filter reads.
func (f *role) Provision(b *plugins.Builder) error {
	f.labels = plugins.Needs(b, plugins.Labels)
	return nil
}

// Filter clears the bit of every candidate of another role.
func (f *role) Filter(c *plugins.Cycle, keep plugins.Bits) {
	labels := f.labels.Of(c)
	for i, id := range c.Candidates {
		value, labelled := labels[id][RoleLabel]
		if labelled && !slices.Contains(f.values, value) || !labelled && !f.unlabelled {
			keep.Clear(i)
		}
	}
}

// Structural says that what is removed can never serve.
func (*role) Structural() {}
