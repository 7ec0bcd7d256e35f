package producers

import (
	"math"
	"testing"

	"github.com/fairlead/fairlead/pkg/pool"
)

// Engines of a class are believed to be alike as long as they differ by no more than chance does, and what differs is believed to differ.
func TestEnginesAreAlikeUntilOneIsNot(t *testing.T) {
	tests := []struct {
		name            string
		slower          float64 // how many times the last engine's prompts and steps are
		answers         int     // of each engine
		scatter         float64 // of what they take, as a share
		alike           bool
		prefill, within float64 // what the last engine's prompts are believed to be
	}{
		{"nothing seen", 1, 0, 0, true, 1, 0},
		{"alike to the last", 1, 40, 0, true, 1, 0.01},
		{"alike but for chance", 1, 40, 0.3, true, 1, 0.1},
		{"half as fast", 2, 40, 0.3, false, 2, 0.15},
		{"half as fast, from few answers", 2, 10, 0.3, false, 2, 0.25},
		{"a fifth slower, and all say so", 1.2, 40, 0.02, false, 1.2, 0.02},
		{"a fifth slower, and hardly to be told", 1.2, 5, 0.3, true, 1, 0.15},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := newFleetLoad()
			members := []pool.ID{0, 1, 2, 3}
			f.engines = make([]engineLoad, len(members))
			for i := range f.engines {
				f.tells(&f.engines[i])
			}
			for n := range tt.answers {
				for i := range f.engines {
					dearer := 1.0
					if i == len(members)-1 {
						dearer = tt.slower
					}
					// Prompts and steps in turn, a little of the other beside each.
					prompts, steps := 60.0, 10.0
					if n%2 == 1 {
						prompts, steps = 20, 200
					}
					chance := 1 + tt.scatter*math.Sin(float64(7*n*n+3*i*n+i)) // without a period that prompts and steps share
					f.observed(&f.engines[i], prompts, steps, (prompts+steps)*dearer*chance, 1)
				}
				f.scatter(members)
				for i := range f.engines {
					f.tells(&f.engines[i])
				}
			}
			first, last := f.engines[0].now, f.engines[len(members)-1].now
			if alike := first == last; alike != tt.alike {
				t.Errorf("the first engine is believed to be %+v, the last %+v; want them alike: %t", first, last, tt.alike)
			}
			if math.Abs(last.prefill-tt.prefill) > tt.within*tt.prefill {
				t.Errorf("the last engine's prompts are believed to be %.3f times as dear, want %.2f within %.0f %%", last.prefill, tt.prefill, 100*tt.within)
			}
		})
	}
}
