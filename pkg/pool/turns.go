package pool

import "time"

// Pickers that choose one endpoint before they hear of each other have to agree on which of them stays, without talking. Each booking
// has a turn, which is told with it: its instant by the wall, in microseconds, or one more than the greatest that was heard of, whichever is later.
// So who knew of a booking comes after it, whatever the clocks say, and of two that did not know of each other the
// one comes first that was made first, as far as the clocks agree. Of equal turns that of one picker comes first, always the same.

// MaxTurn bounds turns, whatever others tell.
const MaxTurn = 1 << 62

// metKept is how many of the bookings that were heard of last are known. In the millisecond for which a booking is looked after
// others make no more.
const metKept = 64

// met are the bookings of other pickers in the order in which they were heard of.
type met struct {
	count uint64
	last  [metKept]Booking // of booking n at n mod metKept
	at    Instant          // when the last was heard of
}

func (m *met) add(h Booking, now Instant) {
	m.last[m.count%metKept] = h
	m.count++
	m.at = max(now, 1)
}

// takeTurn returns the turn of an own booking.
func (b *Books) takeTurn() int64 {
	b.turn = min(max(b.turn+1, b.epochMicros+int64(b.clock)/int64(time.Microsecond)), MaxTurn)
	return b.turn
}

// HeardBooking returns when another picker was last heard to book; 0: never. What it tells of its open bookings when it is heard for
// the first time, or again, does not count.
func (b *Books) HeardBooking() Instant { return b.met.at }

// PromptTakes returns how long the prompt of a booking is expected to be computed at its endpoint, without what waits there; 0 for one
// that has ended.
func (b *Books) PromptTakes(h Booking) time.Duration {
	if i := b.find(h); i != none {
		e := &b.entries[i]
		return time.Duration(after(0, e.work, b.PrefillPerToken[e.to.ID]))
	}
	return 0
}

// Meets returns how long the prompts are expected to be computed of bookings that other pickers made for the endpoint of h, which is an
// own one, that were heard of since h was made, and whose turn is before its own. open is false where h has ended.
func (b *Books) Meets(h Booking) (takes time.Duration, open bool) {
	i := b.find(h)
	if i == none {
		return 0, false
	}
	e := &b.entries[i]
	for n := max(e.met, b.met.count-min(b.met.count, metKept)); n < b.met.count; n++ {
		other := b.met.last[n%metKept]
		if k := b.find(other); k != none && b.entries[k].to == e.to && b.entries[k].before(e) {
			takes += b.PromptTakes(other)
		}
	}
	return takes, true
}

// before reports whether a booking that was heard of comes before an own one.
func (e *entry) before(own *entry) bool {
	return e.turn > 0 && (e.turn < own.turn || e.turn == own.turn && e.first)
}

// GiveBack ends an own booking whose request has gone nowhere. The prompt stays among those that the tallies have counted as booked.
func (b *Books) GiveBack(h Booking) bool {
	ended := b.end(h)
	b.gaveBack = b.gaveBack || ended
	return ended
}
