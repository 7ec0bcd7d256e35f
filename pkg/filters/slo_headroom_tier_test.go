package filters_test

import (
	"slices"
	"testing"

	"github.com/fairlead/fairlead/pkg/filters"
	"github.com/fairlead/fairlead/pkg/plugins/pluginstest"
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
