package bench_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fairlead/fairlead/benchmarks/bench"
	"github.com/fairlead/fairlead/benchmarks/policy"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/simulator/fleet"
	"github.com/fairlead/fairlead/simulator/scenarios"
)

// A policy that reads the engines more often than the scenario says is given its readings, and none is given fewer.
func TestAPolicyReadsAsOftenAsItsProject(t *testing.T) {
	scrapes := func(every, name string) int64 {
		s, err := scenarios.Parse([]byte(fmt.Sprintf(`name: reads
fleet: [{pods: 2, hardware: h100-sxm, model: llama-3.1-8b}]
signals: {every: %s}
workload: {duration: 10s, arrivals: {type: constant, rate: 2}, independent: {input: 100, output: 10}}
`, every)))
		if err != nil {
			t.Fatal(err)
		}
		setup, err := bench.Prepare(s)
		if err != nil {
			t.Fatal(err)
		}
		p, err := policy.Named(name)
		if err != nil {
			t.Fatal(err)
		}
		r, err := setup.Run(p, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		return r.Scrapes
	}
	for _, tt := range []struct {
		every, policy string
		least, most   int64
	}{
		{"1s", "rule-dynamo", 18, 22},
		{"1s", "rule-llm-d-2-2-3", 380, 420}, // every 50 ms
		{"20ms", "rule-llm-d-2-2-3", 940, 1040},
		{"20ms", "default", 940, 1040},
	} {
		if n := scrapes(tt.every, tt.policy); n < tt.least || n > tt.most {
			t.Errorf("%s in a scenario with readings every %s: %d of two pods in ten seconds, want %d to %d", tt.policy, tt.every, n, tt.least, tt.most)
		}
	}
}

// late is a listener that notes how late batches come.
type late struct {
	fleet.Listener
	least, most pool.Instant
	batches     int
}

func (l *late) Blocks(now pool.Instant, member int32, b *fleet.Batch) bool {
	if d := now - b.At; l.batches == 0 || d < l.least {
		l.least = d
	}
	l.most = max(l.most, now-b.At)
	l.batches++
	return l.Listener.Blocks(now, member, b)
}

// Cache events are as late and lossy as the scenario says, to a batch's way until the next decision.
func TestCacheEventsAreAsTheScenarioSays(t *testing.T) {
	s, err := scenarios.Parse([]byte(`name: hears
fleet: [{pods: 2, hardware: h100-sxm, model: llama-3.1-8b}]
signals: {eventDelay: 300ms, eventJitter: 200ms, eventLoss: 0.25}
workload: {blockTokens: 16, duration: 60s, arrivals: {type: constant, rate: 50}, independent: {input: 200, output: 60}}
`))
	if err != nil {
		t.Fatal(err)
	}
	setup, err := bench.Prepare(s)
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.Named("rule-llm-d-precise")
	if err != nil {
		t.Fatal(err)
	}
	d, err := p.New(1)
	if err != nil {
		t.Fatal(err)
	}
	l := &late{Listener: d.(fleet.Listener)}
	r, err := setup.RunWith(l, 1)
	if err != nil {
		t.Fatal(err)
	}
	const ms = pool.Instant(time.Millisecond)
	if l.least < 300*ms || l.least > 340*ms || l.most < 480*ms || l.most > 525*ms {
		t.Errorf("batches come %v to %v late; want 300 to 500 ms, and up to 20 until the next decision", time.Duration(l.least), time.Duration(l.most))
	}
	if share := float64(r.BatchesLost) / float64(r.Batches); share < 0.2 || share > 0.3 || int64(l.batches) > r.Batches-r.BatchesLost {
		t.Errorf("of %d batches %d are lost and %d come; want a quarter lost", r.Batches, r.BatchesLost, l.batches)
	}
	if f := setup.Figures(r); f.EventBatches != r.Batches || f.EventBatchesLost != r.BatchesLost {
		t.Errorf("the figures have %d messages and %d lost, want %d and %d", f.EventBatches, f.EventBatchesLost, r.Batches, r.BatchesLost)
	}
}
