package scorers

import (
	"math"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/reason"
)

// Latency prefers endpoints by how the predicted latencies stand to what the client will wait: the headroom of each is its target
// less the prediction, and without a target 0 less the prediction.
//
// Endpoints that stay within both targets are scored and no others, if there are any. Else those without own requests, if there
// are any; else those that miss the time between tokens alone, those that miss the time to first token alone, those that miss
// both, the first of these that there are. All others score 0. With h the size of the headroom, as a share of the way from the
// smallest to the largest among those that are scored (0.5 where all are equal):
//
//	combined = ttftWeight·h(ttft) + tpotWeight·h(tpot), over the sum of the weights
//	score    = (⌊100·(1 − combined)⌋ + 1)/100, and with combined itself where targets are kept and the strategy is most
//
// at most 1. A latency that is the same for all does not count. Where targets are missed the endpoint that is
// nearest to them is first; without any, the fastest.
//
// Without predictions the free share of the KV cache, the queue and the cached share of the prompt stand in, by their weights.
type Latency struct {
	// TTFTWeight is the weight of the time to first token. Where both weights are 0, it counts alone.
	TTFTWeight float64 `json:"ttftWeight" schema:"min=0"`

	// TPOTWeight is the weight of the time between tokens.
	TPOTWeight float64 `json:"tpotWeight" schema:"min=0"`

	// HeadroomSelectionStrategy says who is first where targets are kept: least, whose headroom is smallest, so that others stay
	// free for who needs them; or most.
	HeadroomSelectionStrategy string `json:"headroomSelectionStrategy" schema:"enum=least|most"`

	// CompositeKVWeight is the weight of the free share of the cache where nothing is predicted. Where all three weights are 0, it
	// counts alone.
	CompositeKVWeight float64 `json:"compositeKVWeight" schema:"min=0"`

	// CompositeQueueWeight is that of the queue, from the longest, 0, to none, 1.
	CompositeQueueWeight float64 `json:"compositeQueueWeight" schema:"min=0"`

	// CompositePrefixWeight is that of the cached share of the prompt's blocks.
	CompositePrefixWeight float64 `json:"compositePrefixWeight" schema:"min=0"`

	// ExplorationProbability is the share of requests for which the first and the second of those that are scored change places,
	// so that the predictor goes on learning of more than those it likes.
	ExplorationProbability float64 `json:"explorationProbability" schema:"min=0,max=0.5"`

	// LatencyPredictionInfoProducerName names the plugin that predicts. Empty: the one that the configuration has.
	LatencyPredictionInfoProducerName string `json:"latencyPredictionInfoProducerName,omitempty"`

	// PrefixMatchInfoProducerName names the plugin whose match is read. Empty: the one that the configuration has.
	PrefixMatchInfoProducerName string `json:"prefixMatchInfoProducerName,omitempty"`

	ttft, itl             plugins.EndpointValues[float64]
	ttftTarget, itlTarget plugins.RequestValue[float64]
	flying                plugins.EndpointValues[int32]
	queued                plugins.EndpointValues[int32]
	usage                 plugins.EndpointValues[float64]
	blocks                plugins.EndpointValues[int32]
	total                 plugins.RequestValue[int32]
}

var _ plugins.Scorer = (*Latency)(nil)

// NewLatency returns a Latency with its defaults.
func NewLatency() *Latency {
	return &Latency{TTFTWeight: 0.8, TPOTWeight: 0.2, HeadroomSelectionStrategy: "least",
		CompositeKVWeight: 1, CompositeQueueWeight: 1, CompositePrefixWeight: 1, ExplorationProbability: 0.01}
}

// Provision says what Score reads.
func (l *Latency) Provision(b *plugins.Builder) error {
	l.ttft, l.itl = plugins.Needs(b, plugins.PredictedTTFT), plugins.Needs(b, plugins.PredictedITL)
	l.ttftTarget, l.itlTarget = plugins.Needs(b, plugins.TTFTTarget), plugins.Needs(b, plugins.ITLTarget)
	l.flying, l.queued, l.usage = plugins.Needs(b, plugins.InFlightRequests), plugins.Needs(b, plugins.QueuedRequests), plugins.Needs(b, plugins.KVUsage)
	l.blocks, l.total = plugins.Needs(b, plugins.CachedBlocks), plugins.Needs(b, plugins.PromptBlocks)
	if l.TTFTWeight+l.TPOTWeight == 0 {
		b.Warn("ttftWeight", "ttftWeight is 0 and tpotWeight as well, so that the time to first token counts alone; give one of them a weight")
	}
	if l.CompositeKVWeight+l.CompositeQueueWeight+l.CompositePrefixWeight == 0 {
		b.Warn("compositeKVWeight", "compositeKVWeight is 0 and so are the other two, so that the free share of the cache counts alone; give one of them a weight")
	}
	if err := plugins.CheckProducer(b, plugins.PredictedTTFT, "latencyPredictionInfoProducerName", l.LatencyPredictionInfoProducerName); err != nil {
		return err
	}
	return plugins.CheckProducer(b, plugins.CachedBlocks, "prefixMatchInfoProducerName", l.PrefixMatchInfoProducerName)
}

// Where an endpoint stands, the best first.
const (
	keeps = iota
	idle
	missesITL
	missesTTFT
	missesBoth
)

// headroom returns how an endpoint's predictions stand to the targets, in milliseconds; ok is false without predictions. A time
// between tokens that is not predicted is no miss, and the same for all.
func (l *Latency) headroom(c *plugins.Cycle, id int) (ttft, itl float64, ok bool) {
	if l.ttft.Of(c)[id] == plugins.Unknown {
		return 0, 0, false
	}
	ttft = max(l.ttftTarget.Of(c.Request), 0) - l.ttft.Of(c)[id]
	if predicted := l.itl.Of(c)[id]; predicted != plugins.Unknown {
		itl = max(l.itlTarget.Of(c.Request), 0) - predicted
	}
	return ttft, itl, true
}

func (l *Latency) standing(c *plugins.Cycle, id int) (at int, ttft, itl float64) {
	ttft, itl, ok := l.headroom(c, id)
	switch {
	case !ok, ttft >= 0 && itl >= 0:
		return keeps, ttft, itl
	case l.flying.Of(c)[id] == 0:
		return idle, ttft, itl
	case ttft >= 0:
		return missesITL, ttft, itl
	case itl >= 0:
		return missesTTFT, ttft, itl
	}
	return missesBoth, ttft, itl
}

// span is the range of a headroom's size.
type span struct{ least, most float64 }

func (s *span) add(v float64) { s.least, s.most = min(s.least, v), max(s.most, v) }

// share returns how far v is on the way from least to most; 0.5 where there is none to go.
func (s *span) share(v float64) float64 {
	if s.flat() {
		return 0.5
	}
	return (v - s.least) / (s.most - s.least)
}

func (s *span) flat() bool { return s.most-s.least <= 1e-9 }

// Score writes one score per candidate into out.
func (l *Latency) Score(c *plugins.Cycle, out []float64) {
	best, predicted := missesBoth, false
	for _, id := range c.Candidates {
		at, _, _ := l.standing(c, int(id))
		best = min(best, at)
		predicted = predicted || l.ttft.Of(c)[id] != plugins.Unknown
	}
	if !predicted {
		c.Note(reason.LatencyUnpredicted, "")
		l.composite(c, out)
		return
	}
	ttftSpan, itlSpan := span{math.Inf(1), math.Inf(-1)}, span{math.Inf(1), math.Inf(-1)}
	for _, id := range c.Candidates {
		if at, ttft, itl := l.standing(c, int(id)); at == best {
			ttftSpan.add(math.Abs(ttft))
			itlSpan.add(math.Abs(itl))
		}
	}
	alpha, beta := l.weights(&ttftSpan, &itlSpan)
	most := best == keeps && l.HeadroomSelectionStrategy == "most"
	for i, id := range c.Candidates {
		at, ttft, itl := l.standing(c, int(id))
		if at != best {
			continue
		}
		combined := float64(alpha*ttftSpan.share(math.Abs(ttft))) + float64(beta*itlSpan.share(math.Abs(itl)))
		if !most {
			combined = 1 - combined
		}
		out[i] = (math.Floor(combined*100) + 1) / 100
	}
	l.explore(c, out)
}

// weights returns the weights, with that of a latency in which all are alike left out.
func (l *Latency) weights(ttft, itl *span) (alpha, beta float64) {
	sum := l.TTFTWeight + l.TPOTWeight
	switch {
	case ttft.flat() && !itl.flat():
		return 0, 1
	case itl.flat() && !ttft.flat(), sum <= 0:
		return 1, 0
	}
	return l.TTFTWeight / sum, l.TPOTWeight / sum
}

// explore lets the first and the second change places, once in a while.
func (l *Latency) explore(c *plugins.Cycle, out []float64) {
	if l.ExplorationProbability == 0 || c.Rand().Float64() >= l.ExplorationProbability {
		return
	}
	first, second := -1, -1
	for i, v := range out {
		switch {
		case v <= 0:
		case first < 0 || v > out[first]:
			first, second = i, first
		case second < 0 || v > out[second]:
			second = i
		}
	}
	if second >= 0 {
		out[first], out[second] = out[second], out[first]
	}
}

// composite stands in for predictions.
func (l *Latency) composite(c *plugins.Cycle, out []float64) {
	kv, queue, prefix := l.CompositeKVWeight, l.CompositeQueueWeight, l.CompositePrefixWeight
	sum := kv + queue + prefix
	if sum <= 0 {
		kv, sum = 1, 1
	}
	usage, queued, blocks := l.usage.Of(c), l.queued.Of(c), l.blocks.Of(c)
	longest := int32(0)
	for _, id := range c.Candidates {
		longest = max(longest, queued[id])
	}
	for i, id := range c.Candidates {
		free, room, cached := 0.5, 0.5, 0.0
		if usage[id] != plugins.Unknown {
			free = 1 - usage[id]
		}
		switch {
		case longest == 0:
			room = 1
		case queued[id] != plugins.Unknown:
			room = float64(longest-queued[id]) / float64(longest)
		}
		if total := l.total.Of(c.Request); total > 0 {
			cached = float64(max(blocks[id], 0)) / float64(total)
		}
		out[i] = math.Round(100*(float64(kv*free)+float64(queue*room)+float64(prefix*cached))/sum) / 100
	}
}
