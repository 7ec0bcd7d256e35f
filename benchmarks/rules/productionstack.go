package rules

import (
	"slices"
	"time"

	"github.com/fairlead/fairlead/pkg/pool"
)

// trie is the prefixaware policy of vLLM's production stack (src/vllm_router/routers/routing_logic.py, prefix/hashtrie.py): at
// random among the engines with the longest match, all of them where none matches. Load is not read, and nothing is ever
// forgotten but engines that are gone. Its chunks are of 128 characters, shorter than any block here.
type trie struct {
	index *table
	among []int32
}

func newTrie() *trie { return &trie{index: newTable(0, 0)} }

func (t *trie) choose(b *books, q *query) int32 {
	depth, most := t.index.depths(q.now, b.members, q.hashes)
	t.among = t.among[:0]
	for i, m := range b.members {
		if depth[i] == most {
			t.among = append(t.among, m)
		}
	}
	return t.among[b.random.IntN(len(t.among))]
}

func (t *trie) sent(_ *books, q *query, to int32) { t.index.put(q.now, to, q.hashes) }

func (t *trie) left(member int32) { t.index.forget(member) }

// ring is the session policy of vLLM's production stack (src/vllm_router/routers/routing_logic.py): a session goes where a
// hash ring leads; a request without one to the engine with the fewest requests in the last minute, the first of several. The
// session is the workload's; only conversations have one.
type ring struct {
	points []point
	of     []int32          // members whose points these are
	recent [][]pool.Instant // by member
}

type point struct {
	at     uint64
	member int32
}

const (
	ringPoints = 160
	ringWindow = time.Minute
)

func newRing() *ring { return &ring{} }

func (r *ring) choose(b *books, q *query) int32 {
	if q.session < 0 {
		return first(b.members, func(m int32) float64 { return float64(r.rate(q.now, m)) })
	}
	if !slices.Equal(r.of, b.members) {
		r.of, r.points = slices.Clone(b.members), r.points[:0]
		for _, m := range b.members {
			for i := range ringPoints {
				r.points = append(r.points, point{spread(uint64(m)<<32 | uint64(i)), m})
			}
		}
		slices.SortFunc(r.points, func(a, b point) int {
			if a.at < b.at {
				return -1
			}
			return 1
		})
	}
	where := spread(uint64(q.session) | 1<<63)
	i, _ := slices.BinarySearchFunc(r.points, where, func(p point, at uint64) int {
		if p.at < at {
			return -1
		}
		return 1
	})
	return r.points[i%len(r.points)].member
}

// rate is how many requests a member was sent within the window.
func (r *ring) rate(now pool.Instant, member int32) int {
	if int(member) >= len(r.recent) {
		return 0
	}
	sent := r.recent[member]
	i, _ := slices.BinarySearch(sent, now-pool.Instant(ringWindow)+1)
	r.recent[member] = sent[i:]
	return len(sent) - i
}

func (r *ring) sent(_ *books, q *query, to int32) {
	for int(to) >= len(r.recent) {
		r.recent = append(r.recent, nil)
	}
	r.recent[to] = append(r.recent[to], q.now)
}

func (r *ring) left(member int32) {
	if int(member) < len(r.recent) {
		r.recent[member] = nil
	}
}

// spread is the finaliser of splitmix64.
func spread(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
