package flow

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// second is a second of virtual time.
const second = pool.Instant(time.Second)

// world runs a control over one pool, as an exchange does, with a clock in hand.
type world struct {
	t     testing.TB
	c     *Control
	p     *pool.Pool
	now   pool.Instant
	noted map[reason.ID]int
	seq   uint64
	plan  *plugins.Plan
	built *plugins.Built

	went    []*request // in the order in which they were booked
	refused []*request
	fails   map[string]bool // tenants whose decisions find nobody
}

// request is one that runs through the world.
type request struct {
	plugins.Request
	tokens  int64
	output  int64
	expects int64 // what its answer is booked for; 0 is output
	only    int   // the only endpoint that it may go to, from 1 on; 0 for all
	best    int   // where it is best, from 1 on; 0 for anywhere
	no      *reason.Refusal
	at      pool.Instant // of its end of waiting
	booking pool.Booking
	to      pool.Ref
	runs    bool
	held    bool
	decided int // how often it was decided, of one that has a best place
}

func (w *world) Note(id reason.ID, _ string) { w.noted[id]++ }

// pickFirst is a picker of the first candidate, and handler.
type pickFirst struct{}

func (pickFirst) Pick(c *plugins.Cycle, _ []float64, _ int, best []int) []int {
	least := 0
	if r, ok := c.Request.Owner.(*request); ok && r.best > 0 {
		r.decided++
		for i, id := range c.Candidates {
			if id == pool.ID(r.best-1) {
				return append(best, i)
			}
		}
	}
	for i := range c.Candidates { // spread by the identity of the request
		if i == int(c.Request.Number%uint64(len(c.Candidates))) {
			least = i
		}
	}
	return append(best, least)
}

type handle struct{}

func (handle) Handle(c *plugins.Cycle) ([]plugins.Leg, *reason.Refusal) {
	res := c.Run("p")
	if len(res.Endpoints) == 0 {
		return nil, nil
	}
	return append(c.Legs(), plugins.Leg{Profile: "p", Result: res}), nil
}

func instance(name string, v any) plugins.PluginSpec {
	return plugins.PluginSpec{Name: name, Type: name, Construct: func() (any, error) { return v, nil }}
}

// newWorld makes a world of n endpoints.
func newWorld(t testing.TB, s Settings, n int) *world {
	t.Helper()
	w := &world{t: t, now: second, noted: map[reason.ID]int{}, fails: map[string]bool{}}
	w.p = pool.New("p", w)
	var err error
	w.built, err = plugins.Build(plugins.Spec{
		Plugins:  []plugins.PluginSpec{instance("picker", pickFirst{}), instance("handler", handle{})},
		Profiles: []plugins.ProfileSpec{{Name: "p", Plugins: []plugins.RefSpec{{Ref: "picker"}}}},
		Pools:    []plugins.PoolSpec{{Name: "p", Profiles: []string{"p"}, Handler: "handler"}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.plan = w.built.Plans[0]
	w.c = NewControl(s)
	w.c.Attach([]*pool.Pool{w.p}, w)
	w.members(n)
	return w
}

func (w *world) members(n int) {
	var m []pool.Endpoint
	for i := range n {
		m = append(m, pool.Endpoint{Namespace: "ns", Name: fmt.Sprint("e", i), Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)}), 8000)})
	}
	w.p.Update(w.now, m)
	w.dispatch()
}

// settings are those of the tests unless they say otherwise: one request per endpoint and time.
func settings(change func(*Settings)) Settings {
	band := BandSettings{TTL: time.Minute, EmptyTTL: time.Minute, Weight: 1, Fairness: NewGlobalStrict(), Ordering: NewFCFS()}
	s := Settings{
		Default: band, DefaultNegative: band, MaxBands: 16, MaxFlows: 64, BandIdle: bandIdle, FlowIdle: flowIdle,
		Detector: &ConcurrencyDetector{MaxConcurrency: 1, ConcurrencyMode: "requests", MaxTokenConcurrency: 1}, Ceilings: NewStaticLimit(),
		HoldEmpty: true, RetryMin: time.Second, RetryMax: 30 * time.Second,
	}
	if change != nil {
		change(&s)
	}
	return s
}

type set func(*request)

func tenantIs(id string) set   { return func(r *request) { r.Target.Subscription = id } }
func priority(p int32) set     { return func(r *request) { r.Target.Priority = p } }
func bytes(n int64) set        { return func(r *request) { r.Bytes = n } }
func tokens(in, out int64) set { return func(r *request) { r.tokens, r.output = in, out } }
func bestAt(e int) set         { return func(r *request) { r.best = e } }
func onlyAt(e int) set         { return func(r *request) { r.only = e } }
func header(name, v string) set {
	return func(r *request) { r.Headers = openai.Headers{{Name: name, Value: v}} }
}

// come brings a request, and has the queue asked if it was held.
func (w *world) come(sets ...set) *request {
	r := &request{tokens: 100}
	r.Prepare(w.built, nil)
	w.seq++
	r.Number, r.Now, r.PoolIndex, r.Owner = w.seq, w.now, 0, r
	for _, s := range sets {
		s(r)
	}
	w.advance(r)
	w.dispatch()
	return r
}

// advance enters the request, decides and books, as an exchange does.
func (w *world) advance(r *request) {
	for {
		v := w.c.Enter(w.now, &r.Request)
		if v.Refusal != nil {
			w.refuse(r, v.Refusal)
			return
		}
		if v.Until != 0 {
			r.held = true
			return
		}
		if w.decide(r) {
			return
		}
	}
}

func (w *world) refuse(r *request, no *reason.Refusal) {
	r.no, r.held, r.at, r.Refused = no, false, w.now, no.ID
	w.c.Leave(w.now, &r.Request)
	w.refused = append(w.refused, r)
}

// decide reports whether r is booked or refused; else it is to be entered again.
func (w *world) decide(r *request) bool {
	cy := w.plan.NewCycle(w)
	cy.Want = 1
	snapshot := w.p.Snapshot()
	var only func(*pool.Endpoint) bool
	if r.only > 0 {
		only = func(e *pool.Endpoint) bool { return e.Ref.ID == pool.ID(r.only-1) }
	}
	if no := cy.Prepare(&r.Request, snapshot, w.p.StaleAfter(), 1, only); no != nil {
		w.t.Fatal(no)
	}
	waits := false
	var no *reason.Refusal
	w.p.Decide(func(_ *pool.Snapshot, books *pool.Books) {
		fits := false
		if fits, no = w.c.Fits(cy, books); no != nil || !fits {
			waits = no == nil
			return
		}
		books.At(w.now)
		legs, refusal := cy.Decide(books)
		if w.fails[r.Target.Subscription] {
			refusal = reason.Refuse(reason.AllFiltered, "none has its adapter")
		}
		if refusal == nil && !w.c.Suits(cy, legs) {
			waits = true
			return
		}
		if refusal != nil {
			if waits = w.c.Nobody(w.now, &r.Request, refusal); !waits {
				no = refusal
			}
			return
		}
		r.to = snapshot.Slots[legs[0].Endpoints[0]].Ref
		load := pool.Load{UncachedPrefill: r.tokens, Decode: r.output}
		if r.expects > 0 {
			load.Decode = r.expects
		}
		r.booking = books.Book(r.to, load, w.now+pool.Instant(time.Hour))
		w.c.Booked(w.now, &r.Request, r.to, load)
		r.runs, r.held, r.at = true, false, w.now
		w.went = append(w.went, r)
	})
	if no != nil {
		w.refuse(r, no)
	}
	return !waits
}

// dispatch asks the queue until it has nobody.
func (w *world) dispatch() {
	for range 1_000_000 {
		r, no, ok := w.c.Next(w.now)
		if !ok {
			return
		}
		of := r.Owner.(*request)
		of.Now = w.now
		if no != nil {
			w.refuse(of, no)
		} else if !w.decide(of) {
			w.advance(of)
		}
	}
	w.t.Fatal("the queue hands out without end")
}

func (w *world) firstByte(r *request) {
	w.p.FirstByte(w.now, r.booking)
	w.dispatch()
}

// end has the request's answer end.
func (w *world) end(r *request) {
	w.p.End(w.now, r.booking)
	r.runs = false
	w.c.Settle(w.now, &r.Request, r.tokens, r.output)
	w.dispatch()
}

// cancel has the client go away.
func (w *world) cancel(r *request) {
	w.c.Leave(w.now, &r.Request)
	r.held = false
	w.dispatch()
}

// pass lets time pass, with every deadline on the way.
func (w *world) pass(d time.Duration) {
	until := w.now + pool.Instant(d)
	for range 1_000_000 {
		due := w.c.Deadline()
		if due == 0 || due > until {
			w.now = until
			return
		}
		w.now = max(w.now, due)
		w.dispatch()
	}
	w.t.Fatal("deadlines without end")
}

func (w *world) wantWaiting(n int64) {
	w.t.Helper()
	s := w.c.Stats(w.now)
	if s.Requests != n {
		w.t.Errorf("%d wait, want %d", s.Requests, n)
	}
	sum, bytes := int64(0), int64(0)
	for _, p := range s.Pools {
		for _, b := range p.Bands {
			sum += b.Requests
			bytes += b.Bytes
		}
	}
	if sum != s.Requests || bytes != s.Bytes {
		w.t.Errorf("the bands hold %d requests, %d bytes; the total is %d and %d", sum, bytes, s.Requests, s.Bytes)
	}
	if due := w.c.Deadline(); (due != 0) != (n > 0) {
		w.t.Errorf("%d wait and the deadline is %v", n, due)
	}
}
