package kvindex

import (
	"sync"

	"github.com/fairlead/fairlead/pkg/pool"
)

// Approximate is an index of which endpoint of one pool is believed to hold which blocks, from nothing but where requests
// were sent. All methods may be called from any goroutine.
//
// Each endpoint has a table of its own, bounded by what its cache can hold. So an endpoint that leaves or restarts is
// retired by dropping its table, whatever the others hold; and since what a table holds of a chain is a prefix of it, a
// match costs a few probes per endpoint in place of a walk over the blocks.
//
// One mutex guards all: a match of 1000 blocks against 100 endpoints takes some 10 µs and a write of 1000 blocks some
// 100 µs, so that thousands of decisions per second do not meet.
type Approximate struct {
	mu      sync.Mutex
	holders []holder // by pool.ID
	version uint64   // of the last membership that was looked at

	claims   []claim // what stands for requests that are not over; bounded by their number
	first    []int32 // by pool.ID: of the endpoint's claims
	free     int32   // first of the released ones, linked by next
	promised []int32 // those whose blocks are not written
	due      []int32 // a heap by deadline of those that await an answer
	heard    bool    // of an answer, ever
	changes  int64
}

type holder struct {
	incarnation uint32
	tokens      int64 // size of the endpoint's cache; 0 while unknown
	held        lru
}

// Match writes into blocks, by pool.ID, how many of the chain's first blocks each of the endpoints ids of s is believed to
// hold. Endpoints that left s, or stand in it with another incarnation, are retired first. It returns what Changes does.
func (x *Approximate) Match(s *pool.Snapshot, ids []pool.ID, hashes []uint64, blocks []int32) (changes int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sweep(s)
	guess := 0
	for _, id := range ids {
		blocks[id] = 0
		if int(id) < len(x.holders) && x.holders[id].incarnation == s.Slots[id].Incarnation {
			guess = x.holders[id].held.depth(hashes, guess)
			blocks[id] = int32(guess)
		}
	}
	x.matchPromised(s, hashes, blocks)
	return x.changes
}

// Held returns how many blocks are believed to be held, by all endpoints together.
func (x *Approximate) Held() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := 0
	for i := range x.holders {
		n += x.holders[i].held.size
	}
	return n
}

// sweep drops the tables of those who are not in s any more. A membership older than the last one seen is not looked at.
func (x *Approximate) sweep(s *pool.Snapshot) {
	if s.Version <= x.version {
		return
	}
	x.version = s.Version
	for id := range x.holders {
		if id >= len(s.Slots) || s.Slots[id].Incarnation != x.holders[id].incarnation {
			x.holders[id] = holder{}
		}
	}
}

// of returns the table of an endpoint, nil for one that was retired since.
func (x *Approximate) of(to pool.Ref) *holder {
	for int(to.ID) >= len(x.holders) {
		x.holders = append(x.holders, holder{})
	}
	h := &x.holders[to.ID]
	switch {
	case h.incarnation < to.Incarnation:
		*h = holder{incarnation: to.Incarnation}
	case h.incarnation > to.Incarnation:
		return nil
	}
	return h
}

// Size tells how many tokens the cache of an endpoint holds; 0 is unknown.
func (x *Approximate) Size(of pool.Ref, tokens int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if h := x.of(of); h != nil {
		h.tokens = tokens
	}
}

// Credit writes that an endpoint holds the chain, of blocks of blockTokens, on nobody's account. otherwise is the size of its
// cache in tokens where Size has not told it.
func (x *Approximate) Credit(to pool.Ref, hashes []uint64, blockTokens int, otherwise int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.credit(to, hashes, blockTokens, otherwise)
	x.changes++
}

// credit returns the number of the write, and from which index on the blocks were new; ok is false for an endpoint that was
// retired.
func (x *Approximate) credit(to pool.Ref, hashes []uint64, blockTokens int, otherwise int64) (entry uint32, from int, ok bool) {
	h := x.of(to)
	if h == nil {
		return 0, 0, false
	}
	tokens := h.tokens
	if tokens == 0 {
		tokens = otherwise
	}
	capacity := min(max(tokens/int64(max(blockTokens, 1)), 1), maxBlocks)
	entry, from = h.held.put(hashes, int(capacity))
	return entry, from, true
}

// Blocks returns how many blocks an endpoint is believed to hold.
func (x *Approximate) Blocks(of pool.Ref) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	if int(of.ID) < len(x.holders) && x.holders[of.ID].incarnation == of.Incarnation {
		return x.holders[of.ID].held.size
	}
	return 0
}
