package producers_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/plugins/pluginstest"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/producers"
	"github.com/fairlead/fairlead/pkg/reason"
	"github.com/fairlead/fairlead/pkg/scorers"
)

const ms = pool.Instant(time.Millisecond)

// loadRig is a pool under the load model and the scorer that reads it.
func loadRig(t *testing.T, members ...string) *pluginstest.Rig {
	return pluginstest.NewRig(t, []pluginstest.Part{{Name: "load", Plugin: producers.NewLoadModel()}, {Name: "cost", Plugin: scorers.NewCost(), Weight: 1}}, members...)
}

// believed is what the last decision believed of each candidate, and of the traffic.
func believed(t *testing.T, s *pluginstest.Sent) (loads []plugins.EngineLoad, traffic plugins.Traffic) {
	t.Helper()
	read := func(v plugins.Values, into any) {
		raw, err := v.MarshalJSON()
		if err == nil {
			err = json.Unmarshal(raw, into)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	read(s.Run.Facts["engine-load"], &loads)
	read(s.Run.RequestFacts["traffic"], &traffic)
	return loads, traffic
}

func body(tokens int64) *openai.Summary {
	s := openai.NewSummary()
	s.Complete, s.Model, s.PromptTokens, s.Stream = true, "m", tokens, true
	return s
}

// serve sends requests one after the other to a pool of one engine that takes perToken for a prompt's token and step for a
// token of an answer.
func serve(g *pluginstest.Rig, n int, tokens, out int64, perToken, step pool.Instant) (last *pluginstest.Sent) {
	for range n {
		g.Load = pool.Load{UncachedPrefill: tokens, Decode: out}
		last = g.Send(body(tokens))
		// Attention makes a prompt's tokens dearer, and a first token takes a step and half of one besides.
		work := pool.Instant(plugins.AttendedTokens(float64(tokens), 0, 32768))
		g.Now += work*perToken + step*3/2
		last.Answer(last.Picked[0])
		g.Now += step * pool.Instant(out-1)
		last.Generated(out)
		last.End(0)
		g.Now += 10 * ms
	}
	return g.Send(body(tokens))
}

func near(got, want, within float64) bool { return math.Abs(got-want) <= within*want }

func TestTheLoadModelLearnsAnEngine(t *testing.T) {
	tests := []struct {
		name           string
		perToken, step pool.Instant
	}{
		{"as fast as the prior", 31_000, 6_700_000},
		{"half as fast", 62_000, 13_400_000},
		{"slow prompts alone", 120_000, 6_700_000},
		{"slow steps alone", 31_000, 20_000_000},
		{"twice as fast", 16_000, 3_300_000},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := loadRig(t, "a")
			loads, traffic := believed(t, serve(g, 100, 2000, 50, tt.perToken, tt.step))
			l := &loads[0]
			if want := float64(tt.perToken) / 1e6; !near(l.PrefillMSPerToken, want, 0.2) {
				t.Errorf("a prompt's token is believed to take %.4f ms, and takes %.4f", l.PrefillMSPerToken, want)
			}
			if want := float64(tt.step) / 1e6; !near(l.Step(1, 2025), want, 0.2) {
				t.Errorf("a step is believed to take %.2f ms, and takes %.2f", l.Step(1, 2025), want)
			}
			if l.Learned != plugins.Measured {
				t.Errorf("learned %d, want that it was measured", l.Learned)
			}
			if !near(traffic.OutputTokens, 50, 0.01) {
				t.Errorf("answers are believed to have %.1f tokens, and have 50", traffic.OutputTokens)
			}
		})
	}
}

func TestTheLoadModelBeginsWithThePrior(t *testing.T) {
	g := loadRig(t, "a", "b")
	loads, traffic := believed(t, g.Send(body(100)))
	for i, l := range loads {
		if l.PrefillMSPerToken != 0.031 || l.StepMS != 6.63 || l.Learned != plugins.Prior || l.BacklogMS != 0 || l.Running != 0 || l.CapacityTokens != plugins.Unknown {
			t.Errorf("engine %d: %+v", i, l)
		}
	}
	if traffic.PrefillMS != plugins.Unknown || traffic.OutputTokens != 256 || traffic.PerSecond != 0 {
		t.Errorf("traffic %+v", traffic)
	}
	if g.Notes[reason.FactMissing] == 0 {
		t.Error("nobody foretells the length of answers, and no reason says so")
	}
}

// What one engine has shown is the start of the others, and of one that comes.
func TestNewEnginesBeginWithWhatOthersShowed(t *testing.T) {
	g := loadRig(t, "a")
	serve(g, 100, 2000, 50, 93_000, 20_000_000)
	g.Members("a", "b")
	loads, _ := believed(t, g.Send(body(100)))
	if b := &loads[1]; !near(b.PrefillMSPerToken, 0.093, 0.25) || !near(b.StepMS, 20, 0.25) || b.Learned != plugins.OfClass {
		t.Errorf("the new engine is believed to be %+v", b)
	}
}

// The books are the load.
func TestBookingsAreLoad(t *testing.T) {
	g := loadRig(t, "a")
	g.Load = pool.Load{UncachedPrefill: 10_000, Cached: 2_000, Decode: 100}
	g.Send(body(12_000))
	g.Now += 50 * ms
	loads, _ := believed(t, g.Send(body(100)))
	// 10,000 tokens behind 2,000 attend to 7,000 on average, of 32,768 that double their cost.
	if want := 10_000*(1+7_000/32_768.0)*0.031 - 50; !near(loads[0].BacklogMS, want, 0.01) {
		t.Errorf("backlog %.1f ms, want %.1f", loads[0].BacklogMS, want)
	}
	if loads[0].Running != 1 || loads[0].ResidentTokens != 12_050 {
		t.Errorf("%+v", loads[0])
	}
}

// sample is what engine a tells now: of a cache of 16,000 tokens.
func sample(g *pluginstest.Rig, waiting, running int32, usage float64) {
	s := pool.NoSample()
	s.At, s.Waiting, s.Running, s.KVUsage, s.Blocks, s.BlockTokens = g.Now, waiting, running, usage, 1000, 16
	g.Pool.Observe(g.Now, g.Ref("a"), s)
}

// Requests of others are load as well; those of our own that a sample counts are not counted twice.
func TestTelemetryShowsWhatTheBooksCannot(t *testing.T) {
	tests := []struct {
		name             string
		own              int
		waiting, running int32
		want             float64 // believed to run
	}{
		{"own ones alone", 4, 0, 4, 4},
		{"own ones that wait", 4, 3, 1, 4},
		{"others alone", 0, 0, 6, 6},
		{"others beside own ones", 4, 2, 8, 10},
		{"one that ended a moment ago is no other", 3, 0, 4, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := loadRig(t, "a")
			g.Load = pool.Load{UncachedPrefill: 100, Decode: 100}
			for range tt.own {
				g.Send(body(100)).Answer("a")
			}
			g.Load = pool.Load{}
			var last *pluginstest.Sent
			for range 30 {
				g.Now += 1000 * ms
				sample(g, tt.waiting, tt.running, 0.25)
				g.Now += ms
				last = g.Send(body(100))
				last.End(0)
			}
			loads, _ := believed(t, last)
			if math.Abs(loads[0].Running-tt.want) > 0.1 {
				t.Errorf("%.2f run, want %.0f", loads[0].Running, tt.want)
			}
			if loads[0].CapacityTokens != 16_000 || loads[0].PromisedTokens < 4_000 {
				t.Errorf("the cache: %+v", loads[0])
			}
			// A sample that grows stale changes nothing, and is noted.
			g.Now += 60_000 * ms
			again, _ := believed(t, g.Send(body(100)))
			if math.Abs(again[0].Running-tt.want) > 0.1 || g.Notes[reason.StaleSample] == 0 {
				t.Errorf("with a stale sample %.2f run, want %.0f; noted %d times", again[0].Running, tt.want, g.Notes[reason.StaleSample])
			}
		})
	}
}

// Ten prompts of 1000 tokens share nine tenths: without a sample they are believed to take up what is their own, not ten thousand.
func TestWhatPromptsShareStandsInTheCacheOnce(t *testing.T) {
	g := loadRig(t, "a")
	sample(g, 0, 0, 0)
	g.Load = pool.Load{Cached: 900, UncachedPrefill: 100, Decode: 100}
	for range 10 {
		g.Send(body(1000)).Answer("a")
	}
	g.Load = pool.Load{}
	g.Now += 70_000 * ms
	loads, _ := believed(t, g.Send(body(1000)))
	if got := loads[0].PromisedTokens; got < 1000 || got > 4000 {
		t.Errorf("%.0f tokens are promised, want about 2000", got)
	}
}

// A reading of the memory that has grown old is gone by with what came and went since: ten requests hold 12,000 tokens, of which the
// books take most to be shared. A minute later the books alone count.
func TestAnOldReadingOfTheMemoryHolds(t *testing.T) {
	tests := []struct {
		name    string
		age     pool.Instant
		waiting int32
		ended   int
		want    float64
	}{
		{"fresh", 1_000 * ms, 0, 0, 14_500},
		{"old", 10_000 * ms, 0, 0, 14_500},
		{"old, and one waited for memory", 10_000 * ms, 1, 0, 14_610},
		{"old, and three ended since", 10_000 * ms, 0, 3, 13_900},
		{"too old", 61_000 * ms, 0, 0, 4_000},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := loadRig(t, "a")
			g.Load = pool.Load{Cached: 900, UncachedPrefill: 100, Decode: 100}
			var open []*pluginstest.Sent
			for range 10 {
				s := g.Send(body(1000))
				s.Answer("a")
				open = append(open, s)
			}
			g.Now += ms
			sample(g, tt.waiting, 10, 0.75)
			g.Now += ms
			// Ten more since.
			for range 10 {
				g.Send(body(1000)).Answer("a")
			}
			g.Now += tt.age
			for _, s := range open[:tt.ended] {
				s.End(0)
			}
			g.Load = pool.Load{}
			loads, _ := believed(t, g.Send(body(1000)))
			if got := loads[0].PromisedTokens; !near(got, tt.want, 0.001) {
				t.Errorf("%.0f tokens are promised, want %.0f", got, tt.want)
			}
		})
	}
}

// What was learned outlives a change of the configuration.
func TestTheLoadModelIsInherited(t *testing.T) {
	g := loadRig(t, "a")
	serve(g, 100, 2000, 50, 93_000, 20_000_000)
	kept, _ := g.Replace([]pluginstest.Part{{Name: "load", Plugin: producers.NewLoadModel()}, {Name: "cost", Plugin: scorers.NewCost(), Weight: 1}})
	loads, _ := believed(t, g.Send(body(100)))
	if len(kept) != 1 || !near(loads[0].PrefillMSPerToken, 0.093, 0.25) {
		t.Errorf("kept %q, believed %+v", kept, loads[0])
	}
}

// Engines that send headers before the first token seem to need no time for prompts. Then first bytes say nothing, a prompt's cost
// follows that of steps, and the backlog runs by the clock.
func TestHeadersBeforeTheFirstToken(t *testing.T) {
	g := loadRig(t, "a")
	const tokens, out = 4000, 50
	for range 100 {
		g.Load = pool.Load{UncachedPrefill: tokens, Decode: out}
		s := g.Send(body(tokens))
		g.Now += 2 * ms
		s.Answer("a")
		// Half as fast as the prior: 0.062 ms a token with attention to 2,000 others, and steps of 13.4 ms.
		g.Now += pool.Instant(plugins.AttendedTokens(tokens, 0, 32768)*62_000) + 13_400_000*out
		s.Generated(out)
		s.End(0)
		g.Now += 10 * ms
	}
	if g.Notes[reason.HeadersFirst] != 1 {
		t.Errorf("noted %d times that first bytes are headers", g.Notes[reason.HeadersFirst])
	}
	g.Load = pool.Load{UncachedPrefill: tokens, Decode: out}
	s := g.Send(body(tokens))
	g.Now += 2 * ms
	s.Answer("a")
	loads, _ := believed(t, g.Send(body(tokens)))
	if l := &loads[0]; !near(l.PrefillMSPerToken, 0.062, 0.25) || !near(l.StepMS, 13.3, 0.25) {
		t.Errorf("believed %+v", l)
	}
	if want := loads[0].Prefill(tokens, 0) - 2; !near(loads[0].BacklogMS, want, 0.05) {
		t.Errorf("after the headers the backlog is %.0f ms, want %.0f", loads[0].BacklogMS, want)
	}
}

// What an engine counts is learned from in place of own requests where these are less than half of it, and never beside them: own
// first tokens here take as long as the prior says, and those that the engine counts twice as long.
func TestEnginesCountsStandInForOwnRequests(t *testing.T) {
	for _, tt := range []struct {
		name   string
		others float64 // first tokens that the engine counts for each of ours
		want   float64
		noted  int // that others are not heard
	}{
		{"the engine has own requests alone", 0, 0.031, 0},
		{"a few are of others", 0.3, 0.031, 0},
		{"as many are of others", 0.9, 0.031, 1},
		{"most are of others", 9, 0.062, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := loadRig(t, "a")
			const tokens = 4000
			took := pool.Instant(plugins.AttendedTokens(tokens, 0, 32768)) * 31_000
			s := pool.NoSample()
			s.FirstTokens, s.Waiting, s.Running = pool.Timed{}, 0, 0
			for range 200 {
				g.Load = pool.Load{UncachedPrefill: tokens, Decode: 1}
				sent := g.Send(body(tokens))
				g.Now += took + 10*ms
				sent.Answer("a")
				sent.End(0)
				g.Now += 200 * ms
				s.At = g.Now
				s.FirstTokens.Count += 1 + tt.others
				s.FirstTokens.Seconds += (1 + tt.others) * (2*time.Duration(took).Seconds() + 0.010)
				g.Pool.Observe(g.Now, g.Ref("a"), s)
			}
			loads, _ := believed(t, g.Send(body(tokens)))
			if got := loads[0].PrefillMSPerToken; !near(got, tt.want, 0.1) {
				t.Errorf("a prompt's token is believed to take %.4f ms, want %.4f", got, tt.want)
			}
			if n := g.Notes[reason.OthersUnheard]; n != tt.noted {
				t.Errorf("noted %d times that others are not heard, want %d", n, tt.noted)
			}
		})
	}
}
