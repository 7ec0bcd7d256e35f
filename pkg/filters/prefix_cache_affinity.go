package filters

import (
	"errors"
	"math"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
)

// PrefixCacheAffinity keeps the endpoints that have most of the prompt cached, as long as waiting for them is worth it.
//
// An endpoint holds the prompt when cached/blocks, of the prompt's full blocks, is at least affinityThreshold. If nobody or
// everybody does, all are kept. The time to first token is estimated by the tokens in flight:
//
//	ttft = in-flight tokens / peakPrefillThroughput
//
// or is the one that is predicted, and all are kept if the best of those that hold the prompt is worse than the best of the others by more than
// maxTTFTPenaltyMs. Scorers that follow should weigh load alone: a weighted prefix score would undo the way out.
type PrefixCacheAffinity struct {
	// AffinityThreshold is the share of the prompt's blocks from which on an endpoint holds the prompt.
	AffinityThreshold float64 `json:"affinityThreshold" schema:"min=0,max=1"`

	// ExplorationProbability is the share of requests for which all are kept, so that other endpoints come to hold prompts.
	ExplorationProbability float64 `json:"explorationProbability" schema:"min=0,max=1"`

	// MaxTTFTPenaltyMs is how much later the first token may come for the cache's sake, in milliseconds. 0: any time.
	MaxTTFTPenaltyMs float64 `json:"maxTTFTPenaltyMs" schema:"min=0"`

	// TTFTSource is how the time to first token is estimated: prefillThroughput, by the tokens in flight; latencyPredictor, by
	// what predicted-latency-producer predicts for the request.
	TTFTSource string `json:"ttftSource" schema:"enum=prefillThroughput|latencyPredictor"`

	// PeakPrefillThroughput is how many prompt tokens a second an endpoint computes when nothing else runs. The default is
	// that of Qwen3-32B on two H100; measure your own. It counts where nothing is predicted.
	PeakPrefillThroughput float64 `json:"peakPrefillThroughput" schema:"min=1"`

	// PrefixMatchInfoProducerName names the plugin whose match is read. Empty: the one that the configuration has.
	PrefixMatchInfoProducerName string `json:"prefixMatchInfoProducerName,omitempty"`

	// InFlightLoadProducerName names the plugin whose count of tokens is read. Empty: the one that there is, or the books.
	InFlightLoadProducerName string `json:"inFlightLoadProducerName,omitempty"`

	blocks plugins.EndpointValues[int32]
	total  plugins.RequestValue[int32]
	flying plugins.EndpointValues[int64]
	ttft   plugins.EndpointValues[float64] // with latencyPredictor alone
}

var _ plugins.Filter = (*PrefixCacheAffinity)(nil)

// NewPrefixCacheAffinity returns a PrefixCacheAffinity with its defaults.
func NewPrefixCacheAffinity() *PrefixCacheAffinity {
	return &PrefixCacheAffinity{AffinityThreshold: 0.8, MaxTTFTPenaltyMs: 18000, TTFTSource: "prefillThroughput", PeakPrefillThroughput: 15928}
}

// Provision says what Filter reads, and refuses what is not here.
func (f *PrefixCacheAffinity) Provision(b *plugins.Builder) error {
	f.blocks = plugins.Needs(b, plugins.CachedBlocks)
	f.total = plugins.Needs(b, plugins.PromptBlocks)
	f.flying = plugins.Needs(b, plugins.InFlightTokens)
	if f.TTFTSource == "latencyPredictor" {
		f.ttft = plugins.Needs(b, plugins.PredictedTTFT)
	}
	if f.MaxTTFTPenaltyMs == 0 {
		b.Warn("peakPrefillThroughput", "peakPrefillThroughput has no effect while maxTTFTPenaltyMs is 0; set maxTTFTPenaltyMs, or remove it")
	}
	if f.ExplorationProbability == 1 {
		b.Warn("explorationProbability", "explorationProbability is 1 and every request passes unfiltered; lower it, or remove the filter")
	}
	return errors.Join(plugins.CheckProducer(b, plugins.CachedBlocks, "prefixMatchInfoProducerName", f.PrefixMatchInfoProducerName),
		plugins.CheckInFlightProducer(b, f.InFlightLoadProducerName))
}

// Filter clears the bits of those that do not hold the prompt.
func (f *PrefixCacheAffinity) Filter(c *plugins.Cycle, keep plugins.Bits) {
	total := f.total.Of(c.Request)
	if total <= 0 || f.ExplorationProbability > 0 && c.Rand().Float64() < f.ExplorationProbability {
		return
	}
	blocks := f.blocks.Of(c)
	least := [2]float64{math.Inf(1), math.Inf(1)} // milliseconds to a first token, of the others and of those that hold it
	holders := 0
	for i, id := range c.Candidates {
		holds := 0
		if float64(max(blocks[id], 0)) >= f.AffinityThreshold*float64(total) {
			holds = 1
		} else {
			keep.Clear(i)
		}
		holders += holds
		least[holds] = min(least[holds], f.wait(c, id))
	}
	switch {
	case holders == 0:
	case holders < len(c.Candidates) && f.MaxTTFTPenaltyMs > 0 && least[1]-least[0] > f.MaxTTFTPenaltyMs:
	default:
		return
	}
	keepAll(c, keep)
}

// wait estimates the time to the request's first token on an endpoint, in milliseconds.
func (f *PrefixCacheAffinity) wait(c *plugins.Cycle, id pool.ID) float64 {
	if f.TTFTSource == "latencyPredictor" {
		if ttft := f.ttft.Of(c)[id]; ttft != plugins.Unknown {
			return ttft
		}
	}
	return float64(max(f.flying.Of(c)[id], 0)) * 1000 / f.PeakPrefillThroughput
}
