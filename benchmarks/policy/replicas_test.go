package policy_test

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/benchmarks/policy"
	"github.com/fairlead/fairlead/benchmarks/workload"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/simulator/fleet"
)

func TestReplicas(t *testing.T) {
	spec := conversation(t, 400)
	alone, _ := run(t, "classic", spec, 3, nil)
	one, _ := run(t, "replicas=1:classic", spec, 3, nil)
	four, _ := run(t, "replicas=4:classic", spec, 3, nil)
	again, _ := run(t, "replicas=4:classic", spec, 3, nil)
	if digest(one) != digest(alone) {
		t.Error("one replica decides otherwise than a scheduler alone")
	}
	if digest(four) != digest(again) {
		t.Error("two runs with one seed differ")
	}
	if digest(four) == digest(alone) {
		t.Error("four replicas decide as one does; each should know a quarter of the bookings alone")
	}
	for i := range four.Outcomes {
		if o := &four.Outcomes[i]; o.Status != fleet.Completed {
			t.Errorf("request %d: %+v", i, o)
		}
	}
}

// Replicas that tell each other at once decide nearly as one does, and in the end nothing is left with any of them.
func TestReplicasThatTellEachOther(t *testing.T) {
	spec := chats(t) // not the trace that may be at hand: it has too little to share for four to differ from one
	hits := func(r *fleet.Result) (cached, prompt int64) {
		for i := range r.Outcomes {
			o := &r.Outcomes[i]
			if o.Status != fleet.Completed {
				t.Errorf("request %d: %+v", i, o)
			}
			cached, prompt = cached+int64(o.Cached), prompt+int64(o.Prompt)
		}
		return cached, prompt
	}
	alone, _ := run(t, policy.Default, spec, 3, nil)
	silent, unheard := run(t, "replicas=4:default", spec, 3, nil)
	told, d := run(t, "replicas=4@2ms:default", spec, 3, nil)
	again, _ := run(t, "replicas=4@2ms:default", spec, 3, nil)
	if digest(told) != digest(again) {
		t.Error("two runs with one seed differ")
	}
	one, all := hits(alone)
	few, _ := hits(silent)
	most, _ := hits(told)
	if share := func(n int64) float64 { return float64(n) / float64(all) }; share(most) < share(one)-0.05 || share(few) > share(most)-0.1 {
		t.Errorf("found in caches: %.3f by four that tell each other, %.3f by four that do not, %.3f by one alone", share(most), share(few), share(one))
	}
	for who, of := range map[string]fleet.Decider{"four that do not tell each other": unheard, "four that do": d} {
		want := 0
		if of == unheard {
			want = 4
		}
		if n := of.(interface{ Noted() map[string]int }).Noted()["others_unheard"]; n != want {
			t.Errorf("%s note %d times that there are others, want %d", who, n, want)
		}
	}
	if left := d.(interface{ Left() string }).Left(); left != "" {
		t.Errorf("left: %s", left)
	}
}

// Requests that come in bursts and are decided within the millisecond that a telling takes meet at an engine far less often where each
// choice is looked at twice.
func TestReplicasThatLookTwice(t *testing.T) {
	spec, err := workload.Parse([]byte(`blockTokens: 64
duration: 20s
arrivals: {type: gamma, rate: 40, cv: 3}
sharedPrefix: {groups: 256, system: 256, question: 2048, output: 64}
`))
	if err != nil {
		t.Fatal(err)
	}
	meet := func(name string) (pairs, anew int) {
		r, d := run(t, name, spec, 3, nil)
		again, _ := run(t, name, spec, 3, nil)
		if digest(r) != digest(again) {
			t.Errorf("%s: two runs with one seed differ", name)
		}
		all := slices.Clone(r.Outcomes)
		slices.SortStableFunc(all, func(a, b fleet.Outcome) int { return cmp.Compare(a.Sent, b.Sent) })
		for i := range all {
			if all[i].Status != fleet.Completed {
				t.Errorf("%s: request %d: %+v", name, i, all[i])
			}
			for k := i + 1; k < len(all) && all[k].Sent-all[i].Sent < pool.Instant(time.Millisecond); k++ {
				if all[k].Pod == all[i].Pod {
					pairs++
				}
			}
		}
		if left := d.(interface{ Left() string }).Left(); left != "" {
			t.Errorf("%s: left: %s", name, left)
		}
		return pairs, d.(interface{ Noted() map[string]int }).Noted()["decided_anew"]
	}
	once, none := meet("replicas=4@1ms+0s:default")
	twice, some := meet("replicas=4@1ms:default")
	if none != 0 || some == 0 || once < 10 || 2*twice > once {
		t.Errorf("%d meet of those that are looked at once and %d of those that are twice; %d and %d were decided anew", once, twice, none, some)
	}
	if _, alone := meet(policy.Default); alone != 0 {
		t.Errorf("one alone decided %d anew", alone)
	}
}

func TestBadReplicas(t *testing.T) {
	for name, want := range map[string]string{
		"replicas=4":              "want replicas=N:NAME",
		"replicas=0:default":      "from 1 to 64",
		"replicas=x:default":      "want replicas=N:NAME",
		"replicas=2:nobody":       `"nobody"`,
		"replicas=2@:default":     "want a duration from 0s to 1m",
		"replicas=2@-1ms:default": "want a duration from 0s to 1m",
		"replicas=2@1h:default":   "want a duration from 0s to 1m",

		"replicas=2@1ms+:default":     "want a duration from 0s to 20ms",
		"replicas=2@1ms+-1ms:default": "want a duration from 0s to 20ms",
		"replicas=2@1ms+21ms:default": "want a duration from 0s to 20ms",
	} {
		if _, err := policy.Named(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", name, err, want)
		}
	}
}

// After clients went away at any point, nothing is left, and Left says so.
func TestNothingIsLeft(t *testing.T) {
	_, d := run(t, policy.Default, conversation(t, 200), 1, nil)
	if left := d.(*policy.Production).Left(); left != "" {
		t.Errorf("left: %s", left)
	}
	_, d = run(t, policy.Default, conversation(t, 200), 1, func(o *fleet.Options) { o.Until = 20e9 })
	if left := d.(*policy.Production).Left(); !strings.Contains(left, "bookings") || !strings.Contains(left, "decode tokens") {
		t.Errorf("in the middle of a run is left: %q", left)
	}
}

// Four schedulers that hear or see what is cached find it as one does, whoever sent what where; four that believe what they sent
// themselves do not.
func TestReplicasThatKnowTheCaches(t *testing.T) {
	if testing.Short() {
		t.Skip("needs many seconds under the race detector")
	}
	hits := func(name string) float64 {
		r, d := run(t, name, chats(t), 3, nil)
		if left := d.(interface{ Left() string }).Left(); left != "" {
			t.Errorf("%s: left: %s", name, left)
		}
		var cached, prompt float64
		for i := range r.Outcomes {
			cached, prompt = cached+float64(r.Outcomes[i].Cached), prompt+float64(r.Outcomes[i].Prompt)
		}
		return cached / prompt
	}
	one, believing := hits(policy.Default), hits("replicas=4:default")
	for _, name := range []string{"replicas=4:events=default", "replicas=4:oracle=default", "replicas=4@2ms:events=default"} {
		if got := hits(name); got < one-0.05 || got < believing+0.1 {
			t.Errorf("%s finds %.3f in caches; one finds %.3f, four that believe %.3f", name, got, one, believing)
		}
	}
}
