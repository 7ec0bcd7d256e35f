package plugins_test

import (
	"strings"
	"testing"

	"github.com/fairlead/fairlead/pkg/plugins"
)

// links is a producer that needs facts and makes others.
type links struct {
	needs, uses, makes []plugins.Fact[plugins.EndpointValues[int64]]
}

func (*links) Produce(*plugins.Cycle) {}

func (l *links) Provision(b *plugins.Builder) error {
	for _, f := range l.makes {
		plugins.Provides(b, f)
	}
	for _, f := range l.needs {
		plugins.Needs(b, f)
	}
	for _, f := range l.uses {
		plugins.Uses(b, f)
	}
	return nil
}

// A consumer may be declared before its producer; those who wait for each other, and a fact that nobody makes, are errors
// that name the chain.
func TestC09OrderOfDependencies(t *testing.T) {
	type facts = []plugins.Fact[plugins.EndpointValues[int64]]
	fact := func(name string) plugins.Fact[plugins.EndpointValues[int64]] {
		return plugins.Fact[plugins.EndpointValues[int64]]{Name: name}
	}
	x, y, z := fact("x"), fact("y"), fact("z")
	for _, row := range []struct {
		name string
		all  map[string]*links
		want string // the error; empty: it builds
	}{
		{"a consumer before its producer", map[string]*links{"a": {needs: facts{x}}, "b": {makes: facts{x}}}, ""},
		{"a chain, backwards", map[string]*links{"a": {needs: facts{y}}, "b": {needs: facts{x}, makes: facts{y}}, "c": {makes: facts{x}}}, ""},
		{"two that wait for each other", map[string]*links{"a": {needs: facts{y}, makes: facts{x}}, "b": {needs: facts{x}, makes: facts{y}}},
			`plugin "a": plugins wait for each other: "a" needs y of "b", "b" needs x of "a"; take one of them out`},
		{"three, with one that only leads to them", map[string]*links{"a": {needs: facts{x}}, "b": {needs: facts{y}, makes: facts{x}}, "c": {needs: facts{z}, makes: facts{y}}, "d": {needs: facts{x}, makes: facts{z}}},
			`plugin "a": plugins wait for each other: "b" needs y of "c", "c" needs z of "d", "d" needs x of "b"; take one of them out`},
		{"one that reads what it makes", map[string]*links{"a": {needs: facts{x}, makes: facts{x}}}, ""},
		{"one that only uses what waits for it", map[string]*links{"a": {uses: facts{y}, makes: facts{x}}, "b": {needs: facts{x}, makes: facts{y}}}, ""},
		{"a fact that nobody makes", map[string]*links{"a": {needs: facts{x}}, "b": {needs: facts{z}, makes: facts{x}}},
			`plugin "b": needs the fact "z", which no plugin of this configuration provides`},
	} {
		t.Run(row.name, func(t *testing.T) {
			var spec plugins.Spec
			for _, name := range strings.Split("abcd", "") {
				if v := row.all[name]; v != nil {
					spec.Plugins = append(spec.Plugins, plugins.PluginSpec{Name: name, Type: name, Construct: func() (any, error) { return v, nil }})
				}
			}
			_, err := plugins.Build(spec, nil)
			if got := message(err); got != row.want {
				t.Errorf("got %s\nwant %s", got, row.want)
			}
		})
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
