package catalog_test

import (
	"strings"
	"testing"

	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/scorers"
)

func TestEveryEntryServesAnExtensionPoint(t *testing.T) {
	names := map[string]bool{}
	for _, e := range catalog.Builtin() {
		for _, name := range append([]string{e.Type}, e.Renamed...) {
			if names[name] {
				t.Errorf("%s stands twice", name)
			}
			names[name] = true
		}
		switch e.New().(type) {
		case plugins.Stage, plugins.Describer, plugins.Producer, plugins.Filter, plugins.Scorer, plugins.Picker, plugins.ProfileHandler,
			plugins.RequestHook, plugins.ResponseHook, plugins.Settler:
		default:
			t.Errorf("%s serves no extension point", e.Type)
		}
		if a, b := e.New(), e.New(); len(plugins.Params(a)) > 0 && a == b {
			t.Errorf("%s: two calls of the constructor return one plugin", e.Type)
		}
	}
}

// A default producer must provide what the catalogue says that it does, or a configuration that relies on it fails late.
func TestDefaultProducersProvide(t *testing.T) {
	for _, e := range catalog.Builtin() {
		if len(e.MakesByDefault) == 0 {
			continue
		}
		b, err := plugins.Build(plugins.Spec{Plugins: []plugins.PluginSpec{
			{Name: "prefix", Type: "prefix-cache-scorer", Construct: func() (any, error) { return scorers.NewPrefixCache(), nil }},
		}}, catalog.Builtin())
		if err != nil {
			t.Fatal(err)
		}
		added := b.Instances()[1]
		for _, word := range append([]string{e.Type}, e.MakesByDefault...) {
			if !strings.Contains(added, word) {
				t.Errorf("%q was added; want %s with %q", added, e.Type, e.MakesByDefault)
			}
		}
	}
}
