package pool

import (
	"net/netip"
	"slices"
	"time"

	"github.com/fairlead/fairlead/pkg/reason"
)

// name is an endpoint's identity in a pool.
type name struct{ namespace, name string }

// Update makes members the membership. An endpoint keeps its ID as long as its namespace and name are listed, and its
// incarnation, sample and books as long as its address stays, too. With one that leaves, its books and bookings go. A Ref
// given in members is ignored; an address of metrics that is not given becomes that of the endpoint. Of two members with
// one name or one address the first counts, the other is noted as DiscoveryRefused. Without a change there is no new
// snapshot. members itself is not kept, its maps are.
func (p *Pool) Update(now Instant, members []Endpoint) {
	defer p.told(now) // with the lock released
	p.mu.Lock()
	defer p.mu.Unlock()
	p.books.At(now)

	members = p.distinct(members)
	old := p.books.snapshot
	byName := make(map[name]ID, len(old.Members))
	for _, id := range old.Members {
		byName[name{old.Slots[id].Namespace, old.Slots[id].Name}] = id
	}
	next := &Snapshot{Version: old.Version + 1, Slots: make([]Endpoint, len(old.Slots), max(len(old.Slots), len(members)))}
	var fresh []Endpoint
	changed := len(members) != len(old.Members) || old.Version == 0
	for _, e := range members {
		id, stays := byName[name{e.Namespace, e.Name}]
		if !stays {
			fresh = append(fresh, e)
			continue
		}
		was := &old.Slots[id]
		e.Ref = was.Ref
		if e.Addr != was.Addr {
			e.Ref = Ref{id, p.incarnate(id)}
		}
		changed = changed || !e.same(was)
		next.Slots[id] = e
	}
	if !changed && len(fresh) == 0 {
		return
	}
	vacant := ID(0)
	for _, e := range fresh {
		for int(vacant) < len(next.Slots) && next.Slots[vacant].Incarnation != 0 {
			vacant++
		}
		if int(vacant) == len(next.Slots) {
			next.Slots = append(next.Slots, Endpoint{})
		}
		e.Ref = Ref{vacant, p.incarnate(vacant)}
		next.Slots[vacant] = e
	}
	next.index()
	p.replace(next)
}

// distinct returns members in the form in which a snapshot keeps them, without doubles.
func (p *Pool) distinct(members []Endpoint) []Endpoint {
	names := make(map[name]bool, len(members))
	addrs := make(map[netip.AddrPort]bool, len(members))
	out := make([]Endpoint, 0, len(members))
	for _, e := range members {
		e.Addr = unmapped(e.Addr)
		if e.Metrics = unmapped(e.Metrics); !e.Metrics.IsValid() {
			e.Metrics = e.Addr
		}
		n := name{e.Namespace, e.Name}
		if names[n] || addrs[e.Addr] {
			p.sink.Note(reason.DiscoveryRefused, "pool "+p.Name+": endpoint "+e.Namespace+"/"+e.Name+" at "+e.Addr.String()+
				": another member has the same name or address; the first counts")
			continue
		}
		names[n], addrs[e.Addr] = true, true
		out = append(out, e)
	}
	return out
}

// incarnate returns the next incarnation of a slot.
func (p *Pool) incarnate(id ID) uint32 {
	for int(id) >= len(p.incarnations) {
		p.incarnations = append(p.incarnations, 0)
	}
	p.incarnations[id]++
	if p.incarnations[id] == 0 {
		p.incarnations[id] = 1 // 0 is that of a vacant slot
	}
	return p.incarnations[id]
}

// replace publishes the next snapshot. Slots whose incarnation changed begin with empty books.
func (p *Pool) replace(next *Snapshot) {
	b, old := &p.books, p.books.snapshot
	b.resize(len(next.Slots))
	for i := range next.Slots {
		if i >= len(old.Slots) || old.Slots[i].Incarnation != next.Slots[i].Incarnation {
			b.reset(ID(i), p.options.PrefillPerToken)
		}
	}
	b.snapshot = next
	for i := range b.entries { // one pass for all that left: their columns are zero by now
		if b.entries[i].place != none && !next.Alive(b.entries[i].to) {
			b.release(int32(i))
		}
	}
	p.snapshot.Store(next)
}

// resize gives every column a cell per slot. Slots are never fewer than before.
func (b *Books) resize(n int) {
	b.Requests = wide(b.Requests, n)
	b.Heard = wide(b.Heard, n)
	b.NoFirstByte = wide(b.NoFirstByte, n)
	b.AfterSample = wide(b.AfterSample, n)
	b.PrefillTokens = wide(b.PrefillTokens, n)
	b.DecodeTokens = wide(b.DecodeTokens, n)
	b.BacklogEnds = wide(b.BacklogEnds, n)
	b.PrefillPerToken = wide(b.PrefillPerToken, n)
	b.ContextTokens = wide(b.ContextTokens, n)
	b.SinceSample = wide(b.SinceSample, n)
	b.Tallies = wide(b.Tallies, n)
	b.meters = wide(b.meters, n)
	b.Samples = wide(b.Samples, n)
	b.Ceilings, b.Doubts = wide(b.Ceilings, n), wide(b.Doubts, n)
	b.after = wide(b.after, n)
}

func wide[T any](column []T, n int) []T {
	return append(column, make([]T, n-len(column))...)
}

// reset empties the cells of a slot.
func (b *Books) reset(id ID, perToken time.Duration) {
	b.Requests[id], b.Heard[id], b.NoFirstByte[id], b.AfterSample[id] = 0, 0, 0, 0
	b.PrefillTokens[id], b.DecodeTokens[id] = 0, 0
	b.BacklogEnds[id], b.PrefillPerToken[id] = 0, perToken
	b.SinceSample[id] = 0
	b.ContextTokens[id], b.Tallies[id], b.meters[id] = 0, Tally{}, meter{at: b.clock}
	b.Samples[id], b.Ceilings[id], b.Doubts[id] = NoSample(), Ceiling{}, Doubt{}
	b.after[id] = chain{none, none}
}

// Observe keeps what the engine behind an endpoint said. A stale Ref, or a sample asked for before the last one, changes
// nothing.
//
// A sample of another process than the last one tells of a restart: the incarnation rises, so that what was known of the
// old process's cache is dropped. Bookings that the last sample saw ended with that process; those made since
// may have reached the new one and stay.
func (p *Pool) Observe(now Instant, of Ref, s Sample) {
	defer p.told(now) // with the lock released
	p.mu.Lock()
	defer p.mu.Unlock()
	b := &p.books
	b.At(now)
	if !b.snapshot.Alive(of) {
		return
	}
	s.At = max(s.At, 1) // 0 is the mark of no sample
	last := &b.Samples[of.ID]
	if s.At < last.At {
		return
	}
	if anotherProcess(last, &s) {
		p.restarted(of, last.At)
	} else { // one page without these is no restart
		if s.ProcessStart <= 0 {
			s.ProcessStart = last.ProcessStart
		}
		if s.PromptTokens < 0 {
			s.PromptTokens = last.PromptTokens
		}
	}
	b.touched.add(of.ID)
	b.seen(of.ID, s.At)
	b.doubt(of.ID, &s, p.options.StaleAfter)
	b.Samples[of.ID] = s
}

// Refused says that an engine was asked for its page and nobody listened: its process is gone, or about to go. The next sample
// takes that back. A stale Ref changes nothing.
func (p *Pool) Refused(now Instant, of Ref) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := &p.books
	b.At(now)
	if b.snapshot.Alive(of) && b.Samples[of.ID].Refused == 0 {
		b.touched.add(of.ID)
		b.Samples[of.ID].Refused = max(now, 1)
	}
}

func anotherProcess(last, s *Sample) bool {
	if last.ProcessStart > 0 && s.ProcessStart > 0 {
		return s.ProcessStart != last.ProcessStart
	}
	return s.PromptTokens >= 0 && s.PromptTokens < last.PromptTokens
}

func (p *Pool) restarted(of Ref, lastSeen Instant) {
	b := &p.books
	next := &Snapshot{Version: b.snapshot.Version + 1, Slots: slices.Clone(b.snapshot.Slots)}
	anew := Ref{of.ID, p.incarnate(of.ID)}
	next.Slots[of.ID].Ref = anew
	next.index()
	for i := range b.entries {
		e := &b.entries[i]
		switch {
		case e.place == none || e.to != of:
		case e.at < lastSeen:
			b.remove(int32(i))
			b.release(int32(i))
		default:
			e.to = anew
		}
	}
	b.snapshot = next
	p.snapshot.Store(next)
}

// SetPrefillPerToken replaces what one uncached prompt token is expected to cost an endpoint, from the next booking on.
// Zero or less restores the pool's default. On a stale Ref it does nothing.
func (p *Pool) SetPrefillPerToken(of Ref, cost time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.books.snapshot.Alive(of) {
		return
	}
	if cost <= 0 {
		cost = p.options.PrefillPerToken
	}
	p.books.PrefillPerToken[of.ID] = cost
}
