package profiles_test

import (
	"strings"
	"testing"

	"github.com/fairlead/fairlead/pkg/pickers"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/profiles"
)

func build(pool plugins.PoolSpec) (*plugins.Built, error) {
	return plugins.Build(plugins.Spec{
		Plugins: []plugins.PluginSpec{
			{Name: "single", Type: "single-profile-handler", Construct: func() (any, error) { return profiles.NewSingle(), nil }},
			{Name: "random", Type: "random-picker", Construct: func() (any, error) { return pickers.NewRandom(), nil }},
		},
		Profiles: []plugins.ProfileSpec{
			{Name: "one", Plugins: []plugins.RefSpec{{Ref: "random"}}},
			{Name: "two", Plugins: []plugins.RefSpec{{Ref: "random"}}},
		},
		Pools: []plugins.PoolSpec{pool},
	}, nil)
}

func TestSingleRefusesAPoolOfSeveralProfiles(t *testing.T) {
	_, err := build(plugins.PoolSpec{Name: "p", Profiles: []string{"one", "two"}, Handler: "single"})
	want := `plugin "single": pool "p" has 2 profiles ["one" "two"]; this handler runs exactly one`
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v\nwant %s", err, want)
	}
	if _, err := build(plugins.PoolSpec{Name: "p", Handler: "single"}); err == nil || !strings.Contains(err.Error(), "has 0 profiles") {
		t.Errorf("without profiles: got %v", err)
	}
	if _, err := build(plugins.PoolSpec{Name: "p", Profiles: []string{"two"}, Handler: "single"}); err != nil {
		t.Errorf("one profile: %v", err)
	}
}

func TestSingleRunsThePoolsProfile(t *testing.T) {
	built, err := build(plugins.PoolSpec{Name: "p", Profiles: []string{"two"}, Handler: "single"})
	if err != nil {
		t.Fatal(err)
	}
	var r plugins.Request
	r.Prepare(built, nil)
	runs, err := built.Plans[0].Replay([]plugins.ProfileRecord{{Profile: "two", Candidates: []plugins.Candidate{{Name: "default/a"}}}}, &r, 1, 1)
	if err != nil || len(runs) != 1 || runs[0].Profile != "two" || len(runs[0].Picked) != 1 {
		t.Errorf("got %+v, %v; want one run of profile two that picks its only candidate", runs, err)
	}
}
