package health_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/health"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/plugins/pluginstest"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// turns picks one candidate after the other, with all others as fallbacks.
type turns struct{ n int }

func (p *turns) Pick(c *plugins.Cycle, _ []float64, want int, best []int) []int {
	n := len(c.Candidates)
	for i := range min(want, n) {
		best = append(best, (p.n+i)%n)
	}
	p.n++
	return best
}

// ward is a pool under watch.
type ward struct {
	*pluginstest.Rig
	f *health.Filter
	t *testing.T
}

func newWard(t *testing.T, set func(*health.Filter), members ...string) *ward {
	f := health.NewFilter()
	if set != nil {
		set(f)
	}
	if members == nil {
		members = []string{"a", "b", "c", "d"}
	}
	g := pluginstest.NewRig(t, []pluginstest.Part{{Name: "health", Plugin: f}, {Name: "turns", Plugin: &turns{}}}, members...)
	g.Want = 3
	return &ward{g, f, t}
}

func (w *ward) pass(d time.Duration) { w.Now += pool.Instant(d) }

// is returns the states that are not closed, as "name:state", by name.
func (w *ward) is() string {
	w.Send(openai.NewSummary()).End(reason.ClientAborted) // states are looked at by decisions
	var out []string
	for _, e := range w.Pool.Snapshot().Slots {
		if h, ok := w.f.Health(0, w.Now, e.Ref); ok && h.State != plugins.Closed {
			out = append(out, e.Name+":"+string(h.State))
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (w *ward) want(states string) {
	w.t.Helper()
	if got := w.is(); got != states {
		w.t.Errorf("at %v: %q, want %q", time.Duration(w.Now), got, states)
	}
}

// to sends requests until one goes to this endpoint; the clients of the others go away.
func (w *ward) to(name string) *pluginstest.Sent {
	w.t.Helper()
	for range 200 {
		s := w.Send(openai.NewSummary())
		if s.Picked[0] == name {
			return s
		}
		s.End(reason.ClientAborted)
	}
	w.t.Fatalf("no request goes to %s", name)
	return nil
}

// answers answers a request with a status, after a while.
func (w *ward) answers(s *pluginstest.Sent, status int, after time.Duration) {
	w.pass(after)
	s.Request.Status = status
	s.Answer(s.Picked[0])
	s.End(0)
}

// Who refuses a connection is avoided from the first time on, tried when its time has come, and let in with a share that grows.
func TestALifeOfAnEndpoint(t *testing.T) {
	w := newWard(t, nil)
	s := w.to("b")
	s.Fail("b", reason.UpstreamUnreachable)
	s.Answer("c")
	s.End(0)
	w.want("b:ejected")
	if n := w.Notes[reason.EndpointUnreachable]; n != 1 {
		t.Errorf("it was noted %d times, want once", n)
	}
	for range 20 {
		if s := w.Send(openai.NewSummary()); slices.Contains(s.Picked, "b") {
			t.Fatalf("a request has %v", s.Picked)
		} else {
			s.End(0)
		}
	}
	w.pass(1200 * time.Millisecond)
	w.want("b:half-open")
	trial := w.to("b")
	for range 20 { // one at a time
		if s := w.Send(openai.NewSummary()); s.Picked[0] == "b" {
			t.Fatal("a second request tries it")
		} else {
			s.End(0)
		}
	}
	trial.Fail("b", reason.UpstreamUnreachable)
	trial.End(reason.UpstreamUnreachable)
	w.want("b:ejected")
	w.pass(1200 * time.Millisecond)
	w.want("b:ejected") // twice as long
	w.pass(1200 * time.Millisecond)
	w.want("b:half-open")
	trial = w.to("b")
	trial.Answer("b")
	trial.End(0)
	w.want("b:slow-start")
	share := func() (n int) {
		for range 400 {
			s := w.Send(openai.NewSummary())
			if slices.Contains(s.Picked, "b") {
				n++
			}
			s.End(0)
		}
		return n
	}
	early := share()
	w.pass(12 * time.Second)
	late := share()
	if early > 40 || late < 120 {
		t.Errorf("of 400 requests %d could go there at first and %d later", early, late)
	}
	w.pass(4 * time.Second)
	w.want("")
}

func TestWhatEjects(t *testing.T) {
	good := func(w *ward, s *pluginstest.Sent) { w.answers(s, 200, 50*time.Millisecond) }
	for _, r := range []struct {
		name string
		set  func(*health.Filter)
		does func(w *ward, s *pluginstest.Sent) // a request that went to b; others are answered
		n    int                                // such requests
		want string
		why  reason.ID
	}{
		{"three errors in a row", nil, func(w *ward, s *pluginstest.Sent) { w.answers(s, 500, 0) }, 3, "b:ejected", reason.EndpointFailing},
		{"two errors", nil, func(w *ward, s *pluginstest.Sent) { w.answers(s, 502, 0) }, 2, "", 0},
		{"resets before the first byte", nil, func(w *ward, s *pluginstest.Sent) {
			s.Fail("b", reason.UpstreamBroken)
			s.End(reason.UpstreamBroken)
		}, 3, "b:ejected", reason.EndpointFailing},
		{"answers that break off", nil, func(w *ward, s *pluginstest.Sent) {
			s.Answer("b")
			s.End(reason.UpstreamBroken)
		}, 8, "", 0}, // each begins well
		{"gateway time-outs", nil, func(w *ward, s *pluginstest.Sent) { w.answers(s, 504, time.Second) }, 3, "b:ejected", reason.EndpointFailing},
		{"errors of the client", nil, func(w *ward, s *pluginstest.Sent) { w.answers(s, 400, 0) }, 50, "", 0},
		{"too many requests", nil, func(w *ward, s *pluginstest.Sent) {
			other := w.to("b") // it has something to do
			w.answers(s, 429, 0)
			other.End(reason.ClientAborted)
		}, 50, "", 0},
		{"no room although there is nothing to do", nil, func(w *ward, s *pluginstest.Sent) { w.answers(s, 503, 0) }, 8, "b:ejected", reason.EndpointFailing},
		{"ten times as slow", nil, func(w *ward, s *pluginstest.Sent) { w.answers(s, 200, 500*time.Millisecond) }, 12, "b:ejected", reason.EndpointSlow},
		{"twice as slow", nil, func(w *ward, s *pluginstest.Sent) { w.answers(s, 200, 100*time.Millisecond) }, 100, "", 0},
		{"slow by less than anybody notices", nil, func(w *ward, s *pluginstest.Sent) { w.answers(s, 200, 90*time.Millisecond) }, 100, "", 0},
		{"as slow as may be", func(f *health.Filter) { f.SlowFactor = 20 }, func(w *ward, s *pluginstest.Sent) { w.answers(s, 200, 500*time.Millisecond) }, 50, "", 0},
		{"no answer while others are answered", func(f *health.Filter) { f.MinRequests = 100 }, func(w *ward, s *pluginstest.Sent) { w.pass(4 * time.Second) }, 6, "b:ejected", reason.EndpointHung},
		{"requests that were given back before they went", func(f *health.Filter) { f.MinRequests = 100 }, func(w *ward, s *pluginstest.Sent) {
			for range 2 { // once is enough
				w.Built.Plans[0].Unclaim(w.Notes, &s.Request)
			}
			w.pass(4 * time.Second)
		}, 6, "", 0},
		{"clients that go away at once", nil, func(w *ward, s *pluginstest.Sent) { s.End(reason.ClientAborted) }, 50, "", 0},
	} {
		t.Run(r.name, func(t *testing.T) {
			w := newWard(t, r.set)
			for range 10 { // what is usual
				for _, name := range []string{"a", "c", "d"} {
					good(w, w.to(name))
				}
			}
			for range r.n {
				for _, name := range []string{"a", "c", "d"} {
					good(w, w.to(name))
				}
				if strings.Contains(w.is(), "b:") {
					break
				}
				r.does(w, w.to("b"))
			}
			for _, name := range []string{"a", "c", "d"} {
				good(w, w.to(name))
			}
			w.want(r.want)
			for _, id := range []reason.ID{reason.EndpointFailing, reason.EndpointSlow, reason.EndpointHung} {
				if n := w.Notes[id]; (n > 0) != (id == r.why) {
					t.Errorf("%v was noted %d times, want %v", id, n, r.why)
				}
			}
		})
	}
}

// A pool that fails or is slow as a whole keeps the part of it that may not be out, and says so.
func TestNoMoreThanAPartIsOut(t *testing.T) {
	w := newWard(t, nil)
	for range 10 {
		for _, name := range []string{"a", "b", "c", "d"} {
			for range 30 {
				s := w.Send(openai.NewSummary())
				if s.Picked[0] == name {
					w.answers(s, 500, 0)
					break
				}
				s.End(reason.ClientAborted)
			}
		}
	}
	if out := strings.Count(w.is(), "ejected"); out != 2 {
		t.Errorf("%d of 4 are out, want half", out)
	}
	if w.Notes[reason.EjectionWithheld] == 0 {
		t.Error("nothing is said of those that should be out, too")
	}
}

// Where nobody listens nothing is to be had: all but one may be out for that, and the last is kept.
func TestAllThatRefuseAreAvoidedWhileThereAreOthers(t *testing.T) {
	var names []string
	for i := range 303 {
		names = append(names, fmt.Sprint("e", i))
	}
	w := newWard(t, nil, names...)
	alive := map[string]bool{"e7": true, "e150": true, "e302": true}
	lost, late := 0, 0
	for i := range 1000 {
		w.pass(time.Millisecond)
		s := w.Send(openai.NewSummary())
		served := ""
		for _, name := range s.Picked {
			if alive[name] {
				served = name
				break
			}
			s.Fail(name, reason.UpstreamUnreachable)
		}
		if served == "" {
			if lost++; i > 150 {
				late++
			}
			s.End(reason.UpstreamUnreachable)
			continue
		}
		s.Answer(served)
		s.End(0)
	}
	if lost > 100 || late > 0 {
		t.Errorf("%d of 1000 requests found nobody, %d of them after each was tried once", lost, late)
	}
	if w.Notes[reason.HealthIgnored] > 0 {
		t.Error("health was ignored although some are well")
	}

	w = newWard(t, nil, "a", "b")
	s := w.to("a")
	s.Fail("a", reason.UpstreamUnreachable)
	s.Fail("b", reason.UpstreamUnreachable)
	s.End(reason.UpstreamUnreachable)
	if s := w.Send(openai.NewSummary()); len(s.Picked) != 2 || w.Notes[reason.HealthIgnored] == 0 {
		t.Errorf("with nobody left the request has %v; want all, with a reason", s.Picked)
	}
}

// otherReplica is another picker's booking at an endpoint, whose answer can begin and whose number of tokens can be told.
func (w *ward) otherReplica(name string) (begins, tells func()) {
	m, h := new(pool.Mirror), pool.Booking{Slot: 3, Generation: 1}
	hear := func(e pool.Event) {
		w.t.Helper()
		e.Booking = h
		if n := w.Pool.Hear(w.Now, m, []pool.Event{e}); n != 0 {
			w.t.Fatalf("%+v was of no use", e)
		}
	}
	hear(pool.Event{Kind: pool.Booked, To: w.Pool.Snapshot().Slots[w.Ref(name).ID].Addr, Left: time.Hour})
	return func() { hear(pool.Event{Kind: pool.Begun}) }, func() { hear(pool.Event{Kind: pool.Told, Tokens: 7}) }
}

// An endpoint that can be read no more, and has answered nothing since, is out while others can be read; one that answers stays, whichever
// replica it answers.
func TestSilence(t *testing.T) {
	for _, r := range []struct {
		name          string
		answers       bool
		begins, tells bool // of another replica, in the fourth second
		want          string
	}{
		{"and no answers", false, false, false, "b:ejected"},
		{"but answers", true, false, false, ""},
		{"but answers another replica", false, true, false, ""},
		{"but ends another replica's answer", false, false, true, ""},
	} {
		t.Run(r.name, func(t *testing.T) {
			w := newWard(t, nil)
			read := func(names ...string) {
				for _, name := range names {
					w.Pool.Observe(w.Now, w.Ref(name), pool.Sample{At: w.Now, Waiting: 0, Running: 1, PromptTokens: -1})
				}
			}
			read("a", "b", "c", "d")
			begins, tells := w.otherReplica("b")
			for second := range 8 {
				w.pass(time.Second)
				read("a", "c", "d")
				if second == 3 && r.begins {
					begins()
				}
				if second == 3 && r.tells {
					tells()
				}
				if s := w.Send(openai.NewSummary()); s.Picked[0] != "b" || r.answers {
					s.Answer(s.Picked[0])
					s.End(0)
				}
			}
			w.want(r.want)
			w.pass(time.Second)
			read("a", "b", "c", "d")
			if w.is(); strings.Contains(w.is(), "ejected") {
				t.Error("it is out although it can be read again")
			}
		})
	}
}

// An endpoint on whose port nobody listens any more loses new requests before it fails any; one whose page alone is gone stays.
func TestAPortThatIsClosed(t *testing.T) {
	for _, r := range []struct {
		name    string
		answers bool
		want    string
	}{{"and no answers", false, "b:ejected"}, {"but answers", true, ""}} {
		t.Run(r.name, func(t *testing.T) {
			w := newWard(t, nil)
			for _, name := range []string{"a", "b", "c", "d"} {
				w.Pool.Observe(w.Now, w.Ref(name), pool.Sample{At: w.Now, PromptTokens: -1})
			}
			s := w.to("b")
			w.pass(time.Second)
			w.Pool.Refused(w.Now, w.Ref("b"))
			if r.answers {
				w.answers(s, 200, time.Millisecond)
			}
			w.pass(time.Second)
			w.Pool.Refused(w.Now, w.Ref("b"))
			w.want(r.want)
			if s.End(0); r.answers {
				return
			}
			for _, name := range []string{"a", "c", "d"} {
				w.Pool.Refused(w.Now, w.Ref(name))
			}
			if s := w.Send(openai.NewSummary()); len(s.Picked) != 3 || w.Notes[reason.EndpointUnreachable] != 1 {
				t.Errorf("where nobody listens anywhere, %v is picked and %d are out; want the others to stay", s.Picked, w.Notes[reason.EndpointUnreachable])
			}
		})
	}
}

// What was learned of an engine goes with it: one that restarts begins anew, and so does one that moves to other hardware.
func TestARestartBeginsAnew(t *testing.T) {
	w := newWard(t, nil)
	s := w.to("b")
	s.Fail("b", reason.UpstreamUnreachable)
	s.End(reason.UpstreamUnreachable)
	w.Pool.Observe(w.Now, w.Ref("b"), pool.Sample{At: w.Now, ProcessStart: 1, PromptTokens: -1})
	w.want("b:ejected")
	w.pass(10 * time.Millisecond)
	w.Pool.Observe(w.Now, w.Ref("b"), pool.Sample{At: w.Now, ProcessStart: 2, PromptTokens: -1})
	w.want("b:slow-start")
	w.Members("a", "c", "d")
	w.Members("a", "b", "c", "d")
	w.want("")
}

// A configuration that is replaced by one with the same parameters keeps what it knows.
func TestWhatIsKnownOutlivesAReload(t *testing.T) {
	w := newWard(t, nil)
	s := w.to("b")
	s.Fail("b", reason.UpstreamUnreachable)
	s.End(reason.UpstreamUnreachable)
	w.f = health.NewFilter()
	w.Replace([]pluginstest.Part{{Name: "health", Plugin: w.f}, {Name: "turns", Plugin: &turns{}}})
	w.want("b:ejected")
}

// The filter is a function of its facts and its stream: a decision can be made again from its record.
func TestTheFilterReadsFactsAlone(t *testing.T) {
	const out, slow = `{"state":"ejected","why":"endpoint_slow","reached":true}`, `{"state":"slow-start","share":0.0001}`
	for _, r := range []struct{ name, world, want string }{
		{"all are well", `a endpoint-health={"state":"closed","share":1}; b endpoint-health={"state":"closed","share":1}`, "a b"},
		{"nobody watches", "a; b", "a b"},
		{"one is out", "a endpoint-health=" + out + "; b", "b"},
		{"one may be tried", `a endpoint-health={"state":"half-open","trial":true}; b`, "a b"},
		{"one is being tried", `a endpoint-health={"state":"half-open"}; b`, "b"},
		{"those that begin are better than those that are out", "a endpoint-health=" + out + "; b endpoint-health=" + slow, "b"},
		{"who can be reached is better than who cannot", "a endpoint-health=" + out + `; b endpoint-health={"state":"ejected"}`, "a"},
		{"nobody can be reached", `a endpoint-health={"state":"ejected"}; b endpoint-health={"state":"ejected"}`, "a b"},
	} {
		if got := strings.Join(pluginstest.Filter(t, health.NewFilter(), r.world, pluginstest.Want(2)), " "); got != r.want {
			t.Errorf("%s: left %q, want %q", r.name, got, r.want)
		}
	}
}

// A decision under watch allocates nothing, whoever is out.
func TestWatchingAllocatesNothing(t *testing.T) {
	f := health.NewFilter()
	built, err := plugins.Build(plugins.Spec{
		Plugins: []plugins.PluginSpec{
			{Name: "handler", Type: "handler", Construct: func() (any, error) { return only{}, nil }},
			{Name: "health", Type: "health", Construct: func() (any, error) { return f, nil }},
			{Name: "ceiling", Type: "ceiling", Construct: func() (any, error) { return health.NewCeiling(), nil }},
			{Name: "turns", Type: "turns", Construct: func() (any, error) { return &turns{}, nil }},
		},
		Profiles: []plugins.ProfileSpec{{Name: "p", Plugins: []plugins.RefSpec{{Ref: "health"}, {Ref: "ceiling"}, {Ref: "turns"}}}},
		Pools:    []plugins.PoolSpec{{Name: "default", Handler: "handler", Profiles: []string{"p"}}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := pool.New("default", nil)
	var members []pool.Endpoint
	for i := range 100 {
		members = append(members, pool.Endpoint{Namespace: "ns", Name: fmt.Sprint(i), Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 8000)})
	}
	p.Update(1, members)
	c := built.Plans[0].NewCycle(reason.Discard{})
	c.Want = 3
	r := &plugins.Request{}
	r.Prepare(built, nil)
	r.API, r.PoolIndex, r.Body, r.Now = openai.ChatCompletions, 0, openai.NewSummary(), 1
	decide := func() {
		r.Now += pool.Instant(30 * time.Millisecond)
		r.Number++
		if no := c.Prepare(r, p.Snapshot(), p.StaleAfter(), 0, nil); no != nil {
			t.Fatal(no)
		}
		p.Decide(func(_ *pool.Snapshot, books *pool.Books) {
			legs, no := c.Decide(books)
			if no != nil {
				t.Fatal(no)
			}
			built.Plans[0].Claim(reason.Discard{}, r, legs, books)
			ref := r.Snapshot.Slots[legs[0].Endpoints[0]].Ref
			if ref.ID == 7 {
				f.Attempted(r, plugins.Attempt{At: r.Now, To: ref, Failed: reason.UpstreamUnreachable})
			} else {
				f.Attempted(r, plugins.Attempt{At: r.Now + 1e6, To: ref, Status: 200})
			}
			f.Settle(r, plugins.Outcome{At: r.Now + 1e6, Served: ref, Out: 3})
		})
	}
	for range 300 {
		decide()
	}
	if n := testing.AllocsPerRun(500, decide); n >= 1 { // an ejection, one in a hundred, is put into words
		t.Errorf("%.2f allocations a decision", n)
	}
}

// only is a handler of one profile.
type only struct{}

func (only) Handle(c *plugins.Cycle) ([]plugins.Leg, *reason.Refusal) {
	return append(c.Legs(), plugins.Leg{Profile: "p", Result: c.Run("p")}), nil
}

// An endpoint in whose engine requests wait, and which generates as fast as others, is full and not slow; one that generates slowly
// besides, or in whose engine nobody waits, is slow.
func TestFullIsNotSlow(t *testing.T) {
	for _, r := range []struct {
		name       string
		waiting    int32
		generating time.Duration // of b's answers; others take 500 ms
		want       string
	}{
		{"requests wait there", 5, 500 * time.Millisecond, ""},
		{"requests wait there, and it generates half as fast", 5, time.Second, ""},
		{"requests wait there, and it generates slowly, if not so slowly that it were out for that alone", 5, 1800 * time.Millisecond, "b:ejected"},
		{"requests wait there, and it generates a tenth as fast", 5, 5 * time.Second, "b:ejected"},
		{"nobody waits there", 0, 500 * time.Millisecond, "b:ejected"},
	} {
		t.Run(r.name, func(t *testing.T) {
			w := newWard(t, func(f *health.Filter) { f.Window = time.Minute })
			answers := func(name string, first, rest time.Duration) {
				s := openai.NewSummary()
				s.Complete, s.Stream, s.PromptTokens = true, true, 100
				var sent *pluginstest.Sent
				for sent == nil {
					if one := w.Send(s); one.Picked[0] == name {
						sent = one
					} else {
						one.End(reason.ClientAborted)
					}
				}
				w.pass(first)
				sent.Request.Status = 200
				sent.Answer(name)
				w.pass(rest)
				sent.EndAs(plugins.Outcome{Served: sent.Request.Served, Prompt: 100, Cached: 0, Out: 50})
			}
			for range 12 {
				for _, name := range []string{"a", "c", "d"} {
					answers(name, 50*time.Millisecond, 500*time.Millisecond)
				}
				sample := pool.NoSample()
				sample.At, sample.Waiting, sample.Running = w.Now, r.waiting, 10
				w.Pool.Observe(w.Now, w.Ref("b"), sample)
				if strings.Contains(w.is(), "b:") {
					break
				}
				answers("b", time.Second, r.generating)
			}
			w.want(r.want)
		})
	}
}
