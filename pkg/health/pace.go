package health

import (
	"time"

	"github.com/fairlead/fairlead/pkg/pool"
)

// phase is a part of a request's way at an endpoint.
type phase uint8

const (
	answering  phase = iota // until its answer begins
	generating              // from there to the end of an answer that is streamed
	phases
)

// pace is how long an endpoint took for how much work: seconds, and seconds that the work was expected to take. Both are
// forgotten with time.
type pace struct {
	time, work, count float64
}

func (p *pace) forget(keep float64) {
	p.time *= keep
	p.work *= keep
	p.count *= keep
}

// add counts a request that took so long for so much work. One alone that took out of all proportion says little of the
// endpoint: its prompt was believed cached and was not, say.
func (p *pace) add(time, work, reference, factor float64) {
	if reference > 0 {
		time = min(time, max(float64(proportion*factor)*float64(reference*work), 2*slack))
	}
	p.time += time
	p.work += work
	p.count++
}

// kept is the share of what was known that still counts after so long: exp(-x) by the first terms of its series, which is the
// same on every machine.
func kept(after, window time.Duration) float64 {
	x := after.Seconds() / window.Seconds()
	square := float64(x * x)
	return 1 / (1 + x + square/2 + float64(square*x)/6)
}

// flight is a request at an endpoint.
type flight struct {
	to         pool.Ref
	generation uint32
	used       bool
	next       int32 // of the free ones; -1 for none
	since      pool.Instant
	phase      phase
	streams    bool
	work       [phases]float64 // expected, in seconds; of generating: without prompts that come between
	prefill    float64         // of its own prompt
	mark       float64         // what the endpoint had computed of prompts when this one's answer began
	most       float64         // what generating may take at most, by the request's own bound
	trial      bool            // it tries an endpoint that was ejected
	past       bool            // the endpoint was ejected since: it counts no more
}

// late reports whether a flight of this age takes more than factor times as long as its like, and by more than slack.
func late(age, work, reference, factor float64) bool {
	return reference > 0 && age > float64(factor*float64(reference*work))+slack
}

// proportion is how many times as long as a slow request, in the mean, one request counts at most.
const proportion = 2.5

// slack is the time, in seconds, by which an endpoint must be slower in the mean to count as slow: below, nobody cares.
const slack = 0.1

// What is expected of an H100 with an 8B model before anything is known. Only the proportions count, since an endpoint is
// compared with others that are judged alike.
const (
	expectedBase  = 0.03   // seconds until an answer begins
	expectedToken = 0.01   // seconds per generated token
	perPrefill    = 31e-6  // seconds per uncached prompt token
	expectedOut   = 256    // tokens of an answer without a bound
	mostWork      = 3600.0 // seconds
)

// prefillWork is what so many uncached tokens are expected to take, in seconds. Attention doubles the cost of a token at some
// 30,000 tokens of context, half of the prompt's length in the mean.
func prefillWork(uncached int64) float64 {
	u := float64(max(uncached, 0))
	return min(float64(u*perPrefill)*(1+u/60_000), mostWork)
}

// expects returns what a flight's phase is expected to take at its endpoint, if generating takes so long: prompts that came
// while it generates are computed between its tokens.
func (f *flight) expects(e *endpoint, generation float64) float64 {
	if f.phase == generating {
		return min(generation+max(e.prompts-f.mark, 0), mostWork)
	}
	return f.work[answering]
}

func seconds(d pool.Instant) float64 { return time.Duration(d).Seconds() }
