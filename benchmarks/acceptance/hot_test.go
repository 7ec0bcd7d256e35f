//go:build acceptance

package acceptance_test

import (
	"testing"

	"github.com/fairlead/fairlead/benchmarks/acceptance"
	"github.com/fairlead/fairlead/benchmarks/bench"
)

func hits(f *bench.Figures) bench.Number      { return f.HitRate }
func imbalance(f *bench.Figures) bench.Number { return f.Imbalance }

// One prefix that has 60 % of the load is found in caches nearly always, and no pod is lost to it.
func TestHotPrefix(t *testing.T) {
	const seeds = 6
	p := acceptance.Play(t, acceptance.Scenario(t, "h1"), 501, seeds, acceptance.Policies(t, "default")...)[0]
	h, i := acceptance.Mean(acceptance.Of(p.Figures(), hits)), acceptance.Mean(acceptance.Of(p.Figures(), imbalance))
	acceptance.Say(t, acceptance.Is(h > 0.8 && i < 1.5), "%.1f %% found in caches, busiest pod %.2f of the mean", 100*h, i)
}

// Where prefixes are as popular as words are, copies take the tail off the first token, for few hits.
func TestPopularPrefixes(t *testing.T) {
	const seeds = 6
	played := acceptance.Play(t, acceptance.Scenario(t, "h2"), 511, seeds, acceptance.Policies(t, "default", "../bench/testdata/affinity-alone.yaml")...)
	of := func(i int, value func(*bench.Figures) bench.Number) float64 {
		return acceptance.Mean(acceptance.Of(played[i].Figures(), value))
	}
	ours, alone := of(0, acceptance.TailTTFT), of(1, acceptance.TailTTFT)
	acceptance.Say(t, acceptance.Is(ours < alone && of(0, hits) > of(1, hits)-0.03),
		"p99 TTFT %.3f s, with affinity alone %.3f s; %.1f %% found in caches, with it %.1f %%", ours, alone, 100*of(0, hits), 100*of(1, hits))
}
