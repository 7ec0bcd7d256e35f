// Package quantile estimates quantiles of positive numbers in fixed memory, of late ones more than of early ones.
package quantile

import "math"

// The buckets of a Sketch: four to a doubling, from 1 up, so that a quantile is off by at most a factor of 2^(1/4), and by
// less where neighbours are filled alike. The last takes all that is larger.
const (
	perDoubling = 4
	buckets     = 20*perDoubling + 1
)

// Sketch is a histogram of numbers in logarithmic buckets, 320 bytes. The zero Sketch has seen nothing. It is not safe for
// several goroutines.
type Sketch struct {
	counts [buckets]float32
	total  float32
}

// Add counts v. Numbers below 1 count as 1, those above 2^20 as that; NaN does not count.
func (s *Sketch) Add(v float64) {
	if v != v {
		return
	}
	s.counts[bucket(v)]++
	s.total++
}

func bucket(v float64) int {
	if v <= 1 {
		return 0
	}
	return 1 + int(min(math.Log2(v)*perDoubling, buckets-2))
}

// Count returns how many numbers the sketch has seen, less what was forgotten.
func (s *Sketch) Count() float64 { return float64(s.total) }

// Halve forgets: all that was seen counts for half, as many times as is said. Negative counts as none.
func (s *Sketch) Halve(times int64) {
	if times <= 0 || s.total == 0 {
		return
	}
	if times > 30 {
		*s = Sketch{}
		return
	}
	keep := float32(1) / float32(int64(1)<<times)
	s.total = 0
	for i := range s.counts {
		s.counts[i] *= keep
		s.total += s.counts[i]
	}
}

// Quantile returns the number below which a share q of those seen lies, by the bucket in which that is and how far into it; q
// is taken between 0 and 1. Without anything seen it returns 0. Cost is O(buckets).
func (s *Sketch) Quantile(q float64) float64 {
	if s.total <= 0 {
		return 0
	}
	below, want := 0.0, min(max(q, 0), 1)*float64(s.total)
	last := 0
	for i, n := range s.counts {
		if n == 0 {
			continue
		}
		last = i
		if below+float64(n) >= want {
			return edge(i, (want-below)/float64(n))
		}
		below += float64(n)
	}
	return edge(last, 1)
}

// edge returns the number a share of the way into a bucket.
func edge(i int, share float64) float64 {
	if i == 0 {
		return 1
	}
	return math.Exp2((float64(i-1) + share) / perDoubling)
}
