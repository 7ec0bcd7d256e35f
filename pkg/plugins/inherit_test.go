package plugins_test

import (
	"slices"
	"testing"

	"github.com/fairlead/fairlead/pkg/pickers"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/profiles"
)

// memory is a plugin that keeps something per pool.
type memory struct {
	Size  int      `json:"size"`
	Names []string `json:"names"`

	from  *memory
	pools []int
}

func (m *memory) Inherit(from any, pools []int) { m.from, m.pools = from.(*memory), pools }

func TestInherit(t *testing.T) {
	type row struct {
		name       string
		was, is    []plugins.PluginSpec
		pools      []string // of the new configuration; the old one has p and q
		kept, lost []string
		places     []int
	}
	spec := func(name string, m *memory) plugins.PluginSpec {
		return plugins.PluginSpec{Name: name, Type: "memory", Construct: func() (any, error) { return m, nil }}
	}
	one := []plugins.PluginSpec{spec("index", &memory{Size: 1, Names: []string{"x"}})}
	rows := []row{
		{"the same", one, []plugins.PluginSpec{spec("index", &memory{Size: 1, Names: []string{"x"}})}, []string{"p", "q"}, []string{"index"}, nil, []int{0, 1}},
		{"pools in another order, and a new one", one, []plugins.PluginSpec{spec("index", &memory{Size: 1, Names: []string{"x"}})}, []string{"new", "q", "p"}, []string{"index"}, nil, []int{-1, 1, 0}},
		{"another parameter", one, []plugins.PluginSpec{spec("index", &memory{Size: 2, Names: []string{"x"}})}, []string{"p"}, nil, []string{"index"}, nil},
		{"another list", one, []plugins.PluginSpec{spec("index", &memory{Size: 1, Names: []string{"y"}})}, []string{"p"}, nil, []string{"index"}, nil},
		{"another name", one, []plugins.PluginSpec{spec("other", &memory{Size: 1, Names: []string{"x"}})}, []string{"p"}, nil, []string{"index"}, nil},
		{"gone", one, nil, []string{"p"}, nil, []string{"index"}, nil},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			build := func(of []plugins.PluginSpec, pools []string) *plugins.Built {
				handler := plugins.PluginSpec{Name: "handler", Type: "handler", Construct: func() (any, error) { return profiles.NewSingle(), nil }}
				picker := plugins.PluginSpec{Name: "picker", Type: "picker", Construct: func() (any, error) { return pickers.NewRandom(), nil }}
				s := plugins.Spec{
					Plugins:  append([]plugins.PluginSpec{handler, picker}, of...),
					Profiles: []plugins.ProfileSpec{{Name: "p", Plugins: []plugins.RefSpec{{Ref: "picker"}}}},
				}
				for _, name := range pools {
					s.Pools = append(s.Pools, plugins.PoolSpec{Name: name, Handler: "handler", Profiles: []string{"p"}})
				}
				b, err := plugins.Build(s, nil)
				if err != nil {
					t.Fatal(err)
				}
				return b
			}
			was, is := build(row.was, []string{"p", "q"}), build(row.is, row.pools)
			kept, lost := is.Inherit(was)
			if !slices.Equal(kept, row.kept) || !slices.Equal(lost, row.lost) {
				t.Errorf("kept %v, lost %v; want %v, %v", kept, lost, row.kept, row.lost)
			}
			if len(row.is) == 0 {
				return
			}
			v, _ := row.is[0].Construct()
			if m := v.(*memory); !slices.Equal(m.pools, row.places) {
				t.Errorf("was told of the pools %v, want %v", m.pools, row.places)
			}
		})
	}
}
