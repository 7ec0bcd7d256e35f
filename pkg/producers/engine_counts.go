package producers

import (
	"time"

	"github.com/fairlead/fairlead/pkg/pool"
)

// engineCounts is what an engine's own histograms tell beside what own requests show. Either are learned from, never both: own
// requests, unless they are less than half of what the engine counted, as where headers come before tokens, answers come at once, or
// others send most requests.
type engineCounts struct {
	taken               pool.Instant // when the last sample was
	firstTokens, gapped pool.Timed   // in it
	own                 pool.Tally   // when it was read
	at                  pool.Instant // likewise; 0: none was
	since               pool.Instant // when the first one was

	// The integrals of own sequences and contexts then.
	sequences, kiloTokens float64

	decoding float64 // how many sequences did between the last two samples, on average

	firsts, gaps evidence // what own requests told (observed) of what the engine counted (expected); old ones fade
	ahead        evidence // work that was to be done before the first tokens of own bookings, over their number
}

// From so many that an engine counted on it is known whether own requests are among them. Gaps are counted as they come and own
// answers at their end, so that they are compared after a while.
const (
	countedFirsts = 20
	countedGaps   = 200
	gapsAfter     = pool.Instant(time.Minute)
)

// byEngine reports whether first tokens are learned from what the engine counts.
func (e *engineCounts) byEngine() bool {
	return e.firsts.expected >= countedFirsts && e.firsts.observed < 0.5*e.firsts.expected
}

// gapsByEngine reports whether decode steps are.
func (e *engineCounts) gapsByEngine() bool {
	return e.gaps.expected >= countedGaps && e.at-e.since >= gapsAfter && e.gaps.observed < 0.5*e.gaps.expected
}

func (e *engineCounts) fade(by float64) {
	e.firsts.fade(by)
	e.gaps.fade(by)
	e.ahead.fade(by)
}

// counted learns from what an engine's sample counts more than the one before it.
func (f *fleetLoad) counted(e *engineLoad, s *pool.Sample, books *pool.Books, id pool.ID, now pool.Instant) {
	k, t := &e.counts, &books.Tallies[id]
	own, span := k.own, time.Duration(s.At-k.taken).Seconds()
	sequences, kiloTokens := books.Decoded(id)
	context := usualTokens / 1000
	if d := sequences - k.sequences; d > 0 {
		context = (kiloTokens - k.kiloTokens) / d
	}
	firsts, counts := s.FirstTokens.Since(k.firstTokens)
	gaps, gapped := s.Gaps.Since(k.gapped)
	first := k.at == 0
	k.taken, k.firstTokens, k.gapped, k.own, k.at, k.sequences, k.kiloTokens = s.At, s.FirstTokens, s.Gaps, *t, now, sequences, kiloTokens
	if first || span <= 0 {
		k.since = now
		return
	}
	booked := float64(t.Booked - own.Booked)
	k.ahead.add(float64(t.BookedAhead-own.BookedAhead), booked)
	if gapped {
		// Each sequence that decodes has as much gap in a second as there is time. Others' are taken to be like the own ones.
		k.decoding = gaps.Seconds / span
	}
	step := e.prior.stepMS + k.decoding*(e.prior.perSequence+context*e.prior.perKToken)
	if counts {
		f.others.answers.add(float64(t.Answered-own.Answered), firsts.Count)
		begun := pool.Timed{Count: float64(t.Begun - own.Begun), Seconds: (t.Waited - own.Waited).Seconds()}
		f.first.own.Count += begun.Count
		f.first.own.Seconds += begun.Seconds
		f.first.engines.Count += firsts.Count
		f.first.engines.Seconds += firsts.Seconds
		if f.first.headers {
			begun.Count = 0
		}
		k.firsts.add(begun.Count, firsts.Count)
		if k.byEngine() && k.ahead.expected > 0 && !short(s) {
			f.firstTokens(e, firsts, step)
		}
	}
	if !gapped {
		return
	}
	k.gaps.add(float64(t.Steps-own.Steps), gaps.Count)
	if !k.gapsByEngine() || short(s) {
		return
	}
	work := float64(t.BookedWork - own.BookedWork)
	if counts && booked > 0 && firsts.Count > booked {
		work *= firsts.Count / booked
	}
	f.observed(e, k.decoding*work*e.prior.prefillMS, gaps.Count*step, gaps.Seconds*1000, k.decoding)
}

// short reports whether an engine is out of memory, or of places for adapters, so that prompts wait for other reasons than work.
func short(s *pool.Sample) bool {
	return s.Waiting > 0 && s.KVUsage > 0.9 || len(s.AdaptersWaiting) > 0
}

// firstTokens learns from first tokens that an engine counted while a step took so many milliseconds by the prior. Each had before it what own bookings have on average.
func (f *fleetLoad) firstTokens(e *engineLoad, d pool.Timed, step float64) {
	prompts := d.Count * e.counts.ahead.observed / e.counts.ahead.expected * e.prior.prefillMS
	f.observed(e, prompts, d.Count*stepsToFirstToken*step, d.Seconds*1000, 1)
}
