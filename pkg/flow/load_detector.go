package flow

import (
	"time"

	"github.com/fairlead/fairlead/pkg/pool"
)

// LoadDetector measures how full a pool is by what was sent there: an endpoint is full when the prompts booked at it take longer
// than MaxBacklog to compute, when MaxPending requests at it have no first byte, when MaxRequests run at it or as many as its
// ceiling, where concurrency-ceiling-filter has found one, or when its KV cache is short and AtHand requests wait for it. With f the
// greatest of these as a share of its bound,
//
//	saturation = mean over endpoints of min(f, 1)
//
// so that the pool is full when none of its endpoints has room, and one that is idle is not hidden by those that are overrun:
// requests go to those that have room. Endpoints that were never scraped have their books, and are idle when those are
// empty.
//
// Books are exact for what goes through this process, at every instant; what others send to the endpoints is seen by the waiting
// requests of a fresh sample that are more than all of our own.
type LoadDetector struct {
	// MaxBacklog is how long the uncached prompts that are booked at an endpoint may take to compute. It bounds how long a
	// request waits inside an engine; a single prompt may take longer. 0s is no bound.
	MaxBacklog time.Duration `json:"maxBacklog" schema:"min=0s"`

	// MaxPending is how many requests at an endpoint may be without a first byte; 0 is no bound.
	MaxPending int32 `json:"maxPending" schema:"min=0" unit:"requests"`

	// MaxRequests is how many requests may run at an endpoint; 0 is no bound of their number.
	MaxRequests int32 `json:"maxRequests" schema:"min=0"`

	// MaxKVUsage is how much of an endpoint's KV cache may be in use: by its last fresh sample, what was booked and ended since, and
	// what the answers that run are expected to add.
	MaxKVUsage float64 `json:"maxKVUsage" schema:"min=0.01,max=1"`

	// AtHand is how many requests are to wait inside an endpoint before it is full for want of memory: those without a first byte, or,
	// since that may be headers which come at once, those that are more than its last sample counts as running. What an answer
	// leaves is taken at once by one of these, while the next one of the queue comes when its end is seen. An engine that is kept at
	// 95 % of its memory for want of them serves some percent less than it could, which tips a pool that is nearly full.
	AtHand int32 `json:"atHand" schema:"min=0" unit:"requests"`
}

var (
	_ Detector = (*LoadDetector)(nil)
	_ Rooms    = (*LoadDetector)(nil)
)

// NewLoadDetector returns a LoadDetector with its defaults.
func NewLoadDetector() *LoadDetector {
	return &LoadDetector{MaxBacklog: 500 * time.Millisecond, MaxPending: 8, MaxKVUsage: 0.95, AtHand: atHand}
}

// atHand is by the shipped scenarios. With bounds of time (3 s), s7 has 79, 78 and 58 % in time with none, two and four, since nobody goes
// before those that wait inside an engine; s1 at 1.6 times its rate has 65, 75 and 84 %.
const atHand = 2

// almost is how full an endpoint is at most that has memory for no more, and fewer than AtHand that wait for it.
const almost = 0.99

// Saturation returns the mean fill of the endpoints.
func (d *LoadDetector) Saturation(v *View) Saturation {
	var m mean
	until, stale := pool.Instant(0), 0
	for _, id := range v.Members {
		fill, opens := d.fill(v, id)
		m.add(v.Stages[id], min(fill, 1))
		if opens != 0 && (until == 0 || opens < until) {
			until = opens
		}
		if v.Books.Samples[id].State(v.Now, v.StaleAfter) != pool.Fresh {
			stale++
		}
	}
	s := m.of(1)
	s.Until, s.Stale = until, stale
	return s
}

// HasRoom reports whether an endpoint is not full: fill < 1, without its divisions.
func (d *LoadDetector) HasRoom(v *View, id pool.ID) bool {
	b := v.Books
	pending := b.NoFirstByte[id]
	if d.MaxPending > 0 && pending >= d.MaxPending || d.MaxBacklog > 0 && time.Duration(b.BacklogEnds[id]-v.Now) >= d.MaxBacklog ||
		d.MaxRequests > 0 && b.Requests[id] >= d.MaxRequests {
		return false
	}
	if b.Ceilings[id].Holds(v.Now, b.Requests[id]) {
		return false
	}
	s := &b.Samples[id]
	if s.At <= 0 || time.Duration(v.Now-s.At) > v.StaleAfter {
		return true
	}
	if pending += max(s.Waiting-b.Requests[id], 0); d.MaxPending > 0 && pending >= d.MaxPending {
		return false
	}
	if max(pending, b.Requests[id]-s.Running) < d.AtHand {
		return true
	}
	kv := max(s.KVUsage, 0)
	if s.KVUsage >= 0 && s.Blocks > 0 && s.BlockTokens > 0 {
		kv += float64(b.SinceSample[id]+b.DecodeTokens[id]/2) / float64(int64(s.Blocks)*int64(s.BlockTokens))
	}
	return kv < d.MaxKVUsage
}

// fill returns how full an endpoint is, and when it may have room by time alone.
func (d *LoadDetector) fill(v *View, id pool.ID) (fill float64, opens pool.Instant) {
	b := v.Books
	pending := b.NoFirstByte[id]
	hand := pending
	kv := 0.0
	if s := &b.Samples[id]; s.State(v.Now, v.StaleAfter) == pool.Fresh {
		pending += max(s.Waiting-b.Requests[id], 0)
		hand = max(pending, b.Requests[id]-s.Running)
		if s.KVUsage > 0 {
			kv = s.KVUsage
		}
		if s.Blocks > 0 && s.BlockTokens > 0 && s.KVUsage >= 0 {
			kv += float64(b.SinceSample[id]+b.DecodeTokens[id]/2) / float64(int64(s.Blocks)*int64(s.BlockTokens))
		}
	}
	fill = kv / d.MaxKVUsage
	if hand < d.AtHand {
		fill = min(fill, almost)
	}
	if d.MaxPending > 0 {
		fill = max(fill, float64(pending)/float64(d.MaxPending))
	}
	if d.MaxRequests > 0 {
		fill = max(fill, float64(b.Requests[id])/float64(d.MaxRequests))
	}
	if c := &b.Ceilings[id]; c.Most > 0 && v.Now < c.Until {
		if fill < 1 && b.Requests[id] >= c.Most {
			opens = c.Until
		}
		fill = max(fill, float64(b.Requests[id])/float64(c.Most))
	}
	if backlog := time.Duration(b.BacklogEnds[id] - v.Now); d.MaxBacklog <= 0 {
		return fill, opens
	} else if backlog >= d.MaxBacklog {
		if fill < 1 || opens != 0 { // both are to open
			opens = max(opens, b.BacklogEnds[id]-pool.Instant(d.MaxBacklog)+1)
		}
		return max(fill, float64(backlog)/float64(d.MaxBacklog)), opens
	} else if backlog > 0 {
		fill = max(fill, float64(backlog)/float64(d.MaxBacklog))
	}
	return fill, opens
}
