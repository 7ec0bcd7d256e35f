package filters_test

import (
	"slices"
	"testing"

	"github.com/fairlead/fairlead/pkg/filters"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/plugins/pluginstest"
	"github.com/fairlead/fairlead/pkg/reason"
)

func TestSLOHeadroomTier(t *testing.T) {
	for _, r := range []struct {
		name, world string
		want        []string
	}{
		{"who keeps the target stays", "ttft-target=200 | a predicted-ttft=100; b predicted-ttft=300; c predicted-ttft=200", []string{"a", "c"}},
		{"both targets count", "ttft-target=200 itl-target=20 | a predicted-ttft=100 predicted-itl=30; b predicted-ttft=100 predicted-itl=10", []string{"b"}},
		{"nobody keeps it", "ttft-target=50 | a predicted-ttft=100; b predicted-ttft=300", []string{"a", "b"}},
		{"all keep it", "ttft-target=500 | a predicted-ttft=100; b predicted-ttft=300", []string{"a", "b"}},
		{"no target: nobody keeps it", "a predicted-ttft=100; b predicted-ttft=300", []string{"a", "b"}},
		{"who is not predicted does not miss", "ttft-target=50 | a predicted-ttft=100; b", []string{"b"}},
		{"the time between tokens is not predicted", "ttft-target=200 itl-target=1 | a predicted-ttft=100; b predicted-ttft=300", []string{"a"}},
	} {
		t.Run(r.name, func(t *testing.T) {
			f := filters.NewSLOHeadroomTier()
			f.EpsilonExploreNeg = 0
			if got := pluginstest.Filter(t, f, r.world); !slices.Equal(got, r.want) {
				t.Errorf("left %v, want %v", got, r.want)
			}
		})
	}
}

func TestSLOHeadroomTierExplores(t *testing.T) {
	others := 0
	for n := range uint64(2000) {
		if got := pluginstest.Filter(t, filters.NewSLOHeadroomTier(), "ttft-target=200 | a predicted-ttft=100; b predicted-ttft=300", pluginstest.Number(n)); got[0] == "b" {
			others++
		}
	}
	if others < 8 || others > 40 {
		t.Errorf("%d of 2000 went to who misses the target, want about 20", others)
	}
}

// foretells predicts times to first tokens, of endpoints by their places, and has a target for all requests.
type foretells struct {
	first             []float64
	want              float64
	ttft, itl         plugins.EndpointValues[float64]
	ttftWant, itlWant plugins.RequestValue[float64]
}

func (p *foretells) Provision(b *plugins.Builder) error {
	p.ttft, p.itl = plugins.Provides(b, plugins.PredictedTTFT), plugins.Provides(b, plugins.PredictedITL)
	p.ttftWant, p.itlWant = plugins.Provides(b, plugins.TTFTTarget), plugins.Provides(b, plugins.ITLTarget)
	return nil
}

func (p *foretells) Describe(r *plugins.Request) { p.ttftWant.Set(r, p.want) }

func (p *foretells) Produce(c *plugins.Cycle) {
	for i, id := range c.Snapshot.Members {
		p.ttft.Of(c)[id] = p.first[i]
	}
}

// Where nothing is predicted of anybody, a request that names a target is noted, once however often it is decided.
func TestSLOHeadroomTierWithoutPredictions(t *testing.T) {
	const none = plugins.Unknown
	for _, r := range []struct {
		name  string
		first []float64
		want  float64
		noted int
	}{
		{"of nobody", []float64{none, none}, 200, 1},
		{"of nobody, and there is no target", []float64{none, none}, none, 0},
		{"of one", []float64{none, 100}, 200, 0},
		{"of one that is late", []float64{none, 300}, 200, 0},
	} {
		t.Run(r.name, func(t *testing.T) {
			g := pluginstest.NewRig(t, []pluginstest.Part{{Name: "tells", Plugin: &foretells{first: r.first, want: r.want}}, {Name: "it", Plugin: filters.NewSLOHeadroomTier()}}, "a", "b")
			s := g.Prepare(openai.NewSummary())
			for range 3 {
				s.Decide()
			}
			if got := g.Notes[reason.LatencyUnpredicted]; got != r.noted {
				t.Errorf("noted %d times, want %d", got, r.noted)
			}
			g.Prepare(openai.NewSummary()).Decide()
			if got := g.Notes[reason.LatencyUnpredicted]; got != 2*r.noted {
				t.Errorf("of two requests %d were noted, want %d", got, 2*r.noted)
			}
		})
	}
}
