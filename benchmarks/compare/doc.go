// Package compare sets policies beside each other on the same requests.
//
// The unit of replication is the seed: each policy runs once per seed and scenario, and for one seed all see the same requests
// at the same instants. Differences are taken seed by seed, so that what the requests do to all policies alike falls out; an
// interval is one of the mean difference, by Student's t over the seeds.
//
// A verdict is better or worse only where the difference is certain and matters: the interval at [Confidence] excludes zero,
// and the mean is beyond the least effect. Else it is equal. Where a run is saturated, latencies measure how long it ran: no
// ratio of them is made, and the capacities are set beside each other instead.
package compare

import (
	"math"
	"slices"
)

// Confidence is that of the intervals by which verdicts are given; those that are printed have 0.95. With ten seeds and
// no true difference a verdict is wrong in 2 of 100 comparisons.
const Confidence = 0.98

// Verdict is what a difference amounts to.
type Verdict string

// The verdicts.
const (
	Better    Verdict = "better"
	Equal     Verdict = "equal"
	Worse     Verdict = "worse"
	Saturated Verdict = "saturated" // no fair difference: see the capacities
)

// Interval is a mean with its confidence interval.
type Interval struct {
	Mean float64 `json:"mean"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Excludes reports whether v lies outside of the interval.
func (i Interval) Excludes(v float64) bool { return v < i.Low || v > i.High }

// MeanInterval returns the mean of values and its interval by Student's t; of fewer than two values, an interval without
// bounds.
func MeanInterval(values []float64, confidence float64) Interval {
	n := float64(len(values))
	if n == 0 {
		return Interval{math.NaN(), math.Inf(-1), math.Inf(1)}
	}
	mean := 0.0
	for _, v := range values {
		mean += v / n
	}
	if n < 2 {
		return Interval{mean, math.Inf(-1), math.Inf(1)}
	}
	ss := 0.0
	for _, v := range values {
		ss += float64((v - mean) * (v - mean))
	}
	half := tQuantile(1-(1-confidence)/2, n-1) * math.Sqrt(ss/(n-1)/n)
	return Interval{mean, mean - half, mean + half}
}

// Relative returns the differences b - a of pairs, as shares of the mean of a; nil where that is zero or a value is unknown.
func Relative(a, b []float64) []float64 {
	mean := 0.0
	for i := range a {
		if math.IsNaN(a[i]) || math.IsNaN(b[i]) {
			return nil
		}
		mean += a[i] / float64(len(a))
	}
	if mean == 0 {
		return nil
	}
	out := make([]float64, len(a))
	for i := range a {
		out[i] = (b[i] - a[i]) / math.Abs(mean)
	}
	return out
}

// Judge gives the verdict on relative differences: least is the least effect that matters, and more says that more is better.
func Judge(differences []float64, least float64, more bool) Verdict {
	i := MeanInterval(differences, Confidence)
	if len(differences) < 2 || !i.Excludes(0) || math.Abs(i.Mean) < least {
		return Equal
	}
	if i.Mean > 0 == more {
		return Better
	}
	return Worse
}

// WinRate is the share of seeds in which b is better than a, ties counting half.
func WinRate(a, b []float64, more bool) float64 {
	wins := 0.0
	for i := range a {
		switch {
		case a[i] == b[i]:
			wins += 0.5
		case b[i] > a[i] == more:
			wins++
		}
	}
	if len(a) == 0 {
		return math.NaN()
	}
	return wins / float64(len(a))
}

// Mean is the mean of the known values, NaN of none.
func Mean(values []float64) float64 {
	sum, n := 0.0, 0.0
	for _, v := range values {
		if !math.IsNaN(v) {
			sum, n = sum+v, n+1
		}
	}
	return sum / n
}

// tQuantile is the q-quantile of Student's t with df degrees of freedom, found by halving on its distribution function.
func tQuantile(q, df float64) float64 {
	low, high := 0.0, 1.0
	for tCumulative(high, df) < q && high < 1e9 {
		high *= 2
	}
	for range 80 {
		mid := (low + high) / 2
		if tCumulative(mid, df) < q {
			low = mid
		} else {
			high = mid
		}
	}
	return high
}

// tCumulative is P(T ≤ t) for t ≥ 0: 1 - I(df/(df+t²); df/2, 1/2)/2 with the regularised incomplete beta function.
func tCumulative(t, df float64) float64 {
	return 1 - betaRegularised(df/(df+t*t), df/2, 0.5)/2
}

// betaRegularised is I(x; a, b), by its continued fraction (Lentz).
func betaRegularised(x, a, b float64) float64 {
	switch {
	case x <= 0:
		return 0
	case x >= 1:
		return 1
	case x > (a+1)/(a+b+2):
		return 1 - betaRegularised(1-x, b, a)
	}
	lab, _ := math.Lgamma(a + b)
	la, _ := math.Lgamma(a)
	lb, _ := math.Lgamma(b)
	front := math.Exp(lab-la-lb+a*math.Log(x)+b*math.Log(1-x)) / a
	const tiny = 1e-300
	f, c, d := 1.0, 1.0, 0.0
	for i := range 300 {
		m := float64(i / 2)
		var term float64
		switch {
		case i == 0:
			term = 1
		case i%2 == 0:
			term = m * (b - m) * x / ((a + 2*m - 1) * (a + 2*m))
		default:
			term = -(a + m) * (a + b + m) * x / ((a + 2*m) * (a + 2*m + 1))
		}
		d = 1 + term*d
		if math.Abs(d) < tiny {
			d = tiny
		}
		d = 1 / d
		c = 1 + term/c
		if math.Abs(c) < tiny {
			c = tiny
		}
		f *= c * d
		if math.Abs(1-c*d) < 1e-12 {
			break
		}
	}
	return front * (f - 1)
}

// Bootstrap returns the interval of the mean of differences by resampling, with draws from next, which yields whole numbers
// below its argument. It makes no assumption on their distribution, and with few seeds is narrower than it should be; reports
// print it beside Student's.
func Bootstrap(differences []float64, confidence float64, rounds int, next func(int) int) Interval {
	n := len(differences)
	if n == 0 {
		return Interval{math.NaN(), math.Inf(-1), math.Inf(1)}
	}
	means := make([]float64, rounds)
	for r := range means {
		sum := 0.0
		for range n {
			sum += differences[next(n)]
		}
		means[r] = sum / float64(n)
	}
	slices.Sort(means)
	at := func(q float64) float64 { return means[min(int(q*float64(rounds)), rounds-1)] }
	return Interval{Mean(differences), at((1 - confidence) / 2), at(1 - (1-confidence)/2)}
}
