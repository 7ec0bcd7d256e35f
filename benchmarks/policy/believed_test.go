package policy

import (
	"math"
	"testing"
	"time"

	"github.com/fairlead/fairlead/benchmarks/workload"
	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/simulator/engine"
	"github.com/fairlead/fairlead/simulator/fleet"
)

// heard is what a decision believed of the engines.
type heard struct {
	loads   []plugins.EngineLoad
	classes []plugins.CapacityClass
}

// listener removes nobody, and remembers the last decision.
type listener struct {
	loads   plugins.EndpointValues[plugins.EngineLoad]
	classes plugins.EndpointValues[plugins.CapacityClass]
	last    *heard
}

func (l *listener) Provision(b *plugins.Builder) error {
	l.loads, l.classes = plugins.Needs(b, plugins.EngineLoads), plugins.Needs(b, plugins.CapacityClasses)
	return nil
}

func (l *listener) Filter(c *plugins.Cycle, _ plugins.Bits) {
	l.last.loads = append(l.last.loads[:0], l.loads.Of(c)...)
	l.last.classes = append(l.last.classes[:0], l.classes.Of(c)...)
}

// off is the share of want by which got differs from it.
func off(got, want float64) float64 { return math.Abs(got-want) / want }

// listening is the default with somebody who keeps what is believed of the engines.
func listening(t *testing.T) (last *heard, d *Production) {
	t.Helper()
	last = new(heard)
	text := config.DefaultText + "  - pluginRef: listener\n"
	const head = "apiVersion: fairlead.dev/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n"
	text = head + "- type: listener\n" + text[len(head):]
	file, problems := config.Load([]byte(text), "test", append(catalog.Builtin(), plugins.Plugin("listener", func() *listener { return &listener{last: last} })))
	if file == nil {
		t.Fatal(problems)
	}
	d, err := newProduction(file, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	return last, d
}

// requests are those of a workload.
func requests(t *testing.T, text string) fleet.Source {
	t.Helper()
	spec, err := workload.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	source, err := workload.New(spec, 1)
	if err != nil {
		t.Fatal(err)
	}
	return source
}

// What is believed of engines is within a fifth of what they are, of one too that has been half as fast for a minute.
func TestWhatIsBelievedOfEngines(t *testing.T) {
	last, d := listening(t)
	source := requests(t, "blockTokens: 64\nduration: 100s\narrivals: {type: poisson, rate: 30}\nindependent: {input: {type: lognormal, mean: 1000, stdDev: 500, min: 50, max: 8000}, output: {type: lognormal, mean: 150, stdDev: 80, min: 10, max: 800}}\n")
	whole, err := engine.ProfileFor("h100-sxm", "llama-3.1-8b")
	if err != nil {
		t.Fatal(err)
	}
	slice, err := engine.ProfileFor("h100-mig-3g.40gb", "llama-3.1-8b")
	if err != nil {
		t.Fatal(err)
	}
	profiles := []engine.Profile{whole, whole, whole, slice, slice}
	o := fleet.Options{Seed: 1, Decider: d, Source: source, Signals: fleet.Signals{Every: pool.Instant(time.Second), Age: pool.Instant(50 * time.Millisecond)},
		Events: []fleet.Event{{At: pool.Instant(40 * time.Second), Kind: fleet.Slow, Pod: 2, Factor: 2}}}
	for _, p := range profiles {
		o.Pods = append(o.Pods, fleet.Pod{Profile: p})
	}
	f, err := fleet.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Run(); err != nil {
		t.Fatal(err)
	}
	for i, l := range last.loads {
		s, slow := profiles[i].Step, 1.0
		if i == 2 {
			slow = 2
		}
		n, tokens := int32(max(l.Running, 1)), max(l.ResidentTokens, 1000)
		step := slow * s.Of(engine.Load{Sequences: n, Decodes: n, DecodeContext: int64(tokens)}).Seconds() * 1000
		prefill := slow * s.PerPrefillToken.Seconds() * 1000
		t.Logf("engine %d: prefill %.4f ms a token, is %.4f; step %.2f ms, is %.2f", i, l.PrefillMSPerToken, prefill, l.Step(float64(n), tokens), step)
		if e := off(l.PrefillMSPerToken, prefill); e > 0.2 {
			t.Errorf("engine %d: what a prompt's token takes is off by %.0f %%", i, 100*e)
		}
		if e := off(l.Step(float64(n), tokens), step); e > 0.2 {
			t.Errorf("engine %d: what a step takes is off by %.0f %%", i, 100*e)
		}
	}
}

// It stays so while prompts take half of the engines' time: what prompts are believed to take too much, steps are believed to take too
// little, and what a first token waits for besides prompts is then taken for prompts again.
func TestWhatIsBelievedOfBusyEngines(t *testing.T) {
	profile, err := engine.ProfileFor("h100-sxm", "llama-3.1-8b")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []struct {
		rate, output string
		within       float64
	}{
		{"10", "150", 0.1}, {"40", "150", 0.1}, {"40", "30", 0.1}, {"60", "150", 0.15}, {"60", "30", 0.15}, {"80", "150", 0.35},
	} {
		last, d := listening(t)
		o := fleet.Options{Seed: 1, Decider: d, Until: pool.Instant(150 * time.Second),
			Source:  requests(t, "blockTokens: 64\nduration: 180s\narrivals: {type: poisson, rate: "+r.rate+"}\nindependent: {input: {type: lognormal, mean: 1000, stdDev: 500, min: 50, max: 8000}, output: {type: lognormal, mean: "+r.output+", stdDev: 20, min: 5, max: 800}}\n"),
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
		prefill, step, busy := 0.0, 0.0, 0.0
		for _, l := range last.loads {
			prefill += l.PrefillMSPerToken / (profile.Step.PerPrefillToken.Seconds() * 1000) / float64(len(last.loads))
			step += l.StepMS / (profile.Step.Base.Seconds() * 1000) / float64(len(last.loads))
			busy += l.Busy / float64(len(last.loads))
		}
		t.Logf("%s requests/s of %s tokens, %.2f of the time in prompts: a prompt's token is believed to take %.2f of what it does, a step %.2f", r.rate, r.output, busy, prefill, step)
		if off(prefill, 1) > r.within || off(step, 1) > r.within {
			t.Errorf("want both within %.0f %%", 100*r.within)
		}
	}
}
