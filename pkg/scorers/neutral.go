package scorers

import "math"

// unknown marks a candidate of which nothing is known, until neutral has run. It leaves no scorer.
var unknown = math.NaN()

// neutral gives every candidate that is marked as unknown the mean score of the others, 0.5 if there are no others: to know
// nothing of an endpoint speaks neither for it nor against it.
func neutral(out []float64) {
	sum, known := 0.0, 0
	for _, v := range out {
		if v == v {
			sum += v
			known++
		}
	}
	if known == len(out) {
		return
	}
	mean := 0.5
	if known > 0 {
		mean = sum / float64(known)
	}
	for i, v := range out {
		if v != v {
			out[i] = mean
		}
	}
}
