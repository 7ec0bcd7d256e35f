package proxy

import (
	"context"
	"fmt"
	"sync"
)

// traffic is what is under way. The zero value is ready.
type traffic struct {
	mu      sync.Mutex
	drained chan struct{} // nil: nobody drains; closed when what was under way then has ended
	flights map[*flight]struct{}
}

// enter counts a request, and reports whether leave is to be called. Those that come while others are waited for are refused
// by the exchange within microseconds, and not waited for.
func (t *traffic) enter(f *flight) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.drained != nil {
		return false
	}
	if t.flights == nil {
		t.flights = map[*flight]struct{}{}
	}
	t.flights[f] = struct{}{}
	return true
}

func (t *traffic) leave(f *flight) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.flights, f)
	t.tell()
}

// tell closes drained when nothing is under way. The caller holds the lock.
func (t *traffic) tell() {
	if t.drained == nil || len(t.flights) > 0 {
		return
	}
	select {
	case <-t.drained:
	default:
		close(t.drained)
	}
}

// drain begins to wait, wakes whoever holds, and returns what is closed in the end.
func (t *traffic) drain() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.drained == nil {
		t.drained = make(chan struct{})
	}
	for f := range t.flights {
		f.Wake()
	}
	t.tell()
	return t.drained
}

// Drain waits until the requests that were under way when it was called have ended; at once if there were none. It is called
// after that of the scheduler, which has those refused that hold and those that come: the port stays open for them, since a
// client takes an answer better than a connection that is refused. When ctx ends first, the error says how many were left.
func (p *Proxy) Drain(ctx context.Context) error {
	select {
	case <-p.traffic.drain():
		return nil
	case <-ctx.Done():
	}
	p.traffic.mu.Lock()
	defer p.traffic.mu.Unlock()
	if n := len(p.traffic.flights); n > 0 {
		return fmt.Errorf("draining the proxy: %d requests had not ended: %w", n, ctx.Err())
	}
	return nil
}
