package flow

import (
	"cmp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// line is what waits for one pool.
type line struct {
	pool *pool.Pool
	gone bool // it is not among those that are asked: nobody waits, and the configuration has its pool no more

	waiting atomic.Int64
	view    membership // guarded by the pool's lock, like the next two
	seen    View
	spare   spare
	gate    gate // of the caller of Next

	bands      []*Band // highest priority first
	priorities []int32
	ceilings   []float64
	tail       Saturation // as last seen
	vacant     vacancy
	until      pool.Instant
	opens      pool.Instant // when an endpoint has room by time alone, as of the last look; 0 for never
	wake       pool.Instant // when flows are asked again that wait for a change; 0 for never
	trials     trials
	pass       float64 // of the weighted band that went last
	rate       drain
	swept      pool.Instant
	evictions  evictions
}

// gate is what Next found of one pool.
type gate struct {
	asked   bool
	s       Saturation
	members int // that take requests
	changes uint64
	full    []bool // by pool.ID: endpoints without room
}

// membership is what the control keeps of a snapshot, so that the labels of endpoints are read once.
type membership struct {
	of      *pool.Snapshot
	members []pool.ID
	stages  []Stage
}

func (m *membership) see(s *pool.Snapshot) {
	if m.of == s {
		return
	}
	m.of, m.members, m.stages = s, nil, make([]Stage, len(s.Slots))
	for _, id := range s.Members {
		if e := &s.Slots[id]; !e.Draining {
			m.members = append(m.members, id)
			m.stages[id] = stageOf(e)
		}
	}
}

// add puts a band at its place.
func (l *line) add(b *Band) {
	b.flows = map[string]*Flow{}
	i, _ := slices.BinarySearchFunc(l.bands, b.Priority, func(o *Band, p int32) int { return cmp.Compare(p, o.Priority) })
	l.bands = slices.Insert(l.bands, i, b)
	l.ranked()
}

func (l *line) ranked() {
	l.priorities, l.ceilings = l.priorities[:0], l.ceilings[:0]
	for _, b := range l.bands {
		l.priorities, l.ceilings = append(l.priorities, b.Priority), append(l.ceilings, 1)
	}
}

// band returns the band of a priority, made if it is not there, and its index; nil if there are as many as may be.
func (c *Control) band(l *line, priority int32, now pool.Instant) (*Band, int) {
	i, found := slices.BinarySearchFunc(l.bands, priority, func(o *Band, p int32) int { return cmp.Compare(p, o.Priority) })
	if found {
		return l.bands[i], i
	}
	c.sweepAtBound(l, now)
	if len(l.bands) >= c.rules().MaxBands {
		return nil, 0
	}
	l.add(&Band{BandSettings: c.rules().like(priority), since: now})
	i, _ = slices.BinarySearchFunc(l.bands, priority, func(o *Band, p int32) int { return cmp.Compare(p, o.Priority) })
	return l.bands[i], i
}

// sweep forgets bands and flows in which nobody has waited for long.
func (c *Control) sweep(l *line, now pool.Instant) {
	l.swept = now
	for _, b := range l.bands {
		for id, f := range b.flows {
			if !f.waits && f.holds[byRequests] == 0 && time.Duration(now-max(f.emptied, f.serviced)) >= c.remembers(b) {
				delete(b.flows, id)
			}
		}
	}
	n := len(l.bands)
	l.bands = slices.DeleteFunc(l.bands, func(b *Band) bool {
		return !b.static && b.holds[byRequests] == 0 && len(b.flows) == 0 && time.Duration(now-b.since) >= c.rules().BandIdle
	})
	if len(l.bands) != n {
		l.ranked()
	}
}

// sweepAtBound looks a line through for what may be forgotten, where something has no place: not for each of many that come, since that
// is a look at all flows.
func (c *Control) sweepAtBound(l *line, now pool.Instant) {
	if now-l.swept >= sweepAgain {
		c.sweep(l, now)
	}
}

// sweepAgain is how long a line that was looked through is not looked through again.
const sweepAgain = pool.Instant(time.Second)

// remembers is how long a flow is remembered in which nobody waits.
func (c *Control) remembers(b *Band) time.Duration {
	if p, ok := b.Fairness.(*ProgramAware); ok {
		return max(c.rules().FlowIdle, time.Duration(p.EvictionTTLSeconds)*time.Second)
	}
	return c.rules().FlowIdle
}

// sweepEvery is how often lines are looked through, when somebody comes.
const sweepEvery = pool.Instant(time.Minute)

// flow returns the flow of a tenant. Beyond as many as may be, tenants share one, which is noted.
func (c *Control) flow(l *line, b *Band, id string, now pool.Instant) *Flow {
	if f := b.flows[id]; f != nil {
		return f
	}
	if len(b.flows) >= c.rules().MaxFlows {
		c.sweepAtBound(l, now)
	}
	if len(b.flows) >= c.rules().MaxFlows {
		c.sink.Note(reason.FlowsShared, id)
		id = sharedFlow
		if f := b.flows[id]; f != nil {
			return f
		}
	}
	id = strings.Clone(id) // it may be a part of the request's headers
	f := &Flow{ID: id, emptied: now}
	b.flows[id] = f
	return f
}

// sharedFlow is the flow of tenants beyond the bound. No tenant has this name: it has a space at its end.
const sharedFlow = "(others) "

// tenant returns whose request it is: the subscription that was resolved, else what a trusted header said, else nobody.
func tenant(r *plugins.Request) string {
	if r.Target.Subscription != "" {
		return r.Target.Subscription
	}
	return r.FairnessID
}

// takes reports whether a pool has an endpoint that takes requests.
func takes(s *pool.Snapshot) bool {
	for _, id := range s.Members {
		if !s.Slots[id].Draining {
			return true
		}
	}
	return false
}
