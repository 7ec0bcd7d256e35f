package rules

import (
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/simulator/engine"
	"github.com/fairlead/fairlead/simulator/fleet"
)

// Heard is an index of what engines tell of their caches, member by member: contents by the number of blocks that hold them, so
// that one copy may go and the other stay.
type Heard struct {
	// Asks has a member tell all that it caches when the number of one of its batches is missing, or is that of another process.
	// Without it numbers are not looked at.
	Asks bool

	// Parents has contents left out whose parent nobody ever told of: who makes keys of its own from tokens cannot place them.
	Parents bool

	// Believed is how long what was sent to a member counts as held there, whatever was told; 0: not at all.
	Believed pool.Instant

	// Gaps counts the numbers that did not come in order.
	Gaps int

	of    []holder
	known map[uint64]struct{} // with Parents: all contents that were told of
	sent  *table              // with Believed
}

// holder is one member.
type holder struct {
	copies map[uint64]int32
	next   uint64 // number of the batch that should come
	begun  bool   // one came
}

func (h *Heard) at(member int32) *holder {
	for int(member) >= len(h.of) {
		h.of = append(h.of, holder{copies: map[uint64]int32{}})
	}
	return &h.of[member]
}

// Hear takes in a batch, and reports whether the member should tell all that it caches.
func (h *Heard) Hear(member int32, b *fleet.Batch) (ask bool) {
	m := h.at(member)
	if expected := m.next; b.Whole {
		clear(m.copies)
	} else if b.Sequence != expected && (m.begun || b.Sequence > 0) {
		h.Gaps++
		if h.Asks && b.Sequence < expected {
			clear(m.copies) // another process
		}
		ask = h.Asks && b.Sequence > 0
	}
	m.next, m.begun = b.Sequence+1, true
	for i := range b.Events {
		h.apply(m, &b.Events[i])
	}
	return ask
}

func (h *Heard) apply(m *holder, v *engine.BlockEvent) {
	switch v.Kind {
	case engine.Stored:
		if h.Parents {
			if h.known == nil {
				h.known = map[uint64]struct{}{}
			}
			if _, ok := h.known[v.Parent]; !ok && v.Parent != 0 {
				return
			}
			h.known[v.Hash] = struct{}{}
		}
		m.copies[v.Hash]++
	case engine.Removed:
		switch n := m.copies[v.Hash]; n {
		case 0, 1:
			delete(m.copies, v.Hash)
		default:
			m.copies[v.Hash] = n - 1
		}
	case engine.Cleared:
		clear(m.copies)
	}
}

// Depth returns how many of the chain's first blocks a member holds.
func (h *Heard) Depth(now pool.Instant, member int32, hashes []uint64) int {
	copies := h.at(member).copies
	for i, hash := range hashes {
		if copies[hash] == 0 && !h.believes(now, member, hash) {
			return i
		}
	}
	return len(hashes)
}

func (h *Heard) believes(now pool.Instant, member int32, hash uint64) bool {
	if h.sent == nil {
		return false
	}
	at, ok := h.sent.at[hash]
	return ok && h.sent.holds(&h.sent.blocks[at], member, now)
}

// heardBlocks bounds what was sent and is believed to be held.
const heardBlocks = 1 << 20

// Sent notes that a member was sent a prompt.
func (h *Heard) Sent(now pool.Instant, member int32, hashes []uint64) {
	if h.Believed == 0 {
		return
	}
	if h.sent == nil {
		h.sent = newTable(heardBlocks, h.Believed)
	}
	h.sent.put(now, member, hashes)
}

// Forget drops a member that is listed no more.
func (h *Heard) Forget(member int32) {
	*h.at(member) = holder{copies: map[uint64]int32{}}
	if h.sent != nil {
		h.sent.forget(member)
	}
}

// depths returns what table.depths does.
func (h *Heard) depths(now pool.Instant, members []int32, hashes []uint64) (depth []int, most int) {
	depth = make([]int, len(members))
	for i, m := range members {
		depth[i] = h.Depth(now, m, hashes)
		most = max(most, depth[i])
	}
	return depth, most
}

func (h *Heard) put(now pool.Instant, member int32, hashes []uint64) { h.Sent(now, member, hashes) }
func (h *Heard) forget(member int32)                                 { h.Forget(member) }

// hearer is a rule that hears the engines' cache events.
type hearer interface{ hear() *Heard }

// hearing is the decider of a hearer.
type hearing struct {
	*decider
	index *Heard
}

var _ fleet.Listener = (*hearing)(nil)

// Blocks brings what an engine told.
func (h *hearing) Blocks(_ pool.Instant, member int32, b *fleet.Batch) bool {
	return h.index.Hear(member, b)
}
