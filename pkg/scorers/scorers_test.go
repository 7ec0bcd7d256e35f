package scorers_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/pkg/pickers"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/plugins/pluginstest"
	"github.com/fairlead/fairlead/pkg/scorers"
)

type row struct {
	name  string
	world string
	want  []float64
}

func check(t *testing.T, scorer func() plugins.Scorer, rows []row) {
	t.Helper()
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			if got := pluginstest.Score(t, scorer(), r.world); !slices.Equal(got, r.want) {
				t.Errorf("%s\n got %v\nwant %v", r.world, got, r.want)
			}
		})
	}
}

func TestQueue(t *testing.T) {
	check(t, func() plugins.Scorer { return scorers.NewQueue() }, []row{
		{"an idle endpoint scores 1", "a waiting=0; b waiting=64; c waiting=128", []float64{1, 0.5, 0}},
		{"beyond full is as bad as full", "a waiting=128; b waiting=1000", []float64{0, 0}},
		{"never scraped is not idle", "a waiting=0; b", []float64{1, 0.5}},
	})
}

func TestQueueDepth(t *testing.T) {
	check(t, func() plugins.Scorer { return scorers.NewQueueDepth() }, []row{
		{"one endpoint alone scores 1", "a waiting=7", []float64{1}},
		{"all equal score 1", "a waiting=3; b waiting=3", []float64{1, 1}},
		{"linear between the shortest and the longest queue", "a waiting=0; b waiting=5; c waiting=10", []float64{1, 0.5, 0}},
		{"the order does not matter", "a waiting=10; b waiting=5; c waiting=0", []float64{0, 0.5, 1}},
		{"only the order of size counts, not the size", "a waiting=0; b waiting=1000", []float64{1, 0}},
		{"own bookings that the sample cannot know add up", "a waiting=1 booked-after-sample=3; b waiting=4", []float64{1, 1}},
		// mean of 0 and 10 is 5
		{"an unknown endpoint counts as the mean", "a waiting=0; b; c waiting=10", []float64{1, 0.5, 0}},
		// b = 5 + 5
		{"an unknown endpoint's own bookings add up, too", "a waiting=0; b booked-after-sample=5; c waiting=10", []float64{1, 0, 0}},
		{"all unknown: the bookings in flight decide", "a in-flight=4; b in-flight=2; c", []float64{0, 0.5, 1}},
		{"all unknown and nothing booked: all equal", "a; b; c", []float64{1, 1, 1}},
		{"bookings in flight do not count beside telemetry", "a waiting=0 in-flight=9; b waiting=2", []float64{1, 0}},
	})
}

func TestKVUtilization(t *testing.T) {
	check(t, func() plugins.Scorer { return scorers.NewKVUtilization() }, []row{
		{"empty scores 1, full 0", "a kv-usage=0; b kv-usage=0.25; c kv-usage=1", []float64{1, 0.75, 0}},
		{"an unknown endpoint counts as the mean", "a kv-usage=0.25; b; c kv-usage=0.75", []float64{0.75, 0.5, 0.25}},
		{"all unknown are equal", "a; b", []float64{0.5, 0.5}},
	})
}

func TestPrefixCache(t *testing.T) {
	check(t, func() plugins.Scorer { return scorers.NewPrefixCache() }, []row{
		{"the share of the prompt that matches", "prompt-blocks=10 | a cached-blocks=10; b cached-blocks=4; c cached-blocks=0", []float64{1, 0.4, 0}},
		{"a prompt without a block matches nowhere", "prompt-blocks=0 | a cached-blocks=0; b", []float64{0, 0}},
		{"a request without a prompt matches nowhere", "a; b", []float64{0, 0}},
		{"an endpoint of which nothing is known scores 0", "prompt-blocks=2 | a cached-blocks=1; b", []float64{0.5, 0}},
	})
	check(t, func() plugins.Scorer {
		p := scorers.NewPrefixCache()
		p.MatchLengthWeight, p.MatchLengthScaleTokens = 0.5, 1000
		return p
	}, []row{
		// 0.5*min(1, 500/1000)² + 0.5*8/16 = 0.125 + 0.25
		{"a weighted length adds to the share", "prompt-blocks=16 | a cached-blocks=8 cached-tokens=500", []float64{0.375}},
		{"length beyond the scale adds nothing", "prompt-blocks=100 | a cached-blocks=50 cached-tokens=5000", []float64{0.75}},
	})
}

func TestPrefixCacheNamesItsProducer(t *testing.T) {
	for _, r := range []struct{ name, wants, refusal string }{
		{"no name takes the one there is", "", ""},
		{"its type", "some-producer", ""},
		{"its name", "mine", ""},
		{"another name is refused with what to write", "other", `plugin "prefix": prefixMatchInfoProducerName is "other", but "cached-blocks" of this configuration is made by "mine" (some-producer); name that one or leave the parameter out`},
	} {
		t.Run(r.name, func(t *testing.T) {
			_, err := plugins.Build(plugins.Spec{Plugins: []plugins.PluginSpec{
				{Name: "prefix", Type: "prefix-cache-scorer", Construct: func() (any, error) {
					p := scorers.NewPrefixCache()
					p.PrefixMatchInfoProducerName = r.wants
					return p, nil
				}},
				{Name: "mine", Type: "some-producer", Construct: func() (any, error) { return &matches{}, nil }},
			}}, nil)
			switch {
			case r.refusal == "" && err != nil:
				t.Errorf("refused: %v", err)
			case r.refusal != "" && (err == nil || !strings.Contains(err.Error(), r.refusal)):
				t.Errorf("got %v\nwant %s", err, r.refusal)
			}
		})
	}
}

// matches is a producer that knows nothing.
type matches struct{}

func (*matches) Provision(b *plugins.Builder) error {
	plugins.Provides(b, plugins.CachedTokens)
	plugins.Provides(b, plugins.CachedBlocks)
	plugins.Provides(b, plugins.PromptBlocks)
	return nil
}

func (*matches) Produce(*plugins.Cycle) {}

// The case that the default weights are made for, in numbers: queue 2, prefix 3.
func TestCacheAgainstQueue(t *testing.T) {
	parts := []pluginstest.Part{
		{Name: "queue", Plugin: scorers.NewQueueDepth(), Weight: 2},
		{Name: "prefix", Plugin: scorers.NewPrefixCache(), Weight: 3},
	}
	for _, r := range []struct {
		name, world, picked string
		totals              []float64
	}{
		// busy: 2*0 + 3*1; idle: 2*1 + 3*0
		{"a busier endpoint with the prefix cached wins over an idle cold one",
			"prompt-blocks=8 | busy waiting=6 cached-blocks=8; idle waiting=0 cached-blocks=0", "busy", []float64{3, 2}},
		{"when nobody holds the prefix the queue decides",
			"prompt-blocks=8 | busy waiting=6 cached-blocks=0; idle waiting=0 cached-blocks=0", "idle", []float64{0, 2}},
		// half: 3*0.5
		{"half a prefix does not make up for the longest queue",
			"prompt-blocks=8 | busy waiting=6 cached-blocks=4; idle waiting=0 cached-blocks=0", "idle", []float64{1.5, 2}},
	} {
		t.Run(r.name, func(t *testing.T) {
			rec := pluginstest.Run(t, r.world, parts)
			if !slices.Equal(rec.Totals, r.totals) {
				t.Errorf("totals: got %v, want %v", rec.Totals, r.totals)
			}
			if got := pluginstest.Choose(t, r.world, parts); got[0] != r.picked {
				t.Errorf("picked %s, want %s", got[0], r.picked)
			}
		})
	}
}

// profile is the default profile, without a picker: ties go to the caller's.
func profile(picker plugins.Picker) []pluginstest.Part {
	return []pluginstest.Part{
		{Name: "queue", Plugin: scorers.NewQueueDepth(), Weight: 2},
		{Name: "kv", Plugin: scorers.NewKVUtilization(), Weight: 2},
		{Name: "prefix", Plugin: scorers.NewPrefixCache(), Weight: 3},
		{Name: "picker", Plugin: picker},
	}
}

// An endpoint that was never scraped is neither idle nor busy: it gets no more than its share, and is like any other after
// its first page.
func TestM04NeverScrapedGetsNoMoreThanItsShare(t *testing.T) {
	for _, r := range []struct {
		name, world string
		least, most int // of 1000 picks that go to the one called new
	}{
		{"beside an idle and a busy one", "new; idle waiting=0 kv-usage=0.1; busy waiting=8 kv-usage=0.8", 0, 333},
		{"beside two that are alike", "new; b waiting=3 kv-usage=0.5; c waiting=3 kv-usage=0.5", 250, 420},
		{"after its first page", "new waiting=0 kv-usage=0.1; b waiting=8 kv-usage=0.5; c waiting=8 kv-usage=0.8", 1000, 1000},
	} {
		t.Run(r.name, func(t *testing.T) {
			got := 0
			for n := range uint64(1000) {
				if pluginstest.Choose(t, r.world, profile(pickers.NewMaxScore()), pluginstest.Number(n))[0] == "new" {
					got++
				}
			}
			if got < r.least || got > r.most {
				t.Errorf("it got %d of 1000 picks, want %d to %d", got, r.least, r.most)
			}
		})
	}
}

// Equal values give equal and finite scores, and picks that are even.
func TestM05AllValuesEqual(t *testing.T) {
	for _, world := range []string{
		"a waiting=5 running=5 queued=5 kv-usage=0.5; b waiting=5 running=5 queued=5 kv-usage=0.5; c waiting=5 running=5 queued=5 kv-usage=0.5",
		"a waiting=0 running=0 queued=0 kv-usage=0; b waiting=0 running=0 queued=0 kv-usage=0; c waiting=0 running=0 queued=0 kv-usage=0",
	} {
		counts := map[string]int{}
		for n := range uint64(900) {
			parts := append(profile(pickers.NewMaxScore()),
				pluginstest.Part{Name: "running", Plugin: scorers.NewRunningRequests(), Weight: 1},
				pluginstest.Part{Name: "load", Plugin: scorers.NewLoadAware(), Weight: 1},
				pluginstest.Part{Name: "headroom", Plugin: scorers.NewQueue(), Weight: 1},
				pluginstest.Part{Name: "active", Plugin: scorers.NewActiveRequest(), Weight: 1})
			run := pluginstest.Run(t, world, parts, pluginstest.Number(n))
			for name, raw := range run.Raw {
				if raw[0] != raw[1] || raw[1] != raw[2] || raw[0]-raw[0] != 0 {
					t.Fatalf("%s scores %v", name, raw)
				}
			}
			counts[run.Candidates[run.Picked[0]].Name]++
		}
		for name, n := range counts { // 300 ± 5 standard deviations
			if n < 230 || n > 370 {
				t.Errorf("%s was picked %d times of 900: %v", name, n, counts)
			}
		}
	}
}

// A count that an error made negative beats nobody.
func TestL14ANegativeCountBeatsNobody(t *testing.T) {
	for _, r := range []struct {
		name   string
		scorer plugins.Scorer
		world  string
	}{
		{"requests in flight", scorers.NewActiveRequest(), "a in-flight=-1; b in-flight=0"},
		{"tokens in flight", scorers.NewTokenLoad(), "prompt-tokens=10 | a in-flight-tokens=-1; b in-flight-tokens=0"},
	} {
		if got := pluginstest.Score(t, r.scorer, r.world); got[0] > got[1] {
			t.Errorf("%s: %v", r.name, got)
		}
	}
}
