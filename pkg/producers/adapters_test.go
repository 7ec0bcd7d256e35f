package producers_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/plugins/pluginstest"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/producers"
)

// toward picks the endpoint of a name and notes what is known of the request's adapter on each.
type toward struct {
	name   string
	told   string
	here   plugins.EndpointValues[bool]
	places plugins.EndpointValues[int32]
}

func (p *toward) Provision(b *plugins.Builder) error {
	p.here, p.places = plugins.Needs(b, plugins.AdapterHere), plugins.Needs(b, plugins.AdapterPlaces)
	return nil
}

func (p *toward) Pick(c *plugins.Cycle, _ []float64, _ int, best []int) []int {
	p.told = ""
	at := 0
	for i, id := range c.Candidates {
		e := &c.Snapshot.Slots[id]
		if e.Name == p.name {
			at = i
		}
		switch free := p.places.Of(c)[id]; {
		case free == plugins.Unknown:
			p.told += e.Name + "=? "
		case p.here.Of(c)[id]:
			p.told += fmt.Sprintf("%s=here+%d ", e.Name, free)
		default:
			p.told += fmt.Sprintf("%s=%d ", e.Name, free)
		}
	}
	return append(best, at)
}

// adapterRig is two engines, a that takes two adapters at a time and b that takes one.
type adapterRig struct {
	*pluginstest.Rig
	to *toward
}

func newAdapterRig(t *testing.T) *adapterRig {
	g := &adapterRig{to: &toward{}}
	g.Rig = pluginstest.NewRig(t, g.parts(), "a", "b")
	g.Now = pool.Instant(time.Second)
	return g
}

func (g *adapterRig) parts() []pluginstest.Part {
	return []pluginstest.Part{{Name: "adapters", Plugin: producers.NewAdapters()}, {Name: "to", Plugin: g.to}}
}

// lists has an engine tell which adapters are at work there, now, and nothing of how many requests it has.
func (g *adapterRig) lists(engine string, running, waiting []string) {
	g.serves(engine, -1, running, waiting)
}

// serves is lists of an engine that tells how many requests it has.
func (g *adapterRig) serves(engine string, requests int32, running, waiting []string) {
	s := pool.NoSample()
	s.Running, s.Waiting = requests, 0
	s.At, s.Adapters, s.AdaptersWaiting, s.AdaptersMax = g.Now, running, waiting, map[string]int32{"a": 2, "b": 1}[engine]
	g.Pool.Observe(g.Now, g.Ref(engine), s)
}

// send sends a request for a model to an engine, a tenth of a second later, and expects what is known before that.
func (g *adapterRig) send(t *testing.T, model, to, known string) *pluginstest.Sent {
	t.Helper()
	g.Now += pool.Instant(100 * time.Millisecond)
	g.to.name = to
	sent := g.Send(chat(model, 100, 10, 1))
	if g.to.told != known {
		t.Errorf("of %s is known %q, want %q", model, g.to.told, known)
	}
	return sent
}

// end ends a request, a tenth of a second later.
func (g *adapterRig) end(s *pluginstest.Sent) {
	g.Now += pool.Instant(100 * time.Millisecond)
	s.End(0)
}

func TestAdaptersByTheListsOfEngines(t *testing.T) {
	g := newAdapterRig(t)
	g.send(t, "x", "a", "a=? b=? ")
	g.lists("a", []string{"x"}, []string{"x", "y"})
	g.lists("b", []string{}, []string{})
	g.send(t, "base", "a", "a=? b=? ") // no engine lists such an adapter: it is the model that all have
	g.send(t, "y", "b", "a=here+0 b=1 ")
	g.lists("a", []string{"y"}, []string{})
	g.send(t, "x", "b", "a=1 b=0 ")
	g.lists("a", []string{"y", "z", "w"}, []string{}) // more than it says that it takes
	g.send(t, "x", "b", "a=0 b=here+0 ")
}

func TestAdaptersByOwnRequests(t *testing.T) {
	g := newAdapterRig(t)
	g.lists("a", []string{"x"}, []string{"y"})
	g.lists("b", []string{}, []string{})
	first := g.send(t, "y", "b", "a=here+0 b=1 ") // at once, not when b has told it
	second := g.send(t, "y", "b", "a=here+0 b=here+0 ")
	g.end(first)
	x := g.send(t, "x", "b", "a=here+0 b=0 ") // the second is still there
	g.end(second)
	g.end(x)
	g.send(t, "y", "a", "a=here+0 b=1 ")

	// The list that a made had x and y, both of own requests. That of y has ended there since, and y is gone, unless a had requests of
	// others: one of them may be for y.
	for _, r := range []struct {
		requests int32
		known    string
	}{{2, "a=1 b=1 "}, {3, "a=here+0 b=1 "}, {-1, "a=here+0 b=1 "}} {
		g = newAdapterRig(t)
		g.lists("a", []string{"x", "y"}, []string{})
		g.lists("b", []string{}, []string{})
		g.send(t, "x", "a", "a=here+0 b=1 ")
		y := g.send(t, "y", "a", "a=here+0 b=1 ")
		g.serves("a", r.requests, []string{"x", "y"}, []string{})
		probe := g.send(t, "x", "b", "a=here+0 b=1 ") // which reads the list
		g.end(y)
		g.end(probe)
		g.send(t, "y", "b", r.known)
		g.lists("a", []string{"x"}, []string{})
		g.send(t, "y", "b", "a=1 b=here+0 ")
	}
}

// Old lists say nothing, own requests do; how many adapters an engine takes does not change while it lives.
func TestAdaptersBehindOldLists(t *testing.T) {
	g := newAdapterRig(t)
	g.lists("a", []string{"x"}, []string{})
	g.lists("b", []string{"x"}, []string{})
	g.end(g.send(t, "x", "a", "a=here+1 b=here+0 "))
	g.Now += pool.Instant(time.Minute)
	g.send(t, "x", "a", "a=2 b=1 ")
	g.send(t, "x", "a", "a=here+1 b=1 ")
}

// Where lists come no more, what is remembered stays small, and nothing of those that run is forgotten.
func TestAdaptersOfAnEngineThatIsNoLongerScraped(t *testing.T) {
	g := newAdapterRig(t)
	many := make([]string, 300)
	for i := range many {
		many[i] = fmt.Sprintf("x%03d", i)
	}
	g.lists("a", many, []string{})
	g.lists("b", []string{}, []string{})
	g.to.name = "b"
	first := g.Send(chat("x000", 100, 10, 1))
	for _, name := range many[1:] {
		g.Send(chat(name, 100, 10, 1)).End(0)
	}
	g.Now += pool.Instant(time.Minute)
	g.send(t, "x000", "a", "a=2 b=here+0 ")
	g.send(t, "x299", "a", "a=1 b=0 ")
	first.End(0)
	g.send(t, "x299", "a", "a=here+0 b=1 ")
}

func TestAClaimIsTakenBack(t *testing.T) {
	g := newAdapterRig(t)
	g.lists("a", []string{"x"}, []string{})
	g.lists("b", []string{}, []string{})
	sent := g.send(t, "x", "b", "a=here+1 b=1 ")
	g.Built.Plans[0].Unclaim(g.Notes, &sent.Request)
	again := g.send(t, "x", "b", "a=here+1 b=1 ")
	g.end(sent) // it ended elsewhere, and counts here no more
	g.send(t, "x", "b", "a=here+1 b=here+0 ")
	g.end(again)
}

// Another engine in the place of one begins with nothing, and what ends of the first is not the second's.
func TestAdaptersOfANewEngine(t *testing.T) {
	g := newAdapterRig(t)
	g.lists("a", []string{"x"}, []string{})
	g.lists("b", []string{}, []string{})
	old := g.send(t, "x", "b", "a=here+1 b=1 ")
	g.Members("a")
	g.Members("a", "b")
	g.lists("a", []string{"x"}, []string{})
	g.lists("b", []string{}, []string{})
	young := g.send(t, "x", "b", "a=here+1 b=1 ")
	g.end(old)
	g.send(t, "x", "b", "a=here+1 b=here+0 ")
	g.end(young)
}

func TestAdaptersOutliveAConfiguration(t *testing.T) {
	g := newAdapterRig(t)
	g.lists("a", []string{"x"}, []string{})
	g.lists("b", []string{}, []string{})
	sent := g.send(t, "x", "b", "a=here+1 b=1 ")
	g.Replace(g.parts())
	g.send(t, "x", "a", "a=here+1 b=here+0 ")
	g.end(sent)
	g.send(t, "x", "a", "a=here+1 b=1 ")
}

// BenchmarkAdapters is what a decision over 100 engines costs more, each with three adapters listed and two of them own.
func BenchmarkAdapters(b *testing.B) {
	names := make([]string, 100)
	for i := range names {
		names[i] = fmt.Sprint("e", i)
	}
	to, adapters := &toward{}, producers.NewAdapters()
	g := pluginstest.NewRig(b, []pluginstest.Part{{Name: "adapters", Plugin: adapters}, {Name: "to", Plugin: to}}, names...)
	for _, name := range names {
		s := pool.NoSample()
		s.At, s.Adapters, s.AdaptersWaiting, s.AdaptersMax = g.Now, []string{"x", "y", "z"}, []string{}, 4
		g.Pool.Observe(g.Now, g.Ref(name), s)
		for _, model := range []string{"x", "y"} {
			to.name = name
			g.Send(chat(model, 100, 10, 1))
		}
	}
	sent := g.Prepare(chat("z", 100, 10, 1))
	g.Pool.Decide(func(_ *pool.Snapshot, books *pool.Books) {
		b.ReportAllocs()
		for b.Loop() {
			adapters.Observe(sent.Cycle(), books)
		}
	})
}
