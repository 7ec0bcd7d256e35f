package latency

import (
	"math"
	"math/rand/v2"
	"testing"
)

// truth is a server's real coefficients, in the units of ms.
var truth = Features{8, 30, 31, 5, 0.8, 40, 12}

// draw is one observation, of features as a pool has them.
func draw(r *rand.Rand) *Features {
	u := r.Float64() * 4
	return &Features{1, r.Float64() * 6, u, u * u / 2, float64(r.IntN(40)) / 10, float64(r.IntN(8) / 7), float64(r.IntN(3))}
}

func dot(a, b *Features) float64 {
	sum := 0.0
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

func TestRegressionFindsKnownCoefficients(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var g Regression
	for range 3000 {
		x := draw(r)
		y := dot(&truth, x)
		scaled := *x
		for i := range scaled {
			scaled[i] /= y
		}
		g.Learn(&scaled, 1)
	}
	for i, want := range truth {
		if got := g.coefficients[i]; math.Abs(got-want) > 0.02*want+0.2 {
			t.Errorf("coefficient %d is %.3f, in truth %.3f", i, got, want)
		}
	}
}

// Whatever comes, predictions stay finite and variances bounded.
func TestRegressionStaysSane(t *testing.T) {
	for _, r := range []struct {
		name string
		x    func(i int) Features
		y    func(i int) float64
	}{
		{"always the same observation", func(int) Features { return Features{1, 2, 3, 4, 5, 0, 0} }, func(int) float64 { return 1 }},
		{"two features that are one", func(i int) Features { v := float64(i % 7); return Features{1, v, v, 0, 0, 0, 0} }, func(i int) float64 { return 1 + float64(i%7) }},
		{"nothing but zeros", func(int) Features { return Features{} }, func(int) float64 { return 0 }},
		{"not a number", func(int) Features { return Features{1, math.NaN()} }, func(int) float64 { return 1 }},
		{"an infinite latency", func(int) Features { return Features{1} }, func(int) float64 { return math.Inf(1) }},
		{"huge", func(i int) Features { return Features{1, 1e12, -1e12, float64(i)} }, func(int) float64 { return 1e15 }},
	} {
		t.Run(r.name, func(t *testing.T) {
			var g Regression
			for i := range 20_000 {
				x := r.x(i)
				g.Learn(&x, r.y(i))
			}
			for i := range Dim {
				if v := g.variance[i][i]; g.Seen() > 0 && (!finite(v) || v > most || v < -1e-6) {
					t.Errorf("variance %d is %g", i, v)
				}
			}
			if x := (Features{1, 1, 1, 1, 1, 1, 1}); !finite(g.At(&x)) {
				t.Error("predictions are not finite")
			}
		})
	}
}

// pool is a model over endpoints of different real speeds.
type pool struct {
	m      Model
	paces  []Pace
	speeds []float64
	random *rand.Rand
}

// serve has n answers come, with this relative noise, and returns the mean relative error over them, by endpoint.
func (p *pool) serve(n int, noise float64, real *Features) []float64 {
	off, count := make([]float64, len(p.speeds)), make([]float64, len(p.speeds))
	for range n {
		e := p.random.IntN(len(p.speeds))
		x := draw(p.random)
		actual := dot(real, x) * p.speeds[e] * math.Exp(noise*p.random.NormFloat64())
		otherwise := dot(real, x) * 0.7
		off[e] += math.Abs(p.m.Predict(x, p.paces[e], otherwise)-actual) / actual
		count[e]++
		p.paces[e] = p.m.Learn(x, p.paces[e], otherwise, actual)
	}
	for e := range off {
		off[e] /= count[e]
	}
	return off
}

func newPool(speeds ...float64) *pool {
	return &pool{paces: make([]Pace, len(speeds)), speeds: speeds, random: rand.New(rand.NewPCG(5, 6))}
}

func TestModelFollows(t *testing.T) {
	for _, r := range []struct {
		name  string
		after func(p *pool)
	}{
		{"equal endpoints", func(*pool) {}},
		{"one of four at half its speed", func(p *pool) { p.speeds[2] = 2 }},
		{"and it recovers", func(p *pool) { p.speeds[2] = 2; p.serve(400, 0.05, &truth); p.speeds[2] = 1 }},
		{"all at half their speed", func(p *pool) { p.speeds = []float64{2, 2, 2, 2} }},
		{"all four times as slow", func(p *pool) { p.speeds = []float64{4, 4, 4, 4}; p.serve(3000, 0.05, &truth) }},
	} {
		t.Run(r.name, func(t *testing.T) {
			p := newPool(1, 1, 1, 1)
			p.serve(2000, 0.05, &truth)
			r.after(p)
			p.serve(400, 0.05, &truth) // a hundred answers each
			for e, off := range p.serve(400, 0.05, &truth) {
				if off > 0.10 {
					t.Errorf("endpoint %d is off by %.1f %%", e, 100*off)
				}
			}
			if !p.m.Usable() {
				t.Errorf("not usable: n %d, error %.3f", p.m.Seen(), p.m.Error())
			}
		})
	}
}

func TestModelKnowsWhenItIsNotToBeUsed(t *testing.T) {
	p := newPool(1, 1)
	p.serve(150, 0.05, &truth)
	if p.m.Usable() {
		t.Error("usable after 150 answers")
	}
	p.serve(200, 0.05, &truth)
	if !p.m.Usable() {
		t.Errorf("not usable after 350, error %.3f", p.m.Error())
	}
	for range 300 { // latencies that have nothing to do with the features
		x := draw(p.random)
		p.paces[0] = p.m.Learn(x, p.paces[0], 50, 5+1000*p.random.Float64()*float64(p.random.IntN(2)))
	}
	if p.m.Usable() {
		t.Errorf("usable although it errs by %.0f %%", 100*p.m.Error())
	}
}

// Nine of ten answers come before the high estimate.
func TestHighIsTheNinetiethPercentile(t *testing.T) {
	p := newPool(1)
	p.serve(3000, 0.3, &truth)
	below, n := 0, 2000
	for range n {
		x := draw(p.random)
		actual := dot(&truth, x) * math.Exp(0.3*p.random.NormFloat64())
		if actual <= p.m.Predict(x, p.paces[0], dot(&truth, x))*p.m.High() {
			below++
		}
	}
	if share := float64(below) / float64(n); share < 0.85 || share > 0.95 {
		t.Errorf("%.1f %% of answers come before the high estimate, want 90", 100*share)
	}
}

// One answer that hung for an hour moves nothing much.
func TestOneHangMovesLittle(t *testing.T) {
	p := newPool(1, 1)
	p.serve(2000, 0.02, &truth)
	x := draw(p.random)
	before := p.m.Predict(x, p.paces[0], dot(&truth, x))
	p.paces[0] = p.m.Learn(x, p.paces[0], dot(&truth, x), 3.6e6)
	if after := p.m.Predict(x, p.paces[0], dot(&truth, x)); after > 1.5*before {
		t.Errorf("predicted %.1f ms before and %.1f ms after", before, after)
	}
}

func TestNothingOddIsLearned(t *testing.T) {
	var m Model
	x := Features{1, 2}
	for _, odd := range []float64{math.NaN(), math.Inf(1), -1} {
		if p := m.Learn(&x, Pace{}, 10, odd); p.Of() != 1 || m.Seen() != 0 {
			t.Errorf("%g was learned", odd)
		}
	}
}

func TestLearningAllocatesNothing(t *testing.T) {
	p := newPool(1)
	x := draw(p.random)
	if n := testing.AllocsPerRun(100, func() { p.paces[0] = p.m.Learn(x, p.paces[0], 20, 30) }); n != 0 {
		t.Errorf("%g allocations", n)
	}
}

// Of latencies with a long tail the typical one is predicted, by the model and by what is thought without it; what takes longer than is
// thought is no such case.
func TestTypicalLatencies(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, tt := range []struct {
		name               string
		actual             func() float64
		closed, regression [2]float64 // least and most
	}{
		{"seven of ten take 10 ms and the others 40", func() float64 {
			if r.IntN(10) < 7 {
				return 10
			}
			return 40
		}, [2]float64{9, 12}, [2]float64{9, 12}},
		{"all take 19 ms", func() float64 { return 19 }, [2]float64{17.5, 19.01}, [2]float64{17.5, 19.01}},
		{"all take twice as long", func() float64 { return 38 }, [2]float64{19, 19}, [2]float64{36, 38.01}},
	} {
		var m Model
		var p Pace
		x := Features{1}
		for range 3000 {
			p = m.Learn(&x, p, 19, tt.actual())
		}
		if got := m.Closed(19); got < tt.closed[0] || got > tt.closed[1] {
			t.Errorf("%s: without the model %.1f ms, want %v", tt.name, got, tt.closed)
		}
		if got := m.Predict(&x, p, 19); got < tt.regression[0] || got > tt.regression[1] {
			t.Errorf("%s: %.1f ms are predicted, want %v", tt.name, got, tt.regression)
		}
	}
}

func BenchmarkLearn(b *testing.B) {
	p := newPool(1)
	x := draw(p.random)
	b.ReportAllocs()
	for range b.N {
		p.paces[0] = p.m.Learn(x, p.paces[0], 20, 30)
	}
}

func BenchmarkPredict100(b *testing.B) {
	p := newPool(1)
	x := draw(p.random)
	p.serve(500, 0.1, &truth)
	b.ReportAllocs()
	sum := 0.0
	for range b.N {
		for range 100 {
			sum += p.m.Predict(x, p.paces[0], 20)
		}
	}
	_ = sum
}
