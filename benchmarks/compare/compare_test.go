package compare

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Quantiles of Student's t from printed tables.
func TestQuantilesOfStudent(t *testing.T) {
	for _, tt := range []struct{ q, df, want float64 }{
		{0.975, 1, 12.706}, {0.975, 4, 2.776}, {0.975, 9, 2.262}, {0.99, 9, 2.821}, {0.975, 29, 2.045}, {0.975, 1000, 1.962}, {0.95, 2, 2.920},
	} {
		if got := tQuantile(tt.q, tt.df); math.Abs(got-tt.want) > 0.001 {
			t.Errorf("t(%v, %v) = %.4f, want %.3f", tt.q, tt.df, got, tt.want)
		}
	}
}

func TestInterval(t *testing.T) {
	got := MeanInterval([]float64{1, 2, 3, 4, 5}, 0.95) // s = 1.5811, 2.776·s/√5 = 1.963
	if math.Abs(got.Mean-3) > 1e-12 || math.Abs(got.Low-1.037) > 0.001 || math.Abs(got.High-4.963) > 0.001 {
		t.Errorf("%+v", got)
	}
	if one := MeanInterval([]float64{7}, 0.95); one.Mean != 7 || !math.IsInf(one.Low, -1) || !math.IsInf(one.High, 1) {
		t.Errorf("of one value: %+v; want no bounds", one)
	}
}

// pairs are goodputs of two policies over seeds as the scenarios show them: seeds differ by 8 %, which both share, and each
// has 1.2 % of its own.
func pairs(r *rand.Rand, seeds int, effect float64) (a, b []float64) {
	for range seeds {
		common := 0.8 * (1 + 0.08*r.NormFloat64())
		a = append(a, common*(1+0.012*r.NormFloat64()))
		b = append(b, common*(1+effect)*(1+0.012*r.NormFloat64()))
	}
	return a, b
}

func TestVerdictsAreRightOftenEnough(t *testing.T) {
	count := func(effect float64, more bool) map[Verdict]int {
		r := rand.New(rand.NewPCG(1, 2))
		n := map[Verdict]int{}
		for range 2000 {
			a, b := pairs(r, 10, effect)
			n[Judge(Relative(a, b), 0.02, more)]++
		}
		return n
	}
	if n := count(0, true); n[Equal] < 1940 {
		t.Errorf("of 2000 policies beside themselves %v; want at least 97 %% equal", n)
	}
	if n := count(0.03, true); n[Better] < 1800 {
		t.Errorf("of 2000 effects of 3 %% %v; want at least 90 %% found", n)
	}
	if n := count(0.03, false); n[Worse] < 1800 {
		t.Errorf("of 2000 effects of 3 %% to the worse %v; want at least 90 %% found", n)
	}
	if n := count(0.004, true); n[Equal] < 1900 {
		t.Errorf("of 2000 effects of 0.4 %%, which do not matter, %v; want equal", n)
	}
}

func TestJudge(t *testing.T) {
	for _, tt := range []struct {
		name        string
		differences []float64
		more        bool
		want        Verdict
	}{
		{"nothing", nil, true, Equal},
		{"one seed shows nothing", []float64{0.5}, true, Equal},
		{"no difference at all", []float64{0, 0, 0, 0}, true, Equal},
		{"certain but small", []float64{0.01, 0.01, 0.01, 0.01}, true, Equal},
		{"large but uncertain", []float64{0.5, -0.4, 0.6, -0.3}, true, Equal},
		{"more, and more is better", []float64{0.05, 0.06, 0.05, 0.06}, true, Better},
		{"more, and less is better", []float64{0.05, 0.06, 0.05, 0.06}, false, Worse},
		{"less, and less is better", []float64{-0.05, -0.06, -0.05, -0.06}, false, Better},
	} {
		if got := Judge(tt.differences, 0.02, tt.more); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestRelative(t *testing.T) {
	if got := Relative([]float64{0, 0}, []float64{1, 2}); got != nil {
		t.Errorf("against nothing: %v, want none", got)
	}
	if got := Relative([]float64{1, math.NaN()}, []float64{1, 2}); got != nil {
		t.Errorf("with an unknown value: %v, want none", got)
	}
	if got := Relative([]float64{1, 3}, []float64{2, 2}); got[0] != 0.5 || got[1] != -0.5 {
		t.Errorf("%v, want 0.5 and -0.5", got)
	}
}

func TestWinRate(t *testing.T) {
	if got := WinRate([]float64{1, 2, 3, 4}, []float64{2, 2, 2, 5}, true); got != 0.625 {
		t.Errorf("%v, want 2.5 of 4", got)
	}
}

// Where the distribution is normal, both intervals agree but for what few seeds cost.
func TestBootstrapAgreesWithStudent(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	d := make([]float64, 40)
	for i := range d {
		d[i] = 0.02 + 0.03*r.NormFloat64()
	}
	a, b := MeanInterval(d, 0.95), Bootstrap(d, 0.95, 4000, r.IntN)
	if w := (b.High - b.Low) / (a.High - a.Low); w < 0.85 || w > 1.1 {
		t.Errorf("%+v against %+v: %.2f times as wide", b, a, w)
	}
}
