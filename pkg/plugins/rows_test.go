package plugins_test

import (
	"sync"
	"testing"

	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/reason"
)

// Many pick at the same time among equals: evenly, and each with a stream of its own.
func TestL16ParallelPicksAreEven(t *testing.T) {
	const endpoints, workers, each = 8, 8, 1250
	for _, picker := range []string{"max-score-picker", "random-picker", "weighted-random-picker"} {
		built, err := plugins.Build(builtin([]string{picker}, []float64{0}), catalog.Builtin())
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		var counts [workers][endpoints]int
		shared := newWorld(t, built, endpoints)
		for worker := range workers {
			all.Go(func() {
				w := &world{built: built, pool: shared.pool, cycle: built.Plans[0].NewCycle(reason.Discard{}), notes: notes{}, now: 1}
				w.cycle.Want = 1
				for i := range each {
					w.request.Number = uint64(worker*each + i)
					legs, no := w.decide()
					if no != nil {
						t.Error(no)
						return
					}
					counts[worker][legs[0].Endpoints[0]]++
				}
			})
		}
		all.Wait()
		chi := 0.0
		for e := range endpoints {
			n := 0
			for worker := range workers {
				n += counts[worker][e]
			}
			d := float64(n) - workers*each/endpoints
			chi += d * d / (workers * each / endpoints)
		}
		if chi > 40.5 { // 7 degrees of freedom, one in a million
			t.Errorf("%s: chi-square is %.1f: %v", picker, chi, counts)
		}
	}
}

// empty is a prefix producer that knows nothing.
type empty struct{}

func (empty) Provision(b *plugins.Builder) error {
	plugins.Provides(b, plugins.CachedTokens)
	plugins.Provides(b, plugins.CachedBlocks)
	plugins.Provides(b, plugins.PromptBlocks)
	return nil
}

func (empty) Produce(*plugins.Cycle) {}

// A match that nobody knows is no event: what is told per decision does not grow with the endpoints, and a sink tells each
// kind once a minute.
func TestL17AMissingMatchIsQuiet(t *testing.T) {
	spec := builtin([]string{"prefix-cache-scorer", "queue-scorer", "no-hit-lru-scorer", "max-score-picker"}, []float64{3, 2, 1, 0})
	spec.Plugins = append(spec.Plugins, plugins.PluginSpec{Name: "empty", Type: "empty", Construct: func() (any, error) { return empty{}, nil }})
	built, err := plugins.Build(spec, catalog.Builtin())
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, built, 500)
	for i := range 1000 {
		w.request.Number = uint64(i)
		w.mustDecide(t)
	}
	for id, said := range w.notes {
		if id != reason.NeverScraped || len(said) != 1000 {
			t.Errorf("%v was noted %d times in 1000 decisions", id, len(said))
		}
	}
}
