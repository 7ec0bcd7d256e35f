package plugins_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/reason"
)

// dice draws n numbers at each extension point of the cycle and keeps them.
type dice struct {
	n     int
	drawn map[string][]uint64
}

func (d *dice) draw(c *plugins.Cycle, at string) {
	for range d.n {
		d.drawn[at] = append(d.drawn[at], c.Rand().Uint64())
	}
}

func (d *dice) Filter(c *plugins.Cycle, _ plugins.Bits) { d.draw(c, "filter") }
func (d *dice) Score(c *plugins.Cycle, _ []float64)     { d.draw(c, "score") }

// diceWorld has three dice a, b and c, a picker that throws as well, and runs its profile twice.
func diceWorld(t *testing.T, n [3]int) (*world, [4]*dice) {
	t.Helper()
	all := [4]*dice{}
	for i := range all {
		all[i] = &dice{n: 1, drawn: map[string][]uint64{}}
		if i < 3 {
			all[i].n = n[i]
		}
	}
	c := configure(named{"a", all[0]}, named{"b", all[1]}, named{"c", all[2]},
		named{"picker", pick(func(c *plugins.Cycle, _ []float64, _ int, best []int) []int {
			all[3].draw(c, "pick")
			return append(best, 0)
		})})
	c.add(named{"twice", handle(func(c *plugins.Cycle) ([]plugins.Leg, *reason.Refusal) {
		all[3].draw(c, "before")
		result := c.Run("default")
		all[3].draw(c, "between")
		c.Run("default")
		return append(c.Legs(), plugins.Leg{Profile: "default", Result: result}), nil
	})})
	c.Pools[0].Handler = "twice"
	return newWorld(t, c.mustBuild(t), 2), all
}

func TestOneMoreDrawMovesNothingElse(t *testing.T) {
	w, few := diceWorld(t, [3]int{2, 1, 2})
	w.mustDecide(t)
	w, many := diceWorld(t, [3]int{2, 5, 2})
	w.mustDecide(t)
	for _, i := range []int{0, 2, 3} {
		if a, b := fmt.Sprint(few[i].drawn), fmt.Sprint(many[i].drawn); a != b {
			t.Errorf("plugin %d drew %s, and %s when its neighbour drew more", i, a, b)
		}
	}
}

func TestStreamsDiffer(t *testing.T) {
	seen := map[uint64]string{}
	for _, seed := range []uint64{0, 1} {
		for _, number := range []uint64{0, 1, 2} {
			w, all := diceWorld(t, [3]int{1, 1, 1})
			w.seed, w.request.Number = seed, number
			w.mustDecide(t)
			for i, d := range all {
				for at, drawn := range d.drawn {
					for run, v := range drawn {
						here := fmt.Sprintf("seed %d, number %d, plugin %d, %s, run %d", seed, number, i, at, run)
						if other, twice := seen[v]; twice {
							t.Errorf("%s draws what %s drew", here, other)
						}
						seen[v] = here
					}
				}
			}
		}
	}
}

func TestAReplayDrawsTheSame(t *testing.T) {
	w, all := diceWorld(t, [3]int{1, 2, 3})
	w.cycle.Record, w.seed, w.request.Number = true, 42, 17
	w.mustDecide(t)
	drawn := fmt.Sprint(all[0].drawn, all[1].drawn, all[2].drawn, all[3].drawn)
	runs := slices.Clone(w.cycle.Trace)
	for _, d := range all {
		clear(d.drawn)
	}
	var r plugins.Request
	r.Prepare(w.built, nil)
	r.Number, r.Now = 17, w.now
	if _, err := w.built.Plans[0].Replay(runs, &r, 42, 1); err != nil {
		t.Fatal(err)
	}
	if again := fmt.Sprint(all[0].drawn, all[1].drawn, all[2].drawn, all[3].drawn); again != drawn {
		t.Errorf("drew %s\nthen %s", drawn, again)
	}
}
