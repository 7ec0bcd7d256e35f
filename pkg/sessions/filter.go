package sessions

import "github.com/fairlead/fairlead/pkg/plugins"

// Filter keeps the endpoint to which the session's last request went, and no other. Without a session, or if its endpoint is
// no candidate, all are kept, and the session goes on where this request is sent.
type Filter struct{ affinity }

var (
	_ plugins.Producer    = (*Filter)(nil)
	_ plugins.Filter      = (*Filter)(nil)
	_ plugins.RequestHook = (*Filter)(nil)
	_ plugins.AnswerHook  = (*Filter)(nil)
	_ plugins.Settler     = (*Filter)(nil)
	_ plugins.Ticker      = (*Filter)(nil)
	_ plugins.Heir        = (*Filter)(nil)
)

// NewFilter returns a Filter with its defaults.
func NewFilter() *Filter { return &Filter{newAffinity()} }

// Filter clears the bits of all candidates but the session's endpoint.
func (f *Filter) Filter(c *plugins.Cycle, keep plugins.Bits) {
	pin := f.pin.Of(c)
	at := -1
	for i, id := range c.Candidates {
		if pin[id] {
			at = i
		}
	}
	if at < 0 {
		return
	}
	for i := range c.Candidates {
		if i != at {
			keep.Clear(i)
		}
	}
}

// Inherit shares the sessions of each pool that stays.
func (f *Filter) Inherit(from any, pools []int) { f.inherit(&from.(*Filter).affinity, pools) }
