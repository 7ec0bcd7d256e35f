package exchange_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// idlest leaves the candidate with the fewest requests, of equal ones the first.
type idlest struct {
	n plugins.EndpointValues[int32]
}

func (f *idlest) Provision(b *plugins.Builder) error {
	f.n = plugins.Needs(b, plugins.InFlightRequests)
	return nil
}

func (f *idlest) Filter(c *plugins.Cycle, keep plugins.Bits) {
	best, n := 0, f.n.Of(c)
	for i, id := range c.Candidates {
		if n[id] < n[c.Candidates[best]] {
			best = i
		}
	}
	for i := range c.Candidates {
		if i != best {
			keep.Clear(i)
		}
	}
}

// hooks counts what a plugin is told of requests.
type hooks struct {
	told []string
}

func (h *hooks) Claim(*plugins.Request, []plugins.Leg, *pool.Books) { h.told = append(h.told, "claim") }
func (h *hooks) Unclaim(*plugins.Request)                           { h.told = append(h.told, "unclaim") }
func (h *hooks) Booked(_ *plugins.Request, legs []plugins.Leg, _ *pool.Books) {
	h.told = append(h.told, fmt.Sprint("booked ", legs[0].Endpoints[0]))
}
func (h *hooks) Commit(_ *plugins.Request, legs []plugins.Leg, _ *plugins.Outgoing) {
	h.told = append(h.told, fmt.Sprint("commit ", legs[0].Endpoints[0]))
}
func (h *hooks) Settle(_ *plugins.Request, o plugins.Outcome) {
	h.told = append(h.told, "settle "+o.EndingCode)
}

// neighbours are schedulers that tell each other what they book, which takes a while to arrive.
type neighbours struct {
	t       *testing.T
	all     []*world
	hooks   []*hooks
	mirrors [][]pool.Mirror
	way     time.Duration
	mail    []letter
	now     pool.Instant
	asked   []*asked
}

type letter struct {
	due  pool.Instant
	from int
	e    pool.Event
}

// asked is a request at one of them.
type asked struct {
	*exchange.Exchange
	at   int
	want exchange.Action
	came pool.Instant // when its action did
	woke bool
}

func (a *asked) Wake() { a.woke = true }

func newNeighbours(t *testing.T, n int, set func(*exchange.Options), extra ...plugins.PluginSpec) *neighbours {
	t.Helper()
	g := &neighbours{t: t, way: 400 * time.Microsecond, now: pool.Instant(time.Second)}
	for i := range n {
		h := &hooks{}
		w := newWorld(t, func(o *exchange.Options) {
			o.Seed = uint64(i)
			if set != nil {
				set(o)
			}
		}, nil, append([]plugins.PluginSpec{instance("idlest", &idlest{}), instance("hooks", h)}, extra...)...)
		w.pools[0].Follow(func(e pool.Event) {
			e.Chain = slices.Clone(e.Chain)
			g.mail = append(g.mail, letter{g.now + pool.Instant(g.way), i, e})
		})
		g.all, g.hooks = append(g.all, w), append(g.hooks, h)
		mirrors := make([]pool.Mirror, n)
		for k := range mirrors {
			mirrors[k].First = k < i
		}
		g.mirrors = append(g.mirrors, mirrors)
	}
	return g
}

// meet has each of them hear that the others run, by a request that is over.
func (g *neighbours) meet() *neighbours {
	for i := range g.all {
		g.ask(i, 1).End(g.now, exchange.Ending{Clean: true})
	}
	g.until(g.now + pool.Instant(10*time.Millisecond))
	for i := range g.hooks {
		g.hooks[i].told = nil
	}
	g.asked = nil
	return g
}

// ask has a prompt of so many tokens decided by one of them.
func (g *neighbours) ask(at int, tokens int64) *asked {
	a := &asked{at: at}
	s := openai.NewSummary()
	s.Complete, s.Stream, s.PromptTokens = true, true, tokens
	a.Exchange = g.all[at].s.Begin(g.now, a)
	a.take(g.now, a.Described(g.now, s, exchange.Said{}))
	g.asked = append(g.asked, a)
	return a
}

func (a *asked) take(now pool.Instant, action exchange.Action) {
	if a.want = action; action.Do != exchange.Hold && action.Do != exchange.Ignore {
		a.came = now
	}
}

// until lets time pass in steps of a tenth of a millisecond.
func (g *neighbours) until(end pool.Instant) {
	for ; g.now < end; g.now += pool.Instant(100 * time.Microsecond) {
		g.turn()
	}
	g.turn()
}

func (g *neighbours) turn() {
	for len(g.mail) > 0 && g.mail[0].due <= g.now {
		l := g.mail[0]
		g.mail = g.mail[1:]
		for i, w := range g.all {
			if i != l.from {
				w.s.Hear(g.now, w.pools[0], &g.mirrors[i][l.from], []pool.Event{l.e})
			}
		}
	}
	for _, w := range g.all {
		w.s.Tick(g.now)
	}
	for _, a := range g.asked {
		if a.woke {
			a.woke = false
			if action := a.Resume(g.now); action.Do != exchange.Ignore {
				a.take(g.now, action)
			}
		}
	}
}

func (g *neighbours) pass(d time.Duration) { g.until(g.now + pool.Instant(d)) }

// record is that of a request.
func (g *neighbours) record(a *asked) exchange.Record {
	g.t.Helper()
	doc, ok := g.all[a.at].s.Decision(a.ID)
	if !ok {
		g.t.Fatal("there is no record")
	}
	return doc.Record
}

// went says where requests went, "a" to "c", "-" for one that is held, or the code of its refusal, with "*" for those decided anew.
func (g *neighbours) went() string {
	var out []string
	for _, a := range g.asked {
		s := "-"
		switch a.want.Do {
		case exchange.Forward:
			s = string(rune('a' + a.want.To[0].Addr().As4()[3] - 1))
			if second := g.record(a).Second; second != nil && second.First != nil {
				s += "*"
			}
		case exchange.Reply:
			s = a.want.Reply.Details
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

// over ends all requests, and says what is left then.
func (g *neighbours) over() {
	g.t.Helper()
	for _, a := range g.asked {
		a.End(g.now, exchange.Ending{Clean: true})
	}
	g.pass(5 * time.Millisecond)
	for i, w := range g.all {
		w.wantOpen(0)
		if !w.s.Quiet() {
			g.t.Errorf("scheduler %d is not quiet", i)
		}
		w.pools[0].Decide(func(s *pool.Snapshot, b *pool.Books) {
			for id := range s.Slots {
				if b.Requests[id] != 0 || b.Heard[id] != 0 || b.PrefillTokens[id] != 0 || b.DecodeTokens[id] != 0 {
					g.t.Errorf("scheduler %d, endpoint %d: %d requests, %d heard, %d and %d tokens are left", i, id, b.Requests[id], b.Heard[id], b.PrefillTokens[id], b.DecodeTokens[id])
				}
			}
		})
	}
}

const long = 2000 // tokens: 62 ms by what a pool takes them for

// Whoever decides without having heard of the others is looked at again, and all but the first of those that meet move.
func TestReplicasThatMeet(t *testing.T) {
	type ask struct {
		us     int // when, in microseconds
		at     int // by whom
		tokens int64
	}
	for _, row := range []struct {
		name string
		n    int
		way  time.Duration // of what is told; 0: 0.4 ms
		set  func(*exchange.Options)
		asks []ask
		want string
	}{
		{"one after the other: the second knows", 2, 0, nil, []ask{{0, 0, long}, {500, 1, long}}, "a b"},
		{"the earlier stays", 2, 0, nil, []ask{{0, 0, long}, {300, 1, long}}, "a b*"},
		{"the earlier stays, whoever it is", 2, 0, nil, []ask{{0, 1, long}, {300, 0, long}}, "a b*"},
		{"in one instant the first by name stays", 2, 0, nil, []ask{{0, 1, long}, {0, 0, long}}, "b* a"},
		{"what is told takes as long as it is waited for", 2, time.Millisecond, nil, []ask{{0, 1, long}, {300, 0, long}}, "a b*"},
		{"what is told takes longer", 2, 2 * time.Millisecond, nil, []ask{{0, 1, long}, {300, 0, long}}, "a a"},
		{"three", 3, 0, nil, []ask{{0, 0, long}, {100, 1, long}, {200, 2, long}}, "a b* c*"},
		{"three in one instant: those that move meet again", 3, 0, nil, []ask{{0, 0, long}, {0, 1, long}, {0, 2, long}}, "a b* c*"},
		{"more than there are endpoints", 4, 0, nil, []ask{{0, 0, long}, {0, 1, long}, {0, 2, long}, {0, 3, long}}, "a b* c* a*"},
		{"two at one scheduler see each other", 2, 0, nil, []ask{{0, 0, long}, {0, 0, long}}, "a b"},
		{"a short prompt goes at once, and is no reason to move", 2, 0, nil, []ask{{0, 0, 100}, {100, 1, long}}, "a a"},
		{"a short prompt is not held, whoever comes", 2, 0, nil, []ask{{0, 0, long}, {100, 1, 100}}, "a a"},
		{"nobody waits where that is off", 2, 0, func(o *exchange.Options) { o.ReplicaWait = 0 }, []ask{{0, 0, long}, {0, 1, long}}, "a a"},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := newNeighbours(t, row.n, row.set)
			g.meet()
			if row.way != 0 {
				g.way = row.way
			}
			begin := g.now
			for _, a := range row.asks {
				g.until(begin + pool.Instant(a.us)*pool.Instant(time.Microsecond))
				g.ask(a.at, a.tokens)
			}
			g.pass(10 * time.Millisecond)
			if got := g.went(); got != row.want {
				t.Errorf("went to %q, want %q", got, row.want)
			}
			moved := strings.Count(row.want, "*")
			for i := range g.all {
				moved -= g.all[i].noted.count(reason.DecidedAnew)
			}
			if moved != 0 {
				t.Errorf("decided_anew was noted %d times too few", moved)
			}
			g.over()
		})
	}
}

// A request of which nothing can be heard goes at once, and asks for no timer.
func TestWhoIsAloneDoesNotWait(t *testing.T) {
	for _, row := range []struct {
		name string
		when func(g *neighbours)
		hold bool
	}{
		{"never heard of another", func(*neighbours) {}, false},
		{"heard of another just now", func(g *neighbours) { g.meet() }, true},
		{"heard of none for a second", func(g *neighbours) {
			g.meet()
			g.pass(1100 * time.Millisecond)
		}, false},
		{"has one endpoint to choose", func(g *neighbours) {
			g.meet()
			g.all[0].pools[0].Update(g.now, []pool.Endpoint{{Namespace: "ns", Name: "a", Addr: address(0, 0)}})
		}, false},
		{"another was heard again, with what it has open", func(g *neighbours) {
			g.all[1].pools[0].Replay(g.now, func(e pool.Event) { g.mail = append(g.mail, letter{g.now, 1, e}) })
			g.pass(time.Millisecond)
		}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			g := newNeighbours(t, 2, nil)
			row.when(g)
			g.all[0].alarm.at = nil
			g.asked = nil
			a := g.ask(0, long)
			soon := slices.ContainsFunc(g.all[0].alarm.at, func(at pool.Instant) bool { return at < g.now+pool.Instant(time.Second) })
			if held := a.want.Do == exchange.Hold; held != row.hold || soon != row.hold {
				t.Errorf("held %t, asks for a timer %t; want %t", held, soon, row.hold)
			}
			g.pass(2 * time.Millisecond)
			if row.hold && a.came-pool.Instant(time.Millisecond) != g.now-pool.Instant(2*time.Millisecond) {
				t.Errorf("it was held until %v at %v", a.came, g.now)
			}
			g.over()
		})
	}
}

// Plugins are told of one request once, and the record says what came of it.
func TestADecisionMadeAnewIsTold(t *testing.T) {
	g := newNeighbours(t, 2, nil).meet()
	first, second := g.ask(0, long), g.ask(1, long)
	if a := second.Resume(g.now); a.Do != exchange.Hold {
		t.Errorf("woken without cause it got %v", a.Do)
	}
	g.pass(5 * time.Millisecond)
	g.over()
	for i, want := range []string{"claim, booked 0, commit 0, settle ", "claim, unclaim, claim, booked 1, commit 1, settle "} {
		if got := strings.Join(g.hooks[i].told, ", "); got != want {
			t.Errorf("the plugin of %d was told %q, want %q", i, got, want)
		}
	}
	if s := g.record(first).Second; s == nil || s.Held != time.Millisecond || s.First != nil || s.Met != "" {
		t.Errorf("the record of who stays: %+v", s)
	}
	r := g.record(second)
	if s := r.Second; s == nil || s.Held != 2*time.Millisecond || s.First == nil || s.First.Name != "ns/a" ||
		s.Met != "another replica chose the endpoint at the same time, for prompts of 62ms" {
		t.Errorf("the record of who moves: %+v", s)
	}
	if !slices.Contains(r.Reasons, "decided_anew") || r.Legs[0].Endpoints[0].Name != "ns/b" {
		t.Errorf("reasons %v, legs %v", r.Reasons, r.Legs)
	}
	if r.Outcome.Held != 2*time.Millisecond {
		t.Errorf("held %v in all", r.Outcome.Held)
	}
}

// counted is a meter that says what it was told.
type counted struct{ told []string }

func (m *counted) Decided(of exchange.Metered, no reason.ID, wait pool.Instant) {
	m.told = append(m.told, fmt.Sprintf("decided %v after %v, looked %t, anew %t", no, time.Duration(wait), of.Looked, of.Anew))
}
func (m *counted) Settled(_ exchange.Metered, o plugins.Outcome) {
	m.told = append(m.told, "settled "+o.EndingCode)
}

// bounded is a queue with room at some endpoints, that counts.
type bounded struct {
	evicting
	room     func(pool.ID) bool
	admitted int
	asked    int // for who may go
}

func (q *bounded) Next(now pool.Instant) (*plugins.Request, *reason.Refusal, bool) {
	q.asked++
	return q.evicting.Next(now)
}
func (q *bounded) Admitted(*plugins.Request, pool.Ref, pool.Load) { q.admitted++ }
func (q *bounded) Readmit(c *plugins.Cycle, _ *pool.Books) bool   { return c.Restrict(q.room) > 0 }

// Whatever happens to a request while it is held, its booking goes, others hear of it, and what plugins noted is settled.
func TestWhileARequestIsHeld(t *testing.T) {
	ab := []pool.Endpoint{{Namespace: "ns", Name: "a", Addr: address(0, 0)}, {Namespace: "ns", Name: "b", Addr: address(0, 1)}}
	for _, row := range []struct {
		name string
		then func(g *neighbours, q *bounded, a *asked)
		want string // where it went, and the other's
		told string // its plugin
		met  string // its meter
	}{
		{"nothing", nil, "b* a", "claim, unclaim, claim, booked 1, commit 1, settle ", "decided none after 2ms, looked true, anew true; settled "},
		{"its client goes away", func(g *neighbours, _ *bounded, a *asked) {
			a.End(g.now, exchange.Ending{ByClient: true})
		}, "- a", "claim, settle client_aborted", "decided client_aborted after 0s, looked false, anew false"},
		{"the process drains", func(g *neighbours, _ *bounded, _ *asked) { g.all[1].s.Drain() },
			"a a", "claim, booked 0, commit 0, settle ", "decided none after 1ms, looked true, anew false; settled "},
		{"its endpoint leaves, here alone", func(g *neighbours, _ *bounded, _ *asked) { g.all[1].pools[0].Update(g.now, ab[1:]) },
			"b* a", "claim, unclaim, claim, booked 1, commit 1, settle ", "decided none after 1ms, looked true, anew true; settled "},
		{"all leave", func(g *neighbours, _ *bounded, _ *asked) { g.all[1].pools[0].Update(g.now, nil) },
			"no_endpoint a", "claim, unclaim, settle no_endpoint", "decided no_endpoint after 1ms, looked true, anew false"},
		{"it is evicted", func(g *neighbours, q *bounded, _ *asked) {
			q.victims = q.sent
			g.all[1].s.Tick(g.now)
		}, "evicted a", "claim, settle evicted", "decided evicted after 0s, looked false, anew false"},
		{"the others have no room", func(_ *neighbours, q *bounded, _ *asked) { q.room = func(pool.ID) bool { return false } },
			"a a", "claim, unclaim, claim, booked 0, commit 0, settle ", "decided none after 1ms, looked true, anew false; settled "},
		{"one of the others has room", func(_ *neighbours, q *bounded, _ *asked) { q.room = func(id pool.ID) bool { return id == 2 } },
			"c* a", "claim, unclaim, claim, booked 2, commit 2, settle ", "decided none after 1ms, looked true, anew true; settled "},
		{"its endpoint leaves, and the others have no room", func(g *neighbours, q *bounded, _ *asked) {
			g.all[1].pools[0].Update(g.now, ab[1:])
			q.room = func(pool.ID) bool { return false }
		}, "all_filtered a", "claim, unclaim, settle all_filtered", "decided all_filtered after 1ms, looked true, anew false"},
		{"the configuration is replaced", func(g *neighbours, _ *bounded, _ *asked) { g.all[1].replace("two") },
			"b* a", "claim, unclaim, claim, booked 1, commit 1, settle ", "decided none after 2ms, looked true, anew true; settled "},
	} {
		t.Run(row.name, func(t *testing.T) {
			q := &bounded{room: func(pool.ID) bool { return true }}
			var meters []*counted
			g := newNeighbours(t, 2, func(o *exchange.Options) {
				m := &counted{}
				meters = append(meters, m)
				o.Meter = m
			}, instance("queue", q)).meet()
			meters[1].told, q.admitted, q.sent = nil, 0, nil
			a := g.ask(1, long)
			if row.then != nil {
				row.then(g, q, a)
			}
			g.ask(0, long)
			g.pass(5 * time.Millisecond)
			if got := g.went(); got != row.want {
				t.Errorf("went to %q, want %q", got, row.want)
			}
			a.End(g.now, exchange.Ending{Clean: true})
			if got := strings.Join(g.hooks[1].told, ", "); got != row.told {
				t.Errorf("the plugin was told %q, want %q", got, row.told)
			}
			if got := strings.Join(meters[1].told, "; "); got != row.met {
				t.Errorf("the meter was told %q, want %q", got, row.met)
			}
			g.over()
			if q.admitted != 2 {
				t.Errorf("the queue was told %d times of two requests", q.admitted)
			}
		})
	}
}

// Where a request moves to another endpoint, or goes nowhere, there may be room for one that waits: the queue is asked at once.
func TestWhatIsGivenBackIsOffered(t *testing.T) {
	for _, row := range []struct {
		name string
		then func(g *neighbours)
		want exchange.Do
		asks bool
	}{
		{"it stays", func(*neighbours) {}, exchange.Forward, false},
		{"it moves", func(g *neighbours) { g.ask(0, long) }, exchange.Forward, true},
		{"it is refused", func(g *neighbours) { g.all[1].pools[0].Update(g.now, nil) }, exchange.Reply, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			q := &bounded{room: func(id pool.ID) bool { return id == 2 }}
			g := newNeighbours(t, 2, nil, instance("queue", q)).meet()
			a := g.ask(1, long)
			row.then(g)
			g.pass(900 * time.Microsecond)
			g.now += pool.Instant(100 * time.Microsecond)
			before := q.asked
			if action := a.Resume(g.now); action.Do != row.want {
				t.Fatalf("got %v, want %v", action.Do, row.want)
			}
			if asked := q.asked > before; asked != row.asks {
				t.Errorf("the queue was asked: %t, want %t", asked, row.asks)
			}
			g.over()
		})
	}
}

// In a storm of requests at two schedulers that hear each other at once, with clients that leave at any moment and members that come and go,
// nothing is left.
func TestNothingIsLeftOfSecondLooks(t *testing.T) {
	const workers, each = 8, 150
	var clock atomic.Int64
	clock.Store(int64(time.Second))
	now := func() pool.Instant { return pool.Instant(clock.Load()) }
	var worlds [2]*world
	var told [2]chan pool.Event
	for i := range worlds {
		worlds[i] = newWorld(t, func(o *exchange.Options) { o.Seed = uint64(i) }, nil, instance("idlest", &idlest{}))
		told[i] = make(chan pool.Event, workers*each*4)
		worlds[i].pools[0].Follow(func(e pool.Event) { told[i] <- e })
	}
	var hearing, running sync.WaitGroup
	for i := range worlds {
		hearing.Go(func() {
			m, p := pool.Mirror{First: i == 1}, worlds[i].pools[0]
			for e := range told[1-i] {
				worlds[i].s.Current().Hear(now(), p, &m, []pool.Event{e})
			}
			p.Forget(now(), &m)
		})
	}
	done := make(chan struct{})
	hearing.Go(func() { // time passes, deadlines come, members come and go
		for n := 0; ; n++ {
			select {
			case <-done:
				return
			default:
			}
			clock.Add(int64(100 * time.Microsecond))
			for i, w := range worlds {
				for _, s := range w.s.Current().Running() {
					s.Tick(now())
				}
				if n%97 == 0 {
					members := []pool.Endpoint{{Namespace: "ns", Name: "a", Addr: address(0, 0)}, {Namespace: "ns", Name: "b", Addr: address(0, 1)}, {Namespace: "ns", Name: "c", Addr: address(0, 2)}}
					w.pools[0].Update(now(), members[:2+(n+i)%2])
				}
			}
			runtime.Gosched()
		}
	})
	var anew, looked atomic.Int64
	for k := range workers {
		running.Go(func() {
			w := worlds[k%2]
			for i := range each {
				woken := make(waker, 1)
				x := w.s.Current().Begin(now(), woken)
				s := openai.NewSummary()
				s.Complete, s.Stream, s.PromptTokens = true, true, long
				a := x.Described(now(), s, exchange.Said{})
				if a.Do == exchange.Hold && i%7 == 0 {
					x.End(now(), exchange.Ending{ByClient: true})
					continue
				}
				for a.Do == exchange.Hold {
					<-woken
					a = x.Resume(now())
				}
				if a.Do == exchange.Forward {
					x.Response(now(), nil, a.To[0], false)
				}
				x.End(now(), exchange.Ending{Clean: i%3 > 0, ByClient: i%3 == 0})
				if doc, ok := w.s.Decision(x.ID); ok && doc.Record.Second != nil {
					looked.Add(1)
					if doc.Record.Second.First != nil {
						anew.Add(1)
					}
				}
			}
		})
	}
	running.Wait()
	close(done)
	for i := range told {
		worlds[i].pools[0].Follow(nil)
		close(told[i])
	}
	hearing.Wait()
	for i, w := range worlds {
		w.wantOpen(0)
		w.pools[0].Decide(func(s *pool.Snapshot, b *pool.Books) {
			for id := range s.Slots {
				if b.Requests[id] != 0 || b.Heard[id] != 0 || b.NoFirstByte[id] != 0 || b.PrefillTokens[id] != 0 || b.DecodeTokens[id] != 0 {
					t.Errorf("scheduler %d, endpoint %d: %d requests, %d heard, %d without first byte, %d and %d tokens", i, id, b.Requests[id], b.Heard[id], b.NoFirstByte[id], b.PrefillTokens[id], b.DecodeTokens[id])
				}
			}
		})
		w.s.Current().Tick(now())
		if !w.s.Current().Quiet() {
			t.Errorf("scheduler %d is not quiet", i)
		}
		w.wantNoted(reason.BookingExpired, 0)
	}
	if looked.Load() == 0 {
		t.Error("none was looked at twice")
	}
	t.Logf("%d were looked at twice, %d decided anew", looked.Load(), anew.Load())
}
