package engine

import "time"

// Loading is a request that was given blocks for contents which another engine computed.
type Loading struct {
	ID ID

	// Tokens are to be transferred: the prompt without what the engine's own cache holds.
	Tokens int32
}

// load makes a request whose blocks were just taken wait for their contents (WAITING_FOR_REMOTE_KVS). It keeps its place in
// the queue and takes no part in steps until Loaded.
func (e *Engine) load(now time.Duration, slot, cached int32) {
	s := &e.sequences[slot]
	s.loading = true
	e.noteAdmission(s, now, cached)
	e.loading = append(e.loading, Loading{ID{slot, s.generation}, s.Prompt - cached})
}

// Loaded says that the contents which a request waited for have come; it reports whether the request waited for any. They
// are cached from here on. The engine still computes the prompt's last token, which yields the first one of the answer
// (vLLM: Scheduler._update_waiting_for_remote_kv). On an idle engine the host calls Step next.
func (e *Engine) Loaded(id ID) bool {
	s := e.alive(id)
	if s == nil || !s.loading {
		return false
	}
	s.loading, s.loaded = false, true
	s.timeline.Remote = s.Prompt - s.computed
	s.computed = s.Prompt - 1
	e.cache(s, s.Prompt)
	return true
}

// Release frees the blocks of a request with HoldKV that has finished; it reports whether it held any. The host calls it
// when another engine has fetched them, or gives up on that.
func (e *Engine) Release(id ID) bool {
	s := e.alive(id)
	if s == nil || s.state != isHeld {
		return false
	}
	e.dropBlocks(s)
	e.leave(id.Slot)
	return true
}

// alive returns the request that id names, or nil if it has ended.
func (e *Engine) alive(id ID) *sequence {
	if id.Slot < 0 || int(id.Slot) >= len(e.sequences) {
		return nil
	}
	s := &e.sequences[id.Slot]
	if s.generation != id.Generation || s.state == vacant {
		return nil
	}
	return s
}
