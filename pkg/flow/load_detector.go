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
// What a sample tells of a cache is checked by what waits: an engine without memory has requests wait as soon as it is given some.
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

	// MaxKVUsage is how much of an endpoint's KV cache may be in use: by its last sample, what was booked and ended since, and what the
	// answers that run are expected to add. Where no other sample comes that one is gone by for a minute, if it told the size of the
	// cache. A gauge that reads as full (0.9 or more) for 20 s in which nobody waits inside the engine, and it begins answers, is not
	// believed, and memory_doubted is noted of requests that go there.
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
	_ Memories = (*LoadDetector)(nil)
)

// NewLoadDetector returns a LoadDetector with its defaults.
func NewLoadDetector() *LoadDetector {
	return &LoadDetector{MaxBacklog: 500 * time.Millisecond, MaxPending: 8, MaxKVUsage: 0.95, AtHand: workAtHand}
}

// workAtHand is by the shipped scenarios. With bounds of time (3 s), s7 has 79, 78 and 58 % in time with none, two and four, since nobody goes
// before those that wait inside an engine; s1 at 1.6 times its rate has 65, 75 and 84 %.
const workAtHand = 2

// almost is how full an endpoint is at most that has memory for no more, and fewer than AtHand that wait for it.
const almost = 0.99

// Saturation returns the mean fill of the endpoints.
func (d *LoadDetector) Saturation(v *View) Saturation {
	var m mean
	until, stale, shorts := pool.Instant(0), 0, 0
	for _, id := range v.Members {
		fill, opens := d.fill(v, id)
		m.add(v.Stages[id], min(fill, 1))
		if opens != 0 && (until == 0 || opens < until) {
			until = opens
		}
		if v.Books.Samples[id].State(v.Now, v.StaleAfter) != pool.Fresh {
			stale++
		}
		if short, _ := d.Short(v, id); short {
			shorts++
		}
	}
	s := m.of(1)
	s.Until, s.Stale, s.Short = until, stale, shorts
	return s
}

// HasRoom reports whether an endpoint is not full: fill < 1, without its divisions.
func (d *LoadDetector) HasRoom(v *View, id pool.ID) bool {
	b := v.Books
	if d.MaxBacklog > 0 && time.Duration(b.BacklogEnds[id]-v.Now) >= d.MaxBacklog ||
		d.MaxRequests > 0 && b.Requests[id] >= d.MaxRequests {
		return false
	}
	if b.Ceilings[id].Holds(v.Now, b.Requests[id]) {
		return false
	}
	if d.MaxPending > 0 && d.pending(v, id) >= d.MaxPending {
		return false
	}
	short, _ := d.Short(v, id)
	return !short
}

// pending is how many requests wait at an endpoint for their first byte: our own, and by a fresh sample others'.
func (d *LoadDetector) pending(v *View, id pool.ID) int32 {
	pending := v.Books.NoFirstByte[id]
	if s := &v.Books.Samples[id]; s.State(v.Now, v.StaleAfter) == pool.Fresh {
		pending += max(s.Waiting-v.Books.Requests[id], 0)
	}
	return pending
}

// usage returns how much of an endpoint's KV cache is in use or promised, and until when that is gone by: by its last sample, what came
// and went since, and what the answers that run are expected to add. A stale sample is gone by for usageLasts where the size of the cache
// is known, so that what went since is taken off it; one that no longer tells is not empty for that. It is 0 where nothing is known.
func (d *LoadDetector) usage(v *View, id pool.ID) (kv float64, until pool.Instant) {
	b := v.Books
	s := &b.Samples[id]
	sized := s.Blocks > 0 && s.BlockTokens > 0
	lasts := v.StaleAfter
	if sized {
		lasts = max(lasts, usageLasts)
	}
	if s.KVUsage < 0 || s.State(v.Now, lasts) != pool.Fresh {
		return 0, 0
	}
	if kv = s.KVUsage; sized {
		kv += float64(b.SinceSample[id]+b.DecodeTokens[id]/2) / float64(int64(s.Blocks)*int64(s.BlockTokens))
	}
	return kv, after(s.At, lasts) + 1
}

// usageLasts is for how long a reading of a cache is gone by, where no other comes: as long as load-model-producer goes by it.
const usageLasts = time.Minute

// atHand is how many wait inside an endpoint, by first bytes or by what runs there.
func (d *LoadDetector) atHand(v *View, id pool.ID) int32 {
	hand := d.pending(v, id)
	if running := v.Books.Samples[id].Running; running >= 0 {
		hand = max(hand, v.Books.Requests[id]-running)
	}
	return hand
}

// Short reports whether an endpoint has no memory for more and enough that wait for it; doubted that it would be so, but that its gauge
// is not believed: for doubtAfter its samples have read as full and shown nobody who waits there, and the engine has begun
// doubtAnswers of our own meanwhile. What it was given was taken at once, and it is given more, between two samples up to so many that a
// gauge which was right is seen to be.
func (d *LoadDetector) Short(v *View, id pool.ID) (short, doubted bool) {
	if d.atHand(v, id) < d.AtHand {
		return false, false
	}
	if kv, _ := d.usage(v, id); kv < d.MaxKVUsage {
		return false, false
	}
	doubted = d.doubts(v.Books, id)
	return !doubted, doubted
}

// What it takes for a gauge that reads as full not to be believed, and how many times AtHand an endpoint is given then between two
// samples. Under the shipped scenarios no engine that is short of memory comes to that.
const (
	doubtAfter   = pool.Instant(20 * time.Second)
	doubtAnswers = 8
	doubtTimes   = 4
)

func (d *LoadDetector) doubts(b *pool.Books, id pool.ID) bool {
	of := &b.Doubts[id]
	return of.Since > 0 && b.Samples[id].At-of.Since >= doubtAfter && b.Tallies[id].Answered-of.Answered >= doubtAnswers &&
		b.AfterSample[id] < doubtTimes*max(d.AtHand, 1)
}

// fill returns how full an endpoint is, and when it may have room by time alone.
func (d *LoadDetector) fill(v *View, id pool.ID) (fill float64, opens pool.Instant) {
	b := v.Books
	kv, until := d.usage(v, id)
	fill = kv / d.MaxKVUsage
	if short, _ := d.Short(v, id); short {
		opens = until
	} else {
		fill = min(fill, almost)
	}
	stays := false // something that time alone does not end
	if d.MaxPending > 0 {
		pending := float64(d.pending(v, id)) / float64(d.MaxPending)
		fill, stays = max(fill, pending), pending >= 1
	}
	if d.MaxRequests > 0 {
		fill, stays = max(fill, float64(b.Requests[id])/float64(d.MaxRequests)), stays || b.Requests[id] >= d.MaxRequests
	}
	if c := &b.Ceilings[id]; c.Most > 0 && v.Now < c.Until {
		fill = max(fill, float64(b.Requests[id])/float64(c.Most))
		if b.Requests[id] >= c.Most {
			opens = max(opens, c.Until)
		}
	}
	if backlog := time.Duration(b.BacklogEnds[id] - v.Now); d.MaxBacklog > 0 && backlog > 0 {
		fill = max(fill, float64(backlog)/float64(d.MaxBacklog))
		if backlog >= d.MaxBacklog {
			opens = max(opens, b.BacklogEnds[id]-pool.Instant(d.MaxBacklog)+1)
		}
	}
	if stays {
		opens = 0
	}
	return fill, opens
}
