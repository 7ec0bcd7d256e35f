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
	// At is when the event is published: when the step ends for which the block was taken or filled.
	At   time.Duration
	Kind BlockKind

	// Hash is the block's, as in Request.Hashes; Parent that of the block before it in the same text, 0 for the first.
	// Removed has no parent and Cleared no hash.
	Hash, Parent uint64

	// Adapter is the LoRA adapter of stored contents, 0 for the base model.
	Adapter int32
}

// publish ends the batch of the step that ends now.
func (e *Engine) publish(now time.Duration) {
	e.published, e.events = e.events, e.published[:0]
	for i := range e.published {
		e.published[i].At = now
	}
}
