package plugins_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead/fairlead/pkg/plugins"
)

// wary warns of itself and of a parameter, and needs a fact whose producer is added, so that it is provisioned twice.
type wary struct{}

func (wary) Score(*plugins.Cycle, []float64) {}

func (wary) Provision(b *plugins.Builder) error {
	plugins.Needs(b, plugins.CachedBlocks)
	b.Warn("", "is seldom meant; use another")
	b.Warn("tiers[1].name", "tiers[1].name is %q; write %q", "x", "y")
	return nil
}

func TestWarningsAreToldOnceAndDoNotRefuse(t *testing.T) {
	spec := plugins.Spec{Plugins: []plugins.PluginSpec{{Name: "w", Type: "wary", Construct: func() (any, error) { return wary{}, nil }}}}
	makes := plugins.Plugin("maker", func() *maker { return &maker{} }).Default(plugins.CachedBlocks.Name)
	built, err := plugins.Build(spec, []plugins.Entry{makes})
	if err != nil {
		t.Fatal(err)
	}
	want := []plugins.Warning{{Plugin: "w", Message: "is seldom meant; use another"},
		{Plugin: "w", Parameter: "tiers[1].name", Message: `tiers[1].name is "x"; write "y"`}}
	if diff := cmp.Diff(want, built.Warnings()); diff != "" {
		t.Error(diff)
	}
}

// maker makes a fact and has nothing to say.
type maker struct{}

func (*maker) Produce(*plugins.Cycle) {}

func (*maker) Provision(b *plugins.Builder) error {
	plugins.Provides(b, plugins.CachedBlocks)
	return nil
}
