package engine

import "time"

// Quiet returns an instant before which no request ends or gets its first token, provided that nothing is added, loaded,
// aborted or slowed down until then. It is a lower bound and may be asked for again when it has come: it is the end of the
// running step at least, and far beyond where requests only decode. A host of several engines in virtual time need not look
// at this one earlier. Without a running step it means nothing.
func (e *Engine) Quiet() time.Duration {
	n := e.plain()
	if n == 0 {
		return e.step.End
	}
	// With blocks enough nobody is preempted, and no step is shorter than the one before: contexts grow.
	for most := int32(len(e.running)); n > 0 && (n/e.profile.BlockTokens+1)*most > e.pool.free; {
		n /= 2
	}
	return e.step.End + time.Duration(n)*e.duration(e.step.Load)
}
