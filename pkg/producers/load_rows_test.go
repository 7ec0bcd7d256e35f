package producers_test

import (
	"math"
	"testing"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/plugins/pluginstest"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/producers"
	"github.com/fairlead/fairlead/pkg/scorers"
)

// A sample cannot have seen what was booked after it was asked for: four requests of others are four, though three own ones came between
// the sample and the decision that looks at it.
func TestWhatCameAfterTheSampleIsNoneOfIt(t *testing.T) {
	g := loadRig(t, "a")
	var last *pluginstest.Sent
	for range 30 {
		asked := g.Now
		g.Now += ms
		var own []*pluginstest.Sent
		for range 3 {
			own = append(own, g.Send(body(100)))
		}
		s := pool.NoSample()
		s.At, s.Waiting, s.Running, s.KVUsage, s.Blocks, s.BlockTokens = asked, 0, 4, 0.25, 1000, 16
		g.Pool.Observe(g.Now, g.Ref("a"), s)
		last = g.Send(body(100))
		for _, s := range append(own, last) {
			s.End(0)
		}
		g.Now += 1000 * ms
	}
	loads, _ := believed(t, last)
	if got := loads[0].Running; math.Abs(got-7) > 0.1 {
		t.Errorf("%.2f are believed to run, want the 4 of others and 3 own ones", got)
	}
}

// A pod whose labels come to say that it stands on a slice is believed to be one with the next look at classes, before an answer tells.
func TestAPodThatMovesToASliceIsBelievedToBeOneAtOnce(t *testing.T) {
	g := pluginstest.NewRig(t, []pluginstest.Part{{Name: "load", Plugin: producers.NewLoadModel()}, {Name: "class", Plugin: producers.NewCapacityClass()},
		{Name: "cost", Plugin: scorers.NewCost(), Weight: 1}})
	product := "NVIDIA-H100-80GB-HBM3"
	like := func(e *pool.Endpoint) { e.Labels = map[string]string{"nvidia.com/gpu.product": product} }
	tells := func() plugins.EngineLoad {
		g.MembersLike(like, "a")
		g.Now += 1000 * ms
		loads, _ := believed(t, g.Send(body(100)))
		return loads[0]
	}
	for range 3 {
		if l := tells(); !near(l.PrefillMSPerToken, 0.031, 1e-6) || !near(l.StepMS, 6.63, 1e-6) {
			t.Fatalf("the whole GPU is believed to be %+v", l)
		}
	}
	product += "-MIG-3g.40gb"
	if l := tells(); !near(l.PrefillMSPerToken, 0.031*132/60, 1e-6) || !near(l.StepMS, 2*6.63, 0.2) {
		t.Errorf("the slice is believed to be %+v", l)
	}
	product = "NVIDIA-H100-80GB-HBM3"
	if l := tells(); !near(l.PrefillMSPerToken, 0.031, 1e-6) {
		t.Errorf("back on the whole GPU it is believed to be %+v", l)
	}
}

// Tenants are kinds of requests of their own, by subscription as by fairness id.
func TestOutputLengthsAreByTenant(t *testing.T) {
	for _, r := range []struct {
		name string
		as   func(r *plugins.Request, tenant string)
	}{
		{"by fairness id", func(r *plugins.Request, tenant string) { r.FairnessID = tenant }},
		{"by subscription", func(r *plugins.Request, tenant string) { r.Target.Subscription = tenant }},
	} {
		t.Run(r.name, func(t *testing.T) {
			l := producers.NewOutputLength()
			g := lengthRig(t, l)
			for range 50 {
				for tenant, out := range map[string]int64{"short": 16, "long": 2000} {
					sent := g.Send(chat("m", 100, 4096, 1))
					r.as(&sent.Request, tenant)
					sent.Answer("a")
					sent.EndAs(plugins.Outcome{Served: sent.Request.Served, Prompt: 100, Out: out})
				}
			}
			for tenant, most := range map[string][2]int64{"short": {13, 20}, "long": {1650, 2400}} {
				sent := g.Send(chat("m", 100, 4096, 1))
				r.as(&sent.Request, tenant)
				l.Describe(&sent.Request)
				if got, _ := g.Built.ExpectedOutput(&sent.Request); got < most[0] || got > most[1] {
					t.Errorf("of %s answers %d tokens are expected, want %d to %d", tenant, got, most[0], most[1])
				}
			}
		})
	}
}
