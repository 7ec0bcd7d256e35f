package engine

import (
	"strconv"
	"time"
)

// Scheduled is one request's part of a step.
type Scheduled struct {
	ID ID

	// Tokens are computed in the step, behind Computed ones that were there before.
	Computed, Tokens int32

	// Blocks it holds during the step.
	Blocks int32
}

// AppendScheduled appends to dst the parts of the running step, in the order in which the requests run; nothing without one.
func (e *Engine) AppendScheduled(dst []Scheduled) []Scheduled {
	if !e.inFlight {
		return dst
	}
	for _, slot := range e.running {
		if s := &e.sequences[slot]; s.scheduled > 0 {
			dst = append(dst, Scheduled{ID{slot, s.generation}, s.computed, s.scheduled, int32(len(s.blocks))})
		}
	}
	return dst
}

// AppendLog appends one line, without its end, that tells the running step whole: when it begins and ends, in microseconds;
// of each request its slot and generation, the tokens that it computes, those that were there before, and the blocks that it
// holds; who was preempted when the step was put together; how many requests wait and how many blocks are free. Without a
// running step it appends nothing.
//
//	22000-34000 0.1:1@5/2 1.1:7@3/3 preempted 2.1 waiting 1 free 6
func (e *Engine) AppendLog(dst []byte) []byte {
	if !e.inFlight {
		return dst
	}
	micros := func(t time.Duration) { dst = strconv.AppendInt(dst, t.Microseconds(), 10) }
	count := func(before string, n int32) {
		dst = append(dst, before...)
		dst = strconv.AppendInt(dst, int64(n), 10)
	}
	name := func(slot int32, generation uint32) {
		count(" ", slot)
		dst = append(dst, '.')
		dst = strconv.AppendUint(dst, uint64(generation), 10)
	}
	micros(e.step.Start)
	dst = append(dst, '-')
	micros(e.step.End)
	for _, slot := range e.running {
		s := &e.sequences[slot]
		if s.scheduled == 0 {
			continue
		}
		name(slot, s.generation)
		count(":", s.scheduled)
		count("@", s.computed)
		count("/", int32(len(s.blocks)))
	}
	for i, id := range e.victims {
		if i == 0 {
			dst = append(dst, " preempted"...)
		}
		name(id.Slot, id.Generation)
	}
	if e.waiting.length > 0 {
		count(" waiting ", e.waiting.length)
	}
	count(" free ", e.pool.free)
	return dst
}
