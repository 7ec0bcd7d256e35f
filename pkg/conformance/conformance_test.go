package conformance_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/fairlead/fairlead/pkg/conformance"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/plugins/pluginstest"
)

// Endpoints of a world are at 10.0.0.0:8000, 10.0.0.1:8000 and so on.
func TestSteering(t *testing.T) {
	for _, r := range []struct {
		name, steered string
		want          []string
	}{
		{"without the header all stay", `null`, []string{"a", "b", "c"}},
		{"an address names all ports", `["10.0.0.1"]`, []string{"b"}},
		{"an address with a port", `["10.0.0.1:8000"]`, []string{"b"}},
		{"another port is another endpoint", `["10.0.0.1:8001"]`, []string{}},
		{"several, with blanks", `["10.0.0.1", " 10.0.0.2:8000"]`, []string{"b", "c"}},
		{"IPv4 in IPv6, in brackets and without", `["[::ffff:10.0.0.0]:8000", "::ffff:10.0.0.1"]`, []string{"a", "b"}},
		{"what is no address names nobody", `["pod-a"]`, []string{}},
	} {
		t.Run(r.name, func(t *testing.T) {
			world := "steered-to=" + r.steered + " | a; b; c"
			if got := pluginstest.Filter(t, conformance.NewSteering(), world); !slices.Equal(got, r.want) {
				t.Errorf("got %v, want %v", got, r.want)
			}
		})
	}
}

func TestServed(t *testing.T) {
	for _, r := range []struct{ at, want string }{
		{"192.0.2.1:8000", "192.0.2.1:8000"},
		{"[2001:db8::1]:8000", "[2001:db8::1]:8000"},
		{"", "fail: missing x-gateway-destination-endpoint-served"},
	} {
		var q plugins.Request
		if r.at != "" {
			q.ServedAt = netip.MustParseAddrPort(r.at)
		}
		if got := conformance.NewServed().Answer(&q, nil).Get("x-conformance-test-served-endpoint"); got != r.want {
			t.Errorf("%q: got %q", r.at, got)
		}
	}
}
