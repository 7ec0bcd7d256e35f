package flow

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// evictionsMost is how many requests are taken back before it is seen what that changed.
const evictionsMost = 2

// The time that a change takes to be seen: at once in our own books, but for the next dispatch; in what engines report only with
// their next samples.
const (
	seenInBooks   = 10 * time.Millisecond
	seenInSamples = 300 * time.Millisecond // the interval of samples, and time for the engine to end the request
)

// evictions are the requests of a pool that may be taken back: booked, of a priority below 0, and without a first byte. The zero
// value has none.
type evictions struct {
	groups []victims // lowest priority first
	by     map[*plugins.Request]*victim
	free   *victim

	left  int          // may go in this round
	until pool.Instant // the end of the round
}

// victims are those of one priority, in the order in which they were booked.
type victims struct {
	priority      int32
	first, last   *victim
	issued, taken uint64
}

type victim struct {
	r          *plugins.Request
	priority   int32
	named      bool // it was handed out, and what became of it is not known yet
	prev, next *victim
}

// group returns those of a priority.
func (e *evictions) group(priority int32) *victims {
	i, found := slices.BinarySearchFunc(e.groups, priority, func(g victims, p int32) int { return cmp.Compare(g.priority, p) })
	if !found {
		e.groups = slices.Insert(e.groups, i, victims{priority: priority})
	}
	return &e.groups[i]
}

// add enters a request, O(1).
func (e *evictions) add(r *plugins.Request) {
	v := e.free
	if v == nil {
		v = &victim{}
	} else {
		e.free = v.next
	}
	g := e.group(r.Target.Priority)
	*v = victim{r: r, priority: g.priority, prev: g.last}
	if g.last != nil {
		g.last.next = v
	} else {
		g.first = v
	}
	g.last = v
	if e.by == nil {
		e.by = map[*plugins.Request]*victim{}
	}
	e.by[r] = v
}

// drop forgets a request, O(1); one that is not known changes nothing.
func (e *evictions) drop(r *plugins.Request) {
	v := e.by[r]
	if v == nil {
		return
	}
	delete(e.by, r)
	g := e.group(v.priority)
	if v.prev != nil {
		v.prev.next = v.next
	} else {
		g.first = v.next
	}
	if v.next != nil {
		v.next.prev = v.prev
	} else {
		g.last = v.prev
	}
	*v = victim{next: e.free}
	e.free = v
}

// first returns who goes first: of the lowest priority, below that of whom it makes room for, the newest, which has the least to
// lose.
func (e *evictions) first(below int32) *victim {
	for _, g := range e.groups {
		if g.priority >= below {
			return nil
		}
		for v := g.last; v != nil; v = v.prev {
			if !v.named {
				return v
			}
		}
	}
	return nil
}

// runs says that a request was booked.
func (c *Control) runs(r *plugins.Request) {
	if r.Target.Priority >= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mine[r.PoolIndex].evictions.add(r)
}

// began says that a request's answer began, or that it has ended: it can be taken back no more.
func (c *Control) began(r *plugins.Request) {
	if r.Target.Priority >= 0 || r.PoolIndex < 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mine[r.PoolIndex].evictions.drop(r)
}

// Evict names a request to be taken back, where somebody of a higher priority waits and the pool is too full for them. Of each
// pool at most two go before it is seen what that has changed, and no more than are needed by
//
//	n = max(1, ceil((saturation - ceiling) / (saturation / requests that run)))
func (c *Control) Evict(now pool.Instant) (r *plugins.Request, no *reason.Refusal, ok bool) {
	if c.waiting.Load() == 0 || c.drains.Load() {
		return nil, nil, false
	}
	for _, l := range c.everyLine() {
		if l.waiting.Load() == 0 {
			continue
		}
		running := l.pool.Open() // before the lock of ours
		if r, no = c.evict(now, l, running); r != nil {
			return r, no, true
		}
	}
	return nil, nil, false
}

func (c *Control) evict(now pool.Instant, l *line, running int) (*plugins.Request, *reason.Refusal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.review(now)
	b, v := c.inNeed(l)
	e := &l.evictions
	switch {
	case v == nil:
		return nil, nil
	case now >= e.until:
		e.left, e.until = evictionsNeeded(l.tail.Value, b.ceiling, running), now+pool.Instant(c.seenAfter())
	case e.left == 0:
		return nil, nil
	}
	e.left--
	v.named = true
	c.named[v.r] = l
	g := e.group(v.priority)
	g.issued++
	no := reason.Refuse(reason.Evicted, "its priority is %d, and requests of priority %d wait", v.priority, b.Priority)
	no.RetryAfter = c.retry(now, l)
	return v.r, no
}

// inNeed returns the highest band in which somebody waits for whom the pool is too full, and who may be taken back for it; nil if
// nobody is or may.
func (c *Control) inNeed(l *line) (*Band, *victim) {
	for _, b := range l.bands {
		if b.shut && b.holds[byRequests] > 0 {
			return b, l.evictions.first(b.Priority)
		}
	}
	return nil, nil
}

// evictionsNeeded returns how many of those that run are to be taken back for the saturation to fall below a ceiling.
func evictionsNeeded(saturation, ceiling float64, running int) int {
	if running == 0 || saturation <= 0 {
		return 1
	}
	n := math.Ceil((saturation - ceiling) / (saturation / float64(running)))
	return int(min(max(n, 1), evictionsMost))
}

// seenAfter is how long it takes until the detector sees that somebody was taken back.
func (c *Control) seenAfter() time.Duration {
	if u, ok := c.rules().Detector.(*UtilizationDetector); ok {
		return seenInSamples + u.MetricsStalenessThreshold
	}
	return seenInBooks
}

// Evicted says what became of a request that Evict named.
func (c *Control) Evicted(now pool.Instant, r *plugins.Request, taken bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.named[r]
	if l == nil {
		return
	}
	delete(c.named, r)
	e := &l.evictions
	if g := e.group(r.Target.Priority); taken {
		g.taken++
	} else {
		e.left++ // another one goes in its place
	}
	e.drop(r)
	c.review(now)
}

// nextRound is when more may be taken back, if anybody is to be; 0 else.
func (c *Control) nextRound(l *line) pool.Instant {
	if _, v := c.inNeed(l); v == nil {
		return 0
	}
	return l.evictions.until
}

// EvictionStats says how many requests of a priority were taken back.
type EvictionStats struct {
	Priority      int32
	Running       int    // that may be taken back at present
	Issued, Taken uint64 // those that were asked for, and those that went: of the others the answer had begun
}

func (e *evictions) stats() (all []EvictionStats) {
	for _, g := range e.groups {
		s := EvictionStats{Priority: g.priority, Issued: g.issued, Taken: g.taken}
		for v := g.first; v != nil; v = v.next {
			s.Running++
		}
		all = append(all, s)
	}
	return all
}
