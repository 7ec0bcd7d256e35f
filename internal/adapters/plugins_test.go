package adapters

import (
	"math"
	"sync"
	"time"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// testPlugins are plugins that do what a request's headers ask of them. They belong to one side.
type testPlugins struct {
	held chan *plugins.Request // requests that a gate holds

	mu    sync.Mutex
	until map[heldAt]pool.Instant // of those that a gate has seen
	gone  map[heldAt]bool         // let go
	seen  []byte                  // chunks that hooks saw
}

type heldAt struct {
	r     *plugins.Request
	phase plugins.Phase
}

func newTestPlugins() *testPlugins {
	return &testPlugins{held: make(chan *plugins.Request, 64), until: map[heldAt]pool.Instant{}, gone: map[heldAt]bool{}}
}

func (p *testPlugins) entries() []plugins.Entry {
	gateAt := func(phase plugins.Phase) plugins.Entry {
		return plugins.Plugin(phase.String()+"-gate", func() *gate { return &gate{phase, p} })
	}
	watch := func(name string, wants plugins.Parts) plugins.Entry {
		return plugins.Plugin(name, func() *watcher { return &watcher{wants, p} })
	}
	return []plugins.Entry{
		gateAt(plugins.AtHeaders), gateAt(plugins.AtResolve), gateAt(plugins.AtDescribe), gateAt(plugins.AtAdmit),
		watch("usage-watcher", plugins.Usage), watch("chunk-watcher", plugins.Chunks),
		plugins.Plugin("faulty-describer", func() *faultyDescriber { return &faultyDescriber{} }),
		plugins.Plugin("faulty-filter", func() *faultyFilter { return &faultyFilter{} }),
		plugins.Plugin("faulty-scorer", func() *faultyScorer { return &faultyScorer{} }),
		plugins.Plugin("faulty-picker", func() *faultyPicker { return &faultyPicker{} }),
		plugins.Plugin("faulty-hook", func() *faultyHook { return &faultyHook{} }),
		plugins.Plugin("header-hook", func() *headerHook { return &headerHook{} }),
	}
}

// gate is a stage that does what the header gate-PHASE of a request says.
type gate struct {
	phase plugins.Phase
	p     *testPlugins
}

func (g *gate) Phase() plugins.Phase { return g.phase }

func (g *gate) Enter(r *plugins.Request) plugins.Verdict {
	switch r.Headers.Get("gate-" + g.phase.String()) {
	case "hold":
		return g.hold(r)
	case "tell":
		g.p.held <- r
	case "full":
		return plugins.Verdict{Refusal: &reason.Refusal{ID: reason.QueueFull, Detail: "8 of 8 wait", RetryAfter: 2500 * time.Millisecond}}
	case "forbid":
		return plugins.Verdict{Refusal: reason.Refuse(reason.ForbiddenHeader, "x-role")}
	case "answer":
		return plugins.Verdict{Reply: openai.ModelsReply([]string{"from-a-stage"}, 7)}
	case "elsewhere":
		r.Target.Pool = "nowhere"
	case "panic":
		panic("gate")
	}
	return plugins.Verdict{}
}

// hold holds a request for ten seconds, or until it is let go.
func (g *gate) hold(r *plugins.Request) plugins.Verdict {
	at := heldAt{r, g.phase}
	g.p.mu.Lock()
	gone := g.p.gone[at]
	if g.p.until[at] == 0 {
		g.p.until[at] = r.Now + pool.Instant(10*time.Second)
	}
	until := g.p.until[at]
	g.p.mu.Unlock()
	if gone {
		return plugins.Verdict{}
	}
	g.p.held <- r
	late := reason.LookupTimeout
	if g.phase == plugins.AtAdmit {
		late = reason.QueueTimeout
	}
	return plugins.Verdict{Until: until, Late: late}
}

// letGo lets the next request that a gate holds go on.
func (p *testPlugins) letGo(phase plugins.Phase) {
	r := <-p.held
	p.mu.Lock()
	p.gone[heldAt{r, phase}] = true
	p.mu.Unlock()
	r.Wake()
}

// watcher is a response hook that keeps the chunks that it sees.
type watcher struct {
	wants plugins.Parts
	p     *testPlugins
}

func (w *watcher) Wants() plugins.Parts { return w.wants }
func (w *watcher) Respond(_ *plugins.Request, _ plugins.Parts, chunk []byte) {
	w.p.mu.Lock()
	w.p.seen = append(w.p.seen, chunk...)
	w.p.mu.Unlock()
}

// The faulty plugins fail for requests whose header fault names their kind.
type (
	faultyDescriber struct{ mood plugins.RequestValue[int64] }
	faultyFilter    struct{}
	faultyScorer    struct{ mood plugins.RequestValue[int64] }
	faultyPicker    struct{}
	faultyHook      struct{}
)

func fails(r *plugins.Request, kind string) {
	if r.Headers.Get("fault") == kind {
		panic(kind)
	}
}

func (*faultyFilter) Filter(c *plugins.Cycle, _ plugins.Bits)                       { fails(c.Request, "filter") }
func (*faultyHook) Commit(r *plugins.Request, _ []plugins.Leg, _ *plugins.Outgoing) { fails(r, "hook") }
func (*faultyPicker) Pick(c *plugins.Cycle, totals []float64, want int, best []int) []int {
	fails(c.Request, "picker")
	if c.Request.Headers.Get("fault") == "nobody" {
		return best
	}
	for i := range min(want, len(totals)) {
		best = append(best, i)
	}
	return best
}

// mood is a fact that the describer makes and the scorer needs: a describer that nobody asks does not run.
func mood() plugins.Fact[plugins.RequestValue[int64]] {
	return plugins.Fact[plugins.RequestValue[int64]]{Name: "mood", Unit: "none", Source: "faulty-describer"}
}

func (d *faultyDescriber) Provision(b *plugins.Builder) error {
	d.mood = plugins.Provides(b, mood())
	return nil
}

func (d *faultyDescriber) Describe(r *plugins.Request) {
	fails(r, "describer")
	d.mood.Set(r, 3)
}

func (s *faultyScorer) Provision(b *plugins.Builder) error {
	s.mood = plugins.Needs(b, mood())
	return nil
}

func (*faultyScorer) Score(c *plugins.Cycle, out []float64) {
	fails(c.Request, "scorer")
	if c.Request.Headers.Get("fault") == "nan" {
		out[0] = math.NaN()
	}
}

// headerHook changes the request's headers.
type headerHook struct{}

func (headerHook) Commit(_ *plugins.Request, _ []plugins.Leg, out *plugins.Outgoing) {
	out.Set = out.Set.Set("x-set-by-hook", "anew").Set("x-both", "after")
	out.Remove = append(out.Remove, "x-removed-by-hook", "x-both")
}
