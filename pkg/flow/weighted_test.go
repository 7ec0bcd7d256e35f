package flow

import (
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/pool"
)

// shares has two bands of weights 3 and 1, and returns what they were served of tokens, an answer's counted twice.
func shares(w *world, runs int) (high, low float64) {
	for range runs {
		r := w.went[len(w.went)-1]
		w.pass(50 * time.Millisecond)
		if n := float64(r.tokens + 2*r.output); r.Target.Priority == 10 {
			high += n
		} else {
			low += n
		}
		w.end(r)
	}
	return high, low
}

func weighted(highs, lows float64) Settings {
	return settings(func(s *Settings) {
		s.Weighted = true
		high, low := s.Default, s.Default
		high.Priority, high.Weight, high.TTL = 10, highs, 0
		low.Priority, low.Weight, low.TTL = 0, lows, 0
		s.Bands = []BandSettings{high, low}
	})
}

// Bands share what is served by their weights, whatever their requests are booked for.
func TestBandsShareByWeight(t *testing.T) {
	for _, r := range []struct {
		name        string
		highs, lows float64
		high, low   set
		booked      int64 // 0: as long as the answer is
		wants       float64
	}{
		{"even weights", 1, 1, tokens(500, 20), tokens(500, 20), 0, 1},
		{"three to one", 3, 1, tokens(500, 20), tokens(500, 20), 0, 3},
		{"one to three", 1, 3, tokens(500, 20), tokens(500, 20), 0, 1. / 3},
		{"requests of other sizes", 3, 1, tokens(100, 500), tokens(1000, 10), 0, 3},
		{"answers that are longer than they are booked for", 3, 1, tokens(100, 500), tokens(1000, 10), 20, 3},
		{"answers that are shorter", 3, 1, tokens(100, 500), tokens(1000, 10), 4000, 3},
	} {
		t.Run(r.name, func(t *testing.T) {
			w := newWorld(t, weighted(r.highs, r.lows), 1)
			booked := func(q *request) { q.expects = r.booked }
			w.come(priority(10))
			for range 1200 {
				w.come(priority(10), r.high, booked)
				w.come(r.low, booked)
			}
			high, low := shares(w, 1000)
			if got := high / low; got < 0.9*r.wants || got > 1.1*r.wants {
				t.Errorf("served %.0f and %.0f tokens, %.2f to 1; want %.2f", high, low, got, r.wants)
			}
		})
	}
}

// A band in which nobody waited has no credit from that time.
func TestABandsCreditIsNotBanked(t *testing.T) {
	w := newWorld(t, weighted(1, 1), 1)
	w.come(priority(10))
	for range 600 {
		w.come(priority(10), tokens(500, 20))
	}
	shares(w, 300) // the lower band has nobody all the while
	for range 200 {
		w.come(tokens(500, 20))
	}
	high, low := shares(w, 101)
	if high/low > 1.1 || low/high > 1.1 {
		t.Errorf("served %.0f and %.0f tokens: the lower band took what it had not used before", high, low)
	}
}

// A band in which nobody waited has saved nothing up: from when somebody does it has its share, and no more.
func TestAWeightedBandSavesNothingUp(t *testing.T) {
	w := newWorld(t, settings(func(s *Settings) { s.Weighted, s.Default.TTL = true, 0 }), 1)
	w.come()
	serve := func(n int) (high int) {
		for range n {
			w.end(w.went[len(w.went)-1])
			if w.went[len(w.went)-1].Target.Priority > 0 {
				high++
			}
		}
		return high
	}
	for range 60 {
		w.come()
	}
	serve(30)
	for range 30 {
		w.come(priority(1))
	}
	if high := serve(20); high < 9 || high > 11 {
		t.Errorf("%d of 20 were of the band that came later, want its half", high)
	}
}

// comings counts how often a flow is said to have somebody where nobody waited.
type comings struct {
	GlobalStrict
	n int
}

func (c *comings) Came(*Flow, pool.Instant) { c.n++ }

// Of several that come to a flow the first alone says that somebody waits there: credit is not taken from who waits already.
func TestAFlowComesOnce(t *testing.T) {
	c := &comings{}
	w := newWorld(t, settings(func(s *Settings) { s.Default.Fairness = c }), 1)
	first := w.come()
	for range 3 {
		w.come()
	}
	if c.n != 1 {
		t.Errorf("it is said %d times while three wait", c.n)
	}
	for w.end(first); w.c.Stats(w.now).Requests > 0; {
		w.end(w.went[len(w.went)-1])
	}
	w.come()
	if c.n != 2 {
		t.Errorf("it is said %d times, want once more after nobody waited", c.n)
	}
}
