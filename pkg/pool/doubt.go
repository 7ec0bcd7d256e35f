package pool

import "time"

// Doubt is a time in which each sample of an engine read its KV cache as full and showed no request that waits, without a gap after
// which a sample is stale. An engine without memory has requests wait as soon as it is given some: it is the gauge that may be wrong.
// The zero Doubt is none.
type Doubt struct {
	Since    Instant // the instant of the first such sample
	Answered int64   // what Tally.Answered stood at when that came
}

// FullUsage is the reading of a KV cache that counts as full for a Doubt.
const FullUsage = 0.9

// doubt takes in the sample that follows the one that the books have.
func (b *Books) doubt(id ID, s *Sample, staleAfter time.Duration) {
	d := &b.Doubts[id]
	switch {
	case s.Waiting != 0 || s.KVUsage < FullUsage:
		*d = Doubt{}
	case d.Since == 0 || time.Duration(s.At-b.Samples[id].At) > staleAfter:
		*d = Doubt{s.At, b.Tallies[id].Answered}
	}
}
