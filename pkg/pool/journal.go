package pool

import (
	"net/netip"
	"time"
)

// Event is a change of the own books, as another picker for the same engines needs it to keep books of all requests. An endpoint
// has its address for a name, since IDs are each process's own.
type Event struct {
	Kind    EventKind
	Booking Booking        // of the picker that tells
	To      netip.AddrPort // of Booked, Moved and Brought
	Load    Load           // of Booked and Moved
	Left    time.Duration  // of Booked: until the deadline
	Turn    int64          // of Booked: its turn, at most MaxTurn; 0 of one that is told again, which meets nobody
	Tokens  int64          // of Told: what is or will be generated; of Brought: how many tokens a block has
	Chain   []uint64       // of Brought: the hashes of the prompt's blocks, each for all before it. It is its owner's
}

// EventKind says what has happened.
type EventKind uint8

// The kinds of events. Ended comes exactly once for each booking, whatever its end was.
const (
	Anew EventKind = iota + 1 // what was told before is void: what is open follows
	Booked
	Brought // a request with this prompt was sent there
	Moved   // another endpoint serves
	Begun   // the first byte came
	Told    // the number of tokens is known
	Ended
)

// Follow has f told of each change of the own books, in order and inside the pool's lock: f is short, does not call the pool and
// keeps no chain. Nil takes it away. What is open by then f learns by Replay.
func (p *Pool) Follow(f func(Event)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.books.journal = f
}

// Replay tells f of the own bookings that are open, Anew first. It is atomic: whoever follows has heard of all that was before,
// and hears of all that comes after.
func (p *Pool) Replay(now Instant, f func(Event)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := &p.books
	b.At(now)
	f(Event{Kind: Anew})
	for _, i := range b.due {
		e := &b.entries[i]
		if e.heard {
			continue
		}
		h := Booking{uint32(i), e.generation}
		f(Event{Kind: Booked, Booking: h, To: b.snapshot.Slots[e.to.ID].Addr, Left: b.left(e.deadline),
			Load: Load{UncachedPrefill: e.uncached, Decode: e.decode, Cached: e.prompt - e.uncached, Silent: !e.streams, Long: e.long}})
		if e.begun {
			f(Event{Kind: Begun, Booking: h})
		}
		if e.told {
			f(Event{Kind: Told, Booking: h, Tokens: e.decode})
		}
	}
}

// left returns how long a deadline is away, at least 0.
func (b *Books) left(deadline Instant) time.Duration { return time.Duration(max(deadline-b.clock, 0)) }

// tell passes an event on to who follows, if it is of an own booking.
func (b *Books) tell(i int32, v Event) {
	if b.journal == nil || b.entries[i].heard {
		return
	}
	v.Booking = Booking{uint32(i), b.entries[i].generation}
	b.journal(v)
}

// Bring says that a request with this chain, of blocks of so many tokens, was booked at an endpoint.
func (b *Books) Bring(to Ref, chain []uint64, blockTokens int) {
	if b.journal != nil && len(chain) > 0 && b.snapshot.Alive(to) {
		b.journal(Event{Kind: Brought, To: b.snapshot.Slots[to.ID].Addr, Chain: chain, Tokens: int64(blockTokens)})
	}
}

// Mirror holds the bookings of one other picker in the books of a pool. The zero Mirror holds none.
type Mirror struct {
	// First says that the other's bookings come before the own ones of the same turn. The other says the contrary of this picker's.
	First bool

	held []mirrored // by the other's slot
	open int
}

type mirrored struct {
	theirs uint32 // generation; 0 is none
	ours   Booking
}

// MaxMirrored bounds the open bookings of one other picker; what is beyond is not mirrored.
const MaxMirrored = 1 << 17

// Open returns how many bookings the other has open, as far as it was heard.
func (m *Mirror) Open() int { return m.open }

// Hear brings the books up to date with what another picker tells, in order. Brought changes no books. It returns how many events
// were of no use: for an endpoint that is not a member, a booking that is not known or was ended here before, or beyond MaxMirrored.
// What is heard is told to nobody.
func (p *Pool) Hear(now Instant, m *Mirror, events []Event) (useless int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.books.At(now)
	room := false
	for k := range events {
		v, open := &events[k], m.open
		if !p.books.hear(m, v) {
			useless++
			continue
		}
		room = room || v.Kind != Brought && m.open <= open // not where it is a booking more
	}
	if room {
		p.changed()
	}
	return useless
}

func (b *Books) hear(m *Mirror, v *Event) bool {
	switch v.Kind {
	case Brought:
		return true
	case Anew:
		b.forget(m)
		return true
	}
	slot := int(v.Booking.Slot)
	if slot >= MaxMirrored || v.Booking.Generation == 0 {
		return false
	}
	if v.Kind == Booked {
		id, ok := b.snapshot.Lookup(v.To)
		if !ok {
			return false
		}
		for slot >= len(m.held) {
			m.held = append(m.held, mirrored{})
		}
		at := &m.held[slot]
		if at.theirs != 0 {
			b.end(at.ours)
			m.open--
		}
		turn := min(max(v.Turn, 0), MaxTurn)
		*at = mirrored{v.Booking.Generation, b.book(b.snapshot.Slots[id].Ref, v.Load, b.clock+Instant(max(v.Left, 0)), turn, true)}
		b.entries[at.ours.Slot].first = m.First
		m.open++
		if turn > 0 {
			b.turn = max(b.turn, turn)
			b.met.add(at.ours, b.clock)
		}
		return true
	}
	if slot >= len(m.held) || m.held[slot].theirs != v.Booking.Generation {
		return false
	}
	at := &m.held[slot]
	switch v.Kind {
	case Moved:
		id, ok := b.snapshot.Lookup(v.To)
		return ok && b.move(at.ours, b.snapshot.Slots[id].Ref, v.Load)
	case Begun:
		return b.firstByte(at.ours)
	case Told:
		return b.progress(at.ours, v.Tokens)
	case Ended:
		b.end(at.ours) // or its deadline was first
		*at = mirrored{}
		m.open--
		return true
	}
	return false
}

// Forget ends all that m holds: the other picker has gone, or cannot be heard. It returns how many bookings that were. Whoever
// watches the pool is told, since that makes room.
func (p *Pool) Forget(now Instant, m *Mirror) (ended int) {
	defer p.told(now) // with the lock released
	p.mu.Lock()
	defer p.mu.Unlock()
	p.books.At(now)
	return p.books.forget(m)
}

func (b *Books) forget(m *Mirror) (ended int) {
	for i := range m.held {
		if m.held[i].theirs != 0 && b.end(m.held[i].ours) {
			ended++
		}
		m.held[i] = mirrored{}
	}
	m.open = 0
	return ended
}
