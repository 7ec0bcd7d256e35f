package engine

// Counters are an engine's running totals since it was made.
type Counters struct {
	// Steps is the number of steps that ended.
	Steps int64

	// Finished and Aborted are requests.
	Finished, Aborted int64

	// Preemptions counts how often a running request was sent back.
	Preemptions int64

	// PrefixQueries are the tokens looked up in the prefix cache, PrefixHits those found: once per request, at its first
	// admission.
	PrefixQueries, PrefixHits int64

	// PromptTokens are counted when a prompt's first token comes, cached ones included; CachedPromptTokens are these, and
	// RemotePromptTokens those that were loaded from another engine.
	PromptTokens, CachedPromptTokens, RemotePromptTokens int64

	// GenerationTokens are the tokens generated.
	GenerationTokens int64
}

// Counters returns the totals so far.
func (e *Engine) Counters() Counters { return e.counters }

// Gauges are an engine's state at a moment.
type Gauges struct {
	// Running and Waiting are requests. Deferred are those of the waiting that wait for their adapter, or for contents from
	// another engine, and not for room.
	Running, Waiting, Deferred int32

	// UsedBlocks are held by requests; FreeBlocks are not, though their contents may be cached.
	UsedBlocks, FreeBlocks int32
}

// KVUsage is the share of usable blocks that requests hold, 0 to 1, as vLLM's kv_cache_usage_perc.
func (g Gauges) KVUsage() float64 {
	return float64(g.UsedBlocks) / float64(g.UsedBlocks+g.FreeBlocks)
}

// Gauges returns the state now. Cost is O(waiting requests) where adapters or remote contents are in use, else O(1).
func (e *Engine) Gauges() Gauges {
	g := Gauges{
		Running:    int32(len(e.running)),
		Waiting:    e.waiting.length,
		UsedBlocks: e.pool.used(),
		FreeBlocks: e.pool.free,
	}
	if e.options.Adapters > 0 || e.remote {
		for slot := e.waiting.head; slot != none; slot = e.sequences[slot].next {
			if e.deferred(&e.sequences[slot]) {
				g.Deferred++
			}
		}
	}
	return g
}

// AdapterLoads writes into running and waiting, both indexed by adapter and as long as there are adapters plus one, how many
// requests of each run and wait. Index 0 is the base model. Cost is O(requests).
func (e *Engine) AdapterLoads(running, waiting []int32) {
	clear(running)
	clear(waiting)
	for _, slot := range e.running {
		running[e.sequences[slot].Adapter]++
	}
	for slot := e.waiting.head; slot != none; slot = e.sequences[slot].next {
		waiting[e.sequences[slot].Adapter]++
	}
}
