package filters

import "github.com/fairlead/fairlead/pkg/plugins"

// HotPrefix sends the request to the endpoint where it is to bring a prefix that many ask for, where there is one; all are kept
// else. See hot-prefix-producer.
type HotPrefix struct {
	prefix plugins.RequestValue[plugins.HotPrefix]
	copies plugins.EndpointValues[bool]
}

var _ plugins.Filter = (*HotPrefix)(nil)

// NewHotPrefix returns a HotPrefix; it has no parameters.
func NewHotPrefix() *HotPrefix { return &HotPrefix{} }

// Provision says what Filter reads.
func (f *HotPrefix) Provision(b *plugins.Builder) error {
	f.prefix, f.copies = plugins.Needs(b, plugins.HotPrefixes), plugins.Needs(b, plugins.DeliberateCopies)
	return nil
}

// Filter clears the bits of all others where a candidate is to get a copy.
func (f *HotPrefix) Filter(c *plugins.Cycle, keep plugins.Bits) {
	copies := f.copies.Of(c)
	for _, id := range c.Candidates {
		if copies[id] {
			for i, id := range c.Candidates {
				if !copies[id] {
					keep.Clear(i)
				}
			}
			return
		}
	}
}
