package health

import (
	"math"
	"slices"
	"time"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

const (
	// evaluateEvery is how often endpoints are compared, while requests come.
	evaluateEvery = pool.Instant(100 * time.Millisecond)

	// trialWait is how long an endpoint waits for a request that tries it, before it is let in with a small share.
	trialWait = pool.Instant(5 * time.Second)

	// trialFactor is how many times as long as its like a request may take that tries a slow endpoint, as a part of SlowFactor.
	// The lower bound keeps an endpoint out that is let in only because nothing runs there.
	trialFactor = 0.6

	// silentTimes is how many times as long an endpoint stays out that can still not be read: nobody knows whether a request
	// that tries it would ever come back. One that can be read again need not wait at all.
	silentTimes = 4

	// longestFor is how long the longest answer is remembered.
	longestFor = time.Minute

	// withheldEvery bounds how often it is noted that an ejection is withheld.
	withheldEvery = pool.Instant(10 * time.Second)
)

// evaluate compares the endpoints of a pool, ejects those that fall behind, and lets those in whose time has come.
func (f *Filter) evaluate(c *plugins.Cycle, w *ward, books *pool.Books) {
	w.next, w.urgent = c.Now+evaluateEvery, false
	w.longest *= kept(time.Duration(c.Now-w.compared), longestFor)
	w.compared = c.Now
	f.count(c, w, books)
	for p := range w.reference {
		w.reference[p] = w.median(c, phase(p))
	}
	f.advance(c, w, books)
	f.ejectSilent(c, w, books)
	f.ejectSoft(c, w)
	for _, id := range c.Snapshot.Members {
		if e := &w.at[id]; e.state == plugins.Ejected {
			f.tell(c, id, e)
		}
	}
	w.urgent = false
}

// count looks at the requests that are on their way.
func (f *Filter) count(c *plugins.Cycle, w *ward, books *pool.Books) {
	var last, before pool.Instant // the two latest signs of life
	var latest pool.ID
	for _, id := range c.Snapshot.Members {
		e := &w.at[id]
		e.forget(c.Now, f.Window)
		e.alive = max(e.alive, books.Tallies[id].HeardAt) // what answers another replica does not hang
		s := &books.Samples[id]
		e.queues = s.Waiting > 0 && s.State(c.Now, c.StaleAfter()) == pool.Fresh
		e.open, e.late, e.hung, e.ahead = [phases]pace{}, [phases]float64{}, 0, 0
		if e.alive > last {
			last, before, latest = e.alive, last, id
		} else if e.alive > before {
			before = e.alive
		}
	}
	for i := range w.flights {
		fl := &w.flights[i]
		if !fl.used || fl.to.Incarnation == 0 {
			continue
		}
		e := w.of(fl.to)
		if e == nil {
			fl.to = pool.Ref{}
			continue
		}
		if fl.phase == answering {
			e.ahead += fl.prefill
		}
		if fl.past {
			continue
		}
		// How long an answer becomes is known when it has ended: until then it may become as long as others.
		age, reference := seconds(c.Now-fl.since), w.reference[fl.phase]
		work := fl.expects(e, max(fl.work[generating], min(w.longest, fl.most)))
		done := age
		if reference > 0 {
			done = age / reference
		}
		e.open[fl.phase].add(age, min(done, work), reference, f.SlowFactor)
		factor := f.SlowFactor
		if fl.trial {
			factor *= trialFactor
		}
		if !late(age, work, reference, factor) {
			continue
		}
		e.late[fl.phase]++
		elsewhere := last
		if latest == fl.to.ID {
			elsewhere = before
		}
		if time.Duration(c.Now-fl.since) > f.HungAfter && e.alive <= fl.since && elsewhere > fl.since {
			e.hung++
		}
	}
}

// ratio is how many times as long as expected an endpoint takes; 0 is not known.
func (e *endpoint) ratio(p phase) float64 {
	work := e.pace[p].work + e.open[p].work
	if e.pace[p].count+e.open[p].count < 1 || work <= 0 {
		return 0
	}
	return (e.pace[p].time + e.open[p].time) / work
}

// median returns the lower median of the ratios of the endpoints that are in use, 0 if there are not two.
func (w *ward) median(c *plugins.Cycle, p phase) float64 {
	w.scratch = w.scratch[:0]
	for _, id := range c.Snapshot.Members {
		e := &w.at[id]
		if e.state != plugins.Closed && e.state != plugins.SlowStart {
			continue
		}
		if r := e.ratio(p); r > 0 {
			w.scratch = append(w.scratch, r)
		}
	}
	if len(w.scratch) < 2 {
		return 0
	}
	slices.Sort(w.scratch)
	return w.scratch[(len(w.scratch)-1)/2]
}

// advance moves the states whose time has come.
func (f *Filter) advance(c *plugins.Cycle, w *ward, books *pool.Books) {
	for _, id := range c.Snapshot.Members {
		e := &w.at[id]
		switch e.state {
		case plugins.Closed:
			if e.strikes > 0 && c.Now-e.since > forgiven {
				e.strikes = 0
			}
		case plugins.Ejected:
			f.tell(c, id, e)
			s := &books.Samples[id]
			read := !soft(e.why) && s.At > e.since && s.Refused == 0 && s.State(c.Now, c.StaleAfter()) == pool.Fresh
			until := e.until
			if e.why == reason.EndpointSilent {
				until += (silentTimes - 1) * (e.until - e.since)
			}
			if read || until <= c.Now {
				e.state, e.since = plugins.HalfOpen, c.Now
			}
		case plugins.HalfOpen:
			switch {
			case e.trials > 0 && (e.late[answering] > 0 || e.by == generating && e.late[generating] > 0):
				w.eject(c.Now, id, e.why)
			case e.trials == 0 && c.Now-e.since > trialWait:
				e.restores(c.Now)
			}
		case plugins.SlowStart:
			if c.Now-e.since >= pool.Instant(f.SlowStart) {
				e.state, e.since = plugins.Closed, c.Now
			}
		}
	}
}

// backOff draws how long an ejection lasts.
func (f *Filter) backOff(c *plugins.Cycle, e *endpoint) pool.Instant {
	base := f.EjectBase
	if !soft(e.why) {
		base = f.UnreachableBase
	}
	d := min(float64(base)*math.Ldexp(1, int(e.strikes-1)), float64(f.EjectMax))
	return pool.Instant(d * (0.9 + 0.2*c.Rand().Float64()))
}

// ejectSilent takes endpoints out that cannot be read any more while others can, and that have answered nothing since. One on
// whose port nobody listens any more goes at once: it loses new requests before it can fail them.
func (f *Filter) ejectSilent(c *plugins.Cycle, w *ward, books *pool.Books) {
	fresh := 0
	for _, id := range c.Snapshot.Members {
		if s := &books.Samples[id]; s.Refused == 0 && s.State(c.Now, c.StaleAfter()) == pool.Fresh {
			fresh++
		}
	}
	if fresh == 0 {
		return
	}
	for _, id := range c.Snapshot.Members {
		e, s := &w.at[id], &books.Samples[id]
		if e.state != plugins.Closed && e.state != plugins.SlowStart || s.State(c.Now, c.StaleAfter()) == pool.Fresh && s.Refused == 0 {
			continue
		}
		if s.At > 0 && s.Refused > e.alive && s.Refused > e.since {
			w.eject(c.Now, id, reason.EndpointUnreachable)
			continue
		}
		if last := max(s.At, e.joined, e.since); e.alive <= last && time.Duration(c.Now-last) > c.StaleAfter() {
			w.eject(c.Now, id, reason.EndpointSilent)
		}
	}
}

// ejectSoft takes the worst of those out that fail, hang or are slow, as many as may be.
func (f *Filter) ejectSoft(c *plugins.Cycle, w *ward) {
	out := 0
	for _, id := range c.Snapshot.Members {
		if e := &w.at[id]; (e.state == plugins.Ejected || e.state == plugins.HalfOpen) && soft(e.why) {
			out++
		}
	}
	most := int(f.MaxEjectedShare * float64(len(c.Snapshot.Members)))
	for {
		worst, bad, why, by := pool.ID(-1), 0.0, reason.ID(0), answering
		for _, id := range c.Snapshot.Members {
			e := &w.at[id]
			if e.state != plugins.Closed && e.state != plugins.SlowStart {
				continue
			}
			if b, r, p := f.symptom(w, e); b > bad {
				worst, bad, why, by = id, b, r, p
			}
		}
		if worst < 0 {
			return
		}
		if out >= most {
			if c.Now-w.withheld >= withheldEvery || w.withheld == 0 {
				w.withheld = c.Now
				c.Note(reason.EjectionWithheld, plugins.EndpointName(&c.Snapshot.Slots[worst])+": "+why.String())
			}
			return
		}
		w.at[worst].by = by
		w.eject(c.Now, worst, why)
		out++
	}
}

// symptom says how bad an endpoint is, 0 for well, and why.
func (f *Filter) symptom(w *ward, e *endpoint) (bad float64, why reason.ID, by phase) {
	switch {
	case e.fails >= f.FailuresInARow, e.state == plugins.SlowStart && e.fails > 0, e.busy >= busyMost:
		return math.MaxFloat64, reason.EndpointFailing, answering
	case e.hung >= hungLeast:
		return math.MaxFloat64 / 2, reason.EndpointHung, answering
	}
	for p := range phases {
		reference := w.reference[p]
		seen := e.pace[p].count + e.late[p]
		if reference <= 0 || seen < float64(f.MinRequests) {
			continue
		}
		if p == answering && e.queues && w.reference[generating] > 0 && e.ratio(generating) < f.SlowFactor/2*w.reference[generating] {
			continue // requests wait for room there, and it generates as fast as others: it is full and not slow
		}
		r := e.ratio(p) / reference
		excess := (e.pace[p].time + e.open[p].time - float64(reference*(e.pace[p].work+e.open[p].work))) / (e.pace[p].count + e.open[p].count)
		if r > f.SlowFactor && excess > slack && r > bad {
			bad, why, by = r, reason.EndpointSlow, p
		}
	}
	return bad, why, by
}

// hungLeast is how many requests must wait for long at an endpoint that hangs: one alone may be a very long one.
const hungLeast = 2

// busyMost is how many answers in a row that it has no room an endpoint may give while it has nothing to do.
const busyMost = 5

// tell notes an ejection, and draws how long it lasts, once.
func (f *Filter) tell(c *plugins.Cycle, id pool.ID, e *endpoint) {
	if e.told {
		return
	}
	e.told, e.until = true, e.since+f.backOff(c, e)
	c.Note(e.why, plugins.EndpointName(&c.Snapshot.Slots[id])+": ejected for "+time.Duration(e.until-e.since).Round(time.Millisecond).String())
}
