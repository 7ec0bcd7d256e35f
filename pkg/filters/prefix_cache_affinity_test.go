package filters_test

import (
	"slices"
	"testing"

	"github.com/fairlead/fairlead/pkg/filters"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/plugins/pluginstest"
)

func TestPrefixCacheAffinity(t *testing.T) {
	check(t, func() plugins.Filter { return filters.NewPrefixCacheAffinity() }, []row{
		{"who holds the threshold stays", "prompt-blocks=10 | a cached-blocks=8; b cached-blocks=7; c cached-blocks=10; d", "a c"},
		{"nobody holds it: all stay", "prompt-blocks=10 | a cached-blocks=7; b", "a b"},
		{"all hold it", "prompt-blocks=10 | a cached-blocks=9; b cached-blocks=9", "a b"},
		{"one alone", "prompt-blocks=10 | a cached-blocks=9", "a"},
		{"a prompt without a block", "prompt-blocks=0 | a cached-blocks=0; b", "a b"},
		// 286704 tokens / 15928 a second = 18 s: not more than 18,000 ms
		{"waiting is worth it to the last millisecond", "prompt-blocks=1 | a cached-blocks=1 in-flight-tokens=286704; b in-flight-tokens=0", "a"},
		{"and no longer", "prompt-blocks=1 | a cached-blocks=1 in-flight-tokens=286705; b in-flight-tokens=0", "a b"},
		{"the best of each side counts", "prompt-blocks=1 | a cached-blocks=1 in-flight-tokens=900000; b in-flight-tokens=0; c cached-blocks=1 in-flight-tokens=9", "a c"},
		{"the others wait as well", "prompt-blocks=1 | a cached-blocks=1 in-flight-tokens=900000; b in-flight-tokens=800000", "a"},
	})
	check(t, func() plugins.Filter { f := filters.NewPrefixCacheAffinity(); f.MaxTTFTPenaltyMs = 0; return f }, []row{
		{"a penalty of 0 is any", "prompt-blocks=1 | a cached-blocks=1 in-flight-tokens=90000000; b in-flight-tokens=0", "a"}})
	check(t, func() plugins.Filter {
		f := filters.NewPrefixCacheAffinity()
		f.PeakPrefillThroughput, f.MaxTTFTPenaltyMs = 1000, 500
		return f
	}, []row{
		// 501 tokens / 1000 a second = 501 ms
		{"a slower engine", "prompt-blocks=1 | a cached-blocks=1 in-flight-tokens=501; b in-flight-tokens=0", "a b"}})
	check(t, func() plugins.Filter {
		f := filters.NewPrefixCacheAffinity()
		f.TTFTSource, f.MaxTTFTPenaltyMs = "latencyPredictor", 500
		return f
	}, []row{
		{"what is predicted counts, and not what is in flight", "prompt-blocks=1 | a cached-blocks=1 predicted-ttft=600 in-flight-tokens=900000; b predicted-ttft=100", "a"},
		{"more than the penalty", "prompt-blocks=1 | a cached-blocks=1 predicted-ttft=601; b predicted-ttft=100", "a b"},
		{"nothing predicted: what is in flight", "prompt-blocks=1 | a cached-blocks=1 in-flight-tokens=900000; b in-flight-tokens=0", "a b"},
	})
}

func TestPrefixCacheAffinityExplores(t *testing.T) {
	const draws, world = 2000, "prompt-blocks=1 | a cached-blocks=1; b cached-blocks=0"
	explored := 0
	for n := range uint64(draws) {
		f := filters.NewPrefixCacheAffinity()
		f.ExplorationProbability = 0.25
		got := pluginstest.Filter(t, f, world, pluginstest.Number(n))
		if slices.Contains(got, "b") {
			explored++
		}
	}
	if explored < 400 || explored > 600 { // 500 ± 5 standard deviations
		t.Errorf("%d of %d explored, want about a quarter", explored, draws)
	}
}
