package health_test

import (
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

// ceilinged is one that keeps the ceilings that it reads.
type ceilinged struct {
	ceiling plugins.EndpointValues[int32]
	got     []int32
}

func (p *ceilinged) Provision(b *plugins.Builder) error {
	p.ceiling = plugins.Needs(b, plugins.Ceilings)
	return nil
}

func (p *ceilinged) Score(c *plugins.Cycle, _ []float64) {
	p.got = slices.Clone(p.ceiling.Of(c))
}

// crowd is two endpoints, the first with n requests.
func crowd(t *testing.T, n int) (g *pluginstest.Rig, ceiling func() int32) {
	read := &ceilinged{}
	g = pluginstest.NewRig(t, []pluginstest.Part{{Name: "ceiling", Plugin: health.NewCeiling()}, {Name: "read", Plugin: read, Weight: 1}}, "a", "b")
	g.Pool.Decide(func(s *pool.Snapshot, books *pool.Books) {
		for range n {
			books.Book(s.Slots[0].Ref, pool.Load{}, 1e12)
		}
	})
	return g, func() int32 {
		g.Send(openai.NewSummary()).End(reason.ClientAborted)
		return read.got[0]
	}
}

func TestCeilings(t *testing.T) {
	for _, r := range []struct {
		name    string
		has     int
		waiting []int32 // in samples a second apart
		want    []int32
		back    []float64 // requests that were ever sent back, likewise
	}{
		{"nothing waits", 20, []int32{0, 0, 0, 0}, []int32{-1, -1, -1, -1}, nil},
		{"a short queue is none", 20, []int32{3, 3, 0, 3}, []int32{-1, -1, -1, -1}, nil},
		{"what waits does not fit", 20, []int32{3, 3, 3}, []int32{-1, -1, 17}, nil},
		{"but no more than a part at a time", 20, []int32{15, 15, 15}, []int32{-1, -1, 14}, nil},
		{"it rises while nothing waits", 20, []int32{3, 3, 3, 0, 0}, []int32{-1, -1, 17, 18, 19}, nil},
		{"what is not known changes nothing", 20, []int32{3, 3, 3, -1}, []int32{-1, -1, 17, 17}, nil},
		{"requests that are sent back do not fit", 20, []int32{0, 0, 0}, []int32{-1, 17, 18}, []float64{5, 8, 8}},
		{"nor does what waits then", 20, []int32{0, 5}, []int32{-1, 15}, []float64{0, 1}},
		{"many are sent back, again and again by the same request", 20, []int32{0, 0}, []int32{-1, 14}, []float64{0, 90}},
		{"what was sent back before anybody looked is no sign", 20, []int32{0}, []int32{-1}, []float64{50}},
		{"a process that begins anew has sent back none", 20, []int32{0, 0}, []int32{-1, -1}, []float64{50, 0}},
	} {
		t.Run(r.name, func(t *testing.T) {
			g, ceiling := crowd(t, r.has)
			for i, waiting := range r.waiting {
				g.Now += pool.Instant(time.Second)
				s := pool.Sample{At: g.Now, Waiting: waiting, PromptTokens: -1}
				if r.back != nil {
					s.Preemptions = r.back[i]
				}
				g.Pool.Observe(g.Now, g.Ref("a"), s)
				if got := ceiling(); got != r.want[i] {
					t.Errorf("after sample %d: %d, want %d", i+1, got, r.want[i])
				}
			}
		})
	}
}

// Behind a queue requests are decided when one has ended, so that each finds one less than the ceiling.
func TestACeilingRisesBehindAQueue(t *testing.T) {
	g, ceiling := crowd(t, 20)
	sample := func(waiting int32) {
		g.Now += pool.Instant(time.Second)
		g.Pool.Observe(g.Now, g.Ref("a"), pool.Sample{At: g.Now, Waiting: waiting, PromptTokens: -1})
	}
	for range 3 {
		sample(4)
		ceiling()
	}
	if got := ceiling(); got != 16 {
		t.Fatalf("the ceiling is %d, want 16", got)
	}
	g.Pool.Expire(2e12) // all ended
	book := func(n int32) {
		g.Pool.Decide(func(s *pool.Snapshot, books *pool.Books) {
			for books.Requests[0] < n {
				books.Book(s.Slots[0].Ref, pool.Load{}, 1e13)
			}
		})
	}
	for _, want := range []int32{17, 18, 19} {
		book(want - 2)
		sample(0)
		if got := ceiling(); got != want {
			t.Errorf("the ceiling is %d, want %d", got, want)
		}
	}
	sample(0)
	if got := ceiling(); got != 19 {
		t.Errorf("the ceiling is %d though it is not reached, want 19", got)
	}
}

// An answer that there is no room lowers the ceiling at once; an endpoint that has nothing to do any more takes part at once,
// and the ceiling is forgotten.
func TestNoRoomIsNoMarkThatStays(t *testing.T) {
	for _, status := range []int{429, 503} {
		g, ceiling := crowd(t, 9)
		s := g.Send(openai.NewSummary())
		s.Request.Status = status
		s.Answer("a")
		s.End(0)
		if got := ceiling(); got != 6 {
			t.Errorf("%d: the ceiling is %d, want 6 of 9", status, got)
		}
		if s := g.Send(openai.NewSummary()); s.Picked[0] != "b" {
			t.Errorf("%d: %v is picked although it is full", status, s.Picked)
		}
		g.Pool.Expire(2e12) // all ended
		if s := g.Send(openai.NewSummary()); s.Picked[0] != "a" {
			t.Errorf("%d: %v is picked although the other has nothing to do", status, s.Picked)
		}
		g.Now += pool.Instant(31 * time.Second)
		g.Pool.Observe(g.Now, g.Ref("a"), pool.Sample{At: g.Now, PromptTokens: -1})
		if got := ceiling(); got != plugins.Unknown {
			t.Errorf("%d: half a minute later the ceiling is %d, want none", status, got)
		}
	}
}

// A ceiling of an engine that cannot be read is lifted too.
func TestTheCeilingOfAnEngineThatIsNotRead(t *testing.T) {
	g, ceiling := crowd(t, 9)
	s := g.Send(openai.NewSummary())
	s.Request.Status = 503
	s.Answer("a")
	s.End(0)
	if got := ceiling(); got != 6 {
		t.Errorf("the ceiling is %d, want 6 of 9", got)
	}
	limited := func() (holds bool) {
		g.Pool.Decide(func(_ *pool.Snapshot, b *pool.Books) { holds = b.Ceilings[0].Holds(g.Now, 6) })
		return holds
	}
	if !limited() {
		t.Error("the books do not have it")
	}
	g.Now += pool.Instant(31 * time.Second)
	if limited() {
		t.Error("the books have it though nobody has told of it for half a minute")
	}
	if got := ceiling(); got != plugins.Unknown {
		t.Errorf("half a minute later the ceiling is %d, want none", got)
	}
}

func TestAtTheCeiling(t *testing.T) {
	for _, r := range []struct{ name, world, want string }{
		{"below", "a endpoint-ceiling=3 in-flight=2; b in-flight=9", "a b"},
		{"at it", "a endpoint-ceiling=3 in-flight=3; b in-flight=9", "b"},
		{"all are", "a endpoint-ceiling=3 in-flight=3; b endpoint-ceiling=9 in-flight=9", "a b"},
	} {
		if got := strings.Join(pluginstest.Filter(t, health.NewCeiling(), r.world), " "); got != r.want {
			t.Errorf("%s: left %q, want %q", r.name, got, r.want)
		}
	}
}
