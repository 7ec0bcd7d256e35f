package scorers

import "github.com/fairlead/fairlead/pkg/plugins"

// minmax scores a load relative to the other candidates:
//
//	score = (max - q)/(max - min), and 1 for all if all are equal
//
// q is what telemetry last said plus the own bookings that it cannot have seen. An endpoint without telemetry counts as
// the mean of those with, plus its own bookings. If no candidate has telemetry, q is the number of own bookings in flight.
type minmax struct {
	sampled plugins.EndpointValues[int32]
	booked  plugins.EndpointValues[int32] // after the sample
	flying  plugins.EndpointValues[int32] // in all
}

func newMinmax(b *plugins.Builder, sampled plugins.Fact[plugins.EndpointValues[int32]]) minmax {
	return minmax{
		sampled: plugins.Needs(b, sampled),
		booked:  plugins.Needs(b, plugins.BookedAfterSample),
		flying:  plugins.Needs(b, plugins.InFlightRequests),
	}
}

// score writes the scores into out, which serves as scratch for q.
func (m *minmax) score(c *plugins.Cycle, out []float64) {
	sampled, booked := m.sampled.Of(c), m.booked.Of(c)
	sum, known := int64(0), 0
	for _, id := range c.Candidates {
		if sampled[id] != plugins.Unknown {
			sum += int64(sampled[id])
			known++
		}
	}
	if known == 0 {
		flying := m.flying.Of(c)
		for i, id := range c.Candidates {
			out[i] = float64(flying[id])
		}
	} else {
		mean := float64(sum) / float64(known)
		for i, id := range c.Candidates {
			q := mean
			if sampled[id] != plugins.Unknown {
				q = float64(sampled[id])
			}
			out[i] = q + float64(booked[id])
		}
	}
	spread(out)
}

// spread replaces loads by scores: the lowest 1, the highest 0, linear between; 1 for all if all are equal.
func spread(q []float64) {
	if len(q) == 0 {
		return
	}
	lowest, highest := q[0], q[0]
	for _, v := range q[1:] {
		lowest, highest = min(lowest, v), max(highest, v)
	}
	for i, v := range q {
		if lowest == highest {
			q[i] = 1
		} else {
			q[i] = (highest - v) / (highest - lowest)
		}
	}
}
