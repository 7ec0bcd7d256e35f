package flow

import (
	"fmt"
	"slices"
	"time"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// take returns an item for r, in no place yet.
func (c *Control) take(r *plugins.Request, l *line) *item {
	it := c.free
	if it == nil {
		it = &item{}
	} else {
		c.free = it.next
	}
	*it = item{r: r, line: l}
	c.places++
	r.Place = it
	return it
}

// put takes an item back. Nobody else knows of it.
func (c *Control) put(it *item) {
	if it.r != nil {
		it.r.Place = nil
	}
	*it = item{next: c.free}
	c.places--
	c.free = it
}

// place gives it a place in its flow, or refuses it by the bound that is reached.
func (c *Control) place(now pool.Instant, it *item, empty bool) *reason.Refusal {
	r, l := it.r, it.line
	if now-l.swept >= sweepEvery {
		c.sweep(l, now)
	}
	if l.gone { // it came under a configuration of which the pool is no more
		l.gone = false
		c.lines = append(slices.Clone(c.lines), l)
	}
	it.at, it.bytes = now, r.Bytes
	b, _ := c.band(l, r.Target.Priority, now)
	if b == nil {
		return c.full(now, l, empty, fmt.Sprintf("%d priorities wait already, the most that may (maxPriorityBands)", c.rules().MaxBands))
	}
	it.band = b
	c.expire(now, b, empty)
	for _, bound := range [...]struct {
		most, has int64
		name      string
	}{
		{b.MaxRequests, int64(b.requests) + 1, "requests of this priority wait already (maxRequests of its band)"},
		{b.MaxBytes, b.bytes + it.bytes, "bytes of requests of this priority may wait (maxBytes of its band)"},
		{c.rules().MaxRequests, c.requests + 1, "requests wait already (maxRequests)"},
		{c.rules().MaxBytes, c.bytes + it.bytes, "bytes of requests may wait (maxBytes)"},
	} {
		if bound.most > 0 && bound.has > bound.most {
			return c.full(now, l, empty, fmt.Sprintf("%d %s", bound.most, bound.name))
		}
	}
	it.flow = c.flow(l, b, tenant(r), now)
	c.seq++
	it.seq, it.key = c.seq, b.Ordering.Key(r, now, b.TTL)
	slo, ok := ttftSLO(r)
	if ok && c.rules().DropLate {
		it.deadline = now + pool.Instant(slo)
	}
	if _, orders := b.Ordering.(*SLODeadline); !ok && (orders || c.rules().DropLate) && plugins.OddTTFTTarget(r) {
		r.Note(reason.TargetIgnored, "")
	}
	it.state = stateWaits
	r.Stay = &plugins.Stay{Band: b.Priority, Flow: it.flow.ID, Why: whyFull}
	if empty {
		r.Stay.Why = whyEmpty
	}
	if b.requests == 0 && c.rules().Weighted {
		b.pass = max(b.pass, l.pass) // no credit for the time when nobody waited
	}
	b.append(it)
	it.flow.push(it)
	b.entered(it.flow, now)
	if it.flow.timely <= c.rules().LookAhead {
		it.flow.parked = 0 // where the first of its flow find nobody, it may
	}
	c.counts(l, 1, it.bytes)
	return nil
}

// Why a request waits, as its record says.
const (
	whyFull    = "full"
	whyEmpty   = "empty"
	whyNowhere = "nowhere"
	whyChoice  = "choice"
)

// counts keeps the totals.
func (c *Control) counts(l *line, requests, bytes int64) {
	c.requests += requests
	c.bytes += bytes
	l.waiting.Add(requests)
	c.waiting.Add(requests)
}

// full is the refusal for a bound: nobody serves there, or everybody is busy.
func (c *Control) full(now pool.Instant, l *line, empty bool, why string) *reason.Refusal {
	id := reason.QueueFull
	if empty {
		id = reason.NoEndpoint
		why = "its pool has none, and " + why
	}
	return &reason.Refusal{ID: id, Detail: why, RetryAfter: c.retry(now, l)}
}

// tooLate is the refusal for who has waited too long.
func (c *Control) tooLate(now pool.Instant, it *item) *reason.Refusal {
	waited := time.Duration(now - it.at).Round(time.Millisecond)
	switch {
	case it.empty:
		return &reason.Refusal{ID: reason.NoEndpoint, Detail: fmt.Sprintf("it waited %v for the pool's first (noEndpointRequestTTL)", waited), RetryAfter: c.retry(now, it.line)}
	case it.late:
		return &reason.Refusal{ID: reason.QueueTimeout, Detail: fmt.Sprintf("it waited %v, and its first token was wanted by then", waited), RetryAfter: c.retry(now, it.line)}
	}
	bound, why := "defaultRequestTTL", ""
	if it.band.OwnTTL {
		bound = "requestTTL of its band"
	}
	if g := &it.line.gate; g.s.Unread > 0 && g.s.Value >= it.band.ceiling {
		why = "; " + unread(g.s.Unread, g.members)
	}
	return &reason.Refusal{ID: reason.QueueTimeout, Detail: fmt.Sprintf("it waited %v (%s)%s", waited, bound, why), RetryAfter: c.retry(now, it.line)}
}

// unread says why a pool may be full though nothing runs there.
func unread(n, of int) string {
	return fmt.Sprintf("%d of its pool's %d endpoints count as full, since their metrics are missing or stale", n, of)
}

// expire takes out of a band who has waited too long by the pool's present state. They count no longer, and Next hands them out.
func (c *Control) expire(now pool.Instant, b *Band, empty bool) {
	ttl := pool.Instant(b.ttl(empty))
	if ttl <= 0 {
		return
	}
	for it := b.first; it != nil && now-it.at >= ttl; {
		next := it.next
		if it.state == stateWaits { // else its turn has come
			it.empty = empty
			c.out(now, it)
			it.state = stateOver
			c.over = append(c.over, it)
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
			it.late = true
			c.out(now, it)
			it.state = stateOver
			c.over = append(c.over, it)
		}
		it = next
	}
}

// lapseEvery is how often all that yield are looked through.
const lapseEvery = pool.Instant(time.Second)

// out takes it, which waits, out of its flow and band.
func (c *Control) out(now pool.Instant, it *item) {
	it.flow.drop(it)
	it.flow.parked = 0 // others may be asked that stood behind it
	if len(it.flow.heap) == 0 {
		it.band.emptiedAt(it.flow, now)
	}
	c.uncount(now, it)
}

// uncount takes it out of the totals.
func (c *Control) uncount(now pool.Instant, it *item) {
	it.band.remove(it)
	it.band.since = now
	c.counts(it.line, -1, -it.bytes)
}
