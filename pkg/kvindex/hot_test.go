package kvindex_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/kvindex"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/plugins/pluginstest"
	"github.com/fairlead/fairlead/pkg/pool"
)

// engines says of every engine that a prompt token takes 0.1 ms, of each that has a backlog how much, and that answers have no
// tokens: the work of a request is its uncached prompt.
type engines struct {
	backlog map[string]float64
	step    float64 // milliseconds
	loads   plugins.EndpointValues[plugins.EngineLoad]
	traffic plugins.RequestValue[plugins.Traffic]
}

func (e *engines) Provision(b *plugins.Builder) error {
	e.loads, e.traffic = plugins.Provides(b, plugins.EngineLoads), plugins.Provides(b, plugins.Traffics)
	return nil
}

func (e *engines) Produce(c *plugins.Cycle) {
	e.traffic.Set(c.Request, plugins.Traffic{})
	for _, id := range c.Candidates {
		e.loads.Of(c)[id] = plugins.EngineLoad{PrefillMSPerToken: 0.1, StepMS: e.step, BacklogMS: e.backlog[c.Snapshot.Slots[id].Name]}
	}
}

// follower obeys the copies, and sends everything else to one endpoint; it remembers what it was told.
type follower struct {
	home   string
	told   plugins.HotPrefix
	hot    plugins.RequestValue[plugins.HotPrefix]
	copies plugins.EndpointValues[bool]
}

func (f *follower) Provision(b *plugins.Builder) error {
	f.hot, f.copies = plugins.Needs(b, plugins.HotPrefixes), plugins.Needs(b, plugins.DeliberateCopies)
	return nil
}

func (f *follower) Pick(c *plugins.Cycle, _ []float64, _ int, best []int) []int {
	f.told = f.hot.Of(c.Request)
	copied, home := -1, 0
	for i, id := range c.Candidates {
		if f.copies.Of(c)[id] {
			copied = i
		}
		if c.Snapshot.Slots[id].Name == f.home {
			home = i
		}
	}
	if copied >= 0 {
		return append(best, copied)
	}
	return append(best, home)
}

// hotRig is four endpoints and a prompt of 64 blocks that all share, with 100 tokens or so of each one's own.
type hotRig struct {
	*pluginstest.Rig
	engines *engines
	follow  *follower
	sent    int
}

// hotAtSix has the load that the rates of these tests are for, and no copies for what little is asked.
func hotAtSix() *kvindex.Hot {
	h := kvindex.NewHot()
	h.TargetLoad, h.Payback = 0.6, 0
	return h
}

func newHotRig(t *testing.T, change func(*kvindex.Hot)) *hotRig {
	t.Helper()
	h := hotAtSix()
	if change != nil {
		change(h)
	}
	g := &hotRig{engines: &engines{backlog: map[string]float64{"a": 1000}}, follow: &follower{home: "a"}}
	g.Rig = pluginstest.NewRig(t, g.parts(h), "a", "b", "c", "d")
	return g
}

func (g *hotRig) parts(h *kvindex.Hot) []pluginstest.Part {
	p := kvindex.NewProducer()
	p.UnconfirmedTTLMs = 0
	return []pluginstest.Part{{Name: "producer", Plugin: p}, {Name: "engines", Plugin: g.engines}, {Name: "hot", Plugin: h}, {Name: "follow", Plugin: g.follow}}
}

// ask sends so many requests, apart by so much, and returns who got them in turn.
func (g *hotRig) ask(n int, apart time.Duration, prefix string) (picked []string) {
	for range n {
		g.sent++
		picked = append(picked, g.Send(body("m", text(prefix, 64)[:64*256]+fmt.Sprintf("%-400d", g.sent))).Picked...)
		g.Now += pool.Instant(apart)
	}
	return picked
}

func copied(picked []string) []string {
	return slices.DeleteFunc(slices.Clone(picked), func(name string) bool { return name == "a" })
}

func TestAHotPrefixIsCopiedAheadOfNeed(t *testing.T) {
	g := newHotRig(t, nil)
	// 100 requests a second with 100 uncached tokens of 0.1 ms each, at least, are one pod's work: two endpoints at 0.6.
	picked := g.ask(1000, 10*time.Millisecond, "x")
	if got := copied(picked); len(got) != 1 {
		t.Errorf("copies went to %v, want one", got)
	}
	told := g.follow.told
	if told.Blocks != 64 || told.PerSecond < 90 || told.PerSecond > 110 || told.Pods < 0.9 || told.Pods > 1.2 || told.Holders != 2 || told.Target != 2 {
		t.Errorf("of the prefix is known: %+v", told)
	}
	// At four times the rate it is four, one after the other: a copy takes 4,096 tokens of 0.1 ms, while 160 requests come.
	picked = g.ask(4000, 2500*time.Microsecond, "x")
	got := copied(picked)
	if slices.Sort(got); fmt.Sprint(got) != "[c d]" && fmt.Sprint(got) != "[b d]" && fmt.Sprint(got) != "[b c]" {
		t.Errorf("copies went to %v, want to the other two", got)
	}
	first := slices.IndexFunc(picked, func(name string) bool { return name != "a" })
	second := first + 1 + slices.IndexFunc(picked[first+1:], func(name string) bool { return name != "a" })
	if second-first < 160 {
		t.Errorf("the second copy came %d requests after the first; the first takes 160", second-first)
	}
}

func TestNoCopyIsMade(t *testing.T) {
	for _, r := range []struct {
		name   string
		change func(*kvindex.Hot)
		before func(*hotRig)
		apart  time.Duration
	}{
		{"of what one endpoint can serve", nil, nil, 20 * time.Millisecond},
		{"beyond the bound", func(h *kvindex.Hot) { h.MaxCopies = 1 }, nil, 10 * time.Millisecond},
		{"of what is shorter than counts", func(h *kvindex.Hot) { h.MinTokens = 100_000 }, nil, 10 * time.Millisecond},
		{"to who has more to do", nil, func(g *hotRig) { g.engines.backlog = map[string]float64{"b": 10, "c": 10, "d": 10} }, 10 * time.Millisecond},
	} {
		t.Run(r.name, func(t *testing.T) {
			g := newHotRig(t, r.change)
			if r.before != nil {
				r.before(g)
			}
			if got := copied(g.ask(1000, r.apart, "x")); len(got) != 0 {
				t.Errorf("copies went to %v", got)
			}
		})
	}
}

// Two requests a second are a fiftieth of what one endpoint can serve. Where each of them waits for the one that has the prefix, a copy is
// made when that adds up to twice what computing it takes, 820 ms, and not before.
func TestWaitsPayForACopy(t *testing.T) {
	const apart = 500 * time.Millisecond
	for _, r := range []struct {
		name   string
		change func(*kvindex.Hot)
		before func(*hotRig)
		at     int // the request that brings the first copy, -1 for none
	}{
		// That many share it is known from the sixth on; that one and eight more wait for 100 ms each.
		{"of what is waited for", nil, nil, 13},
		{"soon where waits are long", nil, func(g *hotRig) { g.engines.backlog["a"] = 1000 }, 5},
		{"of a wait beyond what others have before them", nil, func(g *hotRig) { g.engines.backlog = map[string]float64{"a": 150, "b": 50, "c": 60, "d": 70} }, 13},
		{"not of short waits", nil, func(g *hotRig) { g.engines.backlog["a"] = 1 }, -1},
		{"not where others have as much before them", nil, func(g *hotRig) { g.engines.backlog = map[string]float64{"a": 100, "b": 100, "c": 101, "d": 102} }, -1},
		{"not where it breaks answers whose gaps are 50 ms", nil, func(g *hotRig) { g.engines.step = 50 }, -1},
		{"where gaps are 20 ms, at twice the price", nil, func(g *hotRig) { g.engines.step = 20 }, 22},
		{"not beyond the bound", func(h *kvindex.Hot) { h.MaxCopies = 1 }, nil, -1},
		{"not where nothing pays", func(h *kvindex.Hot) { h.Payback = 0 }, nil, -1},
	} {
		t.Run(r.name, func(t *testing.T) {
			g := newHotRig(t, func(h *kvindex.Hot) {
				h.Payback = 2
				if r.change != nil {
					r.change(h)
				}
			})
			g.engines.backlog["a"] = 100
			if r.before != nil {
				r.before(g)
			}
			var told plugins.HotPrefix
			at := -1
			for i := range 200 {
				if got := copied(g.ask(1, apart, "x")); len(got) > 0 {
					at, told = i, g.follow.told
					break
				}
			}
			if at != r.at || at >= 0 && (told.Blocks != 64 || told.Holders != 1 || told.Target != 2) {
				t.Errorf("request %d brought a copy of %+v, want %d", at, told, r.at)
			}
			if at < 0 {
				return
			}
			if got := copied(g.ask(1, apart, "x")); len(got) > 0 && g.engines.backlog["a"] < 800 {
				t.Errorf("the next one brought another copy to %v, though nobody waited since", got)
			}
		})
	}
}

// Prompts that share nothing are not hot, however many come.
func TestStrangersAreNotHot(t *testing.T) {
	g := newHotRig(t, nil)
	for i := range 600 {
		if got := copied(g.ask(1, 5*time.Millisecond, fmt.Sprint("x", i))); len(got) != 0 {
			t.Fatalf("a copy of a prompt that nobody shares went to %v", got)
		}
	}
	if g.follow.told != (plugins.HotPrefix{}) {
		t.Errorf("a prefix is known: %+v", g.follow.told)
	}
}

// A conversation that stands on one endpoint is not sent away for the sake of the short prefix that all share.
func TestALongConversationIsNotSentAway(t *testing.T) {
	g := newHotRig(t, nil)
	long := text("x", 64)[:64*256] + text("own", 200)
	g.Send(body("m", long))
	g.Now += pool.Instant(time.Millisecond)
	g.engines.backlog["a"] = 0
	g.ask(1000, 10*time.Millisecond, "x")
	g.engines.backlog["a"] = 1000
	if got := g.Send(body("m", long+text("more", 2))).Picked; got[0] != "a" {
		t.Errorf("it went to %v", got)
	}
	if got := copied(g.ask(1, time.Millisecond, "x")); len(got) != 1 {
		t.Errorf("the next one, which has no more than the prefix, did not bring the copy: %v", got)
	}
}

func TestARequestWithoutAPromptIsNotCounted(t *testing.T) {
	g := newHotRig(t, nil)
	g.Send(nil)
	g.Send(openai.NewSummary())
	if g.follow.told != (plugins.HotPrefix{}) {
		t.Errorf("a prefix is known: %+v", g.follow.told)
	}
}

// What was counted outlives a configuration with the same parameters.
func TestCountsOutliveAConfiguration(t *testing.T) {
	g := newHotRig(t, nil)
	g.ask(1000, 10*time.Millisecond, "x")
	if kept, lost := g.Replace(g.parts(hotAtSix())); len(kept) != 2 || len(lost) != 0 {
		t.Errorf("kept %v, lost %v", kept, lost)
	}
	g.ask(1, time.Millisecond, "x")
	if g.follow.told.Target != 2 {
		t.Errorf("after the replacement is known: %+v", g.follow.told)
	}
}

// BenchmarkObserve is what a decision over 100 endpoints costs more, for a prompt of 8,000 tokens of which half is shared.
func BenchmarkObserve(b *testing.B) {
	p, h := kvindex.NewProducer(), kvindex.NewHot()
	follow := &follower{}
	names := make([]string, 100)
	for i := range names {
		names[i] = fmt.Sprint("e", i)
	}
	g := pluginstest.NewRig(b, []pluginstest.Part{{Name: "producer", Plugin: p}, {Name: "engines", Plugin: &engines{}}, {Name: "hot", Plugin: h}, {Name: "follow", Plugin: follow}}, names...)
	sent := g.Prepare(body("m", text("x", 125)))
	g.Pool.Decide(func(_ *pool.Snapshot, books *pool.Books) {
		b.ReportAllocs()
		for b.Loop() {
			h.Observe(sent.Cycle(), books)
		}
	})
}

// Where a prefix has long been hot and nobody could take it, the copies come one after the other all the same: the first takes 4,096 tokens
// of 0.1 ms, and the second is not sent before.
func TestOneCopyAtATime(t *testing.T) {
	g := newHotRig(t, nil)
	g.engines.backlog = map[string]float64{"b": 10, "c": 10, "d": 10} // more than the one that has it
	if got := copied(g.ask(4000, 2500*time.Microsecond, "x")); len(got) != 0 || g.follow.told.Target < 4 || g.follow.told.Holders != 1 {
		t.Fatalf("copies went to %v; of the prefix is known %+v", got, g.follow.told)
	}
	g.engines.backlog = map[string]float64{"a": 1000}
	picked := g.ask(1000, 2500*time.Microsecond, "x")
	at := []int{}
	for i, name := range picked {
		if name != "a" {
			at = append(at, i)
		}
	}
	if len(at) < 2 || at[0] != 0 || at[1]-at[0] < 160 {
		t.Errorf("copies were made with requests %v, want the first at once and the second 160 later", at)
	}
}
