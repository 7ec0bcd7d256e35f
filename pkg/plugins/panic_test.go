package plugins_test

import (
	"strings"
	"testing"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// bomb serves every extension point and panics at the one that at names.
type bomb struct {
	at     string
	tokens plugins.EndpointValues[int64]
}

func (b *bomb) off(at string) {
	if b.at == at {
		var broken map[string]int
		broken[at]++ //nolint:staticcheck // a panic of the run time, on purpose
	}
}

func (b *bomb) Provision(p *plugins.Builder) error {
	b.tokens = plugins.Provides(p, plugins.CachedTokens)
	return nil
}
func (b *bomb) Phase() plugins.Phase                       { return plugins.AtAdmit }
func (b *bomb) Enter(*plugins.Request) (v plugins.Verdict) { b.off("enter"); return v }
func (b *bomb) Next(pool.Instant) (*plugins.Request, *reason.Refusal, bool) {
	b.off("next")
	return &plugins.Request{}, nil, true
}
func (b *bomb) Fits(*plugins.Cycle, *pool.Books) (bool, *reason.Refusal) {
	b.off("fits")
	return true, nil
}
func (b *bomb) Readmit(*plugins.Cycle, *pool.Books) bool       { b.off("readmit"); return true }
func (b *bomb) Suits(*plugins.Cycle, []plugins.Leg) bool       { b.off("suits"); return true }
func (b *bomb) Attach([]*pool.Pool, reason.Sink)               {}
func (b *bomb) Admitted(*plugins.Request, pool.Ref, pool.Load) { b.off("admitted") }
func (b *bomb) Nobody(*plugins.Request, *reason.Refusal) bool  { b.off("nobody"); return true }
func (b *bomb) Leave(*plugins.Request)                         { b.off("leave") }
func (b *bomb) Deadline() pool.Instant                         { return 0 }
func (b *bomb) Drain()                                         {}
func (b *bomb) Describe(*plugins.Request)                      { b.off("describe") }
func (b *bomb) Produce(*plugins.Cycle)                         { b.off("produce") }
func (b *bomb) Observe(*plugins.Cycle, *pool.Books)            { b.off("observe") }
func (b *bomb) Admit(*plugins.Cycle) *reason.Refusal           { b.off("admit"); return nil }
func (b *bomb) Filter(*plugins.Cycle, plugins.Bits)            { b.off("filter") }
func (b *bomb) Score(*plugins.Cycle, []float64)                { b.off("score") }
func (b *bomb) Pick(_ *plugins.Cycle, _ []float64, _ int, best []int) []int {
	b.off("pick")
	return append(best, 0)
}
func (b *bomb) Handle(c *plugins.Cycle) ([]plugins.Leg, *reason.Refusal) {
	b.off("handle")
	return handler{}.Handle(c)
}
func (b *bomb) Claim(*plugins.Request, []plugins.Leg, *pool.Books)        { b.off("claim") }
func (b *bomb) Unclaim(*plugins.Request)                                  { b.off("unclaim") }
func (b *bomb) Booked(*plugins.Request, []plugins.Leg, *pool.Books)       { b.off("booked") }
func (b *bomb) Commit(*plugins.Request, []plugins.Leg, *plugins.Outgoing) { b.off("commit") }
func (b *bomb) Wants() plugins.Parts                                      { return plugins.FirstByte }
func (b *bomb) Respond(*plugins.Request, plugins.Parts, []byte)           { b.off("respond") }
func (b *bomb) Settle(*plugins.Request, plugins.Outcome)                  { b.off("settle") }
func (b *bomb) Tick(now pool.Instant) pool.Instant                        { b.off("tick"); return now + 5 }

// life takes a request through every extension point and returns what refused it, if anything did.
func life(t *testing.T, w *world) *reason.Refusal {
	t.Helper()
	w.built.Tick(w.notes, w.now)
	w.built.Next(w.notes, w.now)
	w.built.Leave(w.notes, &w.request)
	w.built.Admitted(w.notes, &w.request, pool.Ref{}, pool.Load{})
	if v := w.built.Enter(w.notes, plugins.AtAdmit, 0, &w.request); v.Refusal != nil {
		return v.Refusal
	}
	var no *reason.Refusal
	w.pool.Decide(func(_ *pool.Snapshot, books *pool.Books) {
		_, no = w.built.Fits(w.notes, w.cycle, books)
	})
	if no != nil {
		return no
	}
	legs, no := w.decide()
	if no != nil {
		return no
	}
	if !w.built.Suits(w.notes, w.cycle, legs) {
		t.Error("it does not suit")
	}
	w.pool.Decide(func(_ *pool.Snapshot, books *pool.Books) { w.built.Readmit(w.notes, w.cycle, books) })
	w.built.Plans[0].Unclaim(w.notes, &w.request)
	w.built.Plans[0].Commit(w.notes, &w.request, legs, &plugins.Outgoing{})
	w.built.Plans[0].Respond(w.notes, &w.request, plugins.FirstByte, nil)
	w.built.Settle(w.notes, &w.request, plugins.Outcome{})
	return nil
}

func TestAPanicFailsItsOwnRequest(t *testing.T) {
	refuses := []string{"enter", "fits", "describe", "produce", "observe", "admit", "filter", "score", "pick", "handle"}
	goesOn := []string{"suits", "readmit", "claim", "unclaim", "booked", "commit", "respond", "settle", "tick", "admitted", "leave"}
	for _, at := range append(append(refuses, goesOn...), "next", "nowhere") {
		t.Run(at, func(t *testing.T) {
			b := &bomb{at: at}
			c := configure(named{"bomb", b}, named{"reads", &needy{}})
			c.Pools[0].Handler = "bomb"
			w := newWorld(t, c.mustBuild(t), 2)
			no := life(t, w)
			want := reason.PluginPanic
			switch {
			case strings.Contains(strings.Join(refuses, " "), at):
				if no == nil || no.ID != reason.PluginPanic || no.Detail != `plugin "bomb" failed` {
					t.Errorf("refused with %v, want plugin_panic of bomb", no)
				}
			case no != nil:
				t.Errorf("refused with %v, though the request goes on", no)
			case at == "next":
			default:
				want = reason.HookPanic
			}
			noted := w.notes[want]
			if at == "nowhere" {
				if len(w.notes[reason.PluginPanic])+len(w.notes[reason.HookPanic]) != 0 {
					t.Errorf("noted %v", w.notes)
				}
				return
			}
			if len(noted) != 1 || noted[0] != "bomb: assignment to entry in nil map" {
				t.Errorf("noted %q", noted)
			}
			b.at = "nowhere" // the next request is served as if nothing had been
			if no := life(t, w); no != nil {
				t.Errorf("the next request was refused: %v", no)
			}
		})
	}
}

func TestAQueueThatPanicsOverNobodyLetsNobodyWait(t *testing.T) {
	for at, want := range map[string]bool{"nobody": false, "nowhere": true} {
		w := newWorld(t, configure(named{"bomb", &bomb{at: at}}).mustBuild(t), 1)
		if waits := w.built.Nobody(w.notes, &w.request, nil); waits != want {
			t.Errorf("panic at %s: waits is %v, want %v", at, waits, want)
		}
	}
}

func TestATickerThatPanicsIsCalledAgain(t *testing.T) {
	b := &bomb{at: "tick"}
	c := configure(named{"bomb", b})
	w := newWorld(t, c.mustBuild(t), 1)
	if next := w.built.Tick(w.notes, 100); next != 100+1_000_000_000 {
		t.Errorf("next is %d, want a second later", next)
	}
	b.at = ""
	if next := w.built.Tick(w.notes, 100); next != 105 {
		t.Errorf("next is %d, want 105", next)
	}
}
