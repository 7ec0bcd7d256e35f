package quantile

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Each estimate lies within a bucket's width of the quantile that sorting finds.
func TestQuantilesAgreeWithSorting(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	for _, d := range []struct {
		name string
		next func() float64
	}{
		{"uniform", func() float64 { return 1 + 999*draw.Float64() }},
		{"exponential", func() float64 { return 1 + 300*draw.ExpFloat64() }},
		{"lognormal", func() float64 { return math.Exp(5 + draw.NormFloat64()) }},
		{"always the same", func() float64 { return 256 }},
		{"two lengths", func() float64 { return []float64{10, 2000}[draw.IntN(2)] }},
	} {
		t.Run(d.name, func(t *testing.T) {
			var s Sketch
			var all []float64
			for range 5000 {
				v := d.next()
				s.Add(v)
				all = append(all, v)
			}
			slices.Sort(all)
			for _, q := range []float64{0.1, 0.3, 0.7, 0.9, 0.99} {
				want := all[int(q*float64(len(all)))]
				if got := s.Quantile(q); got < want/1.2 || got > want*1.2 {
					t.Errorf("p%g is %.1f, by sorting %.1f", 100*q, got, want)
				}
			}
		})
	}
}

func TestEdges(t *testing.T) {
	for _, r := range []struct {
		name string
		seen []float64
		q    float64
		want float64
	}{
		{"nothing seen", nil, 0.5, 0},
		{"zero counts as one", []float64{0, -3}, 0.5, 1},
		{"not a number does not count", []float64{math.NaN()}, 0.5, 0},
		{"beyond the last bucket", []float64{math.Inf(1), 1e12}, 1, 1 << 20},
		{"below no share", []float64{1}, -1, 1},
	} {
		var s Sketch
		for _, v := range r.seen {
			s.Add(v)
		}
		if got := s.Quantile(r.q); math.Abs(got-r.want) > r.want/4 {
			t.Errorf("%s: got %g, want %g", r.name, got, r.want)
		}
	}
}

// After ten halvings a thousand old numbers weigh as one, and the new ones rule.
func TestHalvingForgets(t *testing.T) {
	var s Sketch
	for range 1000 {
		s.Add(10)
	}
	s.Halve(10)
	if n := s.Count(); math.Abs(n-1000.0/1024) > 1e-3 {
		t.Errorf("%g left of 1000 after ten halvings", n)
	}
	for range 20 {
		s.Add(500)
	}
	if p := s.Quantile(0.5); p < 400 || p > 600 {
		t.Errorf("the median is %g, want near 500", p)
	}
	s.Halve(0)
	s.Halve(-1)
	if s.Count() < 20 {
		t.Error("halving no time forgets")
	}
	s.Halve(1 << 40)
	if s.Count() != 0 {
		t.Error("halving for ever does not forget")
	}
}

func BenchmarkAddAndQuantile(b *testing.B) {
	var s Sketch
	b.ReportAllocs()
	for i := range b.N {
		s.Add(float64(i & 4095))
		s.Quantile(0.7)
	}
}
