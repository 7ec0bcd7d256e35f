package policy_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/fairlead/fairlead/benchmarks/policy"
	"github.com/fairlead/fairlead/benchmarks/traces"
	"github.com/fairlead/fairlead/benchmarks/workload"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/simulator/engine"
	"github.com/fairlead/fairlead/simulator/fleet"
)

// conversation is the Mooncake trace where it is at hand, else requests like it.
func conversation(tb testing.TB, requests int) *workload.Spec {
	text := fmt.Sprintf("blockTokens: 512\nrequests: %d\narrivals: {type: poisson, rate: 3.4}\nlike: {trace: mooncake-conversation}\n", requests)
	if _, err := traces.Find("mooncake-conversation.jsonl"); err == nil {
		text = fmt.Sprintf("blockTokens: 512\nrequests: %d\ntrace: {format: mooncake, file: mooncake-conversation.jsonl, spread: 3s}\n", requests)
	} else if !errors.Is(err, traces.ErrAbsent) {
		tb.Fatal(err)
	}
	s, err := workload.Parse([]byte(text))
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// eight pods of a kind.
func eight(tb testing.TB) []fleet.Pod {
	profile, err := engine.ProfileFor("h100-sxm", "llama-3.1-8b")
	if err != nil {
		tb.Fatal(err)
	}
	out := make([]fleet.Pod, 8)
	for i := range out {
		out[i].Profile = profile
	}
	return out
}

func run(tb testing.TB, name string, spec *workload.Spec, seed uint64, change func(*fleet.Options)) (*fleet.Result, fleet.Decider) {
	p, err := policy.Named(name)
	if err != nil {
		tb.Fatal(err)
	}
	d, err := p.New(seed)
	if err != nil {
		tb.Fatal(err)
	}
	source, err := workload.New(spec, seed)
	if err != nil {
		tb.Fatal(err)
	}
	o := fleet.Options{Seed: seed, Decider: d, Source: source, Pods: eight(tb), Signals: fleet.Signals{Every: pool.Instant(time.Second)}}
	if change != nil {
		change(&o)
	}
	f, err := fleet.New(o)
	if err != nil {
		tb.Fatal(err)
	}
	r, err := f.Run()
	if err != nil {
		tb.Fatal(err)
	}
	if err := source.Err(); err != nil {
		tb.Fatal(err)
	}
	return r, d
}

func digest(r *fleet.Result) string {
	h := sha256.New()
	for i := range r.Outcomes {
		fmt.Fprintf(h, "%+v\n", r.Outcomes[i])
	}
	fmt.Fprintf(h, "%+v %v %d %d %d %d %d", r.Pods, r.End, r.Steps, r.Scrapes, r.Lost, r.Batches, r.BatchesLost)
	return fmt.Sprintf("%x", h.Sum(nil))
}

// The same seed gives the same bytes, whatever the number of processors; another seed gives others.
func TestARunIsAFunctionOfItsSeed(t *testing.T) {
	spec := conversation(t, 400)
	lossy := func(o *fleet.Options) {
		o.Signals.Loss, o.Signals.EventDelay, o.Signals.EventJitter, o.Signals.EventLoss = 0.1, 3e8, 2e8, 0.1
	}
	for _, name := range policy.Names() {
		t.Run(name, func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			one, _ := run(t, name, spec, 7, lossy)
			runtime.GOMAXPROCS(2)
			two, _ := run(t, name, spec, 7, lossy)
			if digest(one) != digest(two) {
				t.Error("two runs with one seed differ")
			}
			other, _ := run(t, name, spec, 8, lossy)
			if digest(one) == digest(other) {
				t.Error("two seeds give the same run")
			}
		})
	}
}

// BenchmarkFleet is the speed of a whole run in virtual time: production scheduler, default profile, 8 pods.
func BenchmarkFleet(b *testing.B) {
	for _, name := range policy.Names() {
		b.Run(name, func(b *testing.B) {
			spec := conversation(b, 12_031)
			requests := 0
			b.ReportAllocs()
			for b.Loop() {
				r, _ := run(b, name, spec, 1, nil)
				requests += len(r.Outcomes)
			}
			b.ReportMetric(float64(requests)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}
