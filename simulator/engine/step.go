package engine

import "time"

// Step is one iteration of the engine.
type Step struct {
	Start, End time.Duration
	Load

	// Admitted and Preempted are the requests that went from waiting to running and back when the step was put together.
	Admitted, Preempted int32
}

// Token is one generated token.
type Token struct {
	ID ID

	// Count is the number of tokens that the request has generated, this one included.
	Count int32

	// Gap is the time since the request's token before; for its first one, since its arrival.
	Gap time.Duration

	// Last reports whether the request ended with it; then it stands in Result.Finished too.
	Last bool
}

// Finished is a request that generated all its tokens.
type Finished struct {
	ID ID
	Timeline
}

// Timeline is what happened to a request, at which instants.
type Timeline struct {
	Arrived, Admitted, FirstToken, LastToken time.Duration

	// Prompt and Output are tokens; Cached those of the prompt that the prefix cache gave at the first admission, and Remote
	// those that another engine's did.
	Prompt, Cached, Remote, Output int32

	// Preemptions is how often it was sent back to the waiting queue.
	Preemptions int32
}

// Result is what one call of Step brought. Its slices are valid until the next call.
type Result struct {
	// Ended is the step that ended, nil if none did.
	Ended *Step

	// Tokens are in the order in which their requests run, Finished likewise.
	Tokens   []Token
	Finished []Finished

	// Loading are the requests with RemoteKV that were given blocks since the last call. The host begins their transfers.
	Loading []Loading

	// Blocks is what became cached and was evicted for the step that ended, in order, with Options.BlockEvents. vLLM publishes
	// it when the step has ended, one batch per step.
	Blocks []BlockEvent
}

// Step ends the running step if now has come to its end, and then begins the next one at now, if any request can run. The
// results of a step stand at its end, even if now is later. Hosts that must be exact call Step at the instants that Next
// tells, and at that of an Add to an idle engine.
func (e *Engine) Step(now time.Duration) Result {
	var r Result
	if e.inFlight && now >= e.step.End {
		r.Ended = e.complete()
		r.Tokens, r.Finished, r.Blocks = e.tokens, e.finished, e.published
	}
	if !e.inFlight {
		e.begin(now)
	}
	e.told, e.loading = e.loading, e.told[:0]
	r.Loading = e.told
	return r
}

// begin puts a step together: running requests first, each with what it lacks as far as the budget goes, and then waiting
// ones, unless a running one had to be preempted (Scheduler.schedule: "if not preempted_reqs").
func (e *Engine) begin(now time.Duration) {
	e.step = Step{Start: now}
	e.victims = e.victims[:0]
	budget := e.scheduleRunning(e.profile.MaxBatchedTokens)
	if e.step.Preempted == 0 {
		e.admit(now, budget)
	}
	if e.step.Sequences == 0 {
		return
	}
	e.step.End = now + e.duration(e.step.Load)
	e.inFlight = true
}

// duration is how long a step with load l takes on this engine at present.
func (e *Engine) duration(l Load) time.Duration {
	took := e.profile.Step.Of(l)
	if e.slowdown != 1 {
		took = time.Duration(float64(took) * e.slowdown)
	}
	return took
}

// scheduleRunning gives each running request its tokens, in the order of admission, and returns what is left of the budget.
// Where blocks are lacking it preempts from the end of the list (Scheduler.schedule, the loop over self.running, policy fcfs).
func (e *Engine) scheduleRunning(budget int32) int32 {
	for i := 0; i < len(e.running) && budget > 0; i++ {
		slot := e.running[i]
		s := &e.sequences[slot]
		n := min(s.total-s.computed, e.options.LongPrefill, budget)
		for !e.grow(s, n) {
			victim := e.running[len(e.running)-1]
			e.running = e.running[:len(e.running)-1]
			e.preempt(victim)
			if victim == slot {
				return budget
			}
		}
		e.schedule(s, n)
		budget -= n
	}
	return budget
}

// grow gives s the blocks for n more tokens, or none and false (KVCacheManager.allocate_slots).
func (e *Engine) grow(s *sequence, n int32) bool {
	lacking := e.blocksFor(s.computed+n) - int32(len(s.blocks))
	if lacking > e.pool.free {
		return false
	}
	for ; lacking > 0; lacking-- {
		s.blocks = append(s.blocks, e.take())
	}
	return true
}

// take takes the block that was free longest; what it held is not cached any more.
func (e *Engine) take() int32 {
	b, evicted, hash := e.pool.take()
	if evicted && e.options.BlockEvents {
		e.events = append(e.events, BlockEvent{Kind: Removed, Hash: hash})
	}
	return b
}

// preempt sends a request back to the front of the waiting queue. It will compute everything anew, but for what is still
// cached then (Scheduler._preempt_request: num_computed_tokens = 0, waiting.prepend_request).
func (e *Engine) preempt(slot int32) {
	e.stopRunning(slot)
	s := &e.sequences[slot]
	s.state = isWaiting
	s.computed, s.hashed = 0, 0
	s.loaded = false
	s.timeline.Preemptions++
	e.waiting.pushFront(e.sequences, slot)
	e.step.Preempted++
	e.victims = append(e.victims, ID{slot, s.generation})
	e.counters.Preemptions++
}

// admit lets waiting requests run, first come, first served. The first one that lacks blocks stops the loop: smaller ones
// behind it do not overtake. One whose adapter finds no place, or whose contents are on their way from another engine, is
// passed over and keeps its place (Scheduler.schedule, the loop over self.waiting with skipped_waiting_requests).
func (e *Engine) admit(now time.Duration, budget int32) {
	for slot := e.waiting.head; slot != none && budget > 0 && len(e.running) < int(e.profile.MaxSeqs); {
		s := &e.sequences[slot]
		following := s.next
		if e.deferred(s) {
			slot = following
			continue
		}
		cached := s.computed
		if !s.loaded {
			cached = e.findCached(s)
			if s.RemoteKV && !s.admitted && cached < s.Prompt-1 {
				if !e.seat(s, cached, s.Prompt-cached) {
					return
				}
				e.load(now, slot, cached)
				slot = following
				continue
			}
		}
		n := min(s.total-cached, e.options.LongPrefill, budget)
		if e.options.NoChunkedPrefill && n < s.total-cached {
			return
		}
		if s.loaded {
			s.loaded = false // its blocks are there, and hold the token to compute too
		} else if !e.seat(s, cached, n) {
			return
		}
		e.waiting.remove(e.sequences, slot)
		e.running = append(e.running, slot)
		s.state = isRunning
		if s.Adapter > 0 {
			if e.loraRunning[s.Adapter] == 0 {
				e.lorasLoaded++
			}
			e.loraRunning[s.Adapter]++
		}
		if !s.admitted {
			e.noteAdmission(s, now, cached)
		}
		e.schedule(s, n)
		budget -= n
		e.step.Admitted++
		slot = following
	}
}

// noteAdmission counts the first admission of s, which found cached tokens.
func (e *Engine) noteAdmission(s *sequence, now time.Duration, cached int32) {
	s.admitted = true
	s.timeline.Admitted, s.timeline.Cached = now, cached
	e.counters.PrefixQueries += int64(s.total)
	e.counters.PrefixHits += int64(cached)
}

// deferred reports whether s must wait for contents, or for its adapter, all places being taken by others (Scheduler.schedule:
// WAITING_FOR_REMOTE_KVS; scheduled_loras against lora_config.max_loras).
func (e *Engine) deferred(s *sequence) bool {
	return s.loading || s.Adapter > 0 && e.loraRunning[s.Adapter] == 0 && e.lorasLoaded >= e.options.MaxLoras
}

// findCached collects in e.hits the cached blocks with which s can begin and returns their tokens. The last token is never
// taken from the cache: computing it is what yields the next one (KVCacheManager.get_computed_blocks: max_cache_hit_length is
// num_tokens - 1, and only whole blocks count).
func (e *Engine) findCached(s *sequence) int32 {
	e.hits = e.hits[:0]
	if e.options.NoPrefixCache {
		return 0
	}
	most := min(int((s.total-1)/e.profile.BlockTokens), len(s.Hashes))
	for _, hash := range s.Hashes[:most] {
		b := e.pool.lookup(hash)
		if b == none {
			break
		}
		e.hits = append(e.hits, b)
	}
	return int32(len(e.hits)) * e.profile.BlockTokens
}

// seat gives s the blocks in e.hits and fresh ones for n more tokens, or none and false. Hits that nobody uses come out of the
// free queue and count against it (KVCacheManager.allocate_slots, BlockPool.touch).
func (e *Engine) seat(s *sequence, cached, n int32) bool {
	wanted := e.blocksFor(cached+n) - int32(len(e.hits))
	fromQueue := wanted
	for _, b := range e.hits {
		if e.pool.blocks[b].users == 0 {
			fromQueue++
		}
	}
	if fromQueue > e.pool.free {
		return false
	}
	for _, b := range e.hits {
		e.pool.hold(b)
		s.blocks = append(s.blocks, b)
	}
	for ; wanted > 0; wanted-- {
		s.blocks = append(s.blocks, e.take())
	}
	s.computed = cached
	s.hashed = int32(len(e.hits))
	return true
}

// schedule adds n tokens of s to the step. The blocks that they fill can be hit from here on, even in this step, those filled
// by decoding included (KVCacheManager.allocate_slots ends with cache_blocks).
func (e *Engine) schedule(s *sequence, n int32) {
	s.scheduled = n
	e.step.Sequences++
	if s.total > s.Prompt && n == 1 && s.computed == s.total-1 {
		e.step.Decodes++
		e.step.DecodeContext += int64(s.total)
	} else {
		e.step.PrefillTokens += n
		e.step.PrefillContext += int64(n)*int64(s.computed) + int64(n)*int64(n+1)/2
	}
	e.cache(s, s.computed+n)
}

// cache makes the blocks of s findable that so many tokens fill.
func (e *Engine) cache(s *sequence, tokens int32) {
	if e.options.NoPrefixCache {
		return
	}
	full := min(tokens/e.profile.BlockTokens, int32(len(s.Hashes)))
	for ; s.hashed < full; s.hashed++ {
		if e.pool.setHash(s.blocks[s.hashed], s.Hashes[s.hashed]) && e.options.BlockEvents {
			v := BlockEvent{Kind: Stored, Hash: s.Hashes[s.hashed], Adapter: s.Adapter}
			if s.hashed > 0 {
				v.Parent = s.Hashes[s.hashed-1]
			}
			e.events = append(e.events, v)
		}
	}
}

// complete ends the running step: requests whose tokens are all computed generate one (Scheduler.update_from_output).
func (e *Engine) complete() *Step {
	e.inFlight = false
	e.tokens, e.finished = e.tokens[:0], e.finished[:0]
	now := e.step.End
	e.published = e.published[:0]
	e.publish(now)
	stay := e.running[:0]
	for _, slot := range e.running {
		s := &e.sequences[slot]
		s.computed += s.scheduled
		s.scheduled = 0
		if s.aborted {
			e.stopRunning(slot)
			e.leave(slot)
			continue
		}
		if s.computed < s.total {
			stay = append(stay, slot)
			continue
		}
		if e.generate(now, slot) {
			if s.HoldKV {
				e.dropAdapter(s)
				s.state = isHeld
				continue
			}
			e.stopRunning(slot)
			e.leave(slot)
			continue
		}
		stay = append(stay, slot)
	}
	e.running = stay
	e.counters.Steps++
	e.ended = e.step
	return &e.ended
}

// generate adds a token to the request and reports whether it was the last.
func (e *Engine) generate(now time.Duration, slot int32) bool {
	s := &e.sequences[slot]
	t := &s.timeline
	s.total++
	t.Output++
	before := t.LastToken
	if t.Output == 1 {
		before = t.Arrived
		t.FirstToken = now
		e.counters.PromptTokens += int64(s.Prompt)
		e.counters.CachedPromptTokens += int64(t.Cached)
		e.counters.RemotePromptTokens += int64(t.Remote)
	}
	t.LastToken = now
	e.counters.GenerationTokens++
	id := ID{slot, s.generation}
	last := t.Output == s.Output
	e.tokens = append(e.tokens, Token{ID: id, Count: t.Output, Gap: now - before, Last: last})
	if last {
		e.counters.Finished++
		e.finished = append(e.finished, Finished{ID: id, Timeline: *t})
	}
	return last
}

// blocksFor returns the number of blocks that hold so many tokens.
func (e *Engine) blocksFor(tokens int32) int32 {
	return (tokens + e.profile.BlockTokens - 1) / e.profile.BlockTokens
}
