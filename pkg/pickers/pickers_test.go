package pickers_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/pkg/pickers"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/plugins/pluginstest"
)

func TestMaxScoreWithoutTies(t *testing.T) {
	for _, r := range []struct {
		name, world string
		max, want   int
		picked      []string
	}{
		{"the only one", "a total=0", 0, 1, []string{"a"}},
		{"the highest, wherever it stands", "a total=0.1; b total=0.9; c total=0.5", 0, 1, []string{"b"}},
		{"fallbacks follow in descending order", "a total=0.1; b total=0.9; c total=0.5", 0, 3, []string{"b", "c", "a"}},
		{"descending input", "a total=0.9; b total=0.5; c total=0.1", 0, 2, []string{"a", "b"}},
		{"no more than there are", "a total=0.1; b total=0.9", 0, 8, []string{"b", "a"}},
		{"the parameter shortens the list", "a total=0.1; b total=0.9; c total=0.5", 1, 3, []string{"b"}},
		{"the parameter lengthens the list", "a total=0.1; b total=0.9; c total=0.5", 2, 1, []string{"b", "c"}},
	} {
		t.Run(r.name, func(t *testing.T) {
			p := pickers.NewMaxScore()
			p.MaxNumOfEndpoints = r.max
			if got := pluginstest.Pick(t, p, r.world, pluginstest.Want(r.want)); !slices.Equal(got, r.picked) {
				t.Errorf("got %v, want %v", got, r.picked)
			}
		})
	}
}

// expectEven fails if counts differ from their mean by more than five standard deviations of a fair draw.
func expectEven(t *testing.T, counts map[string]int, kinds, draws int) {
	t.Helper()
	if len(counts) != kinds {
		t.Errorf("got %d outcomes %v, want %d", len(counts), counts, kinds)
	}
	p := 1 / float64(kinds)
	tolerance := 5 * math.Sqrt(float64(draws)*p*(1-p))
	for outcome, n := range counts {
		if math.Abs(float64(n)-float64(draws)*p) > tolerance {
			t.Errorf("%s came %d times of %d, want %.0f ± %.0f", outcome, n, draws, float64(draws)*p, tolerance)
		}
	}
}

// permutations returns all orders of s.
func permutations(s []string) [][]string {
	if len(s) == 0 {
		return [][]string{nil}
	}
	var all [][]string
	for i := range s {
		rest := slices.Delete(slices.Clone(s), i, i+1)
		for _, p := range permutations(rest) {
			all = append(all, append([]string{s[i]}, p...))
		}
	}
	return all
}

// Each order of loads must give the same frequencies: a tie-break that is right for ascending rows alone is a known fault.
func TestTiesAreEvenInEveryOrder(t *testing.T) {
	const draws = 1500
	for _, totals := range permutations([]string{"0.9", "0.9", "0.5", "0.9"}) {
		var world strings.Builder
		tied := 0
		for i, v := range totals {
			fmt.Fprintf(&world, "%c total=%s; ", 'a'+i, v)
			if v == "0.9" {
				tied++
			}
		}
		counts := map[string]int{}
		for n := range draws {
			counts[pluginstest.Pick(t, pickers.NewMaxScore(), world.String(), pluginstest.Number(uint64(n)))[0]]++
		}
		expectEven(t, counts, tied, draws)
	}
}

func TestTiedFallbacksComeInEveryOrder(t *testing.T) {
	const draws = 3000
	counts := map[string]int{}
	for n := range draws {
		got := pluginstest.Pick(t, pickers.NewMaxScore(), "a total=0.5; b total=0.9; c total=0.5; d total=0.5", pluginstest.Number(uint64(n)), pluginstest.Want(4))
		if got[0] != "b" {
			t.Fatalf("draw %d: got %v, want b first", n, got)
		}
		counts[strings.Join(got[1:], "")]++
	}
	expectEven(t, counts, 6, draws)
}

func TestRandomIsEvenWhateverTheTotals(t *testing.T) {
	const draws = 3000
	counts := map[string]int{}
	for n := range draws {
		got := pluginstest.Pick(t, pickers.NewRandom(), "a total=1; b total=0; c total=0.5", pluginstest.Number(uint64(n)), pluginstest.Want(2))
		if len(got) != 2 || got[0] == got[1] {
			t.Fatalf("draw %d: got %v, want two different ones", n, got)
		}
		counts[strings.Join(got, "")]++
	}
	expectEven(t, counts, 6, draws)
}

func TestSameNumberSameDraw(t *testing.T) {
	const world = "a; b; c; d; e; f; g; h"
	for n := range uint64(50) {
		first := pluginstest.Pick(t, pickers.NewRandom(), world, pluginstest.Number(n), pluginstest.Seed(7), pluginstest.Want(8))
		again := pluginstest.Pick(t, pickers.NewRandom(), world, pluginstest.Number(n), pluginstest.Seed(7), pluginstest.Want(8))
		if !slices.Equal(first, again) {
			t.Fatalf("number %d: %v, then %v", n, first, again)
		}
	}
}

var _ = []plugins.Picker{pickers.NewMaxScore(), pickers.NewRandom()}
