package flow

import (
	"fmt"
	"slices"

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
	it.at, it.bytes, it.vacant = now, r.Bytes, l.vacant.at(now)
	b, _ := c.band(l, r.Target.Priority, now)
	if b == nil {
		return c.full(now, l, empty, fmt.Sprintf("%d priorities wait already, the most that may (maxPriorityBands)", c.rules().MaxBands))
	}
	it.band = b
	c.expire(now, b, empty)
	if why := c.makeWay(now, it); why != "" {
		return c.full(now, l, empty, why)
	}
	it.flow = c.flow(l, b, tenant(r), now)
	c.seq++
	if b.last != nil {
		it.at = max(it.at, b.last.at) // it may have read the clock before another that has its place before it
	}
	it.seq, it.key = c.seq, b.Ordering.Key(r, it.at, b.TTL)
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
	if b.holds[byRequests] == 0 && c.rules().Weighted {
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
	c.holds[byRequests] += requests
	c.holds[byBytes] += bytes
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
