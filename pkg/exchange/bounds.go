package exchange

import (
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/reason"
)

// crowded refuses a request that is one too many.
func (x *Exchange) crowded() *reason.Refusal {
	limit := x.s.o.MaxRequests
	if limit <= 0 || x.s.running.Load() <= int64(limit) {
		return nil
	}
	return reason.Refuse(reason.TooManyRequests, "at most %d", limit)
}

// outsized refuses headers that are too many or too long.
func (x *Exchange) outsized(h openai.Headers) *reason.Refusal {
	if limit := x.s.o.MaxHeaderCount; limit > 0 && len(h) > limit {
		return reason.Refuse(reason.HeadersTooLarge, "%d headers; at most %d", len(h), limit)
	}
	bytes := 0
	for i := range h {
		bytes += len(h[i].Name) + len(h[i].Value)
	}
	if limit := x.s.o.MaxHeaderBytes; limit > 0 && bytes > limit {
		return reason.Refuse(reason.HeadersTooLarge, "%d bytes of headers; at most %d", bytes, limit)
	}
	return nil
}

// hold counts bytes of the body as held, and refuses when those of all bodies are too many.
func (x *Exchange) hold(n int) *reason.Refusal {
	x.body.held += int64(n)
	all, limit := x.s.held.Add(int64(n)), x.s.o.MaxHeldBytes
	if limit <= 0 || all <= limit {
		return nil
	}
	return reason.Refuse(reason.HeldBytesFull, "at most %d bytes of all bodies together", limit)
}

// letGoOfBytes says that the body is not held any more.
func (x *Exchange) letGoOfBytes() {
	if x.body.held > 0 {
		x.s.held.Add(-x.body.held)
		x.body.held = 0
	}
}

// unscanned returns how much of the next n bytes of the body is read.
func (x *Exchange) unscanned(n int) int {
	limit := x.s.o.MaxScanBytes
	if over := x.body.bytes - limit; limit > 0 && over > 0 {
		return max(n-int(min(over, int64(n))), 0)
	}
	return n
}
