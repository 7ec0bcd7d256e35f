package rules

import "time"

// llmdReads is how often llm-d's endpoint picker reads each engine.
const llmdReads = 50 * time.Millisecond

// weights is llm-d-router's weighted sum of scores (pkg/epp/config/loader/defaults.go; scheduling/scorer/queuedepth,
// kvcacheutilization, prefix):
//
//	total = w_queue·(Qmax - Q)/(Qmax - Qmin) + w_kv·(1 - K) + w_prefix·(matched blocks/blocks)
//
// The first is 1 for all where all queues are equal. Q and K are as last read; nothing of what was just sent counts. The largest
// total is chosen. Its index is per endpoint, least recently used first out, as large as the engine says its cache is.
type weights struct {
	kv float64 // the weight of KV memory; the others' are llmdQueue and llmdPrefix
	believed
}

const (
	llmdQueue  = 2.0
	llmdPrefix = 3.0
)

func newWeights(kv float64) *weights { return &weights{kv, believed{&caches{}}} }

func (w *weights) choose(b *books, q *query) int32 {
	totals := w.totals(b, q)
	return b.least(b.members, 0, func(m int32) float64 { return -totals[m] })
}

// totals are the members' by number.
func (w *weights) totals(b *books, q *query) []float64 {
	low, high := b.waiting(b.members[0]), b.waiting(b.members[0])
	for _, m := range b.members {
		low, high = min(low, b.waiting(m)), max(high, b.waiting(m))
	}
	totals := make([]float64, len(b.at))
	for _, m := range b.members {
		short, hit := 1.0, 0.0
		if high > low {
			short = (high - b.waiting(m)) / (high - low)
		}
		if n := w.blocks(q); n > 0 {
			hit = float64(w.depth(q, m)) / float64(n)
		}
		totals[m] = float64(llmdQueue*short) + float64(w.kv*(1-b.usage(m))) + float64(llmdPrefix*hit)
	}
	return totals
}

// sticky is llm-d-router's profile since August 2026, "sticky until saturated" (scheduling/filter/prefixcacheaffinity,
// scheduling/scorer/tokenload, requestcontrol/dataproducer/inflightload): of the endpoints that hold at least 0.8 of the prompt's
// blocks, if their shortest backlog exceeds that of the others by no more than 18 s, else of all, the one with the fewest
// tokens
//
//	T = F/15,928 tokens/s      score = 1 - min(1, (F + u)/4,194,304)
//
// F are uncached prompt tokens sent and without a first token, u those of this request there. The constant of the throughput
// is that of the source for Qwen3-32B on two H100; nobody calibrates it here, as by default.
type sticky struct {
	believed
	hits, rest []int32
}

const (
	stickyMatch   = 0.80
	stickyPenalty = 18.0     // seconds
	stickyRate    = 15_928.0 // tokens/s
	stickyTokens  = 4_194_304.0
)

func newSticky() *sticky { return &sticky{believed: believed{&caches{}}} }

func (s *sticky) choose(b *books, q *query) int32 {
	s.hits, s.rest = s.hits[:0], s.rest[:0]
	blocks := float64(max(s.blocks(q), 1))
	for _, m := range b.members {
		if float64(s.depth(q, m))/blocks >= stickyMatch {
			s.hits = append(s.hits, m)
		} else {
			s.rest = append(s.rest, m)
		}
	}
	among := b.members
	if len(s.hits) > 0 && (len(s.rest) == 0 || shortest(b, s.hits)-shortest(b, s.rest) <= stickyPenalty) {
		among = s.hits
	}
	return b.least(among, 0, func(m int32) float64 {
		return min(1, float64(b.at[m].prefill+s.uncached(q, m))/stickyTokens)
	})
}

func shortest(b *books, among []int32) float64 {
	least := b.at[among[0]].prefill
	for _, m := range among {
		least = min(least, b.at[m].prefill)
	}
	return float64(least) / stickyRate
}
