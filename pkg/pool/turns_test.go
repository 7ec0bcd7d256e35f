package pool

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// book books a prompt of so many tokens at an instant, and returns the booking.
func (p *Pool) bookAt(now Instant, to ID, tokens int64) (h Booking) {
	p.Decide(func(s *Snapshot, b *Books) {
		b.At(now)
		h = b.Book(s.Slots[to].Ref, Load{UncachedPrefill: tokens}, now+Instant(time.Minute))
	})
	return h
}

// meets is what Meets says of it.
func (p *Pool) meets(h Booking) (takes time.Duration, open bool) {
	p.Decide(func(_ *Snapshot, b *Books) { takes, open = b.Meets(h) })
	return takes, open
}

func TestWhatABookingMeets(t *testing.T) {
	const here, there = 0, 1
	second := Instant(time.Second)
	other := func(slot uint32, to int, turn int64) Event {
		return Event{Kind: Booked, Booking: Booking{slot, 1}, To: address(to + 1), Load: Load{UncachedPrefill: 100}, Left: time.Minute, Turn: turn}
	}
	per := 100 * DefaultPrefillPerToken
	own := second / Instant(time.Microsecond) // the turn of a booking at one second
	for _, row := range []struct {
		name   string
		before []Event // heard before the own booking
		first  bool    // of equal turns the other's comes first
		after  []Event
		want   time.Duration
		gone   bool
		change func(p *Pool, now Instant)
	}{
		{name: "nothing was heard"},
		{name: "one that was made before", after: []Event{other(1, here, int64(own)-1)}, want: per},
		{name: "one that was made later yields", after: []Event{other(1, here, int64(own)+1)}},
		{name: "at the same time, and the other's name is first", first: true, after: []Event{other(1, here, int64(own))}, want: per},
		{name: "at the same time, and the own name is first", after: []Event{other(1, here, int64(own))}},
		{name: "another endpoint", after: []Event{other(1, there, int64(own)-1)}},
		{name: "it was known", before: []Event{other(1, here, int64(own)-1)}},
		{name: "told again, as to one that begins to hear", after: []Event{{Kind: Anew}, other(1, here, 0)}},
		{name: "it has ended", after: []Event{other(1, here, 5), {Kind: Ended, Booking: Booking{1, 1}}}},
		{name: "it has moved away", after: []Event{other(1, here, 5), {Kind: Moved, Booking: Booking{1, 1}, To: address(there + 1), Load: Load{UncachedPrefill: 100}}}},
		{name: "it was decided anew, and comes later than all", after: []Event{other(1, here, 5), {Kind: Ended, Booking: Booking{1, 1}}, other(2, here, int64(own)+7)}},
		{name: "two", after: []Event{other(1, here, 5), other(2, here, 6), other(3, there, 7)}, want: 2 * per},
		{name: "the own one has ended", after: []Event{other(1, here, 5)}, gone: true,
			change: func(p *Pool, now Instant) { p.Update(now, three()[1:]) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			p, m := New("p", nil), Mirror{First: row.first}
			p.Update(1, three())
			p.Hear(second, &m, row.before)
			h := p.bookAt(second, here, 50)
			if n := p.Hear(second+1, &m, row.after); n != 0 {
				t.Fatalf("%d events were of no use", n)
			}
			if row.change != nil {
				row.change(p, second+2)
			}
			if takes, open := p.meets(h); takes != row.want || open == row.gone {
				t.Errorf("meets prompts of %v, open %t; want %v, open %t", takes, open, row.want, !row.gone)
			}
		})
	}
}

// Clocks that are apart change who yields, and not that one does; and who knew of a booking comes after it.
func TestOfThoseThatMeetOneStays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 4).Draw(t, "pickers")
		type mail struct {
			due  Instant
			from int
			e    Event
		}
		now, way := Instant(time.Second), Instant(time.Millisecond)
		var pools []*Pool
		var mirrors [4][4]Mirror
		var on []mail
		for i := range n {
			epoch := time.UnixMicro(rapid.Int64Range(1e15, 1e15+3000).Draw(t, "epoch"))
			p := Options{Epoch: epoch}.New(fmt.Sprint(i), nil)
			p.Update(now, three())
			p.Follow(func(e Event) { on = append(on, mail{now + way, i, e}) })
			for k := range n {
				mirrors[i][k].First = k < i
			}
			pools = append(pools, p)
		}
		deliver := func(until Instant) {
			for len(on) > 0 && on[0].due <= until {
				m := on[0]
				on = on[1:]
				for i, p := range pools {
					if i != m.from {
						p.Hear(m.due, &mirrors[i][m.from], []Event{m.e})
					}
				}
			}
			now = until
		}
		type own struct {
			at   Instant
			h    Booking
			knew bool // of all that were made before
		}
		all := make([]own, n)
		for i := range n {
			deliver(now + Instant(rapid.IntRange(0, 700).Draw(t, "us"))*Instant(time.Microsecond))
			knew := true
			for k := range i {
				knew = knew && all[k].at+way <= now
			}
			all[i] = own{now, pools[i].bookAt(now, 0, 50), knew}
		}
		last := now
		deliver(last + 2*way)
		stay := 0
		for i, o := range all {
			takes, _ := pools[i].meets(o.h)
			if takes == 0 {
				stay++
			}
			if i > 0 && o.knew && takes > 0 {
				t.Fatalf("%d knew of all others and is to yield to one", i)
			}
		}
		met := false
		for i := 1; i < n; i++ {
			met = met || all[i].at < all[i-1].at+way
		}
		if stay == 0 || met && n == 2 && stay != 1 {
			t.Fatalf("%d of %d stay", stay, n)
		}
	})
}

func TestWhenOthersWereHeardToBook(t *testing.T) {
	p, m := New("p", nil), Mirror{}
	p.Update(1, three())
	heard := func() (at Instant) {
		p.Decide(func(_ *Snapshot, b *Books) { at = b.HeardBooking() })
		return at
	}
	p.bookAt(5, 0, 10)
	p.Hear(6, &m, []Event{{Kind: Anew}, {Kind: Booked, Booking: Booking{1, 1}, To: address(1), Left: 99}, {Kind: Begun, Booking: Booking{1, 1}}})
	if at := heard(); at != 0 {
		t.Errorf("own bookings, and those that are told again, count: %v", at)
	}
	p.Hear(7, &m, []Event{{Kind: Booked, Booking: Booking{2, 1}, To: address(1), Left: 99, Turn: 3}})
	if at := heard(); at != 7 {
		t.Errorf("heard at %v, want 7", at)
	}
}

// More bookings than are remembered forget the oldest, and turns do not run over.
func TestTurnsAndMeetingsAreBounded(t *testing.T) {
	p, m := New("p", nil), Mirror{First: true}
	p.Update(1, three())
	p.Hear(2, &m, []Event{{Kind: Booked, Booking: Booking{1, 1}, To: address(3), Left: 99, Turn: MaxTurn + 5}})
	h := p.bookAt(3, 0, 10)
	for slot := range uint32(3 * metKept) {
		p.Hear(4, &m, []Event{{Kind: Booked, Booking: Booking{slot + 2, 1}, To: address(1), Load: Load{UncachedPrefill: 1}, Left: time.Minute, Turn: 1}})
	}
	if takes, _ := p.meets(h); takes != metKept*DefaultPrefillPerToken {
		t.Errorf("meets %v", takes)
	}
	p.Follow(func(e Event) {
		if e.Turn != MaxTurn {
			t.Errorf("turn %d, want the greatest", e.Turn)
		}
	})
	p.bookAt(5, 1, 10)
}

func TestGivingBackMakesRoom(t *testing.T) {
	p := New("p", nil)
	p.Update(1, three())
	h := p.bookAt(2, 0, 100)
	var told []Event
	p.Follow(func(e Event) { told = append(told, e) })
	before := p.Changes()
	p.Decide(func(_ *Snapshot, b *Books) {
		if takes := b.PromptTakes(h); takes != 100*DefaultPrefillPerToken {
			t.Errorf("its prompt takes %v", takes)
		}
		if !b.GiveBack(h) || b.GiveBack(h) || b.PromptTakes(h) != 0 {
			t.Error("it was not given back once")
		}
		if b.Requests[0] != 0 || b.PrefillTokens[0] != 0 || b.BacklogEnds[0] > 2 {
			t.Errorf("left: %d requests, %d tokens, backlog until %v", b.Requests[0], b.PrefillTokens[0], b.BacklogEnds[0])
		}
	})
	if p.Changes() == before || len(told) != 1 || told[0].Kind != Ended {
		t.Errorf("changes %d after %d, told %v", p.Changes(), before, told)
	}
}
