package rules

import "github.com/fairlead/fairlead/pkg/pool"

// table says which members are believed to hold which blocks: an index of own decisions. Blocks are in order of use over all
// members; above limit the least recently used goes, from all members that had it.
type table struct {
	limit int          // blocks; 0: no bound
	ttl   pool.Instant // how long a member is believed to hold a block after it was last sent it; 0: for good

	at       map[uint64]int32
	blocks   []block // 0 is the anchor of the ring
	free     []int32
	scratch  []int32
	surround []int
}

type block struct {
	hash       uint64
	prev, next int32
	since      []pool.Instant // by member; 0: not held
}

func newTable(limit int, ttl pool.Instant) *table {
	return &table{limit: limit, ttl: ttl, at: map[uint64]int32{}, blocks: make([]block, 1)}
}

func (t *table) holds(b *block, member int32, now pool.Instant) bool {
	if int(member) >= len(b.since) || b.since[member] == 0 {
		return false
	}
	return t.ttl == 0 || now-b.since[member] < t.ttl
}

// depths returns how many of the prompt's first blocks each of the members holds, aligned with them, and the most. The slice
// is valid until the next call.
func (t *table) depths(now pool.Instant, members []int32, hashes []uint64) (depth []int, most int) {
	depth = append(t.surround[:0], make([]int, len(members))...)
	t.surround = depth
	still := t.scratch[:0]
	for i := range members {
		still = append(still, int32(i))
	}
	for n, h := range hashes {
		at, ok := t.at[h]
		if !ok {
			break
		}
		kept := still[:0]
		for _, i := range still {
			if t.holds(&t.blocks[at], members[i], now) {
				depth[i] = n + 1
				kept = append(kept, i)
			}
		}
		if still = kept; len(still) == 0 {
			break
		}
		most = n + 1
	}
	t.scratch = still
	return depth, most
}

// put notes that a member was sent a prompt. The first block is the most recently used of it.
func (t *table) put(now pool.Instant, member int32, hashes []uint64) {
	for n := len(hashes) - 1; n >= 0; n-- {
		at, ok := t.at[hashes[n]]
		if ok {
			t.unlink(at)
		} else {
			at = t.fresh(hashes[n])
		}
		b := &t.blocks[at]
		for int(member) >= len(b.since) {
			b.since = append(b.since, 0)
		}
		b.since[member] = max(now, 1)
		b.prev, b.next = 0, t.blocks[0].next
		t.blocks[b.next].prev = at
		t.blocks[0].next = at
	}
	for t.limit > 0 && len(t.at) > t.limit {
		last := t.blocks[0].prev
		t.unlink(last)
		t.drop(last)
	}
}

func (t *table) fresh(hash uint64) int32 {
	at := int32(len(t.blocks))
	if n := len(t.free); n > 0 {
		at, t.free = t.free[n-1], t.free[:n-1]
	} else {
		t.blocks = append(t.blocks, block{})
	}
	t.blocks[at] = block{hash: hash, since: t.blocks[at].since[:0]}
	t.at[hash] = at
	return at
}

func (t *table) unlink(at int32) {
	b := &t.blocks[at]
	t.blocks[b.prev].next = b.next
	t.blocks[b.next].prev = b.prev
}

func (t *table) drop(at int32) {
	delete(t.at, t.blocks[at].hash)
	t.free = append(t.free, at)
}

// forget takes a member out of every block.
func (t *table) forget(member int32) {
	for at := range t.blocks {
		if b := &t.blocks[at]; int(member) < len(b.since) {
			b.since[member] = 0
		}
	}
}

// caches is one table for each member, each with a bound of its own: as llm-d's approximate index mirrors engines that evict.
type caches struct{ of []*table }

func (c *caches) table(member int32) *table {
	for int(member) >= len(c.of) {
		c.of = append(c.of, newTable(0, 0))
	}
	return c.of[member]
}

// The bounds of llm-d's approximate index: blocks of 64 tokens while the engine has not said how many it has, and how much of
// a prompt is matched.
const (
	llmdBlocks      = 31_250
	llmdBlockTokens = 64
	llmdMatched     = 131_072
)

// within is the part of the prompt that is matched.
func within(q *query) []uint64 {
	return q.hashes[:min(int64(len(q.hashes)), llmdMatched/q.block)]
}

// depth returns how many of the prompt's first blocks a member holds.
func (c *caches) depth(q *query, member int32) int {
	_, most := c.table(member).depths(q.now, []int32{0}, within(q))
	return most
}

// put notes that a member was sent a prompt; it holds as many tokens as its engine says.
func (c *caches) put(b *books, q *query, member int32) {
	t := c.table(member)
	tokens := int64(llmdBlocks * llmdBlockTokens)
	if s := &b.at[member].sample; s.Blocks > 0 && s.BlockTokens > 0 {
		tokens = int64(s.Blocks) * int64(s.BlockTokens)
	}
	t.limit = int(max(tokens/q.block, 1))
	t.put(q.now, 0, within(q))
}

func (c *caches) left(member int32) {
	if int(member) < len(c.of) {
		c.of[member] = newTable(0, 0)
	}
}

// blocks is how many of the prompt's blocks are matched.
func (c *caches) blocks(q *query) int { return len(within(q)) }

// cached is what one of llm-d's rules believes of caches: what it sent, or what engines tell.
type cached interface {
	depth(q *query, member int32) int
	blocks(q *query) int
	put(b *books, q *query, member int32)
	left(member int32)
}

// believed is what a rule believes, with what follows of it.
type believed struct{ cached }

// uncached are the prompt's tokens that a member has to compute, at least one.
func (c believed) uncached(q *query, member int32) int64 {
	return max(q.tokens-q.matched(c.depth(q, member)), 1)
}

func (c believed) sent(b *books, q *query, to int32) { c.put(b, q, to) }
