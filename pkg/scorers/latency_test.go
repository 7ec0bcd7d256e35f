package scorers_test

import (
	"slices"
	"testing"

	"github.com/fairlead/fairlead/pkg/plugins/pluginstest"
	"github.com/fairlead/fairlead/pkg/scorers"
)

// settled is a latency scorer that does not explore.
func settled(change func(*scorers.Latency)) *scorers.Latency {
	l := scorers.NewLatency()
	l.ExplorationProbability = 0
	if change != nil {
		change(l)
	}
	return l
}

func TestLatency(t *testing.T) {
	most := func(l *scorers.Latency) { l.HeadroomSelectionStrategy = "most" }
	for _, r := range []struct {
		name   string
		change func(*scorers.Latency)
		world  string
		want   []float64
	}{
		{"without targets the fastest is first, the slowest last",
			nil, "a in-flight=1 predicted-ttft=100; b in-flight=1 predicted-ttft=200; c in-flight=1 predicted-ttft=150", []float64{1, 0.01, 0.51}},
		{"most does not change that: nobody keeps a target of 0",
			most, "a in-flight=1 predicted-ttft=100; b in-flight=1 predicted-ttft=200", []float64{1, 0.01}},
		{"within the target the one with the least headroom is first",
			nil, "ttft-target=500 | a predicted-ttft=100; b predicted-ttft=400; c predicted-ttft=250", []float64{0.01, 1, 0.51}},
		{"or with most the fastest",
			most, "ttft-target=500 | a predicted-ttft=100; b predicted-ttft=400; c predicted-ttft=250", []float64{1, 0.01, 0.51}},
		{"who misses the target scores nothing where somebody keeps it",
			nil, "ttft-target=300 | a predicted-ttft=100; b predicted-ttft=400 in-flight=1; c predicted-ttft=250", []float64{0.01, 0, 1}},
		{"exactly on the target is kept",
			nil, "ttft-target=300 | a predicted-ttft=300; b predicted-ttft=301 in-flight=1", []float64{0.51, 0}},
		{"where all miss it, the idle alone are scored, however slow",
			nil, "ttft-target=50 | a predicted-ttft=100 in-flight=1; b predicted-ttft=400 in-flight=0; c predicted-ttft=300 in-flight=0", []float64{0, 0.01, 1}},
		{"who misses the time between tokens alone goes before who misses the first token",
			nil, "ttft-target=200 itl-target=20 | a predicted-ttft=210 predicted-itl=10 in-flight=1; b predicted-ttft=100 predicted-itl=30 in-flight=1; c predicted-ttft=300 predicted-itl=30 in-flight=1", []float64{0, 0.51, 0}},
		{"who misses the first token alone goes before who misses both",
			nil, "ttft-target=200 itl-target=20 | a predicted-ttft=210 predicted-itl=10 in-flight=1; c predicted-ttft=200.5 predicted-itl=30 in-flight=1", []float64{0.51, 0}},
		{"of those who miss both the nearest is first",
			nil, "ttft-target=200 itl-target=20 | a predicted-ttft=300 predicted-itl=30 in-flight=1; b predicted-ttft=400 predicted-itl=40 in-flight=1", []float64{1, 0.01}},
		{"both times count, 0.8 to 0.2, in whole hundredths",
			nil, "a in-flight=1 predicted-ttft=100 predicted-itl=30; b in-flight=1 predicted-ttft=200 predicted-itl=20", []float64{0.81, 0.2}},
		{"a time that is the same for all does not count",
			nil, "a in-flight=1 predicted-ttft=100 predicted-itl=30; b in-flight=1 predicted-ttft=100 predicted-itl=20", []float64{0.01, 1}},
		{"weights of nothing: the first token alone",
			func(l *scorers.Latency) { l.TTFTWeight, l.TPOTWeight = 0, 0 },
			"a in-flight=1 predicted-ttft=100 predicted-itl=30; b in-flight=1 predicted-ttft=200 predicted-itl=20", []float64{1, 0.01}},
		{"all alike score alike", nil, "a in-flight=1 predicted-ttft=100; b in-flight=1 predicted-ttft=100", []float64{0.51, 0.51}},
		{"one endpoint", nil, "a in-flight=1 predicted-ttft=100", []float64{0.51}},
		{"a time between tokens that is not predicted is no miss",
			nil, "ttft-target=500 itl-target=1 | a predicted-ttft=100", []float64{0.51}},
		{"who is not predicted is not known to miss",
			nil, "ttft-target=50 | a predicted-ttft=100 in-flight=1; b in-flight=1", []float64{0, 0.51}},
		{"nobody predicts: cache, queue and prefix in equal parts",
			nil, "prompt-blocks=10 | a kv-usage=0.4 queued=0 cached-blocks=5; b kv-usage=0.1 queued=10 cached-blocks=0; c kv-usage=1 queued=5", []float64{0.7, 0.3, 0.17}},
		{"nobody predicts, and nothing else is known", nil, "a; b", []float64{0.5, 0.5}},
		{"nobody predicts, and no weight: the cache alone",
			func(l *scorers.Latency) {
				l.CompositeKVWeight, l.CompositeQueueWeight, l.CompositePrefixWeight = 0, 0, 0
			},
			"a kv-usage=0.25 queued=9; b kv-usage=0.5 queued=0", []float64{0.75, 0.5}},
	} {
		t.Run(r.name, func(t *testing.T) {
			if got := pluginstest.Score(t, settled(r.change), r.world); !slices.Equal(got, r.want) {
				t.Errorf("got %v, want %v", got, r.want)
			}
		})
	}
}

// In one of a hundred decisions the second is first.
func TestLatencyExplores(t *testing.T) {
	swapped := 0
	for n := range uint64(2000) {
		got := pluginstest.Score(t, scorers.NewLatency(), "a in-flight=1 predicted-ttft=100; b in-flight=1 predicted-ttft=200; c in-flight=1 predicted-ttft=150", pluginstest.Number(n))
		switch {
		case slices.Equal(got, []float64{0.51, 0.01, 1}):
			swapped++
		case !slices.Equal(got, []float64{1, 0.01, 0.51}):
			t.Fatalf("got %v", got)
		}
	}
	if swapped < 8 || swapped > 40 {
		t.Errorf("%d of 2000 explored, want about 20", swapped)
	}
}
