package flow

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// Settings are what a Control is made of. Zero bounds are no bounds.
type Settings struct {
	MaxRequests, MaxBytes int64 // of all bands and pools together

	Bands                    []BandSettings // those that are always there
	Default, DefaultNegative BandSettings   // of bands that are made for a priority never seen
	MaxBands, MaxFlows       int            // of one pool, of one band
	BandIdle, FlowIdle       time.Duration  // after which they are forgotten

	Weighted bool // bands share by weight; else a lower one goes when no higher one may

	Detector Detector
	Ceilings Ceilings

	// Patient has requests go to endpoints with room alone, where the detector knows them, and wait where a decision finds all
	// endpoints too busy. Otherwise the decision is what it is without a queue.
	Patient bool
	// LookAhead, above 0, has them decided among all endpoints, and wait where the one that is chosen is full. Then those behind
	// them are asked, of a flow up to so many. Who has waited for Patience since its choice was full first, or was overtaken
	// MostPassed times, is decided among endpoints with room.
	LookAhead  int
	MostPassed int32
	Patience   time.Duration
	// DropLate refuses a request whose own deadline has passed when its turn comes, or where it yields.
	DropLate bool
	// HoldEmpty has requests wait while a pool has no endpoint; else they are refused at once.
	HoldEmpty bool

	// Evict has requests of a priority below 0 taken back that run, for requests of a higher one that wait.
	Evict bool

	RetryMin, RetryMax time.Duration // bounds of Retry-After
}

// BandSettings are those of one band. Zero bounds are no bounds.
type BandSettings struct {
	Priority              int32
	Pool                  string // the only one that has the band from the start; empty for all
	MaxRequests, MaxBytes int64
	TTL, EmptyTTL         time.Duration // how long a request waits for room, and in all while its pool is empty
	OwnTTL                bool          // TTL is said of the band, not of all
	YieldAfter            time.Duration // how long it waits before it goes behind those that came later; 0: never
	Weight                float64
	Fairness              Fairness
	Ordering              Ordering
}

// Control is the queue of a configuration as a state machine. Its methods may be called from any goroutine. Every method that acts
// takes the instant; none waits. What waits, and what tenants were served, is common to the controls of configurations that follow
// one another ([Control.Inherit]).
type Control struct {
	settings Settings
	mine     []*line // by the configuration's index of the pool
	*common
}

// common is what controls share of which one has inherited from the other.
type common struct {
	in   atomic.Pointer[rules] // of the control that was attached last
	sink reason.Sink

	waiting atomic.Int64 // requests with a place, in all pools
	due     atomic.Int64 // the deadline, as of the last change

	asking sync.Mutex // of Next's caller; taken around the other locks

	mu     sync.Mutex // taken inside the pool's lock, and never around it
	lines  []*line    // of the pools of the control that was attached last, and others in which somebody waits; replaced, never modified
	turn   int        // the pool that is asked first
	holds  [measures]int64
	seq    uint64
	over   ended
	places int64 // items that are not free
	drains atomic.Bool
	free   *item
	named  map[*plugins.Request]*line // by Evict, until Evicted
	watch  atomic.Pointer[Watcher]
}

// rules are settings, and what follows from them.
type rules struct {
	Settings
	rooms    Rooms    // the detector, if it knows of endpoints and requests wait for them
	memories Memories // the detector, if it goes by memory besides
	counts   bool     // some fairness counts all requests
}

// rules returns those in force.
func (c *common) rules() *rules { return c.in.Load() }

// NewControl returns a control without pools.
func NewControl(o Settings) *Control {
	c := &Control{settings: o, common: &common{sink: reason.Discard{}, named: map[*plugins.Request]*line{}}}
	c.in.Store(rulesOf(o))
	return c
}

func rulesOf(o Settings) *rules {
	out := &rules{Settings: o}
	if rooms, ok := o.Detector.(Rooms); ok && o.Patient {
		out.rooms = rooms
		out.memories, _ = rooms.(Memories)
	}
	for _, s := range append(slices.Clone(o.Bands), o.Default, o.DefaultNegative) {
		if _, ok := s.Fairness.(AllCounted); ok {
			out.counts = true
		}
	}
	return out
}

// hold is the verdict for who waits: the control ends it, nobody else.
var hold = plugins.Verdict{Until: plugins.Forever}

// Enter passes a request while nobody waits for its pool, and gives it a place otherwise, or refuses it.
func (c *Control) Enter(now pool.Instant, r *plugins.Request) plugins.Verdict {
	l := c.mine[r.PoolIndex]
	empty := !takes(l.pool.Snapshot())
	if r.Place == nil && !empty && l.waiting.Load() == 0 {
		return plugins.Verdict{}
	}
	if empty && !c.rules().HoldEmpty && r.Place == nil {
		return plugins.Verdict{} // the decision refuses it
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	it, _ := r.Place.(*item)
	switch {
	case it == nil:
		it = c.take(r, l)
	case it.state != stateBarred:
		return hold // it has its place; a wake without cause
	}
	if no := c.place(now, it, l.empty(now)); no != nil {
		c.settled(now, it, outcomeOf(no))
		c.put(it)
		c.review(now) // others may have been too late
		return plugins.Verdict{Refusal: no}
	}
	c.review(now)
	return hold
}

// Next hands out a request that may go, or one that is refused; it may have come under another configuration.
func (c *Control) Next(now pool.Instant) (r *plugins.Request, no *reason.Refusal, ok bool) {
	if c.waiting.Load() == 0 && c.due.Load() == 0 {
		return nil, nil, false
	}
	c.asking.Lock()
	defer c.asking.Unlock()
	lines := c.everyLine()
	for _, l := range lines {
		g := &l.gate
		if g.asked = l.waiting.Load() > 0; !g.asked {
			continue
		}
		l.pool.Decide(func(s *pool.Snapshot, books *pool.Books) {
			g.changes = l.pool.Changes()
			g.s = c.saturation(l, now, s, books)
			g.members = len(l.view.members)
			if o := c.rules(); o.rooms != nil && o.LookAhead > 0 && len(l.view.members) > 0 {
				l.spare.look(o.rooms, &l.seen, s)
				g.full = append(g.full[:0], l.spare.is...)
			}
		})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.review(now)
	for _, l := range lines {
		if l.gate.asked {
			l.wakes(now)
			empty := l.empty(now)
			for _, b := range l.bands {
				c.expire(now, b, empty)
				b.yield(now)
				c.lapse(now, b)
			}
		}
	}
	if it := c.over.take(); it != nil {
		return it.r, c.tell(now, it), true
	}
	for k := range lines {
		i := (c.turn + k) % len(lines)
		l := lines[i]
		l.until = 0
		if !l.gate.asked || l.waiting.Load() == 0 {
			continue
		}
		it := c.pick(now, l, &l.gate)
		if it == nil {
			continue
		}
		c.turn = (i + 1) % len(lines)
		if it.state == stateOver {
			return it.r, c.tell(now, it), true
		}
		return it.r, nil, true
	}
	return nil, nil, false
}

// look sets up what detectors see of a pool, inside its lock. It reports whether the pool has an endpoint that takes requests.
func (c *Control) look(l *line, now pool.Instant, s *pool.Snapshot, books *pool.Books) bool {
	l.view.see(s)
	v := &l.seen
	v.Now, v.Books, v.StaleAfter, v.Members, v.Stages = now, books, l.pool.StaleAfter(), l.view.members, l.view.stages
	return len(v.Members) > 0
}

// saturation asks the detector about a pool, inside its lock.
func (c *Control) saturation(l *line, now pool.Instant, s *pool.Snapshot, books *pool.Books) Saturation {
	if !c.look(l, now, s, books) {
		return Saturation{Value: 1}
	}
	return c.rules().Detector.Saturation(&l.seen)
}

// pick finds who goes next of a line, and takes it out of its flow: it keeps its place in the band until it is booked.
func (c *Control) pick(now pool.Instant, l *line, g *gate) *item {
	l.tail = g.s
	if !c.drains.Load() && !takes(l.pool.Snapshot()) {
		return nil
	}
	c.rules().Ceilings.Ceilings(g.s.Value, l.priorities, l.ceilings)
	l.until, l.opens = g.s.Until, g.s.Until
	for i, b := range l.bands {
		b.ceiling, b.shut, b.asked = min(l.ceilings[i], 1), false, true
		if c.drains.Load() {
			b.ceiling = math.MaxFloat64
		}
		if b.holds[byRequests] == 0 {
			continue
		}
		if g.s.Value >= b.ceiling {
			b.shut = true
			if c.alternates(g.s.Value) {
				l.until = now + alternatesEvery
			}
			if !c.rules().Weighted {
				break
			}
			continue
		}
		if !c.rules().Weighted {
			if it := c.first(now, l, b, g.changes); it != nil {
				return it
			}
			continue
		}
		b.asked = len(b.waiting) == 0 || !b.mayAny(g.changes)
	}
	if !c.rules().Weighted {
		return nil
	}
	for b := l.least(); b != nil; b = l.least() {
		b.asked = true
		if it := c.first(now, l, b, g.changes); it != nil {
			l.pass = b.pass
			return it
		}
	}
	return nil
}

// least returns the band that went least for its weight, of those that are to be asked.
func (l *line) least() (best *Band) {
	for _, b := range l.bands {
		if !b.asked && (best == nil || b.pass < best.pass) {
			best = b
		}
	}
	return best
}

// alternatesEvery is how soon a band that is closed in turn is asked for again.
const alternatesEvery = pool.Instant(time.Millisecond)

func (c *Control) alternates(s float64) bool {
	a, ok := c.rules().Ceilings.(Alternating)
	return ok && a.Alternates(s)
}

// mayAny reports whether a flow of the band may be asked.
func (b *Band) mayAny(changes uint64) bool {
	return slices.ContainsFunc(b.waiting, func(f *Flow) bool { return f.may(changes) })
}

// first takes the next request out of a band's flows. One that is late comes back with stateOver.
func (c *Control) first(now pool.Instant, l *line, b *Band, changes uint64) *item {
	if c.drains.Load() {
		changes += 2 // nobody is parked
	}
	o := c.rules()
	f, it := (*Flow)(nil), (*item)(nil)
	if !c.drains.Load() {
		f, it = c.worth(now, o, l, b, changes)
	} else if f = b.next(now, changes); f != nil {
		it = f.head()
	}
	if it == nil {
		return nil
	}
	if it.deadline != 0 && now > it.deadline && !c.drains.Load() {
		c.out(now, it)
		it.state, it.over = stateOver, causeLate
		return it
	}
	f.drop(it)
	if len(f.heap) == 0 {
		b.emptiedAt(f, now)
	}
	it.state, it.ceiling = stateGoes, b.ceiling
	return it
}

// Fits reports whether the pool has room for the request of the cycle, inside the pool's lock.
func (c *Control) Fits(cy *plugins.Cycle, books *pool.Books) (bool, *reason.Refusal) {
	r, now := cy.Request, cy.Now
	l, o := c.mine[r.PoolIndex], c.rules()
	it, _ := r.Place.(*item)
	if c.drains.Load() {
		return true, nil // and is refused
	}
	if !c.look(l, now, cy.Snapshot, books) {
		if it == nil && !o.HoldEmpty {
			return true, nil // and is refused
		}
		c.bar(now, l, r, it, false)
		return false, nil
	}
	if it == nil && l.waiting.Load() > 0 {
		c.bar(now, l, r, it, false)
		return false, nil
	}
	if below, unknown := c.below(o, l, it, r.Target.Priority, now); !below {
		if it == nil && unknown > 0 {
			cy.Note(reason.FullUnread, unread(unknown, len(l.view.members)))
		}
		c.bar(now, l, r, it, false)
		return false, nil
	}
	if o.rooms != nil && !c.leaves(o, cy, l, it) {
		c.bar(now, l, r, it, true)
		return false, nil
	}
	return true, nil
}

// below reports whether the pool's saturation is below the ceiling of the request's band, and how many endpoints count as full since
// nothing is known of them. Where the ceiling is 1 and endpoints are known to have room, whether any has is asked next, and the same.
func (c *Control) below(o *rules, l *line, it *item, priority int32, now pool.Instant) (below bool, unread int) {
	if it != nil {
		if o.rooms != nil && it.ceiling >= 1 {
			return true, 0
		}
		s := o.Detector.Saturation(&l.seen)
		return s.Value < it.ceiling, s.Unread
	}
	if fixed, ok := o.Ceilings.(*StaticLimit); ok && fixed.Threshold >= 1 && o.rooms != nil {
		return true, 0
	}
	s := o.Detector.Saturation(&l.seen)
	return s.Value < 1 && s.Value < c.ceilingOf(o, l, priority, s.Value, now), s.Unread
}

// ceilingOf returns the ceiling of a priority.
func (c *Control) ceilingOf(o *rules, l *line, priority int32, s float64, now pool.Instant) float64 {
	if fixed, ok := o.Ceilings.(*StaticLimit); ok {
		return fixed.Threshold
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	b, i := c.band(l, priority, now)
	if b == nil {
		return 0
	}
	b.since = now
	o.Ceilings.Ceilings(s, l.priorities, l.ceilings)
	return min(l.ceilings[i], 1)
}

// leaves narrows the candidates to endpoints with room, unless the request may wait for one that is full, and to those where the
// flow had no more than its share, if others wait. It reports whether any with room is left.
func (c *Control) leaves(o *rules, cy *plugins.Cycle, l *line, it *item) bool {
	l.spare.look(o.rooms, &l.seen, cy.Snapshot)
	if len(l.spare.full) > 0 {
		if !slices.ContainsFunc(cy.Candidates, l.spare.has) {
			return false
		}
		if !o.chooses(it, cy.Now) {
			cy.Restrict(l.spare.has)
		}
	}
	n := len(cy.Candidates)
	if n < 2 || it == nil {
		return n > 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	spreads, ok := it.band.Fairness.(Spreader)
	if !ok {
		return true
	}
	if len(it.band.waiting) < 1 || len(it.band.waiting) == 1 && it.flow.waits {
		return true // nobody else waits
	}
	barred := func(id pool.ID) bool { return spreads.Barred(it.flow, cy.Snapshot.Slots[id].Ref, len(l.view.members)) }
	free := 0
	for _, id := range cy.Candidates {
		if l.spare.has(id) && !barred(id) {
			free++
		}
	}
	switch free {
	case 0:
		spreads.Relent(it.flow)
	case n:
	default:
		cy.Restrict(func(id pool.ID) bool { return !barred(id) })
	}
	return true
}

// bar puts a request back: one that has a place to it, with its turn; a fresh one has none yet, and Enter gives it one. parked
// says that it is the request that finds nobody, so that others may go before something changes.
func (c *Control) bar(now pool.Instant, l *line, r *plugins.Request, it *item, parked bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if it == nil {
		c.take(r, l)
		return
	}
	if it.state != stateGoes {
		return
	}
	it.state = stateWaits
	it.flow.push(it)
	it.band.stands(it.flow)
	it.band.owes(it.flow, true)
	it.flow.seeks = search{}
	if parked {
		it.flow.park(l.pool.Changes())
		r.Stay.Why = whyNowhere
	}
	c.review(now)
}

// Booked lets a request go for good: its prompt is charged, and its answer will be.
func (c *Control) Booked(now pool.Instant, r *plugins.Request, to pool.Ref, load pool.Load) {
	it, _ := r.Place.(*item)
	if it == nil && c.watch.Load() == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if it == nil {
		c.passed(now, r)
		return
	}
	it.flow.found(it)
	c.uncount(now, it)
	it.line.rate.count(now)
	it.state, it.output = stateRuns, load.Decode
	it.band.Fairness.Booked(it.flow, to, load, now)
	if c.rules().Weighted {
		it.band.pays(max(load.UncachedPrefill, 1), load.Decode)
	}
	c.settled(now, it, Dispatched)
	c.review(now)
}

// Nobody reports whether a request whose decision left nobody waits: where its endpoints are too busy, or its pool has become
// empty.
func (c *Control) Nobody(now pool.Instant, r *plugins.Request, why *reason.Refusal) bool {
	l := c.mine[r.PoolIndex]
	gone := why.ID == reason.NoEndpoint && c.rules().HoldEmpty && !takes(l.pool.Snapshot())
	if !c.rules().Patient || why.ID != reason.AllFiltered && !gone {
		return false
	}
	it, _ := r.Place.(*item)
	c.bar(now, l, r, it, !gone)
	return true
}

// Leave forgets a request that was neither booked nor refused by Next, or that was and is refused now.
func (c *Control) Leave(now pool.Instant, r *plugins.Request) {
	it, _ := r.Place.(*item)
	if it == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch it.state {
	case stateWaits:
		c.out(now, it)
		c.settled(now, it, Cancelled)
	case stateGoes:
		c.uncount(now, it)
		how := RejectedOther // the decision refused it
		if r.Refused == 0 || r.Refused == reason.ShuttingDown {
			how = Cancelled // its client went before it was decided, or the process ends
		}
		c.settled(now, it, how)
	case stateOver:
		c.over.remove(it)
		c.settled(now, it, Cancelled)
	}
	c.put(it)
	c.review(now)
}

// Settle charges the answer of a request that has waited to its flow; prompt and output are tokens, Unknown where nobody said.
func (c *Control) Settle(now pool.Instant, r *plugins.Request, prompt, output int64) {
	it, _ := r.Place.(*item)
	if it == nil {
		c.count(now, r, prompt, output)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if it.state != stateRuns {
		return
	}
	if output == plugins.Unknown {
		output = it.output
	}
	it.band.Fairness.Settled(it.flow, Served{Prompt: prompt, Output: output, Booked: it.output}, now)
	if c.rules().Weighted {
		it.band.pays(0, output-it.output)
	}
	c.put(it)
}

// count tells a fairness that counts all of a request that did not wait.
func (c *Control) count(now pool.Instant, r *plugins.Request, prompt, output int64) {
	if r.PoolIndex < 0 || !c.rules().counts {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.mine[r.PoolIndex]
	b, _ := c.band(l, r.Target.Priority, now)
	if b == nil {
		return
	}
	if _, ok := b.Fairness.(AllCounted); ok {
		b.Fairness.Settled(c.flow(l, b, tenant(r), now), Served{Prompt: prompt, Output: output}, now)
	}
}

// review works out the deadline anew.
func (c *Control) review(now pool.Instant) {
	due := pool.Instant(0)
	earlier := func(at pool.Instant) {
		if due == 0 || at < due {
			due = at
		}
	}
	if c.holds[byRequests] > 0 {
		due = plugins.Forever
	}
	if c.over.first != nil {
		earlier(max(now, 1))
	}
	for _, l := range c.lines {
		if l.waiting.Load() == 0 {
			continue
		}
		if l.until != 0 {
			earlier(max(l.until, now+1))
		}
		if l.wake != 0 {
			earlier(max(l.wake, now+1))
		}
		if c.rules().Evict {
			if at := c.nextRound(l); at > now {
				earlier(at)
			}
		}
		empty := l.empty(now)
		for _, b := range l.bands {
			if ttl := b.ttl(empty); ttl > 0 && b.first != nil {
				at := b.first.at
				if !empty {
					at += l.vacant.at(now) - b.first.vacant
				}
				earlier(after(at, ttl))
			}
		}
	}
	c.due.Store(int64(due))
}

// after returns the instant that is d later; Forever where there is none.
func after(at pool.Instant, d time.Duration) pool.Instant {
	if pool.Instant(d) > plugins.Forever-at {
		return plugins.Forever
	}
	return at + pool.Instant(d)
}

// Deadline returns when Next has something to do by time alone: Forever if whoever waits has no deadline, 0 if nobody waits.
func (c *Control) Deadline() pool.Instant { return pool.Instant(c.due.Load()) }

// Drain has Next hand out everybody.
func (c *Control) Drain() { c.drains.Store(true) }
