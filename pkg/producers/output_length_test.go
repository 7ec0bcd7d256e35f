package producers_test

import (
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/plugins/pluginstest"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/producers"
	"github.com/fairlead/fairlead/pkg/reason"
)

// reader scores nothing.
type reader struct{}

func (*reader) Provision(*plugins.Builder) error { return nil }
func (*reader) Score(*plugins.Cycle, []float64)  {}

func lengthRig(t testing.TB, l *producers.OutputLength) *pluginstest.Rig {
	t.Helper()
	return pluginstest.NewRig(t, []pluginstest.Part{{Name: "read", Plugin: &reader{}, Weight: 1}, {Name: "lengths", Plugin: l}}, "a", "b")
}

// chat is a request for model m.
func chat(model string, prompt, most, n int64) *openai.Summary {
	s := openai.NewSummary()
	s.Complete, s.Model, s.PromptTokens, s.MaxTokens, s.N = true, model, prompt, most, n
	return s
}

// ended sends a request and ends it with so many tokens generated.
func ended(g *pluginstest.Rig, s *openai.Summary, out int64) {
	sent := g.Send(s)
	sent.Answer("a")
	sent.EndAs(plugins.Outcome{Served: sent.Request.Served, Prompt: s.PromptTokens, Out: out})
}

// expects returns what a request is expected to generate.
func expects(t *testing.T, g *pluginstest.Rig, s *openai.Summary) int64 {
	t.Helper()
	got, ok := g.Built.ExpectedOutput(&g.Send(s).Request)
	if !ok {
		t.Fatal("nothing is expected")
	}
	return got
}

func TestOutputLength(t *testing.T) {
	free := openai.NewSummary().MaxTokens
	for _, r := range []struct {
		name  string
		learn func(g *pluginstest.Rig)
		ask   *openai.Summary
		least int64
		most  int64
	}{
		{"nothing learned: the fixed number", nil, chat("m", 100, free, 1), 256, 256},
		{"nothing learned, and a bound below it", nil, chat("m", 100, 40, 1), 40, 40},
		{"nothing learned, three completions", nil, chat("m", 100, 40, 3), 120, 120},
		{"a bound of nothing", nil, chat("m", 100, 0, 1), 0, 0},
		{"many of one length: that length, within a bucket", func(g *pluginstest.Rig) {
			for range 100 {
				ended(g, chat("m", 100, free, 1), 1000)
			}
		}, chat("m", 100, free, 1), 840, 1190},
		{"p70 of lengths 10, 20 … 1000", func(g *pluginstest.Rig) {
			for i := range int64(200) {
				ended(g, chat("m", 100, free, 1), 10*(i%100+1))
			}
		}, chat("m", 100, free, 1), 600, 800},
		{"learned, and a bound below it", func(g *pluginstest.Rig) {
			for range 100 {
				ended(g, chat("m", 100, free, 1), 1000)
			}
		}, chat("m", 100, 300, 1), 300, 300},
		{"usage counts all completions of a request", func(g *pluginstest.Rig) {
			for range 100 {
				ended(g, chat("m", 100, free, 4), 400)
			}
		}, chat("m", 100, free, 2), 168, 238},
		{"a few are shrunk towards everything: ten of 20 of 16 against many of 1024", func(g *pluginstest.Rig) {
			for range 1000 {
				ended(g, chat("m", 100, free, 1), 1024)
			}
			for range 10 {
				ended(g, chat("m", 9000, free, 1), 16)
			}
		}, chat("m", 9000, free, 1), 400, 680},
		{"a model that was never seen is expected to do as the others", func(g *pluginstest.Rig) {
			for range 100 {
				ended(g, chat("m", 100, free, 1), 64)
			}
		}, chat("other", 100, free, 1), 54, 76},
		{"bounds of other sizes are other kinds of request", func(g *pluginstest.Rig) {
			for range 50 {
				ended(g, chat("m", 100, 64, 1), 8)
				ended(g, chat("m", 100, 4096, 1), 2000)
			}
		}, chat("m", 100, 64, 1), 7, 10},
		{"old lengths give way", func(g *pluginstest.Rig) {
			for range 400 {
				ended(g, chat("m", 100, free, 1), 1000)
			}
			g.Now += pool.Instant(5 * time.Hour)
			for range 25 {
				ended(g, chat("m", 100, free, 1), 100)
			}
		}, chat("m", 100, free, 1), 84, 119},
		{"an answer that was broken off teaches nothing", func(g *pluginstest.Rig) {
			for range 50 {
				sent := g.Send(chat("m", 100, free, 1))
				sent.EndAs(plugins.Outcome{Ending: reason.ClientAborted, Out: 3})
			}
		}, chat("m", 100, free, 1), 256, 256},
		{"nor does an error", func(g *pluginstest.Rig) {
			for range 50 {
				sent := g.Send(chat("m", 100, free, 1))
				sent.Request.Status = 500
				sent.EndAs(plugins.Outcome{Out: 0})
			}
		}, chat("m", 100, free, 1), 256, 256},
	} {
		t.Run(r.name, func(t *testing.T) {
			g := lengthRig(t, producers.NewOutputLength())
			if r.learn != nil {
				r.learn(g)
			}
			if got := expects(t, g, r.ask); got < r.least || got > r.most {
				t.Errorf("expects %d tokens, want %d to %d", got, r.least, r.most)
			}
		})
	}
}

// An embedding generates nothing, and is not learned from.
func TestOutputLengthOfWhatGeneratesNothing(t *testing.T) {
	l := producers.NewOutputLength()
	g := lengthRig(t, l)
	sent := g.Send(chat("m", 10, openai.Unknown, 1))
	sent.Request.API = openai.Embeddings
	l.Describe(&sent.Request)
	if got, _ := g.Built.ExpectedOutput(&sent.Request); got != 0 {
		t.Errorf("an embedding is expected to generate %d tokens", got)
	}
}

// Memory is bounded: of three kinds of requests in two places the one that was not asked for longest is forgotten, and the
// model's and everybody's lengths stay with those that ask.
func TestOutputLengthsAreBounded(t *testing.T) {
	l := producers.NewOutputLength()
	l.Keys = 50
	g := lengthRig(t, l)
	for i := range int64(500) {
		ended(g, chat("m", 1<<(i%20), 1<<(i%18), 1), 100)
	}
	if got := expects(t, g, chat("m", 100, openai.Unknown, 1)); got < 84 || got > 119 {
		t.Errorf("expects %d tokens after 360 kinds of requests in 50 places, want about 100", got)
	}
}

// Where answers do not show their usage, that is noted once, after twenty; where one did, never.
func TestOutputLengthSaysThatItCannotLearn(t *testing.T) {
	for _, r := range []struct {
		name  string
		shown bool
		want  int
	}{{"never shown", false, 1}, {"shown once", true, 0}} {
		g := lengthRig(t, producers.NewOutputLength())
		if r.shown {
			ended(g, chat("m", 10, 10, 1), 5)
		}
		for range 60 {
			ended(g, chat("m", 10, 10, 1), openai.Unknown)
		}
		if got := g.Notes[reason.OutputLengthsUnseen]; got != r.want {
			t.Errorf("%s: noted %d times, want %d", r.name, got, r.want)
		}
	}
}

func TestOutputLengthAsksForUsageOnlyWhenTold(t *testing.T) {
	l := producers.NewOutputLength()
	if g := lengthRig(t, l); g.Built.Wants != 0 {
		t.Errorf("wants %b", g.Built.Wants)
	}
	l.AskForUsage = true
	if g := lengthRig(t, l); g.Built.Wants != plugins.Usage {
		t.Errorf("wants %b, not usage", g.Built.Wants)
	}
}

func TestOutputLengthsAreInherited(t *testing.T) {
	parts := func() []pluginstest.Part {
		return []pluginstest.Part{{Name: "read", Plugin: &reader{}, Weight: 1}, {Name: "lengths", Plugin: producers.NewOutputLength()}}
	}
	g := pluginstest.NewRig(t, parts(), "a")
	for range 50 {
		ended(g, chat("m", 100, openai.Unknown, 1), 1000)
	}
	g.Replace(parts())
	if got := expects(t, g, chat("m", 100, openai.Unknown, 1)); got < 840 {
		t.Errorf("expects %d tokens after a reload, want about 1000", got)
	}
}

func TestOutputLengthAllocatesNothing(t *testing.T) {
	l := producers.NewOutputLength()
	g := lengthRig(t, l)
	ended(g, chat("m", 100, 512, 1), 40)
	sent := g.Send(chat("m", 100, 512, 1))
	if n := testing.AllocsPerRun(100, func() { l.Describe(&sent.Request) }); n != 0 {
		t.Errorf("%g allocations to expect", n)
	}
	if n := testing.AllocsPerRun(100, func() { l.Settle(&sent.Request, plugins.Outcome{Out: 40}) }); n != 0 {
		t.Errorf("%g allocations to learn", n)
	}
}
