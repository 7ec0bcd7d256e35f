package rules

import (
	"math"
	"slices"
	"time"

	"github.com/fairlead/fairlead/pkg/pool"
)

// aibrix is the prefix-cache policy of AIBrix (pkg/plugins/gateway/algorithms/prefix_cache.go): where the own requests of the
// busiest pod exceed those of the idlest by more than 8, only the least loaded pods count. Of those that match anything, the one
// with the most matched percent, then the fewest requests, whose requests are at most the mean and one standard deviation of
// all; else the one with the fewest requests.
//
// Its index holds 200,000 blocks, each forgotten 20 minutes after its last use. A block is four tokens here; by default it is
// four characters, which would hold a quarter of that.
type aibrix struct {
	index *table
	least []int32
}

const (
	aibrixSpread = 8
	aibrixTokens = 200_000 * 4
	aibrixTTL    = 20 * time.Minute
)

func newAIBrix() *aibrix { return &aibrix{index: newTable(0, pool.Instant(aibrixTTL))} }

func (a *aibrix) choose(b *books, q *query) int32 {
	low, high, sum := b.requests(b.members[0]), 0, 0.0
	for _, m := range b.members {
		low, high = min(low, b.requests(m)), max(high, b.requests(m))
		sum += float64(b.requests(m))
	}
	mean := sum / float64(len(b.members))
	squares := 0.0
	for _, m := range b.members {
		d := float64(b.requests(m)) - mean
		squares += float64(d * d)
	}
	bound := mean + math.Sqrt(squares/float64(len(b.members)))

	load := func(m int32) float64 { return float64(b.requests(m)) }
	among := b.members
	if high-low > aibrixSpread {
		a.least = slices.DeleteFunc(append(a.least[:0], b.members...), func(m int32) bool { return b.requests(m) > low })
		among = a.least
	}
	// A match ends for all where no pod has the next block, and a pod's own where it lacks one; percents are whole.
	depth, most := a.index.depths(q.now, among, q.hashes)
	best := func(m int32) float64 { return math.Inf(1) }
	if most > 0 {
		best = func(m int32) float64 {
			d := depth[slices.Index(among, m)]
			if d == 0 || load(m) > bound {
				return math.Inf(1)
			}
			return load(m) - 1e6*float64(d*100/len(q.hashes))
		}
	}
	if m := b.least(among, 0, best); !math.IsInf(best(m), 1) {
		return m
	}
	return b.least(b.members, 0, load)
}

func (a *aibrix) sent(_ *books, q *query, to int32) {
	a.index.limit = int(max(aibrixTokens/q.block, 1))
	a.index.put(q.now, to, q.hashes)
}

func (a *aibrix) left(member int32) { a.index.forget(member) }
