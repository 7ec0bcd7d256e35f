package profiles_test

import (
	"strings"
	"testing"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/pickers"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/profiles"
	"github.com/fairlead/fairlead/pkg/reason"
)

func buildHeader(h *profiles.Header, names ...string) (*plugins.Built, error) {
	spec := plugins.Spec{
		Plugins: []plugins.PluginSpec{
			{Name: "header", Type: "header-profile-handler", Construct: func() (any, error) { return h, nil }},
			{Name: "random", Type: "random-picker", Construct: func() (any, error) { return pickers.NewRandom(), nil }},
		},
		Pools: []plugins.PoolSpec{{Name: "p", Profiles: names, Handler: "header"}},
	}
	for _, name := range names {
		spec.Profiles = append(spec.Profiles, plugins.ProfileSpec{Name: name, Plugins: []plugins.RefSpec{{Ref: "random"}}})
	}
	return plugins.Build(spec, nil)
}

func TestHeaderRunsTheProfileThatIsNamed(t *testing.T) {
	for _, r := range []struct {
		name, header, value string
		profiles            string
		want                string // a profile, or the refusal
	}{
		{"the one that is named", "epp-profile", "prefill", "encode prefill decode", "prefill"},
		{"without the header the default", "", "", "encode prefill decode", "decode"},
		{"an empty header likewise", "epp-profile", "", "encode prefill decode", "decode"},
		{"one profile alone, whatever is named", "epp-profile", "other", "only", "only"},
		{"a name that nobody has", "epp-profile", "Prefill", "encode prefill decode", `EPP-Profile names none of ["encode" "prefill" "decode"]`},
	} {
		t.Run(r.name, func(t *testing.T) {
			built, err := buildHeader(profiles.NewHeader(), strings.Fields(r.profiles)...)
			if err != nil {
				t.Fatal(err)
			}
			var q plugins.Request
			q.Prepare(built, nil)
			q.PoolIndex = 0
			if r.header != "" {
				q.Headers = openai.Headers{{Name: r.header, Value: r.value}}
			}
			p := pool.New("p", nil)
			p.Update(1, []pool.Endpoint{{Namespace: "ns", Name: "a"}})
			plan := built.Plans[0]
			c := plan.NewCycle(reason.Discard{})
			c.Want = 1
			if no := plan.Describe(reason.Discard{}, &q); no != nil {
				t.Fatal(no)
			}
			if no := c.Prepare(&q, p.Snapshot(), p.StaleAfter(), 0, nil); no != nil {
				t.Fatal(no)
			}
			var legs []plugins.Leg
			var no *reason.Refusal
			p.Decide(func(_ *pool.Snapshot, books *pool.Books) { legs, no = c.Decide(books) })
			switch {
			case no != nil && (no.ID != reason.ProfileNotFound || no.Detail != r.want):
				t.Errorf("refused: %v", no)
			case no == nil && (len(legs) != 1 || legs[0].Profile != r.want):
				t.Errorf("got %v, want %s", legs, r.want)
			}
		})
	}
}

func TestHeaderRefuses(t *testing.T) {
	secret := profiles.NewHeader()
	secret.HeaderName = "Authorization"
	for _, r := range []struct {
		name     string
		handler  *profiles.Header
		profiles string
		want     string
	}{
		{"a default that is not there", profiles.NewHeader(), "fast slow", `defaultProfile is "decode", but pool "p" has the profiles ["fast" "slow"]`},
		{"no profile", profiles.NewHeader(), "", `pool "p" has no profiles`},
		{"a header with secrets", secret, "decode", "carries secrets"},
	} {
		if _, err := buildHeader(r.handler, strings.Fields(r.profiles)...); err == nil || !strings.Contains(err.Error(), r.want) {
			t.Errorf("%s: got %v\nwant %s", r.name, err, r.want)
		}
	}
}
