package scorers_test

import (
	"math"
	"slices"
	"testing"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/plugins/pluginstest"
	"github.com/fairlead/fairlead/pkg/scorers"
)

func TestContextLengthScores(t *testing.T) {
	for _, r := range []struct {
		name, world string
		want        []float64
	}{
		// width 2000, headroom 1000: 0.3 + 0.7*(0.7/1.2 + 0.3*0.5)
		{"in the middle of a range", "prompt-tokens=1000 | a label.llm-d.ai/context-length-range=0-2000", []float64{0.3 + 0.7*(0.7/1.2+0.15)}},
		// at the end headroom is 0: 0.3 + 0.7*0.7/1.2
		{"at the end of a range", "prompt-tokens=2000 | a label.llm-d.ai/context-length-range=0-2000", []float64{0.3 + 0.49/1.2}},
		// width 10000: 0.3 + 0.7*(0.35 + 0.3); width 0: 1
		{"a narrower range is better", "prompt-tokens=10000 | a label.llm-d.ai/context-length-range=10000-20000; b label.llm-d.ai/context-length-range=10000-10000", []float64{0.755, 1}},
		// 0.3/(1 + 1) and 0.3/(1 + 7)
		{"outside, the nearer is better", "prompt-tokens=9000 | a label.llm-d.ai/context-length-range=0-8000; b label.llm-d.ai/context-length-range=0-2000", []float64{0.15, 0.0375}},
		{"below a range", "prompt-tokens=1000 | a label.llm-d.ai/context-length-range=2000-4000", []float64{0.15}},
		{"without a label", "prompt-tokens=1000 | a", []float64{0.5}},
		{"labels that are no range", "prompt-tokens=5 | a label.llm-d.ai/context-length-range=many; b label.llm-d.ai/context-length-range=9-1; c label.llm-d.ai/context-length-range=x-1; d label.llm-d.ai/context-length-range=-3-9",
			[]float64{0, 0, 0, 0}},
		{"all equal", "prompt-tokens=1 | a label.llm-d.ai/context-length-range=1-1; b label.llm-d.ai/context-length-range=1-1", []float64{1, 1}},
	} {
		t.Run(r.name, func(t *testing.T) {
			got := pluginstest.Score(t, scorers.NewContextLength(), r.world)
			for i := range r.want {
				if math.Abs(got[i]-r.want[i]) > 1e-12 {
					t.Errorf("%s\n got %v\nwant %v", r.world, got, r.want)
				}
			}
		})
	}
}

func TestContextLengthFilters(t *testing.T) {
	const world = `prompt-tokens=2048 | a label.llm-d.ai/context-length-range=0-2047; b label.llm-d.ai/context-length-range=0-2048;
		c label.llm-d.ai/context-length-range=2048-8192; d label.llm-d.ai/context-length-range=2049-8192; e; f label.llm-d.ai/context-length-range=many`
	for _, r := range []struct {
		name   string
		filter bool
		want   []string
	}{
		{"off by default", false, []string{"a", "b", "c", "d", "e", "f"}},
		{"both ends belong to a range, and who has none stays", true, []string{"b", "c", "e"}},
	} {
		t.Run(r.name, func(t *testing.T) {
			l := scorers.NewContextLength()
			l.EnableFiltering = r.filter
			if got := pluginstest.Filter(t, plugins.Filter(l), world); !slices.Equal(got, r.want) {
				t.Errorf("got %v, want %v", got, r.want)
			}
		})
	}
}
