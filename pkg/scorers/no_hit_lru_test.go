package scorers_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/plugins/pluginstest"
	"github.com/fairlead/fairlead/pkg/scorers"
)

func TestNoHitLRUScores(t *testing.T) {
	check(t, func() plugins.Scorer { return scorers.NewNoHitLRU() }, []row{
		// ranks 0, 2, 1 of 3
		{"the least recently used is best", "cold.it=true | a last-cold-use.it=1; b last-cold-use.it=9; c last-cold-use.it=5", []float64{1, 0, 0.5}},
		{"never used comes first, and all of these alike", "cold.it=true | a last-cold-use.it=0; b last-cold-use.it=9; c last-cold-use.it=0", []float64{1, 0, 1}},
		{"one alone", "cold.it=true | a last-cold-use.it=9", []float64{1}},
		{"nobody was used", "cold.it=true | a; b", []float64{1, 1}},
		{"somebody has a part of it cached: all alike", "cold.it=false | a last-cold-use.it=1; b last-cold-use.it=9", []float64{0.5, 0.5}},
	})
}

// prefixes is a producer that says what is cached.
type prefixes struct {
	cached map[string]int32
	blocks plugins.EndpointValues[int32]
}

func (p *prefixes) Provision(b *plugins.Builder) error {
	p.blocks = plugins.Provides(b, plugins.CachedBlocks)
	return nil
}

func (p *prefixes) Produce(c *plugins.Cycle) {
	for _, id := range c.Candidates {
		p.blocks.Of(c)[id] = p.cached[c.Snapshot.Slots[id].Name]
	}
}

func TestNoHitLRURemembers(t *testing.T) {
	var prompt openai.Summary
	for _, r := range []struct {
		name string
		size int
		play func(g *pluginstest.Rig, cached map[string]int32)
		want []float64 // of a, b, c afterwards
	}{
		{"nothing yet", 1024, func(*pluginstest.Rig, map[string]int32) {}, []float64{1, 1, 1}},
		{"one cold request", 1024, func(g *pluginstest.Rig, _ map[string]int32) { g.Send(&prompt) }, []float64{0, 1, 1}},
		{"three go round", 1024, func(g *pluginstest.Rig, _ map[string]int32) { g.Send(&prompt); g.Send(&prompt); g.Send(&prompt) }, []float64{1, 0.5, 0}},
		{"a warm one does not count", 1024, func(g *pluginstest.Rig, cached map[string]int32) {
			cached["b"] = 3
			g.Send(&prompt)
			delete(cached, "b")
		}, []float64{1, 1, 1}},
		{"an endpoint that comes back is new", 1024, func(g *pluginstest.Rig, _ map[string]int32) {
			g.Send(&prompt)
			g.Members("b", "c")
			g.Members("a", "b", "c")
		}, []float64{1, 1, 1}},
		{"beyond its size the oldest is forgotten", 1, func(g *pluginstest.Rig, _ map[string]int32) { g.Send(&prompt); g.Send(&prompt) }, []float64{1, 0, 1}},
	} {
		t.Run(r.name, func(t *testing.T) {
			cached := map[string]int32{}
			l := scorers.NewNoHitLRU()
			l.LRUSize = r.size
			g := pluginstest.NewRig(t, []pluginstest.Part{{Name: "lru", Plugin: l, Weight: 1}, {Name: "prefixes", Plugin: &prefixes{cached: cached}}}, "a", "b", "c")
			r.play(g, cached)
			if got := g.Send(&prompt).Run.Raw["lru"]; !slices.Equal(got, r.want) {
				t.Errorf("got %v, want %v", got, r.want)
			}
		})
	}
}

func TestNoHitLRUNamesItsProducer(t *testing.T) {
	l := scorers.NewNoHitLRU()
	l.PrefixMatchInfoProducerName = "other"
	_, err := plugins.Build(plugins.Spec{Plugins: []plugins.PluginSpec{
		{Name: "lru", Type: "lru", Construct: func() (any, error) { return l, nil }},
		{Name: "mine", Type: "some-producer", Construct: func() (any, error) { return &prefixes{}, nil }},
	}}, nil)
	if err == nil || !strings.Contains(err.Error(), `prefixMatchInfoProducerName is "other"`) {
		t.Errorf("another name than that of the producer, which stands after it, is not refused: %v", err)
	}
}

func TestNoHitLRUOutlivesAConfigurationWithTheSameParameters(t *testing.T) {
	parts := func() []pluginstest.Part {
		return []pluginstest.Part{{Name: "lru", Plugin: scorers.NewNoHitLRU(), Weight: 1}, {Name: "prefixes", Plugin: &prefixes{}}}
	}
	g := pluginstest.NewRig(t, parts(), "a", "b")
	g.Send(openai.NewSummary())
	g.Replace(parts())
	if got := g.Send(openai.NewSummary()).Run.Raw["lru"]; !slices.Equal(got, []float64{0, 1}) {
		t.Errorf("got %v, want [0 1]", got)
	}
}
