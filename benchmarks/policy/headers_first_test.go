package policy

import (
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/simulator/engine"
	"github.com/fairlead/fairlead/simulator/fleet"
)

// early is a gateway before engines that send an answer's headers at once, whenever its first token comes, or whose answers come
// whole at their end; and that shows the usage of answers, or does not.
type early struct {
	*Production
	unary, noUsage bool
}

func (e *early) Arrive(now pool.Instant, number uint64, r *fleet.Request, s *openai.Summary) fleet.Answer {
	s.Stream = !e.unary
	a := e.Production.Arrive(now, number, r, s)
	if !e.unary && a.Refused == "" && !a.Held {
		e.Production.FirstToken(now, number)
	}
	return a
}

func (*early) FirstToken(pool.Instant, uint64) {}

func (e *early) Finish(now pool.Instant, number uint64, u openai.Usage, clean bool) {
	if e.unary {
		e.Production.FirstToken(now, number)
	}
	if e.noUsage {
		u = openai.NoUsage
	}
	e.Production.Finish(now, number, u, clean)
}

// Where first bytes tell nothing of prompts, or nobody tells how long answers were, the engines' own histograms do: what a prompt's
// token and a step are believed to take is within a fifth of what they do, on engines that are slower than the prior in either.
func TestWhatEnginesCountIsBelieved(t *testing.T) {
	for _, r := range []struct {
		name          string
		early         early
		step, prefill float64 // how much dearer than an H100's the engines' are
		perSecond     string
		headers       int // how often it is noted that they come first
	}{
		{name: "headers first", step: 1, prefill: 3, perSecond: "12", headers: 1},
		{name: "headers first, as fast as an H100", step: 1, prefill: 1, perSecond: "30", headers: 1},
		{name: "headers first, and no usage", early: early{noUsage: true}, step: 2, prefill: 2, perSecond: "12", headers: 1},
		{name: "answers at once", early: early{unary: true}, step: 1, prefill: 3, perSecond: "12"},
		{name: "answers at once, and no usage", early: early{unary: true, noUsage: true}, step: 2, prefill: 2, perSecond: "12"},
	} {
		t.Run(r.name, func(t *testing.T) {
			last, d := listening(t)
			profile, err := engine.ProfileFor("h100-sxm", "llama-3.1-8b")
			if err != nil {
				t.Fatal(err)
			}
			times := func(d *time.Duration, by float64) { *d = time.Duration(float64(*d) * by) }
			times(&profile.Step.Base, r.step)
			times(&profile.Step.PerContextToken, r.step)
			times(&profile.Step.PerPrefillToken, r.prefill)
			r.early.Production = d
			o := fleet.Options{Seed: 1, Decider: &r.early, Source: requests(t, "blockTokens: 64\nduration: 180s\narrivals: {type: poisson, rate: "+r.perSecond+"}\nindependent: {input: {type: lognormal, mean: 1500, stdDev: 800, min: 50, max: 8000}, output: {type: lognormal, mean: 150, stdDev: 80, min: 10, max: 800}}\n"),
				Signals: fleet.Signals{Every: pool.Instant(time.Second), Age: pool.Instant(50 * time.Millisecond)}}
			for range 4 {
				o.Pods = append(o.Pods, fleet.Pod{Profile: profile})
			}
			f, err := fleet.New(o)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.Run(); err != nil {
				t.Fatal(err)
			}
			if n := d.Noted()["headers_first"]; n != r.headers {
				t.Errorf("noted %d times that headers come first, want %d", n, r.headers)
			}
			for i, l := range last.loads {
				prefill := profile.Step.PerPrefillToken.Seconds() * 1000
				n, tokens := int32(max(l.Running, 1)), max(l.ResidentTokens, 1000)
				step := profile.Step.Of(engine.Load{Sequences: n, Decodes: n, DecodeContext: int64(tokens)}).Seconds() * 1000
				t.Logf("engine %d: prefill %.4f ms a token, is %.4f; step %.2f ms, is %.2f", i, l.PrefillMSPerToken, prefill, l.Step(float64(n), tokens), step)
				if e := off(l.PrefillMSPerToken, prefill); e > 0.2 {
					t.Errorf("engine %d: what a prompt's token takes is off by %.0f %%", i, 100*e)
				}
				if e := off(l.Step(float64(n), tokens), step); e > 0.2 {
					t.Errorf("engine %d: what a step takes is off by %.0f %%", i, 100*e)
				}
			}
		})
	}
}
