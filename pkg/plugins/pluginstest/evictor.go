package pluginstest

import (
	"sync"
	"time"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// Evictor is a queue that lets everybody through, and takes the first request back when it is told to. It is made by NewEvictor.
type Evictor struct {
	mu     sync.Mutex
	sent   []*plugins.Request
	victim *plugins.Request
	taken  chan bool
}

var (
	_ plugins.Queue   = (*Evictor)(nil)
	_ plugins.Evictor = (*Evictor)(nil)
)

// NewEvictor returns an Evictor that has nobody.
func NewEvictor() *Evictor { return &Evictor{taken: make(chan bool, 1)} }

// TakeBack names the first request that was sent, has tick ask for it, and waits until it is told whether the request was taken:
// somebody else who asks queues at that time may be the one who does it.
func (q *Evictor) TakeBack(tick func()) (taken bool) {
	q.mu.Lock()
	q.victim = q.sent[0]
	q.mu.Unlock()
	tick()
	return <-q.taken
}

// Admitted keeps the request.
func (q *Evictor) Admitted(r *plugins.Request, _ pool.Ref, _ pool.Load) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sent = append(q.sent, r)
}

// Evict names the victim, once, with a refusal that says 7 s in Retry-After.
func (q *Evictor) Evict(pool.Instant) (r *plugins.Request, no *reason.Refusal, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r, q.victim = q.victim, nil
	return r, &reason.Refusal{ID: reason.Evicted, RetryAfter: 7 * time.Second}, r != nil
}

// Evicted tells TakeBack.
func (q *Evictor) Evicted(_ pool.Instant, _ *plugins.Request, taken bool) { q.taken <- taken }

// Evicts reports that it may.
func (*Evictor) Evicts() bool { return true }

// Phase is that of a queue.
func (*Evictor) Phase() plugins.Phase { return plugins.AtAdmit }

// Enter lets everybody through.
func (*Evictor) Enter(*plugins.Request) plugins.Verdict { return plugins.Verdict{} }

// Attach needs no pools.
func (*Evictor) Attach([]*pool.Pool, reason.Sink) {}

// Next has nobody who waits.
func (*Evictor) Next(pool.Instant) (*plugins.Request, *reason.Refusal, bool) { return nil, nil, false }

// Fits says that there is room.
func (*Evictor) Fits(*plugins.Cycle, *pool.Books) (bool, *reason.Refusal) { return true, nil }

// Suits lets a request go anywhere.
func (*Evictor) Suits(*plugins.Cycle, []plugins.Leg) bool { return true }

// Nobody has nobody wait.
func (*Evictor) Nobody(*plugins.Request, *reason.Refusal) bool { return false }

// Leave knows of nobody.
func (*Evictor) Leave(*plugins.Request) {}

// Deadline is none.
func (*Evictor) Deadline() pool.Instant { return 0 }

// Drain has nobody to hand out.
func (*Evictor) Drain() {}
