package producers

import (
	"sync"
	"time"

	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/quantile"
)

// lengths remembers how long completions were, by keys: at most as many keys as it is told, the one that was not asked for the
// longest time making room. All methods may be called from any goroutine.
type lengths struct {
	most     int
	halfLife pool.Instant
	share    float64 // the quantile that is asked for

	mu          sync.Mutex
	byKey       map[uint64]int32
	entries     []length
	first, last int32 // the one asked for last, and the one asked for longest ago
}

// length is what is known under one key.
type length struct {
	key        uint64
	seen       quantile.Sketch
	at         pool.Instant // up to which seen was halved
	quantile   float64      // of seen
	prev, next int32
}

// nobody ends the list of entries.
const nobody = -1

func newLengths(most int, halfLife time.Duration, share float64) *lengths {
	return &lengths{most: most, halfLife: pool.Instant(halfLife), share: share, byKey: map[uint64]int32{}, first: nobody, last: nobody}
}

// expect returns the quantile under the last of keys that was seen often enough; of those seen less often, and where nothing
// was, the one before stands in, by shares.
func (l *lengths) expect(now pool.Instant, keys [3]uint64, otherwise, enough float64) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range keys {
		i, known := l.byKey[key]
		if !known {
			continue
		}
		l.touch(i)
		e := &l.entries[i]
		seen := e.seen.Count()
		for halvings := (now - e.at) / l.halfLife; halvings > 0 && seen >= 1; halvings-- {
			seen /= 2
		}
		otherwise += float64(min(seen/enough, 1) * (e.quantile - otherwise))
	}
	return otherwise
}

// learn adds a completion's length under each of keys.
func (l *lengths) learn(now pool.Instant, keys [3]uint64, out float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range keys {
		e := l.take(now, key)
		if halvings := int64((now - e.at) / l.halfLife); halvings > 0 {
			e.seen.Halve(halvings)
			e.at += pool.Instant(halvings) * l.halfLife
		}
		e.seen.Add(out)
		e.quantile = e.seen.Quantile(l.share)
	}
}

// take returns the entry of a key, and makes it if there is none.
func (l *lengths) take(now pool.Instant, key uint64) *length {
	i, known := l.byKey[key]
	if known {
		l.touch(i)
		return &l.entries[i]
	}
	if len(l.entries) < l.most {
		i = int32(len(l.entries))
		l.entries = append(l.entries, length{})
	} else {
		i = l.last
		l.unlink(i)
		delete(l.byKey, l.entries[i].key)
	}
	l.entries[i] = length{key: key, at: now}
	l.byKey[key] = i
	l.toFront(i)
	return &l.entries[i]
}

func (l *lengths) touch(i int32) {
	if l.first != i {
		l.unlink(i)
		l.toFront(i)
	}
}

func (l *lengths) unlink(i int32) {
	e := &l.entries[i]
	if e.prev == nobody {
		l.first = e.next
	} else {
		l.entries[e.prev].next = e.next
	}
	if e.next == nobody {
		l.last = e.prev
	} else {
		l.entries[e.next].prev = e.prev
	}
}

func (l *lengths) toFront(i int32) {
	e := &l.entries[i]
	e.prev, e.next = nobody, l.first
	if l.first != nobody {
		l.entries[l.first].prev = i
	}
	l.first = i
	if l.last == nobody {
		l.last = i
	}
}
