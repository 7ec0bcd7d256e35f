package plugins_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/reason"
)

// leader is a handler that runs the first profile.
type leader struct{}

func (leader) Handle(*plugins.Cycle) ([]plugins.Leg, *reason.Refusal) { return nil, nil }

// most picks the first.
type most struct{}

func (most) Pick(_ *plugins.Cycle, _ []float64, _ int, best []int) []int { return append(best, 0) }

// lengthy scores by the prompt and watches usage.
type lengthy struct{ wary }

func (lengthy) Provision(b *plugins.Builder) error {
	plugins.Needs(b, plugins.PromptTokens)
	plugins.Needs(b, plugins.CachedBlocks)
	return nil
}
func (lengthy) Wants() plugins.Parts                            { return plugins.FirstByte | plugins.Usage }
func (lengthy) Respond(*plugins.Request, plugins.Parts, []byte) {}

func TestLayout(t *testing.T) {
	plugin := func(name string, v any) plugins.PluginSpec {
		return plugins.PluginSpec{Name: name, Type: name, Construct: func() (any, error) { return v, nil }}
	}
	built, err := plugins.Build(plugins.Spec{
		Plugins: []plugins.PluginSpec{plugin("first", leader{}), plugin("long", lengthy{}), plugin("other", wary{}), plugin("most", most{})},
		Profiles: []plugins.ProfileSpec{{Name: "p", Plugins: []plugins.RefSpec{{Ref: "long", Weight: 3}, {Ref: "most"}}},
			{Name: "unused", Plugins: []plugins.RefSpec{{Ref: "other", Weight: 1}, {Ref: "most"}}}},
		Pools: []plugins.PoolSpec{{Name: "default", Profiles: []string{"p"}, Handler: "first"}},
	}, []plugins.Entry{plugins.Plugin("maker", func() *maker { return &maker{} }).Default(plugins.CachedBlocks.Name)})
	if err != nil {
		t.Fatal(err)
	}
	tokens := plugins.FactUse{Name: "prompt-tokens", Unit: "tokens", Source: "request body"}
	blocks := plugins.FactUse{Name: "cached-blocks", Unit: "blocks", Source: "a prefix producer", PerEndpoint: true}
	want := plugins.Layout{
		Plugins: []plugins.PluginLayout{{Name: "first", Type: "first"}, {Name: "long", Type: "long"}, {Name: "other", Type: "other", Idle: true},
			{Name: "most", Type: "most"}, {Name: "maker", Type: "maker", Added: true}},
		Pools: []plugins.PoolLayout{{Name: "default", Handler: "first", Producers: []string{"maker"}, ResponseHooks: []string{"long"},
			Profiles: []plugins.ProfileLayout{{Name: "p", Scorers: []plugins.ScorerLayout{{Plugin: "long", Weight: 3, Share: 1}}, Picker: "most"}},
			Facts:    []plugins.FactLayout{{FactUse: blocks, MadeBy: "maker", For: []string{"long"}}, {FactUse: tokens, MadeBy: "framework", For: []string{"long"}}}}},
		Reads: "the whole body", Readers: []string{"long reads the whole body: it needs prompt-tokens"},
		Wants: []plugins.WantLayout{{Plugin: "long", Parts: plugins.FirstByte | plugins.Usage, What: "the first byte, the usage"}},
	}
	got := built.Layout()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// heeds scores by what a policy says.
type heeds struct{ wary }

func (heeds) Provision(b *plugins.Builder) error {
	_, err := plugins.Refer[plugins.Policy](b, "named")
	return err
}

// A policy runs where somebody who runs refers to it, and is idle else, though it settles every request.
func TestLayoutOfPolicies(t *testing.T) {
	plugin := func(name string, v any) plugins.PluginSpec {
		return plugins.PluginSpec{Name: name, Type: name, Construct: func() (any, error) { return v, nil }}
	}
	for _, r := range []struct {
		profile string
		named   bool
	}{{"heeding", true}, {"other", false}} {
		built, err := plugins.Build(plugins.Spec{
			Plugins: []plugins.PluginSpec{plugin("first", leader{}), plugin("heeds", heeds{}), plugin("wary", wary{}), plugin("most", most{}), plugin("named", ordering{}), plugin("idle", ordering{})},
			Profiles: []plugins.ProfileSpec{{Name: "heeding", Plugins: []plugins.RefSpec{{Ref: "heeds", Weight: 1}, {Ref: "most"}}},
				{Name: "other", Plugins: []plugins.RefSpec{{Ref: "wary", Weight: 1}, {Ref: "most"}}}},
			Pools: []plugins.PoolSpec{{Name: "default", Profiles: []string{r.profile}, Handler: "first"}},
		}, []plugins.Entry{plugins.Plugin("maker", func() *maker { return &maker{} }).Default(plugins.CachedBlocks.Name)})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range built.Layout().Plugins {
			if want := p.Name == "idle" || p.Name == "named" && !r.named; (p.Name == "idle" || p.Name == "named") && p.Idle != want {
				t.Errorf("profile %s: %s is idle: %v, want %v", r.profile, p.Name, p.Idle, want)
			}
		}
	}
}
