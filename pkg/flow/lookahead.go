package flow

import (
	"slices"
	"time"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// search is where a flow stands whose first requests were passed over, since the endpoints that they are best at are full. The zero
// value passes over nobody.
type search struct {
	passed int  // how many were
	last   turn // that of the last of them
}

// inVain is how many decisions are made anew, after a change, for requests whose last choice is still full: what changed may be better.
const inVain = 4

// looks is how many flows of a band are looked through in vain between two changes by the order of its fairness, and how many more
// in turn, so that who is far behind in that order is found, too, when an endpoint has room that nobody before it wants.
const looks = 8

// next returns who of a flow is asked next: its first, or while it seeks one behind those that were passed over; nil if there is
// none. full says of each endpoint whether it is; a request whose last choice was one of these is passed by, unless again says
// that it is to be decided again, or it takes any room.
func (f *Flow) next(o *rules, now pool.Instant, full []bool, again bool) *item {
	if o.LookAhead == 0 || o.rooms == nil {
		return f.head()
	}
	var room [aheadKept]*item
	for _, it := range f.ahead(o.LookAhead, room[:0]) {
		switch {
		case f.seeks.passed > 0 && !f.seeks.last.before(&it.turn):
		case it.choice == 0 || int(it.choice) > len(full) || !full[it.choice-1] || again || !o.chooses(it, now):
			return it
		}
	}
	return nil
}

// aheadKept is how far a look-ahead goes without memory of its own.
const aheadKept = 32

// ahead appends the first n of a flow to dst, in order: O(n²) in the worst case, for a small n.
func (f *Flow) ahead(n int, dst []*item) []*item {
	return f.firsts(0, n, dst)
}

// firsts adds what stands at an index of the heap and below to the first n that are known, in order.
func (f *Flow) firsts(at, n int, known []*item) []*item {
	if at >= len(f.heap) {
		return known
	}
	it := f.heap[at]
	if len(known) == n {
		if !it.before(&known[n-1].turn) {
			return known // and so is all below it
		}
		known = known[:n-1]
	}
	i := len(known)
	for i > 0 && it.before(&known[i-1].turn) {
		i--
	}
	known = slices.Insert(known, i, it)
	return f.firsts(2*at+2, n, f.firsts(2*at+1, n, known))
}

// walk calls see with all that go before last or are it, which is within, and with those right below them in the heap: O(their
// number).
func (f *Flow) walk(from int, last *item, see func(it *item, within bool)) {
	if from >= len(f.heap) {
		return
	}
	it := f.heap[from]
	within := !last.before(&it.turn)
	if see(it, within); within {
		f.walk(2*from+1, last, see)
		f.walk(2*from+2, last, see)
	}
}

// found ends a search: it goes, and who came before it was overtaken.
func (f *Flow) found(it *item) {
	f.walk(0, it, func(o *item, within bool) { // the first of a flow ends it at once
		if within {
			o.passed++
		}
	})
	f.seeks = search{}
}

// trials are how many were in vain since a pool last changed: decisions of a line, or flows of a band in which nobody was worth one.
type trials struct {
	changes uint64
	n       int
}

// left reports whether there were fewer than most.
func (t *trials) left(changes uint64, most int) bool { return t.changes != changes || t.n < most }

// vain counts one.
func (t *trials) vain(changes uint64) {
	if t.changes != changes {
		*t = trials{changes: changes}
	}
	t.n++
}

// worth returns who of a band is worth a decision, and its flow; nil if nobody is, or nobody is looked for before the pool has
// changed.
func (c *Control) worth(now pool.Instant, o *rules, l *line, b *Band, changes uint64) (*Flow, *item) {
	for b.looked.left(changes, 2*looks) {
		inOrder := b.looked.left(changes, looks)
		f := b.further(changes)
		if inOrder {
			f = b.next(now, changes)
		}
		if f == nil {
			return nil, nil
		}
		if !inOrder {
			b.turn = f.ID
		}
		if it := f.next(o, now, l.gate.full, l.trials.left(changes, inVain)); it != nil {
			return f, it
		}
		b.owes(f, false)
		c.rests(now, o, l, f, changes)
		b.looked.vain(changes)
	}
	return nil, nil
}

// further returns the flow that may be asked after the last one that was looked through in turn; nil if there is none.
func (b *Band) further(changes uint64) (next *Flow) {
	b.following(b.turn, changes, func(f *Flow) bool { next = f; return false })
	return next
}

// chooses reports whether a request may go to an endpoint that is full, which means that it waits for it; else it takes any room.
func (o *rules) chooses(it *item, now pool.Instant) bool {
	switch {
	case o.LookAhead == 0:
		return false
	case it == nil || it.chosen == 0:
		return true
	case it.yields && len(it.flow.heap) > 0 && !it.flow.head().yields:
		return true // the room is theirs who can be in time yet
	}
	return it.passed < o.MostPassed && time.Duration(now-it.chosen) < o.Patience
}

// Suits reports whether the endpoints that were chosen have room, inside the pool's lock. Where one has none the request waits for
// it, and those behind it are asked.
func (c *Control) Suits(cy *plugins.Cycle, legs []plugins.Leg) bool {
	l, o := c.mine[cy.Request.PoolIndex], c.rules()
	it, _ := cy.Request.Place.(*item)
	if o.memories != nil {
		o.doubts(cy, l, legs)
	}
	if o.rooms == nil || len(l.spare.full) == 0 || c.drains.Load() || !o.chooses(it, cy.Now) {
		return true
	}
	for _, leg := range legs {
		if len(leg.Endpoints) == 0 || l.spare.has(leg.Endpoints[0]) {
			continue
		}
		if it == nil {
			c.bar(cy.Now, l, cy.Request, nil, false)
			cy.Request.Place.(*item).waitsFor(leg.Endpoints[0], cy.Now)
		} else {
			c.passOver(cy.Now, o, l, it, leg.Endpoints[0])
		}
		return false
	}
	return true
}

// doubts notes that a request goes where the gauge of memory reads as full and is not believed.
func (o *rules) doubts(cy *plugins.Cycle, l *line, legs []plugins.Leg) {
	for _, leg := range legs {
		if len(leg.Endpoints) == 0 {
			continue
		}
		if _, doubted := o.memories.Short(&l.seen, leg.Endpoints[0]); doubted {
			cy.NoteOnce(reason.MemoryDoubted, plugins.EndpointName(&cy.Snapshot.Slots[leg.Endpoints[0]]))
		}
	}
}

// passOver puts a request back to its place, whose choice is full, and has its flow look at those behind it. Where there is none that is
// worth a decision, the flow is asked again when the pool has changed, or when its first takes any room.
func (c *Control) passOver(now pool.Instant, o *rules, l *line, it *item, choice pool.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if it.state != stateGoes {
		return
	}
	f, s, changes := it.flow, it.flow.seeks, l.pool.Changes()
	it.state = stateWaits
	it.waitsFor(choice, now)
	it.r.Stay.Why = whyChoice
	f.push(it)
	it.band.stands(f)
	f.seeks = search{passed: s.passed + 1, last: it.turn}
	l.trials.vain(changes)
	if f.next(o, now, l.spare.is, l.trials.left(changes, inVain)) != nil {
		it.band.owes(f, true)
	} else {
		c.rests(now, o, l, f, changes)
	}
	c.review(now)
}

// waitsFor notes the endpoint of its choice.
func (it *item) waitsFor(choice pool.ID, now pool.Instant) {
	it.choice = choice + 1
	if it.chosen == 0 {
		it.chosen, it.passed = now, 0
	}
}

// rests has a flow wait for a change, or for the instant at which one of those that are looked at takes any room.
func (c *Control) rests(now pool.Instant, o *rules, l *line, f *Flow, changes uint64) {
	f.seeks = search{}
	f.park(changes)
	if h := f.head(); !h.yields && h.band.YieldAfter > 0 {
		if late := after(h.at, h.band.YieldAfter); late > now {
			l.wakeAt(late) // who is late already may have waited for that
		}
	}
	var room [aheadKept]*item
	for _, it := range f.ahead(o.LookAhead, room[:0]) {
		if ends := after(it.chosen, o.Patience); it.chosen != 0 && ends > now {
			l.wakeAt(ends)
		}
	}
}

// wakeAt has all flows of the line asked again at an instant, though nothing changes.
func (l *line) wakeAt(at pool.Instant) {
	if at > 0 && (l.wake == 0 || at < l.wake) {
		l.wake = at
	}
}

// wakes has them asked again if the instant has come, or that at which an endpoint has room.
func (l *line) wakes(now pool.Instant) {
	due := func(at pool.Instant) bool { return at != 0 && now >= at }
	if !due(l.wake) && !due(l.opens) {
		return
	}
	if due(l.wake) {
		l.wake = 0
	}
	l.trials = trials{}
	for _, b := range l.bands {
		b.looked = trials{}
		for _, f := range b.waiting {
			f.parked = 0
		}
	}
}
