package filters_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/plugins/pluginstest"
)

// row is a world and who is left of it; want has the names, separated by blanks.
type row struct{ name, world, want string }

func check(t *testing.T, filter func() plugins.Filter, rows []row) {
	t.Helper()
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			if got := pluginstest.Filter(t, filter(), r.world); !slices.Equal(got, strings.Fields(r.want)) {
				t.Errorf("%s\n got %v\nwant %s", r.world, got, r.want)
			}
		})
	}
}

// refuses holds that a configuration with this plugin alone does not load, and why.
func refuses(t *testing.T, name string, plugin any, want string) {
	t.Helper()
	_, err := plugins.Build(plugins.Spec{Plugins: []plugins.PluginSpec{{Name: "it", Type: "it", Construct: func() (any, error) { return plugin, nil }}}}, nil, plugins.FactsGiven{})
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: got %v\nwant %s", name, err, want)
	}
}
