package engine

import "time"

// Skipped is a row of steps that were made at once.
type Skipped struct {
	// Steps are those that ended, in order, as Result.Ended would have told them one by one.
	Steps []Step

	// IDs are the requests that decoded in every one of them, in the order in which they run. Each generated a token at the
	// end of each step; none finished.
	IDs []ID

	// Blocks is what became cached and was evicted, as in Result.Blocks; At tells with which step.
	Blocks []BlockEvent
}

// Skip makes, at once, the steps of which nothing is to be told but that every running request decoded another token: while
// no request ends, is admitted, preempted or aborted, and while steps end until the instant until. It stops before the first
// other step; that one is Step's. What follows is the same as without Skip. The slices are valid until the next call.
//
//	for {
//		next, busy := e.Next()
//		if !busy || next > until { break }
//		if k := e.Skip(until); len(k.Steps) > 0 { … }
//		else { r := e.Step(next); … }
//	}
//
// Cost is O(running requests) in all, and per step O(1) and O(1) for each block that is taken or filled.
func (e *Engine) Skip(until time.Duration) Skipped {
	e.skipped = e.skipped[:0]
	e.published = e.published[:0]
	n := e.plain()
	if n == 0 || e.step.End > until {
		return Skipped{}
	}
	e.sortByPhase()
	width := e.profile.BlockTokens
	context := e.step.DecodeContext
	decodes := int32(len(e.running))
	for made := int32(0); made < n && e.step.End <= until; made++ {
		// The step that begins next takes a block for each request whose blocks are full, and fills one for each that
		// computes a block's last token. Requests were sorted by their place in the block at the running step.
		place := (made + 1) % width
		takers := e.phase(width - place)        // at place 0 then
		fillers := e.phase(2*width - 1 - place) // at place width-1 then
		if int32(len(takers)) > e.pool.free {
			break
		}
		e.publish(e.step.End)
		e.skipped = append(e.skipped, e.step)
		e.takeAndFill(takers, fillers, made+1)
		context += int64(decodes)
		e.step = Step{Start: e.step.End, Load: Load{Sequences: decodes, Decodes: decodes, DecodeContext: context}}
		e.step.End = e.step.Start + e.duration(e.step.Load)
	}
	return e.settle()
}

// plain returns how many steps, the running one first, can end without more to tell than a token for each running request;
// blocks aside, which Skip watches.
func (e *Engine) plain() int32 {
	if !e.inFlight || int(e.step.Decodes) != len(e.running) || len(e.running) > int(e.profile.MaxBatchedTokens) {
		return 0
	}
	if e.waiting.length > 0 && len(e.running) < int(e.profile.MaxSeqs) && len(e.running) < int(e.profile.MaxBatchedTokens) {
		return 0 // the next step might admit somebody
	}
	n := e.sequences[e.running[0]].Output
	for _, slot := range e.running {
		s := &e.sequences[slot]
		if s.aborted {
			return 0
		}
		n = min(n, s.Output-s.timeline.Output-1)
	}
	return n
}

// sortByPhase sorts the running requests, stably, by the place in its block of the token that each computes in the running
// step: those at place p stand in e.phased from e.phases[p] to e.phases[p+1].
func (e *Engine) sortByPhase() {
	width := int(e.profile.BlockTokens)
	if len(e.phases) != width+1 {
		e.phases = make([]int32, width+1)
	}
	clear(e.phases)
	if cap(e.phased) < len(e.running) {
		e.phased = make([]int32, len(e.running), 2*len(e.running))
	}
	e.phased = e.phased[:len(e.running)]
	for _, slot := range e.running {
		e.phases[int(e.sequences[slot].computed)%width]++
	}
	var at int32
	for p, n := range e.phases {
		e.phases[p] = at
		at += n
	}
	for i, slot := range e.running {
		p := int(e.sequences[slot].computed) % width
		e.phased[e.phases[p]] = int32(i)
		e.phases[p]++
	}
	copy(e.phases[1:], e.phases[:width])
	e.phases[0] = 0
}

// phase returns the places in e.running of the requests that are at place p, modulo the width of a block.
func (e *Engine) phase(p int32) []int32 {
	p %= e.profile.BlockTokens
	return e.phased[e.phases[p]:e.phases[p+1]]
}

// takeAndFill does to the cache what a step does in which takers need a block and fillers fill theirs, in the order in which
// the requests run. ahead is how many tokens they are beyond s.computed.
func (e *Engine) takeAndFill(takers, fillers []int32, ahead int32) {
	for len(takers) > 0 || len(fillers) > 0 {
		if len(fillers) == 0 || len(takers) > 0 && takers[0] <= fillers[0] {
			s := &e.sequences[e.running[takers[0]]]
			s.blocks = append(s.blocks, e.take())
			takers = takers[1:]
			continue
		}
		s := &e.sequences[e.running[fillers[0]]]
		e.cache(s, s.computed+ahead+1)
		fillers = fillers[1:]
	}
}

// settle moves every running request on by the steps in e.skipped.
func (e *Engine) settle() Skipped {
	n := int32(len(e.skipped))
	if n == 0 {
		return Skipped{}
	}
	last := e.skipped[n-1].End
	e.skipIDs = e.skipIDs[:0]
	for _, slot := range e.running {
		s := &e.sequences[slot]
		s.computed += n
		s.total += n
		s.timeline.Output += n
		s.timeline.LastToken = last
		e.skipIDs = append(e.skipIDs, ID{slot, s.generation})
	}
	e.counters.Steps += int64(n)
	e.counters.GenerationTokens += int64(n) * int64(len(e.running))
	k := Skipped{Steps: e.skipped, IDs: e.skipIDs, Blocks: e.published}
	e.ended = e.skipped[n-1]
	e.victims = e.victims[:0]
	return k
}
