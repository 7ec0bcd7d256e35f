package flow

import (
	"fmt"
	"time"

	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// cause is what ended a wait with a refusal.
type cause uint8

const (
	causeRoom  cause = iota // no room came in time
	causeEmpty              // no endpoint came in time
	causeLate               // its own deadline has passed
	causeWay                // it gave way to another, since a bound was reached
)

// ended are those whose waiting is over and whom Next has not handed out yet, in that order. The zero value has none.
type ended struct{ first, last *item }

// add puts one at the end, O(1).
func (e *ended) add(it *item, why cause) {
	it.state, it.over = stateOver, why
	it.prev, it.next = e.last, nil
	if e.last != nil {
		e.last.next = it
	} else {
		e.first = it
	}
	e.last = it
}

// remove takes one out, O(1).
func (e *ended) remove(it *item) {
	if it.prev != nil {
		it.prev.next = it.next
	} else {
		e.first = it.next
	}
	if it.next != nil {
		it.next.prev = it.prev
	} else {
		e.last = it.prev
	}
	it.prev, it.next = nil, nil
}

// take takes the first out; nil if there is none.
func (e *ended) take() *item {
	it := e.first
	if it != nil {
		e.remove(it)
	}
	return it
}

// vacancy is for how long a pool has had no endpoint, in sum over the time for which somebody watched: whoever waits watches, so
// that a difference of two readings is right for the time of a wait. The zero value is a pool that always had one.
type vacancy struct {
	sum, seen pool.Instant
	empty     bool // as of seen
}

// see notes whether there is none at this instant.
func (v *vacancy) see(now pool.Instant, empty bool) {
	v.sum = v.at(now)
	v.seen, v.empty = max(v.seen, now), empty
}

// at returns the sum. It never falls, also where now is before an instant that was seen.
func (v *vacancy) at(now pool.Instant) pool.Instant {
	if v.empty && now > v.seen {
		return v.sum + now - v.seen
	}
	return v.sum
}

// empty reports whether no endpoint of the line's pool takes requests, and keeps for how long.
func (l *line) empty(now pool.Instant) bool {
	empty := !takes(l.pool.Snapshot())
	l.vacant.see(now, empty)
	return empty
}

// waited returns for how long it has waited: in all, and without an endpoint in its pool.
func (it *item) waited(now pool.Instant) (all, empty time.Duration) {
	return time.Duration(now - it.at), time.Duration(it.line.vacant.at(now) - it.vacant)
}

// outlasts reports whether it has waited for as long as its band lets it, by the pool's present state: for room only the time counts in
// which there was an endpoint to wait for, for an endpoint all the time. Of two in a band who came first outlasts first.
func (it *item) outlasts(now pool.Instant, empty bool) bool {
	ttl := it.band.ttl(empty)
	if ttl <= 0 {
		return false
	}
	all, vacant := it.waited(now)
	if empty {
		return all >= ttl
	}
	return all-vacant >= ttl
}

// expire takes out of a band who has waited too long by the pool's present state. They count no longer, and Next hands them out.
func (c *Control) expire(now pool.Instant, b *Band, empty bool) {
	why := causeRoom
	if empty {
		why = causeEmpty
	}
	for it := b.first; it != nil && it.outlasts(now, empty); {
		next := it.next
		if it.state == stateWaits { // else its turn has come
			c.out(now, it)
			c.over.add(it, why)
		}
		it = next
	}
}

// lapse takes out of a band those that yield and whose own deadline has passed: they would be refused when their turn comes, and
// while later ones come it does not. Next hands them out.
func (c *Control) lapse(now pool.Instant, b *Band) {
	if now-b.lapsed < lapseEvery {
		return
	}
	b.lapsed = now
	for it := b.first; it != b.timely; {
		next := it.next
		if it.state == stateWaits && it.deadline != 0 && now > it.deadline {
			c.out(now, it)
			c.over.add(it, causeLate)
		}
		it = next
	}
}

// lapseEvery is how often all that yield are looked through.
const lapseEvery = pool.Instant(time.Second)

// tell returns the refusal for one whose waiting is over, and counts how it ended.
func (c *Control) tell(now pool.Instant, it *item) *reason.Refusal {
	it.state = stateTold
	no := c.ends(now, it)
	no.RetryAfter = c.retry(now, it.line)
	c.settled(now, it, outcomeOf(no))
	return no
}

// ends says why a wait has ended.
func (c *Control) ends(now pool.Instant, it *item) *reason.Refusal {
	all, vacant := it.waited(now)
	room := (all - vacant).Round(time.Millisecond)
	all, vacant = all.Round(time.Millisecond), vacant.Round(time.Millisecond)
	switch {
	case it.over == causeWay:
		return it.gaveWay(all)
	case it.over == causeLate:
		return reason.Refuse(reason.QueueTimeout, "it waited %v, and its first token was wanted by then", all)
	case it.over == causeEmpty && room > 0:
		return reason.Refuse(reason.NoEndpoint, "it waited %v (noEndpointRequestTTL): %v for room, and %v without an endpoint in its pool", all, room, vacant)
	case it.over == causeEmpty:
		return reason.Refuse(reason.NoEndpoint, "it waited %v for the pool's first (noEndpointRequestTTL)", all)
	}
	bound, why := "defaultRequestTTL", ""
	if it.band.OwnTTL {
		bound = "requestTTL of its band"
	}
	if vacant > 0 {
		why = fmt.Sprintf(", and %v without an endpoint in its pool", vacant)
	}
	if g := &it.line.gate; g.s.Unread > 0 && g.s.Value >= it.band.ceiling {
		why += "; " + unread(g.s.Unread, g.members)
	}
	if g := &it.line.gate; g.s.Short > 0 {
		why += fmt.Sprintf("; %d of its pool's %d endpoints have no memory for more, as their KV usage tells", g.s.Short, g.members)
	}
	return reason.Refuse(reason.QueueTimeout, "it waited %v (%s)%s", room, bound, why)
}

// unread says why a pool may be full though nothing runs there.
func unread(n, of int) string {
	return fmt.Sprintf("%d of its pool's %d endpoints count as full, since their metrics are missing or stale", n, of)
}
