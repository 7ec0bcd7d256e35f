package flow

import (
	"time"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// Outcome is how a request's stay in the queue ended.
type Outcome uint8

// The outcomes.
const (
	Dispatched          Outcome = iota // it was booked
	RejectedCapacity                   // a bound was reached
	RejectedNoEndpoints                // a bound was reached while its pool was empty
	RejectedOther                      // its turn came, and its decision refused it
	EvictedTTL                         // it waited too long while its pool was full
	EvictedNoEndpoints                 // likewise while its pool was empty
	GaveWay                            // a bound was reached, and its place went to another
	Cancelled                          // its client went away, or the process ends
	outcomes
)

// String returns the outcome's name, as llm-d's metrics have it.
func (o Outcome) String() string {
	return [...]string{"Dispatched", "RejectedCapacity", "RejectedNoEndpoints", "RejectedOther", "EvictedTTL", "EvictedNoEndpoints", "EvictedOther",
		"EvictedContextCancelled"}[o]
}

// Outcomes returns all outcomes.
func Outcomes() []Outcome {
	all := make([]Outcome, outcomes)
	for i := range all {
		all[i] = Outcome(i)
	}
	return all
}

// Stay is what a request's stay in the queue was.
type Stay struct {
	Pool     string
	Priority int32
	Flow     string // the tenant's name
	Outcome  Outcome
	Waited   time.Duration // 0 for who needed no place
	Why      reason.ID     // of a refusal; 0 else
}

// Watcher hears of each request that leaves the queue, under its lock: it must be quick, and may not call the queue.
type Watcher interface {
	Left(r *plugins.Request, s Stay)
}

// Watch has w told; nil takes the watcher away.
func (c *Control) Watch(w Watcher) {
	if w == nil {
		c.watch.Store(nil)
		return
	}
	c.watch.Store(&w)
}

// Stats is the state of the queue at one instant. It is a copy.
type Stats struct {
	Requests, Bytes       int64 // that wait
	MaxRequests, MaxBytes int64 // 0: no bound
	Places                int64 // of requests that wait, and of those that have waited and run
	Pools                 []PoolStats
}

// PoolStats is what waits for one pool.
type PoolStats struct {
	Pool       string
	Saturation Saturation // as of the instant for which Stats was asked
	Empty      bool       // no endpoint takes requests
	Bands      []BandStats
	Evictions  []EvictionStats // by priority, lowest first

	// ShortOfMemory are the endpoints that have no room for want of memory, as their gauges say; Doubted are those whose gauges say so
	// and are not believed. By name, in the order of the membership.
	ShortOfMemory, Doubted []string
}

// BandStats is one band.
type BandStats struct {
	Priority              int32
	Configured            bool // it is there though nobody waits
	Requests, Bytes       int64
	MaxRequests, MaxBytes int64
	// Ceiling is the saturation below which the band is let go, as of the last dispatch; Shut says that somebody waited then and
	// the pool was too full for the band.
	Ceiling float64
	Shut    bool
	Oldest  time.Duration // how long the first has waited
	Flows   []FlowStats   // those in which somebody waits, by name
	Ended   [outcomes]uint64
}

// FlowStats is one tenant of a band.
type FlowStats struct {
	ID              string
	Requests, Bytes int64
}

// Stats returns the state of the queue.
func (c *Control) Stats(now pool.Instant) Stats {
	lines := c.everyLine()
	pools := make([]PoolStats, len(lines))
	for i, l := range lines {
		p := &pools[i]
		l.pool.Decide(func(s *pool.Snapshot, books *pool.Books) {
			p.Saturation = c.saturation(l, now, s, books)
			if memories := c.rules().memories; memories != nil {
				p.memory(memories, &l.seen, s)
			}
		})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	out := Stats{Requests: c.holds[byRequests], Bytes: c.holds[byBytes], Places: c.places, MaxRequests: c.rules().MaxRequests, MaxBytes: c.rules().MaxBytes}
	for i, l := range lines {
		p := pools[i]
		p.Pool, p.Empty = l.pool.Name, !takes(l.pool.Snapshot())
		for _, b := range l.bands {
			s := BandStats{
				Priority: b.Priority, Configured: b.static, Requests: b.holds[byRequests], Bytes: b.holds[byBytes],
				MaxRequests: b.MaxRequests, MaxBytes: b.MaxBytes, Ceiling: b.ceiling, Shut: b.shut && b.holds[byRequests] > 0, Ended: b.done,
			}
			if b.first != nil {
				s.Oldest = time.Duration(now - b.first.at)
			}
			for _, f := range b.waiting {
				s.Flows = append(s.Flows, FlowStats{f.ID, int64(len(f.heap)), f.holds[byBytes]})
			}
			p.Bands = append(p.Bands, s)
		}
		p.Evictions = l.evictions.stats()
		out.Pools = append(out.Pools, p)
	}
	return out
}

// memory names the endpoints whose gauges read as full, inside the pool's lock.
func (p *PoolStats) memory(by Memories, v *View, s *pool.Snapshot) {
	for _, id := range v.Members {
		switch short, doubted := by.Short(v, id); {
		case short:
			p.ShortOfMemory = append(p.ShortOfMemory, plugins.EndpointName(&s.Slots[id]))
		case doubted:
			p.Doubted = append(p.Doubted, plugins.EndpointName(&s.Slots[id]))
		}
	}
}

// outcomeOf returns the outcome that a refusal is.
func outcomeOf(no *reason.Refusal) Outcome {
	switch no.ID {
	case reason.QueueFull:
		return RejectedCapacity
	case reason.NoEndpoint:
		return EvictedNoEndpoints
	case reason.GaveWay:
		return GaveWay
	}
	return EvictedTTL
}

// settled counts how a stay ended, and tells the watcher.
func (c *Control) settled(now pool.Instant, it *item, o Outcome) {
	if o == EvictedNoEndpoints && it.state == stateBarred {
		o = RejectedNoEndpoints
	}
	if it.band == nil {
		return // no band could be made for its priority
	}
	it.band.done[o]++
	if it.r != nil && it.r.Stay != nil {
		it.r.Stay.Waited = time.Duration(now - it.at)
	}
	w := c.watch.Load()
	if w == nil || it.r == nil {
		return
	}
	s := Stay{Pool: it.line.pool.Name, Priority: it.band.Priority, Flow: tenant(it.r), Outcome: o, Waited: time.Duration(now - it.at)}
	switch o {
	case RejectedCapacity:
		s.Why = reason.QueueFull
	case RejectedNoEndpoints, EvictedNoEndpoints:
		s.Why = reason.NoEndpoint
	case EvictedTTL:
		s.Why = reason.QueueTimeout
	case GaveWay:
		s.Why = reason.GaveWay
	}
	(*w).Left(it.r, s)
}

// passed tells the watcher of a request that needed no place.
func (c *Control) passed(now pool.Instant, r *plugins.Request) {
	l := c.mine[r.PoolIndex]
	if b, _ := c.band(l, r.Target.Priority, now); b != nil {
		b.done[Dispatched]++
	}
	if w := c.watch.Load(); w != nil {
		(*w).Left(r, Stay{Pool: l.pool.Name, Priority: r.Target.Priority, Flow: tenant(r), Outcome: Dispatched})
	}
}
