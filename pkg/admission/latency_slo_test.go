package admission_test

import (
	"strings"
	"testing"

	"github.com/fairlead/fairlead/pkg/admission"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/plugins/pluginstest"
	"github.com/fairlead/fairlead/pkg/reason"
)

// asked has an admitter stand where a filter does, and keeps what it said.
type asked struct {
	*admission.LatencySLO
	said *reason.Refusal
}

// Filter removes everybody from a request that is refused.
func (a *asked) Filter(c *plugins.Cycle, keep plugins.Bits) {
	if a.said = a.Admit(c); a.said != nil {
		for i := range c.Candidates {
			keep.Clear(i)
		}
	}
}

func TestLatencySLO(t *testing.T) {
	const busy = " in-flight=3 running=3 kv-usage=0.5"
	for _, r := range []struct {
		name, world string
		priority    int32
		refuses     string // a part of what it says; empty: it admits
	}{
		{"nobody keeps the target", "ttft-target=200 | a predicted-ttft=500" + busy + "; b predicted-ttft=300" + busy, -1, "it wants 200 ms to its first token, and the best of 2 endpoints is predicted to take 300 ms"},
		{"somebody keeps it", "ttft-target=200 | a predicted-ttft=500" + busy + "; b predicted-ttft=200" + busy, -1, ""},
		{"a priority of 0 is not refused", "ttft-target=200 | a predicted-ttft=500" + busy, 0, ""},
		{"no target", "a predicted-ttft=500" + busy, -1, ""},
		{"the time between tokens counts", "itl-target=20 | a predicted-ttft=10 predicted-itl=30" + busy, -5, "20 ms between tokens"},
		{"nobody keeps both", "ttft-target=200 itl-target=20 | a predicted-ttft=100 predicted-itl=30" + busy + "; b predicted-ttft=300 predicted-itl=10" + busy, -1, "200 ms to its first token and 20 ms between tokens"},
		{"the time between tokens is not predicted", "ttft-target=200 itl-target=1 | a predicted-ttft=100" + busy, -1, ""},
		{"one is not predicted", "ttft-target=200 | a predicted-ttft=500" + busy + "; b" + busy, -1, ""},
		{"one is not predicted, and another is idle", "ttft-target=200 | a predicted-ttft=500 in-flight=0 running=0 kv-usage=0.5; b" + busy, -1, ""},
		{"one is not predicted, and another keeps it", "ttft-target=200 | b" + busy + "; a predicted-ttft=100" + busy, -1, ""},
		{"nobody is predicted, and nobody asks", "a" + busy, -1, ""},
		{"one is idle", "ttft-target=200 | a predicted-ttft=500" + busy + "; b predicted-ttft=500 in-flight=0 running=0 kv-usage=0.5", -1, ""},
		{"one that was never scraped is not known to be idle", "ttft-target=200 | a predicted-ttft=500 in-flight=0", -1, "200 ms"},
		{"one has others' requests", "ttft-target=200 | a predicted-ttft=500 in-flight=0 running=1 kv-usage=0.5", -1, "200 ms"},
		{"one is cold", "ttft-target=200 | a predicted-ttft=500" + busy + "; b predicted-ttft=500 in-flight=3 running=3 kv-usage=0.019", -1, ""},
		{"one at 2 % is not", "ttft-target=200 | a predicted-ttft=500 in-flight=3 running=3 kv-usage=0.02", -1, "200 ms"},
	} {
		t.Run(r.name, func(t *testing.T) {
			a := &asked{LatencySLO: admission.NewLatencySLO()}
			left := pluginstest.Filter(t, a, r.world, pluginstest.Request(func(q *plugins.Request) { q.Target.Priority = r.priority }))
			switch {
			case r.refuses == "":
				if a.said != nil || len(left) == 0 {
					t.Errorf("refused: %v", a.said)
				}
			case a.said == nil || a.said.ID != reason.TargetOutOfReach || !strings.Contains(a.said.Detail, r.refuses):
				t.Errorf("got %v, want a refusal that says %q", a.said, r.refuses)
			}
		})
	}
}

// tells is a producer of the predictions that it is given, in the order of the pool.
type tells struct {
	ttft []float64
	to   plugins.EndpointValues[float64]
}

func (p *tells) Provision(b *plugins.Builder) error {
	p.to = plugins.Provides(b, plugins.PredictedTTFT)
	return nil
}

func (p *tells) Produce(c *plugins.Cycle) {
	to := p.to.Of(c)
	for i, id := range c.Snapshot.Members {
		to[id] = p.ttft[i]
	}
}

// once is an admitter that stands where a filter does, and is asked there alone.
type once struct{ it *admission.LatencySLO }

func (o *once) Provision(b *plugins.Builder) error { return o.it.Provision(b) }

func (o *once) Filter(c *plugins.Cycle, keep plugins.Bits) {
	if o.it.Admit(c) != nil {
		for i := range c.Candidates {
			keep.Clear(i)
		}
	}
}

// A request that passes for want of a prediction alone is noted.
func TestWhoPassesForWantOfAPrediction(t *testing.T) {
	const none = plugins.Unknown
	for _, r := range []struct {
		name     string
		ttft     []float64
		priority int32
		header   string
		target   string
		noted    int
	}{
		{"nobody is predicted", []float64{none, none}, -1, plugins.HeaderTTFTTarget, "200", 1},
		{"one is not, and the other is late", []float64{500, none}, -1, plugins.HeaderTTFTTarget, "200", 1},
		{"one is not, and the other is in time", []float64{none, 100}, -1, plugins.HeaderTTFTTarget, "200", 0},
		{"the time between tokens alone is not, and is what is asked for", []float64{500, 100}, -1, plugins.HeaderITLTarget, "20", 1},
		{"nobody is, and there is no target", []float64{none, none}, -1, plugins.HeaderTTFTTarget, "", 0},
		{"nobody is, of a priority that is not refused", []float64{none, none}, 0, plugins.HeaderTTFTTarget, "200", 0},
	} {
		t.Run(r.name, func(t *testing.T) {
			g := pluginstest.NewRig(t, []pluginstest.Part{{Name: "tells", Plugin: &tells{ttft: r.ttft}}, {Name: "it", Plugin: &once{admission.NewLatencySLO()}}}, "a", "b")
			s := g.PrepareWith(openai.NewSummary(), openai.Headers{{Name: r.header, Value: r.target}})
			s.Request.Target.Priority = r.priority
			s.Decide()
			if g.Notes[reason.LatencyUnpredicted] != r.noted {
				t.Errorf("noted %d times, want %d", g.Notes[reason.LatencyUnpredicted], r.noted)
			}
		})
	}
}
