package conformance

import (
	"net/netip"
	"strings"

	"github.com/fairlead/fairlead/pkg/plugins"
)

// Steering keeps the endpoints that the client names in the header test-epp-endpoint-selection: a list of addresses with a
// port, or without one for all ports, separated by commas; IPv6 addresses bare or in brackets. Without the header all are
// kept; where it names no candidate, none.
type Steering struct {
	steered plugins.RequestValue[[]string]
}

var _ plugins.Filter = (*Steering)(nil)

// NewSteering returns a Steering; it has no parameters.
func NewSteering() *Steering { return &Steering{} }

// Provision says what Filter reads.
func (f *Steering) Provision(b *plugins.Builder) error {
	f.steered = plugins.Needs(b, plugins.SteeredTo)
	return nil
}

// Filter clears the bit of every candidate that is not named.
func (f *Steering) Filter(c *plugins.Cycle, keep plugins.Bits) {
	steered := f.steered.Of(c.Request)
	if len(steered) == 0 {
		return
	}
	for i, id := range c.Candidates {
		if !named(steered, c.Snapshot.Slots[id].Addr) {
			keep.Clear(i)
		}
	}
}

// Structural says that what is removed can never serve.
func (*Steering) Structural() {}

// named reports whether an address is on the list. An entry that is no address names nobody.
func named(list []string, at netip.AddrPort) bool {
	for _, entry := range list {
		entry = strings.TrimSpace(entry)
		if ap, err := netip.ParseAddrPort(entry); err == nil {
			if ap.Addr().Unmap() == at.Addr() && ap.Port() == at.Port() {
				return true
			}
		} else if a, err := netip.ParseAddr(strings.Trim(entry, "[]")); err == nil && a.Unmap() == at.Addr() {
			return true
		}
	}
	return false
}
