package pluginstest

import (
	"net/netip"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// Rig is one pool with real books under a configuration of one profile, for what a single run cannot show: producers, hooks
// and whatever lasts from one request to the next. It is driven from one goroutine.
type Rig struct {
	Built *plugins.Built
	Pool  *pool.Pool
	Now   pool.Instant // of the next request
	Notes Notes
	Want  int // endpoints that a picker shall return at most; 0 is 1

	// Load is what each request to come is booked to cost.
	Load pool.Load

	t       testing.TB
	members []pool.Endpoint
	sent    uint64
}

// Notes counts reasons.
type Notes map[reason.ID]int

// Note counts one.
func (n Notes) Note(id reason.ID, _ string) { n[id]++ }

// NewRig returns a rig of these parts and a pool with members of these names. Plugins that are no part of a profile, such
// as hooks, may stand among the parts all the same.
func NewRig(t testing.TB, parts []Part, members ...string) *Rig {
	t.Helper()
	built, err := build(parts)
	if err != nil {
		t.Fatal(err)
	}
	g := &Rig{Built: built, Now: 1, Notes: Notes{}, t: t}
	g.Pool = pool.New("default", g.Notes)
	g.Members(members...)
	return g
}

// Replace puts a configuration of other parts in the place of the first, over the same pool, and returns what Inherit says.
// Requests that were sent before end under theirs.
func (g *Rig) Replace(parts []Part) (kept, lost []string) {
	g.t.Helper()
	built, err := build(parts)
	if err != nil {
		g.t.Fatal(err)
	}
	kept, lost = built.Inherit(g.Built)
	g.Built = built
	return kept, lost
}

// Members makes endpoints of these names the pool's membership. An endpoint keeps its address while it stays.
func (g *Rig) Members(names ...string) {
	g.t.Helper()
	g.MembersLike(func(*pool.Endpoint) {}, names...)
}

// MembersLike is Members with each endpoint completed by like.
func (g *Rig) MembersLike(like func(*pool.Endpoint), names ...string) {
	g.t.Helper()
	var next []pool.Endpoint
	for _, name := range names {
		at := len(g.members)
		for i := range g.members {
			if g.members[i].Name == name {
				at = i
			}
		}
		if at == len(g.members) {
			g.members = append(g.members, pool.Endpoint{
				Namespace: "default", Name: name,
				Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(at >> 8), byte(at)}), 8000),
			})
		}
		like(&g.members[at])
		next = append(next, g.members[at])
	}
	g.Pool.Update(g.Now, next)
}

// Ref returns the endpoint of this name, as it stands in the pool now.
func (g *Rig) Ref(name string) pool.Ref {
	g.t.Helper()
	s := g.Pool.Snapshot()
	for _, id := range s.Members {
		if s.Slots[id].Name == name {
			return s.Slots[id].Ref
		}
	}
	g.t.Fatalf("no endpoint is named %q", name)
	return pool.Ref{}
}

// Sent is a request that was decided, booked and committed.
type Sent struct {
	Request plugins.Request
	Out     plugins.Outgoing
	Picked  []string              // names, primary first
	Run     plugins.ProfileRecord // of the profile

	Cached map[string]int64 // tokens believed cached, by name

	g       *Rig
	cycle   *plugins.Cycle
	built   *plugins.Built // that it began with
	booking pool.Booking
}

// Send decides, books and commits a request with this body.
func (g *Rig) Send(body *openai.Summary) *Sent {
	g.t.Helper()
	return g.SendWith(body, nil)
}

// SendWith is Send of a request with these headers.
func (g *Rig) SendWith(body *openai.Summary, headers openai.Headers) *Sent {
	g.t.Helper()
	return g.PrepareWith(body, headers).Decide()
}

// Prepare takes a request with this body as far as the pool's lock; Decide goes on from there. So several requests come to
// stand before the lock at once, each with facts from before the others were booked.
func (g *Rig) Prepare(body *openai.Summary) *Sent {
	g.t.Helper()
	return g.PrepareWith(body, nil)
}

// PrepareWith is Prepare of a request with these headers.
func (g *Rig) PrepareWith(body *openai.Summary, headers openai.Headers) *Sent {
	g.t.Helper()
	s := &Sent{g: g, built: g.Built, Cached: map[string]int64{}}
	r := &s.Request
	r.Prepare(g.Built, nil)
	r.Number, r.Now, r.API, r.Body, r.PoolIndex = g.sent, g.Now, openai.ChatCompletions, body, 0
	r.Headers = headers
	r.Target = plugins.Target{Pool: "default", Model: r.Model()}
	g.sent++
	plan := g.Built.Plans[0]
	no := plan.Describe(g.Notes, r)
	s.cycle = plan.NewCycle(g.Notes)
	s.cycle.Want, s.cycle.Record = max(g.Want, 1), true
	if no == nil {
		no = s.cycle.Prepare(r, g.Pool.Snapshot(), g.Pool.StaleAfter(), 0, nil)
	}
	if no != nil {
		g.t.Fatal(no)
	}
	return s
}

// Cycle is that of a request that was prepared, for measurements of one plugin.
func (s *Sent) Cycle() *plugins.Cycle { return s.cycle }

// Decide decides and books a request that was prepared over the membership as it stands.
func (s *Sent) Decide() *Sent {
	g, r, plan := s.g, &s.Request, s.built.Plans[0]
	g.t.Helper()
	snapshot := g.Pool.Snapshot()
	var legs []plugins.Leg
	var no *reason.Refusal
	g.Pool.Decide(func(_ *pool.Snapshot, books *pool.Books) {
		books.At(g.Now)
		if legs, no = s.cycle.Decide(books); no == nil {
			id := legs[0].Endpoints[0]
			s.booking = books.Book(snapshot.Slots[id].Ref, g.Load, g.Now+1e12)
			plan.Claim(g.Notes, r, legs, books)
			plan.Booked(g.Notes, r, legs, books)
		}
	})
	if no != nil {
		g.t.Fatal(no)
	}
	for _, id := range snapshot.Members {
		s.Cached[snapshot.Slots[id].Name] = g.Built.CachedTokens(s.cycle, id)
	}
	for _, id := range legs[0].Endpoints {
		s.Picked = append(s.Picked, snapshot.Slots[id].Name)
	}
	s.Run = s.cycle.Trace[0]
	plan.Commit(g.Notes, r, legs, &s.Out)
	return s
}

// Answer lets the endpoint of this name answer: the first byte. It returns the headers that hooks add to the answer.
func (s *Sent) Answer(served string) openai.Headers {
	s.Request.Served = s.g.Ref(served)
	s.g.Pool.FirstByte(s.g.Now, s.booking)
	plan := s.built.Plans[0]
	plan.Attempt(s.g.Notes, &s.Request, plugins.Attempt{At: s.g.Now, To: s.Request.Served, Status: s.Request.Status, Waited: time.Duration(s.g.Now - s.Request.Now)})
	plan.Respond(s.g.Notes, &s.Request, plugins.FirstByte, nil)
	return plan.Answer(s.g.Notes, &s.Request, nil)
}

// Generated tells the books how many tokens the answer has.
func (s *Sent) Generated(tokens int64) { s.g.Pool.Progress(s.g.Now, s.booking, tokens) }

// Fail has the endpoint of this name give no answer, for this reason.
func (s *Sent) Fail(at string, why reason.ID) {
	s.built.Plans[0].Attempt(s.g.Notes, &s.Request, plugins.Attempt{At: s.g.Now, To: s.g.Ref(at), Failed: why, Waited: time.Duration(s.g.Now - s.Request.Now)})
}

// End ends the request; 0 is a clean end. Nothing is known of how long it took, and of its usage.
func (s *Sent) End(ending reason.ID) {
	s.EndAs(plugins.Outcome{Ending: ending, Served: s.Request.Served, TTFT: plugins.Unknown, Prompt: plugins.Unknown, Cached: plugins.Unknown, Out: plugins.Unknown})
}

// EndAs ends the request with this outcome.
func (s *Sent) EndAs(o plugins.Outcome) {
	s.g.Pool.End(s.g.Now, s.booking)
	if o.At == 0 {
		o.At = s.g.Now
	}
	s.built.Settle(s.g.Notes, &s.Request, o)
}
