package policy_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/benchmarks/policy"
	"github.com/fairlead/fairlead/benchmarks/workload"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/simulator/fleet"
)

// After any storm of crashes, restarts, hangs, drains, joins and clients that go away, every request has one ending, and the production books
// are at zero.
func TestBooksReturnToZero(t *testing.T) {
	spec := conversation(t, 300)
	spec.Streams[0].Aborts = workload.Aborts{Share: 0.2, After: workload.Distribution{Type: "exponential", Mean: 3}}
	const end = 90e9
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 's'))
		var events []fleet.Event
		for range 20 {
			at, pod := pool.Instant(r.Int64N(end)), r.Int32N(8)
			switch r.IntN(4) {
			case 0:
				events = append(events, fleet.Event{At: at, Kind: fleet.Crash, Pod: pod, Detected: pool.Instant(r.Int64N(5e9))},
					fleet.Event{At: at + pool.Instant(r.Int64N(10e9)), Kind: fleet.Restart, Pod: pod})
			case 1:
				events = append(events, fleet.Event{At: at, Kind: fleet.Hang, Pod: pod}, fleet.Event{At: at + 3e9, Kind: fleet.Resume, Pod: pod})
			case 2:
				events = append(events, fleet.Event{At: at, Kind: fleet.Slow, Pod: pod, Factor: 1 + 3*r.Float64()})
			case 3:
				events = append(events, fleet.Event{At: at, Kind: fleet.Restart, Pod: pod})
			}
		}
		events = append(events, fleet.Event{At: end / 2, Kind: fleet.Add, Pod: 0}, fleet.Event{At: end / 2, Kind: fleet.Drain, Pod: 1})
		aborted := 0
		result, d := run(t, policy.Default, spec, seed, func(o *fleet.Options) { o.Events = events })
		for i := range result.Outcomes {
			o := &result.Outcomes[i]
			if o.Status == fleet.Unfinished {
				t.Errorf("seed %d: request %d has no ending: %+v", seed, i, o)
			}
			if o.Status == fleet.Aborted {
				aborted++
			}
		}
		if aborted < 20 {
			t.Errorf("seed %d: %d clients went away; the test shows little", seed, aborted)
		}
		if n := d.(*policy.Production).Open(); n != 0 {
			t.Errorf("seed %d: %d bookings are left", seed, n)
		}
	}
}

// Where the prefix weighs, more of the prompts is found in the caches than where requests are spread blindly; and least
// requests are spread more evenly than by chance.
func TestPoliciesDoWhatTheirNamesSay(t *testing.T) {
	spec := conversation(t, 600)
	hits := func(name string) (share float64, busiest int64) {
		r, _ := run(t, name, spec, 1, nil)
		prompt, cached := 0.0, 0.0
		for i := range r.Outcomes {
			prompt, cached = prompt+float64(r.Outcomes[i].Prompt), cached+float64(r.Outcomes[i].Cached)
		}
		for _, p := range r.Pods {
			busiest = max(busiest, p.Requests)
		}
		return cached / prompt, busiest
	}
	ours, _ := hits(policy.Default)
	turns, even := hits("round-robin")
	if ours < turns+0.03 {
		t.Errorf("hit rate %.3f under the default configuration, %.3f in turns; want at least 0.03 more", ours, turns)
	}
	if even != 75 {
		t.Errorf("round-robin gave one of 8 pods %d of 600 requests, want 75", even)
	}
	if _, drawn := hits("random"); drawn <= 80 {
		t.Errorf("random gave no pod more than %d of 600 requests", drawn)
	}
	if _, pinned := hits("service"); pinned <= 80 {
		t.Errorf("a service gave no pod more than %d of 600 requests", pinned)
	}
}

func TestNames(t *testing.T) {
	if got, want := policy.Names(), []string{"default", "classic", "events=default", "oracle=default", "least-request", "random", "round-robin",
		"rule-aibrix-preble", "rule-aibrix-prefix", "rule-dynamo", "rule-dynamo-events", "rule-dynamo-lmetric",
		"rule-llm-d-2-2-3", "rule-llm-d-2-3", "rule-llm-d-precise", "rule-llm-d-precise-sticky", "rule-llm-d-sticky", "rule-lmetric", "rule-production-stack-prefix",
		"rule-production-stack-session", "rule-sglang", "service"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for name, want := range map[string]string{
		"round-robbin":               "round-robin",
		"events=random":              "no configuration",
		"oracle=nothing":             "nothing",
		"events=testdata/blind.yaml": "asks what is cached",
		"no/such/file.yml":           "no such file",
	} {
		if _, err := policy.Named(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", name, err, want)
		}
	}
	if _, err := policy.FromText("mine", []byte("kind: EndpointPickerConfig\nplugins: [{type: queue-scorrer}]\n")); err == nil || !strings.Contains(err.Error(), "queue-scorrer") {
		t.Errorf("%v; want what is wrong with the file", err)
	}
}
