package latency

// Dim is the number of features. A model that has fewer leaves the last ones 0.
const Dim = 7

// Features describe one observation. They are of the order of 1, so that one prior fits all coefficients.
type Features [Dim]float64

// The constants of the regression.
const (
	// forgetting is what the weight of an observation is multiplied by with each that follows: a thousand count.
	forgetting = 0.999
	// trust is the variance of a coefficient before anything was seen: a hundred milliseconds to a feature of 1 are nothing
	// odd. Observations are relative, so that their own variance is of the order of 1 and below.
	trust = 100 * 100
	// most bounds a coefficient's variance. Forgetting without news would let it grow for ever, and one odd observation then
	// turn everything; features that only occur together would take turns in growing.
	most = 10 * trust
)

// Regression is recursive least squares with forgetting. Begin with New. It is not safe for several goroutines.
type Regression struct {
	coefficients Features
	variance     [Dim][Dim]float64 // symmetric
	seen         int64
}

// reset forgets everything.
func (r *Regression) reset() {
	*r = Regression{}
	for i := range Dim {
		r.variance[i][i] = trust
	}
}

// At returns what is predicted.
func (r *Regression) At(x *Features) float64 {
	sum := 0.0
	for i, v := range x {
		sum += float64(r.coefficients[i] * v)
	}
	return sum
}

// Learn takes in an observation of y at x. What is not finite is left out, and should the arithmetic ever come to that it begins
// anew. Cost is O(Dim²), without allocation.
func (r *Regression) Learn(x *Features, y float64) {
	if r.seen == 0 {
		r.reset()
	}
	if !finite(y) {
		return
	}
	var px Features // variance · x
	spread := forgetting
	for i := range Dim {
		if !finite(x[i]) {
			return
		}
		sum := 0.0
		for j, v := range x {
			sum += float64(r.variance[i][j] * v)
		}
		px[i] = sum
		spread += float64(sum * x[i])
	}
	off := y - r.At(x)
	for i := range Dim {
		r.coefficients[i] += float64(px[i] * off / spread)
	}
	widest, narrowest := 0.0, 0.0
	for i := range Dim {
		for j := i; j < Dim; j++ {
			v := r.variance[i][j] - float64(px[i]*px[j]/spread)
			r.variance[i][j], r.variance[j][i] = v, v
		}
		widest, narrowest = max(widest, r.variance[i][i]), min(narrowest, r.variance[i][i])
	}
	if widest < most*forgetting {
		for i := range Dim {
			for j := range Dim {
				r.variance[i][j] /= forgetting
			}
		}
	}
	r.seen++
	if !finite(r.At(x)) || !finite(widest) || narrowest < 0 { // beyond what 64 bits can tell apart
		r.reset()
	}
}

// Seen returns how many observations were taken in since the beginning.
func (r *Regression) Seen() int64 { return r.seen }

func finite(v float64) bool { return v-v == 0 }
