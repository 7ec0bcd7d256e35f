package plugins

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// Cycle is one decision over one snapshot. It is reused; nobody may keep it or its slices.
type Cycle struct {
	Now        pool.Instant
	Request    *Request
	Snapshot   *pool.Snapshot
	Candidates []pool.ID // ascending; what the filters so far left
	PoolIndex  int       // of the pool, in the order of the configuration

	// Want is how many endpoints a picker shall return at most: the primary and fallbacks.
	Want int

	plan       *Plan
	books      *pool.Books
	sink       reason.Sink
	staleAfter time.Duration
	seed       uint64

	columns []cell
	initial []pool.ID // candidates before any filter
	current []pool.ID // backing store of Candidates within a run
	keep    Bits
	scores  []float64
	totals  []float64
	best    []int
	picked  []pool.ID // results of all runs, one after the other

	running *instance // the plugin that is being called, for panics and random streams
	point   point     // the extension point at which it is called
	run     int       // ordinal of the profile run
	source  rand.PCG
	random  *rand.Rand
	drawn   bool // the running call has drawn: random stands in its stream
	legs    []Leg

	sorted   bool // fresh is that of this decision, and adapters, whether any of these samples names some
	adapters bool
	fresh    []pool.ID // the candidates whose samples can be trusted

	removed []removal // by filters of the runs, for the refusal's detail

	named    []Candidate // namedIDs of namedIn, by the names that records give them
	namedIDs []pool.ID
	namedIn  *pool.Snapshot

	Trace  []ProfileRecord // one per run, if Record
	Record bool            // keep raw scores, removals and the facts read
}

// point is an extension point of the cycle, as far as random streams tell them apart.
type point uint8

const (
	pointProduce point = iota
	pointObserve
	pointHandle
	pointFilter
	pointScore
	pointPick
	pointChosen
	pointAdmit
)

type removal struct {
	by    *instance
	count int
}

// NewCycle returns a cycle for this plan, to be reused for any number of decisions, one at a time.
func (p *Plan) NewCycle(sink reason.Sink) *Cycle {
	c := &Cycle{plan: p, PoolIndex: p.Index, sink: sink, columns: p.built.newCells(true), legs: make([]Leg, 0, 4)}
	c.random = rand.New(&c.source)
	return c
}

// Prepare sets the cycle up for r over snapshot s and runs the producers. among narrows the members to those it accepts;
// nil accepts all. seed is the run's seed. It is called outside the pool's lock.
func (c *Cycle) Prepare(r *Request, s *pool.Snapshot, staleAfter time.Duration, seed uint64, among func(*pool.Endpoint) bool) *reason.Refusal {
	c.Now, c.Request, c.Snapshot, c.staleAfter, c.seed = r.Now, r, s, staleAfter, seed
	r.Snapshot = s
	c.books, c.running, c.drawn, c.run = nil, nil, false, 0
	c.sorted = false
	c.removed, c.picked = c.removed[:0], c.picked[:0]
	c.Trace = nil
	if among == nil {
		c.initial = append(c.initial[:0], s.Open...)
	} else {
		c.initial = c.initial[:0]
		for _, id := range s.Open {
			if among(&s.Slots[id]) {
				c.initial = append(c.initial, id)
			}
		}
	}
	c.Candidates = c.initial
	for _, col := range c.columns {
		if col != nil {
			col.reset(len(s.Slots))
		}
	}
	return c.guarded(func() {
		for _, it := range c.plan.producers {
			c.call(it, pointProduce)
			it.value.(Producer).Produce(c)
		}
	})
}

// Restrict leaves of the candidates those that may says yes to, for all profiles of this decision, and returns how many are
// left. It is called between Prepare and Decide.
func (c *Cycle) Restrict(may func(pool.ID) bool) int {
	left := c.initial[:0]
	for _, id := range c.initial {
		if may(id) {
			left = append(left, id)
		}
	}
	c.initial = left
	c.Candidates = left
	return len(left)
}

// Decide fills the facts of the pool and runs the handler. It is called inside the pool's lock, with its books.
func (c *Cycle) Decide(books *pool.Books) (legs []Leg, no *reason.Refusal) {
	c.books = books
	c.Candidates = c.initial
	panicked := c.guarded(func() {
		for _, fill := range c.plan.fills {
			fill(c)
		}
		for _, it := range c.plan.observers {
			c.call(it, pointObserve)
			it.value.(Observer).Observe(c, books)
		}
		for _, it := range c.plan.admitters {
			c.call(it, pointAdmit)
			if no = it.value.(Admitter).Admit(c); no != nil {
				return
			}
		}
		c.call(c.plan.handler, pointHandle)
		legs, no = c.plan.handler.value.(ProfileHandler).Handle(c)
		if no != nil || len(legs) == 0 || len(legs[0].Endpoints) == 0 {
			return
		}
		for _, it := range c.plan.witnesses {
			c.call(it, pointChosen)
			it.value.(Witness).Chosen(c, books, legs)
		}
	})
	c.books = nil
	switch {
	case panicked != nil:
		return nil, panicked
	case no != nil:
		return nil, no
	case len(legs) == 0 || len(legs[0].Endpoints) == 0:
		return nil, c.nobody()
	}
	return legs, nil
}

func (c *Cycle) guarded(f func()) *reason.Refusal {
	return guard(c.sink, reason.PluginPanic, func() string {
		if c.running == nil {
			return "framework"
		}
		return c.running.name
	}, f)
}

// nobody says why no candidate was left.
func (c *Cycle) nobody() *reason.Refusal {
	members := len(c.Snapshot.Members)
	if len(c.initial) == 0 {
		if members == 0 {
			return reason.Refuse(reason.NoEndpoint, "pool %q has no endpoint", c.plan.Pool.Name)
		}
		return reason.Refuse(reason.NoEndpoint, "none of the %d endpoints of pool %q may take it: draining, or outside the subset", members, c.plan.Pool.Name)
	}
	var why strings.Builder
	busy := len(c.removed) == 0
	for i, r := range c.removed {
		if _, ruled := r.by.value.(Structural); !ruled {
			busy = true
		}
		if i > 0 {
			why.WriteString(", ")
		}
		fmt.Fprintf(&why, "%d by %s", r.count, r.by.name)
	}
	id := reason.NoEndpoint
	if busy {
		id = reason.AllFiltered
	}
	return reason.Refuse(id, "no candidate left of %d in pool %q; removed: %s", len(c.initial), c.plan.Pool.Name, why.String())
}

// Profiles returns the names of the pool's profiles, in the order of the configuration.
func (c *Cycle) Profiles() []string { return c.plan.Pool.Profiles }

// StaleAfter is the age beyond which a sample is stale.
func (c *Cycle) StaleAfter() time.Duration { return c.staleAfter }

// Peer returns the primary that the first run of this decision chose, for those that run later: where the request's other
// half goes. ok is false in the first run, and if that found nobody.
func (c *Cycle) Peer() (id pool.ID, ok bool) {
	if len(c.picked) == 0 {
		return 0, false
	}
	return c.picked[0], true
}

// Note passes an occurrence of a reason on.
func (c *Cycle) Note(id reason.ID, detail string) { c.sink.Note(id, detail) }

// NoteOnce passes an occurrence on of a reason that holds of the request and not of a decision: once for each request, in however many
// profiles it is found, and however often the request is decided while it waits.
func (c *Cycle) NoteOnce(id reason.ID, detail string) {
	if slices.Contains(c.Request.once, id) {
		return
	}
	c.Request.once = append(c.Request.once, id)
	c.Note(id, detail)
}

// Legs returns an empty list for a handler to append its legs to. It belongs to the cycle.
func (c *Cycle) Legs() []Leg { return c.legs[:0] }

// call notes that a plugin is about to be called at an extension point.
func (c *Cycle) call(it *instance, at point) { c.running, c.point, c.drawn = it, at, false }

// Rand returns the running plugin's own random stream: a function of the run's seed, the plugin's name, the request's
// number, the ordinal of the profile run and the extension point, so that a replay draws the same and one more draw
// elsewhere moves nothing.
func (c *Cycle) Rand() *rand.Rand {
	if !c.drawn {
		c.drawn = true
		c.source.Seed(c.seed^stream(c.running.name), c.Request.Number+uint64(c.run)<<56+uint64(c.point)<<48)
	}
	return c.random
}

// stream maps a name to the identity of its random stream (FNV-1a).
func stream(name string) uint64 {
	h := uint64(14695981039346656037)
	for i := 0; i < len(name); i++ {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	return h
}

// Run runs a profile over the cycle's candidates: filters in order, scorers, picker. The result is empty when nobody is
// left; the reason is in the record. Its slice is valid during the cycle.
func (c *Cycle) Run(name string) Result {
	var prof *profile
	for _, p := range c.plan.profiles {
		if p.name == name {
			prof = p
		}
	}
	if prof == nil {
		panic(fmt.Sprintf("profile %q is not one of pool %q", name, c.plan.Pool.Name))
	}
	handler := c.running
	c.run++
	c.current = append(c.current[:0], c.initial...)
	c.Candidates = c.current
	var rec *ProfileRecord
	if c.Record {
		c.Trace = append(c.Trace, c.begin(prof))
		rec = &c.Trace[len(c.Trace)-1]
	}
	c.filter(prof, rec)
	var result Result
	if len(c.Candidates) > 0 {
		c.score(prof, rec)
		result = c.pick(prof, rec)
	}
	c.Candidates = c.initial
	c.call(handler, pointHandle)
	return result
}

func (c *Cycle) filter(prof *profile, rec *ProfileRecord) {
	for _, it := range prof.filters {
		n := len(c.Candidates)
		c.keep = c.keep.fill(n)
		c.call(it, pointFilter)
		it.value.(Filter).Filter(c, c.keep)
		left := c.Candidates[:0]
		for i, id := range c.Candidates {
			if c.keep.Has(i) {
				left = append(left, id)
			} else if rec != nil {
				rec.remove(it.name, id, c.initial)
			}
		}
		c.Candidates = left
		if len(left) < n {
			c.removed = append(c.removed, removal{it, n - len(left)})
		}
		if len(left) == 0 {
			return
		}
	}
}

func (c *Cycle) score(prof *profile, rec *ProfileRecord) {
	n := len(c.Candidates)
	c.totals, c.scores = zeroed(c.totals, n), zeroed(c.scores, n)
	for _, s := range prof.scorers {
		out := c.scores
		clear(out)
		c.call(s.instance, pointScore)
		s.value.(Scorer).Score(c, out)
		for i, v := range out {
			if v != v || math.IsInf(v, 0) {
				c.sink.Note(reason.ScoreNotFinite, s.name)
				v = 0
			}
			v = min(max(v, 0), 1)
			out[i] = v
			c.totals[i] += float64(s.weight * v)
		}
		if rec != nil {
			rec.score(s.name, s.weight, out)
		}
	}
	if rec == nil {
		return
	}
	rec.total(c.Candidates, c.initial, c.totals)
	for _, s := range prof.scorers {
		if x, ok := s.value.(Explainer); ok {
			c.call(s.instance, pointScore)
			rec.explain(s.name, c, x)
		}
	}
}

func (c *Cycle) pick(prof *profile, rec *ProfileRecord) Result {
	c.call(prof.picker, pointPick)
	c.best = prof.picker.value.(Picker).Pick(c, c.totals, c.Want, c.best[:0])
	if len(c.best) == 0 {
		panic(fmt.Sprintf("picked none of %d candidates", len(c.Candidates)))
	}
	start := len(c.picked)
	for _, i := range c.best {
		c.picked = append(c.picked, c.Candidates[i])
	}
	if rec != nil {
		rec.pick(c.best)
	}
	return Result{c.picked[start:len(c.picked):len(c.picked)]}
}

// zeroed returns s with length n and all zero, reusing its memory.
func zeroed(s []float64, n int) []float64 {
	if cap(s) < n {
		s = make([]float64, n, n+n/4+1)
	}
	s = s[:n]
	clear(s)
	return s
}
