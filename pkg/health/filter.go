package health

import (
	"fmt"
	"time"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// Filter removes endpoints that are not well, as their answers show, and lets them in again when they are.
//
// An endpoint is ejected when nobody listens there (from the first time on, while there are others); when it failed several
// requests in a row (a status of 5xx but 503, a connection reset); when it takes many times as long as its like for what it is
// asked; when requests hang there while others are answered; when it can be read no more and answers nothing. Errors of clients
// (4xx) never count, and an answer that there is no room (429, 503) does only where the endpoint has nothing to do.
//
// How long an endpoint takes is compared with the median of its pool, as the ratio of time to what was expected by the
// uncached prompt, the prompts before it there, the answer's length and the class of the hardware; a pool that is slow as a
// whole ejects nobody, and an endpoint in whose engine requests wait, but which generates as fast as others, is full and not slow. Slow, hanging and failing endpoints are ejected as long as no more than MaxEjectedShare of the pool is
// out.
//
// An ejection lasts for EjectBase, and each time in a row twice as long, up to EjectMax, give or take a tenth. Then one request
// at a time tries the endpoint, if it has somewhere else to go should that fail; while none comes for five seconds, or after one
// that went well, the endpoint takes a share that grows over SlowStart.
//
// If no other candidate is left, those that take a growing share are kept, else those that are tried, else those that answered
// at all, else everybody.
type Filter struct {
	// MaxEjectedShare is the part of a pool that may be out for being slow, hanging or failing, rounded down.
	MaxEjectedShare float64 `json:"maxEjectedShare" schema:"min=0,max=1"`

	// SlowFactor is how many times as long as the median endpoint of its pool an endpoint takes that is ejected for it.
	SlowFactor float64 `json:"slowFactor" schema:"min=1.5,max=1000"`

	// MinRequests is how many requests must have ended, or be late, at an endpoint before it is found slow.
	MinRequests int32 `json:"minRequests" schema:"min=1,max=10000"`

	// Window is how long what an endpoint did counts: after it, for a good third.
	Window time.Duration `json:"window" schema:"min=100ms,max=10m"`

	// FailuresInARow is how many requests in a row an endpoint fails until it is ejected.
	FailuresInARow int32 `json:"failuresInARow" schema:"min=1,max=1000"`

	// HungAfter is how long a request waits, while others are answered, until its endpoint counts as hanging.
	HungAfter time.Duration `json:"hungAfter" schema:"min=100ms,max=10m"`

	// EjectBase is how long the first ejection lasts.
	EjectBase time.Duration `json:"ejectBase" schema:"min=10ms,max=10m"`

	// UnreachableBase is the same where nobody listened, or the endpoint could not be read.
	UnreachableBase time.Duration `json:"unreachableBase" schema:"min=10ms,max=10m"`

	// EjectMax is how long an ejection lasts at most.
	EjectMax time.Duration `json:"ejectMax" schema:"min=10ms,max=1h"`

	// SlowStart is how long the share of an endpoint grows that is let in again.
	SlowStart time.Duration `json:"slowStart" schema:"min=10ms,max=10m"`

	health plugins.EndpointValues[plugins.Health]
	flight plugins.RequestValue[plugins.HealthFlight]
	prompt plugins.RequestValue[int64]
	cached plugins.EndpointValues[int64]
	class  plugins.EndpointValues[plugins.CapacityClass]

	knowsCached, knowsClass bool

	wards []*ward // by the pool's place in the configuration; shared with who inherits
}

var (
	_ plugins.Producer     = (*Filter)(nil)
	_ plugins.Observer     = (*Filter)(nil)
	_ plugins.Filter       = (*Filter)(nil)
	_ plugins.Claimer      = (*Filter)(nil)
	_ plugins.AttemptHook  = (*Filter)(nil)
	_ plugins.ResponseHook = (*Filter)(nil)
	_ plugins.Settler      = (*Filter)(nil)
	_ plugins.Heir         = (*Filter)(nil)
)

// NewFilter returns a Filter with its defaults.
func NewFilter() *Filter {
	return &Filter{
		MaxEjectedShare: 0.5, SlowFactor: 5, MinRequests: 4, Window: 5 * time.Second, FailuresInARow: 3, HungAfter: 15 * time.Second,
		EjectBase: 5 * time.Second, UnreachableBase: time.Second, EjectMax: 20 * time.Second, SlowStart: 15 * time.Second,
	}
}

// Provision says what is read and made, and refuses ejections that begin above their bound.
func (f *Filter) Provision(b *plugins.Builder) error {
	plugins.Provides(b, plugins.EndpointHealth)
	f.health = plugins.Needs(b, plugins.EndpointHealth)
	f.flight = plugins.Provides(b, plugins.HealthFlightOf(b.Name))
	f.prompt = plugins.Needs(b, plugins.PromptTokens)
	f.cached, f.knowsCached = plugins.Uses(b, plugins.CachedTokens)
	f.class, f.knowsClass = plugins.Uses(b, plugins.CapacityClasses)
	f.wards = make([]*ward, len(b.Pools))
	for i := range f.wards {
		f.wards[i] = newWard()
	}
	for _, base := range []struct {
		name string
		is   time.Duration
	}{{"ejectBase", f.EjectBase}, {"unreachableBase", f.UnreachableBase}} {
		if base.is > f.EjectMax {
			return fmt.Errorf("%s is %v, and ejectMax %v bounds it; lower %s, or raise ejectMax", base.name, base.is, f.EjectMax, base.name)
		}
	}
	return nil
}

// Inherit shares what is known of each pool that stays.
func (f *Filter) Inherit(from any, pools []int) {
	for i, was := range pools {
		if was >= 0 {
			f.wards[i] = from.(*Filter).wards[was]
		}
	}
}

// Produce has nothing to add before the books are open.
func (*Filter) Produce(*plugins.Cycle) {}

// Observe compares the endpoints now and then, and tells of each how it is.
func (f *Filter) Observe(c *plugins.Cycle, books *pool.Books) {
	w := f.wards[c.PoolIndex]
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sync(c.Now, c.Snapshot)
	f.look(c, w)
	if w.urgent || c.Now >= w.next {
		f.evaluate(c, w, books)
	}
	health := f.health.Of(c)
	for _, id := range c.Candidates {
		e := &w.at[id]
		if e.state == plugins.Closed {
			health[id].Share = 1 // the rest is zero
			continue
		}
		health[id] = f.told(c.Now, e)
	}
}

// look takes from the facts what the request would cost each endpoint, and what the endpoints run on. Who changes its class is
// known anew.
func (f *Filter) look(c *plugins.Cycle, w *ward) {
	prompt := f.prompt.Of(c.Request)
	for len(w.uncached) < len(w.at) {
		w.uncached = append(w.uncached, 0)
	}
	if f.knowsCached {
		cached := f.cached.Of(c)
		for _, id := range c.Candidates {
			w.uncached[id] = max(prompt-max(cached[id], 0), 0)
		}
	} else {
		for _, id := range c.Candidates {
			w.uncached[id] = prompt
		}
	}
	if !f.knowsClass || w.classed == c.Snapshot {
		return
	}
	w.classed = c.Snapshot
	classes := f.class.Of(c)
	for _, id := range c.Snapshot.Members {
		if e := &w.at[id]; classes[id] != e.class {
			e.class, e.pace = classes[id], [phases]pace{}
		}
	}
}

// told is what a decision may know of an endpoint.
func (f *Filter) told(now pool.Instant, e *endpoint) plugins.Health {
	h := plugins.Health{State: e.state, Share: 1}
	switch e.state {
	case plugins.Closed:
		return h
	case plugins.SlowStart:
		h.Share = min(max(seconds(now-e.since)/f.SlowStart.Seconds(), leastShare), 1)
	default:
		h.Share = 0
		h.Trial = e.state == plugins.HalfOpen && e.trials == 0
	}
	h.Why, h.Reached = e.why.String(), soft(e.why)
	return h
}

// leastShare is that with which a slow start begins.
const leastShare = 0.05

// Filter clears the bits of those that are out, and of those that take a share as often as is not theirs.
func (f *Filter) Filter(c *plugins.Cycle, keep plugins.Bits) {
	health := f.health.Of(c)
	kept, starting, trying, reached := 0, 0, 0, 0
	for i, id := range c.Candidates {
		h := &health[id]
		switch h.State {
		case plugins.SlowStart:
			starting++
			if c.Rand().Float64() >= chance(h.Share, len(c.Candidates)) {
				keep.Clear(i)
				continue
			}
		case plugins.HalfOpen:
			trying++
			if !h.Trial || c.Want < 2 {
				keep.Clear(i)
				continue
			}
			continue // it needs somebody beside it
		case plugins.Ejected:
			if h.Reached {
				reached++
			}
			keep.Clear(i)
			continue
		}
		kept++
	}
	if kept > 0 {
		return
	}
	for i, id := range c.Candidates {
		h := &health[id]
		if starting > 0 && h.State == plugins.SlowStart ||
			starting == 0 && trying > 0 && h.State == plugins.HalfOpen ||
			starting+trying == 0 && (reached == 0 || h.Reached) {
			keep.Add(i)
		}
	}
	if starting == 0 && len(c.Candidates) > 0 {
		c.Note(reason.HealthIgnored, "")
	}
}

// chance is how often an endpoint with this share takes part among n. One that has nothing to do gets nearly all that it may,
// so that the odds are divided by n: at half the share it gets no more than the others.
func chance(share float64, n int) float64 {
	return share / (share + float64((1-share)*float64(n)))
}

// Claim opens the flight of the client's leg.
func (f *Filter) Claim(r *plugins.Request, legs []plugins.Leg, _ *pool.Books) {
	w := f.wards[r.PoolIndex]
	w.mu.Lock()
	defer w.mu.Unlock()
	id := legs[0].Endpoints[0]
	e := &w.at[id]
	fl := flight{to: r.Snapshot.Slots[id].Ref, since: r.Now, trial: e.state == plugins.HalfOpen}
	if fl.to.Incarnation != e.incarnation {
		return
	}
	if fl.trial {
		e.trials++
	}
	prefill, decode := 1.0, 1.0
	if e.class.Prefill > 0 && e.class.Decode > 0 {
		prefill, decode = e.class.Prefill, e.class.Decode
	}
	fl.prefill = prefillWork(w.uncached[id]) / prefill
	fl.work[answering] = min(expectedBase+e.ahead+fl.prefill, mostWork)
	e.prompts += fl.prefill
	e.ahead += fl.prefill
	if r.API.Generates() {
		fl.work[generating] = min(expectedBase+float64(expected(r))*expectedToken/decode, mostWork)
		fl.most = mostWork
		if r.Body != nil && r.Body.MaxTokens >= 0 {
			fl.most = min(expectedBase+float64(r.Body.MaxTokens*max(r.Body.N, 1))*expectedToken/decode, mostWork)
		}
		if fl.streams = r.Body == nil || r.Body.Stream; !fl.streams {
			fl.work[answering] += fl.work[generating]
		}
	}
	e.working++
	slot, generation := w.begin(fl)
	f.flight.Set(r, plugins.HealthFlight{Slot: slot, Generation: generation})
}

// Unclaim ends a flight that has not left: its request is decided anew.
func (f *Filter) Unclaim(r *plugins.Request) {
	w := f.wards[r.PoolIndex]
	w.mu.Lock()
	defer w.mu.Unlock()
	if h := f.flight.Of(r); w.flying(h) != nil {
		w.end(h.Slot)
	}
}

// expected is how many tokens a request is expected to generate.
func expected(r *plugins.Request) int64 {
	if b := r.Body; b != nil && b.MaxTokens >= 0 {
		return min(b.MaxTokens, expectedOut) * max(b.N, 1)
	}
	return expectedOut
}

// Wants asks for the answer's beginning.
func (*Filter) Wants() plugins.Parts { return plugins.FirstByte }

// Respond has heard what it needs from Attempted.
func (*Filter) Respond(*plugins.Request, plugins.Parts, []byte) {}

// Attempted learns from an endpoint that gave no answer, or began one.
func (f *Filter) Attempted(r *plugins.Request, a plugins.Attempt) {
	w := f.wards[r.PoolIndex]
	w.mu.Lock()
	defer w.mu.Unlock()
	h := f.flight.Of(r)
	fl, e := w.flying(h), w.of(a.To)
	mine := fl != nil && fl.to == a.To
	if a.Failed != 0 {
		if e != nil {
			w.failed(a.At, a.To.ID, a.Failed, mine && fl.trial)
		}
		if fl != nil { // the next one has it from here on
			w.leaves(fl)
			fl.since = a.At
		}
		return
	}
	if e == nil {
		return
	}
	if fl != nil && !mine { // another serves than was chosen
		w.leaves(fl)
		e.working++
		fl.to, fl.past = a.To, e.state != plugins.Closed && e.state != plugins.SlowStart
		mine = true
	}
	status := a.Status
	switch {
	case status == 429 || status == 503:
		if e.busy++; e.working > 1 {
			e.busy = 0
		}
		if e.busy >= busyMost {
			w.urgent = true
		}
	case status >= 500:
		w.failed(a.At, a.To.ID, reason.UpstreamBroken, mine && fl.trial)
	default:
		e.alive, e.busy = a.At, 0
		if status < 400 {
			e.fails = 0
		}
	}
	if !mine {
		return
	}
	if status >= 400 {
		w.end(h.Slot)
		return
	}
	f.ends(w, e, fl, answering, a.At, seconds(a.At-fl.since), fl.work[answering], a.Waited != plugins.Unknown && !fl.past)
	if !fl.streams {
		w.end(h.Slot)
		return
	}
	e.answers(fl)
	fl.phase, fl.since, fl.mark = generating, a.At, e.prompts-e.ahead
}

// failed counts a failure. Who tried an endpoint in vain sends it out again.
func (w *ward) failed(now pool.Instant, id pool.ID, why reason.ID, trial bool) {
	e := &w.at[id]
	switch {
	case why == reason.UpstreamUnreachable:
		if e.state != plugins.Ejected {
			w.eject(now, id, reason.EndpointUnreachable)
		}
	case trial:
		w.eject(now, id, reason.EndpointFailing)
	case e.state != plugins.Ejected && e.state != plugins.HalfOpen:
		e.fails++
		w.urgent = true
	}
}

// ends closes a phase of a flight, and judges one that was a trial.
func (f *Filter) ends(w *ward, e *endpoint, fl *flight, p phase, now pool.Instant, took, work float64, counts bool) {
	if counts {
		e.forget(now, f.Window)
		e.pace[p].add(took, work, w.reference[p], f.SlowFactor)
	}
	if !fl.trial || e.state != plugins.HalfOpen {
		return
	}
	slow := e.why == reason.EndpointSlow || e.why == reason.EndpointHung
	switch {
	case slow && late(took, work, w.reference[p], f.SlowFactor*trialFactor):
		w.eject(now, fl.to.ID, e.why)
	case slow && p == answering && e.by == generating && fl.streams: // its end tells
	default:
		e.restores(now)
	}
}

// Settle ends the flight.
func (f *Filter) Settle(r *plugins.Request, o plugins.Outcome) {
	if r.PoolIndex < 0 || r.PoolIndex >= len(f.wards) {
		return
	}
	w := f.wards[r.PoolIndex]
	w.mu.Lock()
	defer w.mu.Unlock()
	if e := w.of(o.Served); e != nil && o.Ending == reason.UpstreamBroken {
		e.fails++
		w.urgent = true
	}
	h := f.flight.Of(r)
	fl := w.flying(h)
	if fl == nil {
		return
	}
	if e := w.of(fl.to); e != nil {
		f.lands(w, e, fl, o)
	}
	w.end(h.Slot)
}

// lands counts the last phase of a flight.
func (f *Filter) lands(w *ward, e *endpoint, fl *flight, o plugins.Outcome) {
	took, work := seconds(o.At-fl.since), fl.expects(e, fl.work[generating])
	switch {
	case o.Ending == 0 && fl.phase == generating:
		if o.Out > 0 {
			decode := 1.0
			if e.class.Decode > 0 {
				decode = e.class.Decode
			}
			generation := min(expectedBase+float64(o.Out)*expectedToken/decode, mostWork)
			w.longest, work = max(w.longest, generation), fl.expects(e, generation)
		}
		e.alive = o.At
		f.ends(w, e, fl, generating, o.At, took, work, !fl.past)
	case o.Ending == reason.ClientAborted || o.Ending == 0 || o.Ending == reason.BookingExpired:
		// As far as it came: what would have been is not known.
		if reference := w.reference[fl.phase]; reference > 0 && !fl.past {
			e.forget(o.At, f.Window)
			e.pace[fl.phase].time += took
			e.pace[fl.phase].work += min(took/reference, work)
		}
	}
}

// Health returns how an endpoint is, for metrics and debugging; ok is false for one that is not known.
func (f *Filter) Health(poolIndex int, now pool.Instant, of pool.Ref) (h plugins.Health, ok bool) {
	w := f.wards[poolIndex]
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.of(of)
	if e == nil {
		return h, false
	}
	return f.told(now, e), true
}
