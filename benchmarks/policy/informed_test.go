package policy_test

import (
	"testing"
	"time"

	"github.com/fairlead/fairlead/benchmarks/policy"
	"github.com/fairlead/fairlead/benchmarks/workload"
	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
	"github.com/fairlead/fairlead/simulator/fleet"
)

// smallCaches hold the chats of a few minutes: much of what was sent somewhere is not there any more.
func smallCaches(o *fleet.Options) {
	for i := range o.Pods {
		o.Pods[i].Profile.Blocks = 2500
	}
}

func chats(t *testing.T) *workload.Spec {
	t.Helper()
	s, err := workload.Parse([]byte(`blockTokens: 64
duration: 100s
arrivals: {type: poisson, rate: 6}
streams:
- name: chat
  share: 1
  conversation:
    shared: 800
    turns: {type: uniform, min: 3, max: 6}
    input: {type: lognormal, mean: 500, stdDev: 250, min: 20}
    output: {type: lognormal, mean: 250, stdDev: 150, min: 10}
    wait: {type: lognormal, mean: 20, stdDev: 15}
`))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// wrong counts the requests of which another number of tokens was cached than the scheduler took to be, where it sent them.
type wrong struct{ requests, wrong int }

func (w *wrong) Decided(exchange.Metered, reason.ID, pool.Instant) {}

func (w *wrong) Settled(m exchange.Metered, o plugins.Outcome) {
	w.requests++
	if m.Matched != o.Cached {
		w.wrong++
	}
}

// How often is the scheduler wrong about what is cached where it sends a request? Who looks into the caches is wrong only where a
// request waits so long that something changes before its turn; who hears all, hardly more; who hears little, more and more; who
// believes, most.
func TestWhatIsKnownOfCaches(t *testing.T) {
	if testing.Short() {
		t.Skip("needs many seconds under the race detector")
	}
	spec := chats(t)
	share := func(name string, s fleet.Signals) float64 {
		p, err := policy.Named(name)
		if err != nil {
			t.Fatal(err)
		}
		var w wrong
		source, err := workload.New(spec, 3)
		if err != nil {
			t.Fatal(err)
		}
		d, err := p.Watched(func(p *policy.Production) { p.Meter(&w) }).New(3)
		if err != nil {
			t.Fatal(err)
		}
		s.Every = pool.Instant(time.Second)
		o := fleet.Options{Seed: 3, Decider: d, Source: source, Signals: s, Pods: eight(t), Events: []fleet.Event{
			{At: pool.Instant(50 * time.Second), Kind: fleet.Crash, Pod: 2, Detected: pool.Instant(time.Second)},
			{At: pool.Instant(60 * time.Second), Kind: fleet.Restart, Pod: 2},
			{At: pool.Instant(70 * time.Second), Kind: fleet.Restart, Pod: 3},
		}}
		smallCaches(&o)
		f, err := fleet.New(o)
		if err != nil {
			t.Fatal(err)
		}
		r, err := f.Run()
		if err != nil {
			t.Fatal(err)
		}
		if left := d.(interface{ Left() string }).Left(); left != "" {
			t.Errorf("%s: left in the books: %s", name, left)
		}
		if w.requests < 1000 {
			t.Errorf("%s: %d requests", name, w.requests)
		}
		if listens := r.Batches > 0; listens != p.Hears {
			t.Errorf("%s: %d batches of cache events", name, r.Batches)
		}
		return float64(w.wrong) / float64(w.requests)
	}
	believed, seen := share("default", fleet.Signals{}), share("oracle=default", fleet.Signals{})
	heard, late, lossy := share("events=default", fleet.Signals{}),
		share("events=default", fleet.Signals{EventDelay: pool.Instant(10 * time.Second)}), share("events=default", fleet.Signals{EventLoss: 0.5})
	if seen > 0.01 || heard > 0.02 || lossy > 0.05 || late < 10*heard || believed < 10*heard {
		t.Error("want less than 0.01 seen, 0.02 heard, 0.05 heard by half, and ten times as much as is heard believed, and heard late")
	}
	t.Logf("wrong of %.3f believed, %.3f heard, %.3f heard late, %.3f heard by half, %.3f seen", believed, heard, late, lossy, seen)
}

// Requests that come together with one new prompt meet where the first of them went, before any engine can tell of it.
func TestSiblingsMeetBeforeTheirBlocksAreTold(t *testing.T) {
	spec, err := workload.Parse([]byte(`blockTokens: 64
duration: 30s
arrivals: {type: poisson, rate: 1}
siblings: {each: 16, within: 0.1, prompt: {type: uniform, min: 4000, max: 12000}, own: 50, output: {type: lognormal, mean: 300, stdDev: 150, min: 20, max: 1500}}
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"events=default", "oracle=default"} {
		r, _ := run(t, name, spec, 1, nil)
		prompt, cached := 0.0, 0.0
		for i := range r.Outcomes {
			prompt, cached = prompt+float64(r.Outcomes[i].Prompt), cached+float64(r.Outcomes[i].Cached)
		}
		if share := cached / prompt; share < 0.8 {
			t.Errorf("%s: %.3f of the prompts are found in caches, want 0.8 at least", name, share)
		}
	}
}
