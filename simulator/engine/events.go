package engine

import "time"

// BlockKind is what happened to the contents of a block.
type BlockKind uint8

const (
	// Stored contents can be hit. The same contents may be stored in several blocks, and then be removed as often.
	Stored BlockKind = iota + 1

	// Removed contents were evicted from one block.
	Removed

	// Cleared says that the whole cache was emptied.
	Cleared
)

// BlockEvent is a change of the prefix cache, as vLLM publishes it (vllm/distributed/kv_events.py).
type BlockEvent struct {
	// Batch numbers the steps for which anything was published, from 0: what one step changed is one message, and whoever
	// misses a number has missed a message.
	Batch uint64

	// At is when the event is published: when the step ends for which the block was taken or filled.
	At   time.Duration
	Kind BlockKind

	// Hash is the block's, as in Request.Hashes; Parent that of the block before it in the same text, 0 for the first.
	// Removed has no parent and Cleared no hash.
	Hash, Parent uint64

	// Adapter is the LoRA adapter of stored contents, 0 for the base model.
	Adapter int32
}

// publish ends the batch of the step that ends now. Batches before it stay published.
func (e *Engine) publish(now time.Duration) {
	if len(e.events) == 0 {
		return
	}
	for i := range e.events {
		e.events[i].At, e.events[i].Batch = now, e.batches
	}
	e.batches++
	e.published = append(e.published, e.events...)
	e.events = e.events[:0]
}

// Batches returns how many batches of block events were published.
func (e *Engine) Batches() uint64 { return e.batches }

// Cached returns how many of the chain's first blocks are in the prefix cache at this instant, whatever was published of it.
func (e *Engine) Cached(hashes []uint64) int {
	for i, hash := range hashes {
		if e.pool.lookup(hash) == none {
			return i
		}
	}
	return len(hashes)
}

// AppendCached appends to dst what is cached as events that store it, without parents and numbers: for who lost batches, and
// goes on with the next one. That is the cache as the last batch left it. What the running step has changed since is told when
// it ends.
// Nothing is appended without Options.BlockEvents.
func (e *Engine) AppendCached(dst []BlockEvent) []BlockEvent {
	if !e.options.BlockEvents {
		return dst
	}
	// Copies that the running step has added. Where it tells of a reset, too, that takes away all that is told here.
	pending := map[uint64]int{}
	for i := range e.events {
		switch v := &e.events[i]; v.Kind {
		case Stored:
			pending[v.Hash]++
		case Removed:
			pending[v.Hash]--
		}
	}
	tell := func(hash uint64) { dst = append(dst, BlockEvent{Kind: Stored, Hash: hash}) }
	for i := range e.pool.blocks {
		if b := &e.pool.blocks[i]; b.hashed {
			if pending[b.hash] > 0 {
				pending[b.hash]--
				continue
			}
			tell(b.hash)
		}
	}
	for i := range e.events {
		if h := e.events[i].Hash; e.events[i].Kind == Removed && pending[h] < 0 {
			pending[h]++
			tell(h)
		}
	}
	return dst
}
