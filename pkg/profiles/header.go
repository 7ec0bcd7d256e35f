package profiles

import (
	"fmt"
	"slices"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/reason"
)

// Header runs the one profile that a header of the request names.
//
// Without the header, or with an empty one, the default profile runs. A pool of one profile runs that, whatever the header
// says. A request that names a profile which its pool does not have is refused with profile_not_found.
type Header struct {
	// HeaderName is the header whose value is the profile's name.
	HeaderName string `json:"headerName" schema:"min=1,max=256"`

	// DefaultProfile is the profile of requests without the header. A pool of several profiles must have it.
	DefaultProfile string `json:"defaultProfile" schema:"min=1"`

	header plugins.RequestValue[string]
}

var (
	_ plugins.ProfileHandler = (*Header)(nil)
	_ plugins.Provisioner    = (*Header)(nil)
)

// NewHeader returns a Header with its defaults.
func NewHeader() *Header { return &Header{HeaderName: "EPP-Profile", DefaultProfile: "decode"} }

// Provision says what Handle reads, and refuses a pool without the default profile.
func (h *Header) Provision(b *plugins.Builder) error {
	name, err := plugins.HeaderName("headerName", h.HeaderName)
	if err != nil {
		return err
	}
	h.header = plugins.Needs(b, plugins.HeaderValue(name))
	for _, p := range b.Pools {
		if p.Handler != b.Name {
			continue
		}
		if len(p.Profiles) == 0 {
			return fmt.Errorf("pool %q has no profiles; give it at least one", p.Name)
		}
		if len(p.Profiles) > 1 && !slices.Contains(p.Profiles, h.DefaultProfile) {
			return fmt.Errorf("defaultProfile is %q, but pool %q has the profiles %q; name one of them", h.DefaultProfile, p.Name, p.Profiles)
		}
	}
	return nil
}

// Handle returns the choice of the profile as the only leg.
func (h *Header) Handle(c *plugins.Cycle) ([]plugins.Leg, *reason.Refusal) {
	all, name := c.Profiles(), h.header.Of(c.Request)
	switch {
	case len(all) == 1:
		name = all[0]
	case name == "":
		name = h.DefaultProfile
	case !slices.Contains(all, name):
		return nil, reason.Refuse(reason.ProfileNotFound, "%s names none of %q", h.HeaderName, all)
	}
	chosen := c.Run(name)
	if len(chosen.Endpoints) == 0 {
		return nil, nil
	}
	return append(c.Legs(), plugins.Leg{Profile: name, Result: chosen}), nil
}
