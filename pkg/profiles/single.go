// Package profiles holds the profile handlers: the plugins that say which profiles run for a request, and what their
// results are for. One file is one plugin.
package profiles

import (
	"fmt"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/reason"
)

// Single runs the one profile of its pool.
type Single struct{}

var (
	_ plugins.ProfileHandler = (*Single)(nil)
	_ plugins.Provisioner    = (*Single)(nil)
)

// NewSingle returns a Single; it has no parameters.
func NewSingle() *Single { return &Single{} }

// Provision refuses pools that have no profile, or more than one.
func (*Single) Provision(b *plugins.Builder) error {
	for _, p := range b.Pools {
		if p.Handler == b.Name && len(p.Profiles) != 1 {
			return fmt.Errorf("pool %q has %d profiles %q; this handler runs exactly one, so leave one or choose a handler that tells them apart", p.Name, len(p.Profiles), p.Profiles)
		}
	}
	return nil
}

// Handle returns the profile's choice as the only leg.
func (*Single) Handle(c *plugins.Cycle) ([]plugins.Leg, *reason.Refusal) {
	name := c.Profiles()[0]
	chosen := c.Run(name)
	if len(chosen.Endpoints) == 0 {
		return nil, nil
	}
	return append(c.Legs(), plugins.Leg{Profile: name, Result: chosen}), nil
}
