package health

import (
	"sync"
	"time"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
)

// Ceiling learns how many requests each endpoint has room for, and removes those that have as many, while there are others.
//
// An endpoint has no ceiling until it shows one: requests wait in its engine for WaitingFor, it sends requests back from its batch
// for lack of memory (preemptions), or it answers that it has no room (429, 503). Then its ceiling is what it had less those that
// wait or were sent back, but never less than Decrease of it, nor than Least. While
// nothing waits and the ceiling is reached, or will be by the request at hand, it rises by a tenth with each sample; it is lifted when nothing waited for Forget, or
// nobody could see so. What an engine cannot do is thus learned from itself and not configured, and an endpoint that is idle is never at its ceiling.
//
// If all candidates are at their ceilings, all are kept: whether to wait is for the queue to say, to whose load-detector an
// endpoint at its ceiling has no room.
type Ceiling struct {
	// WaitingFor is how long requests must wait in an engine, in all samples, until it counts as full.
	WaitingFor time.Duration `json:"waitingFor" schema:"min=0s,max=10m"`

	// Decrease is the part of the requests at a full endpoint that its ceiling is at least.
	Decrease float64 `json:"decrease" schema:"min=0.1,max=0.99"`

	// Least is the lowest ceiling.
	Least int32 `json:"least" schema:"min=1,max=100000"`

	// Forget is how long nothing must have waited until the ceiling is lifted.
	Forget time.Duration `json:"forget" schema:"min=1s,max=1h"`

	ceiling  plugins.EndpointValues[int32]
	inFlight plugins.EndpointValues[int32]

	rooms []*room // by the pool's place in the configuration; shared with who inherits
}

// room is what is known of a pool's ceilings.
type room struct {
	mu sync.Mutex
	at []limit // by id
}

// limit is the ceiling of an endpoint.
type limit struct {
	incarnation uint32
	ceiling     int32 // Unknown: none
	has         int32 // own requests, at the last decision
	sample      pool.Instant
	preempted   float64      // in the sample; < 0 is unknown
	waits       pool.Instant // since when requests wait in all samples; 0: they do not
	full        pool.Instant // when it was last full
}

// lowerEvery is the least time between two steps down: what the first one did must be seen before the next.
const lowerEvery = pool.Instant(time.Second)

var (
	_ plugins.Producer     = (*Ceiling)(nil)
	_ plugins.Observer     = (*Ceiling)(nil)
	_ plugins.Filter       = (*Ceiling)(nil)
	_ plugins.AttemptHook  = (*Ceiling)(nil)
	_ plugins.ResponseHook = (*Ceiling)(nil)
	_ plugins.Heir         = (*Ceiling)(nil)
)

// NewCeiling returns a Ceiling with its defaults.
func NewCeiling() *Ceiling {
	return &Ceiling{WaitingFor: 2 * time.Second, Decrease: 0.7, Least: 1, Forget: 30 * time.Second}
}

// Provision says what is read and made.
func (f *Ceiling) Provision(b *plugins.Builder) error {
	plugins.Provides(b, plugins.Ceilings)
	f.ceiling = plugins.Needs(b, plugins.Ceilings)
	f.inFlight = plugins.Needs(b, plugins.InFlightRequests)
	f.rooms = make([]*room, len(b.Pools))
	for i := range f.rooms {
		f.rooms[i] = new(room)
	}
	return nil
}

// Inherit shares what is known of each pool that stays.
func (f *Ceiling) Inherit(from any, pools []int) {
	for i, was := range pools {
		if was >= 0 {
			f.rooms[i] = from.(*Ceiling).rooms[was]
		}
	}
}

// Produce has nothing to add before the books are open.
func (*Ceiling) Produce(*plugins.Cycle) {}

// Observe looks at samples that are new, and tells the ceilings.
func (f *Ceiling) Observe(c *plugins.Cycle, books *pool.Books) {
	r, out := f.rooms[c.PoolIndex], f.ceiling.Of(c)
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.at) < len(c.Snapshot.Slots) {
		r.at = append(r.at, limit{ceiling: plugins.Unknown})
	}
	for _, id := range c.Candidates {
		l := &r.at[id]
		if in := c.Snapshot.Slots[id].Incarnation; l.incarnation != in {
			*l = limit{incarnation: in, ceiling: plugins.Unknown, preempted: -1}
		}
		l.has = books.Requests[id]
		if s := &books.Samples[id]; s.State(c.Now, c.StaleAfter()) != pool.Fresh {
			if time.Duration(c.Now-l.full) > f.Forget { // nobody will tell whether it has room again
				l.ceiling = plugins.Unknown
			}
		} else if s.At > l.sample {
			f.reads(l, s)
		}
		out[id] = l.ceiling
		if l.ceiling != plugins.Unknown || books.Ceilings[id].Most > 0 {
			books.Limit(id, l.ceiling, max(l.sample, l.full)+pool.Instant(f.Forget))
		}
	}
}

// reads takes a sample into account.
func (f *Ceiling) reads(l *limit, s *pool.Sample) {
	l.sample = s.At
	back := int32(0) // requests that were sent back since the last sample
	if l.preempted >= 0 && s.Preemptions > l.preempted {
		back = int32(min(s.Preemptions-l.preempted, float64(l.has)))
	}
	l.preempted = s.Preemptions
	switch {
	case back > 0:
		f.lower(l, s.At, l.has-max(back, s.Waiting))
		return
	case s.Waiting > 0:
		if l.waits == 0 {
			l.waits = s.At
		}
		if time.Duration(s.At-l.waits) >= f.WaitingFor {
			f.lower(l, s.At, l.has-s.Waiting)
		}
		return
	case s.Waiting < 0:
		return
	}
	l.waits = 0
	switch {
	case l.ceiling == plugins.Unknown:
	case l.has+1 >= l.ceiling: // a queue decides nobody while it is reached
		l.ceiling += max(l.ceiling/10, 1)
	case time.Duration(s.At-l.full) > f.Forget:
		l.ceiling = plugins.Unknown
	}
}

// lower sets a ceiling after an endpoint was found full; it has room for so many, as far as is known.
func (f *Ceiling) lower(l *limit, now pool.Instant, room int32) {
	if l.full != 0 && now-l.full < lowerEvery {
		return
	}
	l.full = now
	to := max(room, int32(f.Decrease*float64(l.has)), f.Least)
	if l.ceiling == plugins.Unknown || to < l.ceiling {
		l.ceiling = to
	}
}

// Filter clears the bits of those that have as many requests as they have room for.
func (f *Ceiling) Filter(c *plugins.Cycle, keep plugins.Bits) {
	ceiling, has := f.ceiling.Of(c), f.inFlight.Of(c)
	left := 0
	for i, id := range c.Candidates {
		if ceiling[id] != plugins.Unknown && has[id] >= ceiling[id] {
			keep.Clear(i)
			continue
		}
		left++
	}
	if left == 0 {
		for i := range c.Candidates {
			keep.Add(i)
		}
	}
}

// Wants asks for the answer's beginning.
func (*Ceiling) Wants() plugins.Parts { return plugins.FirstByte }

// Respond has heard what it needs from Attempted.
func (*Ceiling) Respond(*plugins.Request, plugins.Parts, []byte) {}

// Attempted learns from an answer that there is no room.
func (f *Ceiling) Attempted(r *plugins.Request, a plugins.Attempt) {
	if a.Status != 429 && a.Status != 503 {
		return
	}
	of := f.rooms[r.PoolIndex]
	of.mu.Lock()
	defer of.mu.Unlock()
	if id := int(a.To.ID); id < len(of.at) && of.at[id].incarnation == a.To.Incarnation {
		f.lower(&of.at[id], a.At, 0)
	}
}
