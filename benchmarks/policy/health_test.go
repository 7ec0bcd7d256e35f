package policy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/benchmarks/policy"
	"github.com/fairlead/fairlead/benchmarks/workload"
	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/simulator/engine"
	"github.com/fairlead/fairlead/simulator/fleet"
)

// watched is the classic profile with somebody who watches over endpoints.
func watched() string {
	s := strings.Replace(config.ClassicText, "plugins:\n", "plugins:\n- type: health-filter\n", 1)
	return strings.Replace(s, "  plugins:\n", "  plugins:\n  - pluginRef: health-filter\n", 1)
}

// The pod to which something happens between two instants.
const (
	ill         = 3
	falls, well = 30 * time.Second, 75 * time.Second
)

// course runs 8 pods at 50 requests/s, one or all of which the events befall.
func course(t *testing.T, seed uint64, events ...fleet.Event) (*fleet.Result, map[string]int) {
	t.Helper()
	spec, err := workload.Parse([]byte("blockTokens: 64\nduration: 140s\narrivals: {type: poisson, rate: 50}\nsharedPrefix: {groups: 60, system: 1500, question: 300, output: 200}\n"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.FromText("watched", []byte(watched()))
	if err != nil {
		t.Fatal(err)
	}
	d, err := p.New(seed)
	if err != nil {
		t.Fatal(err)
	}
	source, err := workload.New(spec, seed)
	if err != nil {
		t.Fatal(err)
	}
	profile, err := engine.ProfileFor("h100-sxm", "llama-3.1-8b")
	if err != nil {
		t.Fatal(err)
	}
	o := fleet.Options{Seed: seed, Decider: d, Source: source, Events: events, Signals: fleet.Signals{Every: pool.Instant(time.Second)}}
	for range 8 {
		o.Pods = append(o.Pods, fleet.Pod{Profile: profile})
	}
	f, err := fleet.New(o)
	if err != nil {
		t.Fatal(err)
	}
	r, err := f.Run()
	if err != nil {
		t.Fatal(err)
	}
	return r, d.(*policy.Production).Noted()
}

// share is what the pod got of the requests that were sent in a time, as a multiple of its fair share.
func share(r *fleet.Result, from, to time.Duration) float64 {
	all, its := 0, 0
	for i := range r.Outcomes {
		if o := &r.Outcomes[i]; o.Sent >= pool.Instant(from) && o.Sent < pool.Instant(to) {
			all++
			if o.Pod == ill {
				its++
			}
		}
	}
	return float64(its*len(r.Pods)) / float64(max(all, 1))
}

// flips counts how often the pod goes from more than half of its share to less and back, over spans of three seconds.
func flips(r *fleet.Result) (n int) {
	const span = 3 * time.Second
	in := true
	for at := falls; at < well+62*time.Second; at += span {
		switch s := share(r, at, at+span); {
		case in && s < 0.2, !in && s > 0.5:
			in = !in
			n++
		}
	}
	return n
}

// A pod whose answers come ten times slower, all of them with status 200, loses its share within ten seconds, gets it back
// within a minute of its recovery, and does not swing. So does one that hangs.
func TestASlowPodLosesItsShareAndGetsItBack(t *testing.T) {
	for _, r := range []struct {
		name   string
		events []fleet.Event
		why    string
	}{
		{"ten times slower", []fleet.Event{
			{At: pool.Instant(falls), Kind: fleet.Slow, Pod: ill, Factor: 10}, {At: pool.Instant(well), Kind: fleet.Slow, Pod: ill, Factor: 1}}, "endpoint_slow"},
		{"hanging", []fleet.Event{{At: pool.Instant(falls), Kind: fleet.Hang, Pod: ill}, {At: pool.Instant(well), Kind: fleet.Resume, Pod: ill}}, "endpoint_silent"},
	} {
		for _, seed := range []uint64{1, 2} {
			got, noted := course(t, seed, r.events...)
			before := share(got, 10*time.Second, falls)
			during, after := share(got, falls+10*time.Second, well), share(got, well+50*time.Second, well+60*time.Second)
			n := flips(got)
			t.Logf("%s, seed %d: %.2f of its share before, %.3f from 10 s on, %.2f a minute after, %d flips, %v", r.name, seed, before, during, after, n, noted)
			if during > 0.2*before || after < 0.5*before || n >= 3 || noted[r.why] == 0 {
				t.Errorf("%s, seed %d: want at most 0.2 of what was before, at least 0.5 of it again, less than 3 flips, and %s", r.name, seed, r.why)
			}
		}
	}
}

// Nobody is ejected where all are slow, where one is only half as fast, or where one cannot be read but answers.
func TestWhatEjectsNobody(t *testing.T) {
	var all []fleet.Event
	for pod := range int32(8) {
		all = append(all, fleet.Event{At: pool.Instant(falls), Kind: fleet.Slow, Pod: pod, Factor: 5})
	}
	for _, r := range []struct {
		name   string
		events []fleet.Event
	}{
		{"nothing happens", nil},
		{"all are slow", all},
		{"one is half as fast", []fleet.Event{{At: pool.Instant(falls), Kind: fleet.Slow, Pod: ill, Factor: 2}}},
		{"one cannot be read", []fleet.Event{{At: pool.Instant(falls), Kind: fleet.Blind, Pod: ill}}},
	} {
		_, noted := course(t, 1, r.events...)
		for why, n := range noted {
			if strings.HasPrefix(why, "endpoint_") || why == "ejection_withheld" {
				t.Errorf("%s: %s, %d times", r.name, why, n)
			}
		}
	}
}

// A crash that the membership learns of late costs a few requests a detour, and none its answer but those that ran there.
func TestACrashThatIsNoticedLate(t *testing.T) {
	got, noted := course(t, 1, fleet.Event{At: pool.Instant(falls), Kind: fleet.Crash, Pod: ill, Detected: pool.Instant(40 * time.Second)})
	detours, lost := 0, 0
	for i := range got.Outcomes {
		o := &got.Outcomes[i]
		if o.Tries > 1 {
			detours++
		}
		if o.Status != fleet.Completed && o.Arrived >= pool.Instant(falls) {
			lost++
		}
	}
	t.Logf("%d of %d requests took a detour; %v", detours, len(got.Outcomes), noted)
	if detours > 10 || lost > 0 {
		t.Errorf("%d detours and %d lost; want at most 10 and none", detours, lost)
	}
}
