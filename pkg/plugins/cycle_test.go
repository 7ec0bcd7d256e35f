package plugins_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// scores is a scorer that gives endpoint i the i-th value.
func scores(v ...float64) score {
	return func(c *plugins.Cycle, out []float64) {
		for i, id := range c.Candidates {
			out[i] = v[id]
		}
	}
}

// without is a filter that removes these endpoints.
func without(ids ...pool.ID) filter {
	return func(c *plugins.Cycle, keep plugins.Bits) {
		for i, id := range c.Candidates {
			if slices.Contains(ids, id) {
				keep.Clear(i)
			}
		}
	}
}

func TestTotalsAreWeightedSumsOfClampedScores(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, r := range []struct {
		name    string
		weights []float64
		scores  [][]float64
		want    []float64
	}{
		{"no scorer", nil, nil, []float64{0, 0, 0}},
		{"one scorer", []float64{2}, [][]float64{{0, 0.5, 1}}, []float64{0, 1, 2}},
		{"the sum is not divided by the weights", []float64{2, 3}, [][]float64{{1, 1, 0}, {0, 1, 1}}, []float64{2, 5, 3}},
		{"beyond 1 counts as 1, below 0 as 0", []float64{1}, [][]float64{{-5, 1.5, 0.25}}, []float64{0, 1, 0.25}},
		{"NaN and infinities count as 0", []float64{1}, [][]float64{{nan, inf, -inf}}, []float64{0, 0, 0}},
		{"a weight of 0 leaves the score in the record alone", []float64{0}, [][]float64{{1, 1, 1}}, []float64{0, 0, 0}},
	} {
		t.Run(r.name, func(t *testing.T) {
			var got []float64
			c := configure(named{"picker", pick(func(c *plugins.Cycle, totals []float64, want int, best []int) []int {
				got = slices.Clone(totals)
				return append(best, 0)
			})})
			for i, s := range r.scores {
				c.add(named{fmt.Sprint("s", i), scores(s...)})
				c.refer(fmt.Sprint("s", i), r.weights[i])
			}
			w := newWorld(t, c.mustBuild(t), 3)
			w.mustDecide(t)
			if !slices.Equal(got, r.want) {
				t.Errorf("got %v, want %v", got, r.want)
			}
			finite := r.name != "NaN and infinities count as 0"
			if n := len(w.notes[reason.ScoreNotFinite]); finite != (n == 0) {
				t.Errorf("score_not_finite was noted %d times", n)
			}
		})
	}
}

func TestAScorersScratchArrivesZeroed(t *testing.T) {
	c := configure(named{"picker", first{}}, named{"a", scores(1, 1, 1)}, named{"b", score(func(c *plugins.Cycle, out []float64) {
		for i, v := range out {
			if v != 0 {
				t.Errorf("out[%d] arrives as %v", i, v)
			}
		}
		if len(out) != len(c.Candidates) {
			t.Errorf("out has %d places for %d candidates", len(out), len(c.Candidates))
		}
	})})
	w := newWorld(t, c.mustBuild(t), 3)
	w.mustDecide(t)
	w.mustDecide(t)
}

func TestFiltersRunInOrderOnWhatIsLeft(t *testing.T) {
	for _, n := range []int{3, 64, 65, 130} {
		t.Run(fmt.Sprint(n, " endpoints"), func(t *testing.T) {
			var saw []pool.ID
			c := configure(
				named{"ends", without(0, pool.ID(n-1))},
				named{"looks", filter(func(c *plugins.Cycle, keep plugins.Bits) {
					saw = slices.Clone(c.Candidates)
					for i := range c.Candidates {
						if !keep.Has(i) {
							t.Errorf("bit %d of %d arrives cleared", i, len(c.Candidates))
						}
					}
				})},
				named{"picker", first{}},
			)
			w := newWorld(t, c.mustBuild(t), n)
			legs := w.mustDecide(t)
			if len(saw) != n-2 || saw[0] != 1 || saw[n-3] != pool.ID(n-2) || !slices.IsSorted(saw) {
				t.Errorf("the second filter saw %v", saw)
			}
			if legs[0].Endpoints[0] != 1 {
				t.Errorf("picked %d, want 1", legs[0].Endpoints[0])
			}
			if len(w.cycle.Candidates) != n {
				t.Errorf("after the run the cycle has %d candidates, want all %d", len(w.cycle.Candidates), n)
			}
		})
	}
}

func TestWhyNobodyWasLeft(t *testing.T) {
	for _, r := range []struct {
		name      string
		endpoints int
		draining  bool
		among     func(*pool.Endpoint) bool
		filters   []named
		want      string
	}{
		{"an empty pool", 0, false, nil, nil, `no_endpoint: pool "default" has no endpoint`},
		{"all draining", 2, true, nil, nil, `no_endpoint: none of the 2 endpoints of pool "default" may take it: draining, or outside the subset`},
		{"none in the subset", 2, false, func(*pool.Endpoint) bool { return false }, nil, `no_endpoint: none of the 2 endpoints`},
		{"filters, each with its number", 3, false, nil, []named{{"f1", without(0, 2)}, {"f2", without()}, {"f3", without(1)}},
			`all_filtered: no candidate left of 3 in pool "default"; removed: 2 by f1, 1 by f3`},
	} {
		t.Run(r.name, func(t *testing.T) {
			c := configure(append(r.filters, named{"picker", first{}})...)
			w := newWorld(t, c.mustBuild(t), 0)
			ms := members(r.endpoints)
			for i := range ms {
				ms[i].Draining = r.draining
			}
			w.pool.Update(w.now, ms)
			w.among = r.among
			legs, no := w.decide()
			if no == nil || !strings.HasPrefix(no.Error(), r.want) {
				t.Errorf("got %v, %v\nwant %s", legs, no, r.want)
			}
		})
	}
}

func TestAPickerThatPicksNobodyFails(t *testing.T) {
	c := configure(named{"picker", pick(func(_ *plugins.Cycle, _ []float64, _ int, best []int) []int { return best })})
	w := newWorld(t, c.mustBuild(t), 3)
	_, no := w.decide()
	if no == nil || no.ID != reason.PluginPanic || no.Detail != `plugin "picker" failed` {
		t.Errorf("got %v", no)
	}
	if got := w.notes[reason.PluginPanic]; len(got) != 1 || got[0] != "picker: picked none of 3 candidates" {
		t.Errorf("noted %q", got)
	}
}

func TestFallbacksFollowThePrimary(t *testing.T) {
	c := configure(named{"picker", first{}}, named{"s", scores(0, 1, 0.5)})
	w := newWorld(t, c.mustBuild(t), 3)
	w.cycle.Want = 2
	if got := w.mustDecide(t)[0].Endpoints; !slices.Equal(got, []pool.ID{1, 0}) {
		t.Errorf("got %v, want [1 0]", got)
	}
}

// A handler is ordinary code: it runs one profile, looks, and perhaps runs another.
func TestAHandlerRunsSeveralProfiles(t *testing.T) {
	c := configure(named{"picker", first{}}, named{"s", scores(0, 0, 1)})
	c.Profiles = append(c.Profiles, plugins.ProfileSpec{Name: "prefill", Plugins: []plugins.RefSpec{{Ref: "picker"}, {Ref: "not-two"}}})
	c.add(named{"not-two", without(0, 2)})
	c.add(named{"both", handle(func(c *plugins.Cycle) ([]plugins.Leg, *reason.Refusal) {
		names := c.Profiles()
		decode := c.Run(names[0])
		prefill := c.Run(names[1])
		return append(c.Legs(), plugins.Leg{Profile: names[0], Result: decode}, plugins.Leg{Profile: names[1], Result: prefill}), nil
	})})
	c.Pools[0].Profiles, c.Pools[0].Handler = []string{"default", "prefill"}, "both"
	w := newWorld(t, c.mustBuild(t), 3)
	for range 3 {
		if got := fmt.Sprint(w.mustDecide(t)); got != "[{default {[2]}} {prefill {[1]}}]" {
			t.Errorf("got %s", got)
		}
	}
}

func TestAHandlersRefusalStands(t *testing.T) {
	c := configure(named{"picker", first{}})
	c.add(named{"strict", handle(func(*plugins.Cycle) ([]plugins.Leg, *reason.Refusal) {
		return nil, reason.Refuse(reason.QueueFull, "no")
	})})
	c.Pools[0].Handler = "strict"
	if _, no := newWorld(t, c.mustBuild(t), 1).decide(); no == nil || no.ID != reason.QueueFull {
		t.Errorf("got %v", no)
	}
}

// Facts of the pool: what a sample says, what books say, and what is unknown.
func TestFactsOfThePool(t *testing.T) {
	probe := &everything{}
	w := newWorld(t, configure(named{"picker", first{}}, named{"probe", probe}).mustBuild(t), 3)
	s := w.pool.Snapshot()
	w.now = 10_000_000_000
	fresh := pool.Sample{At: w.now - 1, Waiting: 5, Running: 2, Blocks: 100, BlockTokens: 16, KVUsage: 0.25}
	old := pool.Sample{At: 1, Waiting: 9, Running: 9, Blocks: 50, BlockTokens: 32, KVUsage: 0.75}
	w.pool.Observe(w.now-1, s.Slots[0].Ref, fresh)
	w.pool.Observe(1, s.Slots[1].Ref, old)
	var seen pool.Booking
	w.pool.Decide(func(_ *pool.Snapshot, b *pool.Books) {
		b.At(w.now)
		for i := range 3 {
			seen = b.Book(s.Slots[i].Ref, pool.Load{}, w.now+1)
		}
		b.Book(s.Slots[2].Ref, pool.Load{}, w.now+1)
	})
	w.pool.FirstByte(w.now, seen)
	w.mustDecide(t)
	want := `waiting=[5 -1 -1] running=[2 -1 -1] kv-usage=[0.25 -1 -1] booked-after-sample=[1 1 1] queued=[6 -1 -1] in-flight=[1 1 2] ` +
		`cache-blocks=[100 50 -1] cache-block-tokens=[16 32 -1]`
	if probe.saw != want {
		t.Errorf("got  %s\nwant %s", probe.saw, want)
	}
	if len(w.notes[reason.StaleSample]) != 1 || len(w.notes[reason.NeverScraped]) != 1 {
		t.Errorf("noted %v, want stale_sample and never_scraped once each", w.notes)
	}
}

// everything reads all facts of the pool.
type everything struct {
	ints  []plugins.EndpointValues[int32]
	usage plugins.EndpointValues[float64]
	saw   string
}

var intFacts = []plugins.Fact[plugins.EndpointValues[int32]]{
	plugins.WaitingRequests, plugins.RunningRequests, plugins.BookedAfterSample, plugins.QueuedRequests, plugins.InFlightRequests,
	plugins.CacheBlocks, plugins.CacheBlockTokens,
}

func (e *everything) Provision(b *plugins.Builder) error {
	e.ints = nil
	for _, f := range intFacts {
		e.ints = append(e.ints, plugins.Needs(b, f))
	}
	e.usage = plugins.Needs(b, plugins.KVUsage)
	return nil
}

func (e *everything) Score(c *plugins.Cycle, _ []float64) {
	var words []string
	for i, h := range e.ints {
		if i == 2 {
			words = append(words, fmt.Sprintf("%s=%v", plugins.KVUsage.Name, e.usage.Of(c)))
		}
		words = append(words, fmt.Sprintf("%s=%v", intFacts[i].Name, h.Of(c)))
	}
	e.saw = strings.Join(words, " ")
}

func TestRestrictNarrowsAllProfiles(t *testing.T) {
	w := newWorld(t, configure(named{"picker", first{}}).mustBuild(t), 3)
	r := &w.request
	r.Prepare(w.built, nil)
	r.Now, r.PoolIndex = w.now, 0
	if no := w.cycle.Prepare(r, w.pool.Snapshot(), w.pool.StaleAfter(), w.seed, nil); no != nil {
		t.Fatal(no)
	}
	if n := w.cycle.Restrict(func(id pool.ID) bool { return id == 1 }); n != 1 {
		t.Fatalf("%d are left, want 1", n)
	}
	w.pool.Decide(func(_ *pool.Snapshot, books *pool.Books) {
		legs, no := w.cycle.Decide(books)
		if no != nil || legs[0].Endpoints[0] != 1 {
			t.Errorf("got %v, %v; want endpoint 1", legs, no)
		}
	})
}
