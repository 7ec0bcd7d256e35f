package pickers_test

import (
	"math"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/pkg/pickers"
	"github.com/fairlead/fairlead/pkg/plugins/pluginstest"
)

func TestWeightedRandom(t *testing.T) {
	const draws = 4000
	for _, r := range []struct {
		name, world string
		share       map[string]float64
	}{
		{"each as often as its share", "a total=0.1; b total=0.3; c total=0.6", map[string]float64{"a": 0.1, "b": 0.3, "c": 0.6}},
		{"the order does not matter", "a total=0.6; b total=0.3; c total=0.1", map[string]float64{"a": 0.6, "b": 0.3, "c": 0.1}},
		{"0 never wins against more", "a total=0; b total=0.001; c total=0", map[string]float64{"b": 1}},
		{"all 0: all alike", "a total=0; b total=0; c total=0; d total=0", map[string]float64{"a": 0.25, "b": 0.25, "c": 0.25, "d": 0.25}},
		{"all equal: all alike", "a total=0.5; b total=0.5", map[string]float64{"a": 0.5, "b": 0.5}},
		{"one alone", "a total=0", map[string]float64{"a": 1}},
	} {
		t.Run(r.name, func(t *testing.T) {
			counts := map[string]int{}
			for n := range uint64(draws) {
				counts[pluginstest.Pick(t, pickers.NewWeightedRandom(), r.world, pluginstest.Number(n))[0]]++
			}
			for name, p := range r.share {
				if tolerance := 5 * math.Sqrt(draws*p*(1-p)); math.Abs(float64(counts[name])-draws*p) > tolerance {
					t.Errorf("%s came %d times, want %.0f ± %.0f", name, counts[name], draws*p, tolerance)
				}
				delete(counts, name)
			}
			if len(counts) > 0 {
				t.Errorf("picked besides: %v", counts)
			}
		})
	}
}

func TestWeightedRandomFallbacksDiffer(t *testing.T) {
	for n := range uint64(100) {
		got := pluginstest.Pick(t, pickers.NewWeightedRandom(), "a total=0.1; b total=0.3; c total=0", pluginstest.Number(n), pluginstest.Want(3))
		if text := strings.Join(got, ""); text != "abc" && text != "bac" {
			t.Fatalf("got %v; all three, those above 0 first", got)
		}
	}
	p := pickers.NewWeightedRandom()
	p.MaxNumOfEndpoints = 2
	if got := pluginstest.Pick(t, p, "a total=0.1; b total=0.3; c total=0.2", pluginstest.Want(1)); len(got) != 2 {
		t.Errorf("the parameter asks for 2, got %v", got)
	}
}
