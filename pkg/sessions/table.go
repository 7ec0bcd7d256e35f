package sessions

import (
	"sync"
	"time"

	"github.com/fairlead/fairlead/pkg/pool"
)

// table remembers to which endpoint of a pool each session went last. It holds at most as many sessions as it is told; the one
// that was not seen for the longest time makes room. All methods may be called from any goroutine.
type table struct {
	most int
	ttl  time.Duration

	mu      sync.Mutex
	byID    map[uint64]int32
	entries []session
	first   int32 // the session last seen; none if there is none
	last    int32 // the one seen longest ago
	free    int32 // of entries without a session, linked by next
}

// session is an entry of the table, linked in the order in which sessions were last seen.
type session struct {
	id         uint64
	to         pool.Ref
	seen       pool.Instant
	prev, next int32
}

const none = -1

func newTable(most int, ttl time.Duration) *table {
	return &table{most: most, ttl: ttl, byID: map[uint64]int32{}, first: none, last: none, free: none}
}

// find returns where a session went last; ok is false if it is not known, or was not seen for longer than the TTL.
func (t *table) find(now pool.Instant, id uint64) (to pool.Ref, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i, ok := t.byID[id]
	if !ok || t.old(now, i) {
		return pool.Ref{}, false
	}
	return t.entries[i].to, true
}

// bind notes that a session went to an endpoint.
func (t *table) bind(now pool.Instant, id uint64, to pool.Ref) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i, known := t.byID[id]
	switch {
	case known:
		t.unlink(i)
	case len(t.byID) == t.most:
		i = t.last
		t.unlink(i)
		delete(t.byID, t.entries[i].id)
	case t.free != none:
		i, t.free = t.free, t.entries[t.free].next
	default:
		i = int32(len(t.entries))
		t.entries = append(t.entries, session{})
	}
	t.byID[id] = i
	t.entries[i] = session{id: id, to: to, seen: now, prev: none, next: t.first}
	if t.first != none {
		t.entries[t.first].prev = i
	}
	t.first = i
	if t.last == none {
		t.last = i
	}
}

// release forgets a session if it still is where of says.
func (t *table) release(id uint64, of pool.Ref) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i, known := t.byID[id]; known && t.entries[i].to == of {
		t.drop(i)
	}
}

// sweep forgets the sessions that were not seen for longer than the TTL. It takes the time of what it forgets.
func (t *table) sweep(now pool.Instant) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.last != none && t.old(now, t.last) {
		t.drop(t.last)
	}
}

// size returns how many sessions are remembered.
func (t *table) size() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.byID)
}

func (t *table) old(now pool.Instant, i int32) bool {
	return time.Duration(now-t.entries[i].seen) > t.ttl
}

func (t *table) drop(i int32) {
	t.unlink(i)
	delete(t.byID, t.entries[i].id)
	t.entries[i] = session{next: t.free}
	t.free = i
}

func (t *table) unlink(i int32) {
	e := &t.entries[i]
	if e.prev != none {
		t.entries[e.prev].next = e.next
	} else {
		t.first = e.next
	}
	if e.next != none {
		t.entries[e.next].prev = e.prev
	} else {
		t.last = e.prev
	}
}
