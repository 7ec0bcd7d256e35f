package pool

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func three() (out []Endpoint) {
	for i := range 3 {
		out = append(out, Endpoint{Name: fmt.Sprint("pod-", i), Addr: address(i + 1)})
	}
	return out
}

// columns are an endpoint's, as far as they do not depend on who booked.
type columns struct {
	requests, noFirstByte    int32
	prefill, decode, context int64
	backlog                  Instant
}

func columnsOf(p *Pool) (out []columns) {
	p.Decide(func(s *Snapshot, b *Books) {
		for id := range s.Slots {
			out = append(out, columns{b.Requests[id], b.NoFirstByte[id], b.PrefillTokens[id], b.DecodeTokens[id], b.ContextTokens[id], b.BacklogEnds[id]})
		}
	})
	return out
}

// Two pickers that tell each other, whoever books and whatever becomes of it, have the same books; and when one has gone, the other
// is left with its own.
func TestWhoHearsHasTheSameBooks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := Instant(1)
		pools := [2]*Pool{New("a", nil), New("b", nil)}
		var mirrors [2]Mirror // [i] holds what the other one tells pool i
		var mail [2][]Event   // [i] is for pool i
		own := [2]map[Booking]int{{}, {}}
		for i, p := range pools {
			p.Update(now, three())
			p.Follow(func(e Event) { mail[1-i] = append(mail[1-i], e) })
		}
		deliver := func() {
			for i, p := range pools {
				if n := p.Hear(now, &mirrors[i], mail[i]); n != 0 {
					t.Fatalf("%d of %v were of no use", n, mail[i])
				}
				mail[i] = mail[i][:0]
			}
		}
		pick := func(i int) Booking {
			keys := make([]Booking, 0, len(own[i]))
			for h := range own[i] {
				keys = append(keys, h)
			}
			slices.SortFunc(keys, func(a, b Booking) int { return int(a.Slot) - int(b.Slot) })
			return keys[rapid.IntRange(0, len(keys)-1).Draw(t, "which")]
		}
		load := func() Load {
			return Load{UncachedPrefill: rapid.Int64Range(0, 500).Draw(t, "prefill"), Decode: rapid.Int64Range(0, 50).Draw(t, "decode"), Cached: rapid.Int64Range(0, 90).Draw(t, "cached")}
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			i := rapid.IntRange(0, 1).Draw(t, "who")
			p, to := pools[i], ID(rapid.IntRange(0, 2).Draw(t, "to"))
			what := rapid.SampledFrom([]string{"book", "book", "begin", "tell", "move", "end", "wait", "anew"}).Draw(t, "what")
			if len(own[i]) == 0 && what != "wait" && what != "anew" {
				what = "book"
			}
			switch what {
			case "book":
				l := load()
				p.Decide(func(s *Snapshot, b *Books) {
					b.At(now)
					own[i][b.Book(s.Slots[to].Ref, l, now+Instant(time.Second))] = 1
				})
			case "begin":
				p.FirstByte(now, pick(i))
			case "tell":
				p.Progress(now, pick(i), rapid.Int64Range(0, 60).Draw(t, "tokens"))
			case "move":
				p.Move(now, pick(i), p.Snapshot().Slots[to].Ref, load())
			case "end":
				h := pick(i)
				p.End(now, h)
				delete(own[i], h)
			case "wait":
				now += Instant(rapid.IntRange(1, 700).Draw(t, "ms")) * Instant(time.Millisecond)
				for k, p := range pools {
					p.Expire(now)
					for h := range own[k] {
						p.Decide(func(_ *Snapshot, b *Books) {
							if b.find(h) == none {
								delete(own[k], h)
							}
						})
					}
				}
			case "anew":
				mail[1-i] = mail[1-i][:0]
				p.Replay(now, func(e Event) { mail[1-i] = append(mail[1-i], e) })
			}
			deliver()
			for k := range pools {
				if a, b := mirrors[k].Open(), len(own[1-k]); a != b {
					t.Fatalf("after %s: pool %d mirrors %d bookings, the other has %d", what, k, a, b)
				}
			}
			a, b := columnsOf(pools[0]), columnsOf(pools[1])
			for id := range a {
				a[id].backlog, b[id].backlog = 0, 0 // two that book in one instant stand in the order in which each heard of it
			}
			if !slices.Equal(a, b) {
				t.Fatalf("after %s the books differ:\n%+v\n%+v", what, a, b)
			}
		}
		pools[0].Forget(now, &mirrors[0])
		alone := int32(0)
		for _, c := range columnsOf(pools[0]) {
			alone += c.requests
		}
		if int(alone) != len(own[0]) || mirrors[0].Open() != 0 {
			t.Fatalf("%d requests are left of %d own ones, %d mirrored", alone, len(own[0]), mirrors[0].Open())
		}
		pools[0].Decide(func(_ *Snapshot, b *Books) {
			if slices.ContainsFunc(b.Heard, func(n int32) bool { return n != 0 }) {
				t.Fatalf("heard %v after everything was forgotten", b.Heard)
			}
		})
	})
}

func TestWhatIsHeard(t *testing.T) {
	booked := Event{Kind: Booked, Booking: Booking{4, 1}, To: address(1), Load: Load{UncachedPrefill: 100, Decode: 10}, Left: time.Second}
	for _, row := range []struct {
		name     string
		events   []Event
		useless  int
		requests int32
		open     int
	}{
		{"nothing", nil, 0, 0, 0},
		{"a booking", []Event{booked}, 0, 1, 1},
		{"one for an endpoint that is no member", []Event{{Kind: Booked, Booking: Booking{1, 1}, To: address(99)}}, 1, 0, 0},
		{"one in a slot beyond the bound", []Event{{Kind: Booked, Booking: Booking{MaxMirrored, 1}, To: address(1)}}, 1, 0, 0},
		{"one without a generation", []Event{{Kind: Booked, Booking: Booking{1, 0}, To: address(1)}}, 1, 0, 0},
		{"the end of one that is not known", []Event{{Kind: Ended, Booking: Booking{1, 1}}}, 1, 0, 0},
		{"an end", []Event{booked, {Kind: Ended, Booking: booked.Booking}}, 0, 0, 0},
		{"an end that comes twice", []Event{booked, {Kind: Ended, Booking: booked.Booking}, {Kind: Ended, Booking: booked.Booking}}, 1, 0, 0},
		{"an end of another generation", []Event{booked, {Kind: Ended, Booking: Booking{4, 2}}}, 1, 1, 1},
		{"a slot that is taken again, its end unheard", []Event{booked, {Kind: Booked, Booking: Booking{4, 2}, To: address(2), Left: time.Second}}, 0, 1, 1},
		{"a move to nowhere", []Event{booked, {Kind: Moved, Booking: booked.Booking, To: address(99)}}, 1, 1, 1},
		{"anew", []Event{booked, {Kind: Anew}}, 0, 0, 0},
		{"a prompt", []Event{{Kind: Brought, To: address(1), Chain: []uint64{1}}}, 0, 0, 0},
		{"something that is no event", []Event{booked, {Kind: 77, Booking: booked.Booking}}, 1, 1, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			p, m := New("p", nil), Mirror{}
			p.Update(1, three())
			told := 0
			p.Follow(func(Event) { told++ })
			if n := p.Hear(2, &m, row.events); n != row.useless || m.Open() != row.open {
				t.Errorf("%d useless and %d open; want %d and %d", n, m.Open(), row.useless, row.open)
			}
			requests := int32(0)
			for _, c := range columnsOf(p) {
				requests += c.requests
			}
			if requests != row.requests {
				t.Errorf("%d requests in the books, want %d", requests, row.requests)
			}
			if told != 0 {
				t.Errorf("what was heard was told %d times", told)
			}
		})
	}
}

// A booking whose end is never heard ends by its deadline, as an own one does.
func TestWhatIsHeardExpires(t *testing.T) {
	p, m := New("p", nil), Mirror{}
	p.Update(1, three())
	p.Hear(2, &m, []Event{{Kind: Booked, Booking: Booking{0, 1}, To: address(1), Left: 10}})
	if ended, next := p.Expire(12); ended != 1 || next != 0 {
		t.Errorf("%d ended, next %d; want 1 and none", ended, next)
	}
	if n := p.Hear(13, &m, []Event{{Kind: Ended, Booking: Booking{0, 1}}}); n != 0 || m.Open() != 0 {
		t.Errorf("its end was of use to %d, %d open", 1-n, m.Open())
	}
}

func TestABookingBringsItsPrompt(t *testing.T) {
	p := New("p", nil)
	p.Update(1, three())
	p.Decide(func(s *Snapshot, b *Books) { b.Bring(s.Slots[0].Ref, []uint64{1, 2}, 64) }) // nobody follows
	var got []Event
	p.Follow(func(e Event) { got = append(got, e) })
	p.Decide(func(s *Snapshot, b *Books) {
		b.Bring(s.Slots[1].Ref, []uint64{1, 2}, 64)
		b.Bring(s.Slots[1].Ref, nil, 64)
		b.Bring(Ref{ID: 1, Incarnation: 99}, []uint64{1, 2}, 64)
	})
	p.Follow(nil)
	p.Decide(func(s *Snapshot, b *Books) { b.Bring(s.Slots[0].Ref, []uint64{1, 2}, 64) })
	if len(got) != 1 || got[0].Kind != Brought || got[0].To != address(2) || got[0].Tokens != 64 || !slices.Equal(got[0].Chain, []uint64{1, 2}) {
		t.Errorf("told %+v", got)
	}
}

// What another picker's requests show of an engine is a sign of life; the own ones show it to whoever sends them.
func TestSignsOfLifeAreHeard(t *testing.T) {
	now := Instant(1)
	p := New("a", nil)
	p.Update(now, three())
	var m Mirror
	heardAt := func() (at Instant) {
		p.Decide(func(_ *Snapshot, b *Books) { at = b.Tallies[0].HeardAt })
		return at
	}
	step := func(what string, want Instant, do func()) {
		t.Helper()
		now += 10
		do()
		if got := heardAt(); got != want {
			t.Errorf("%s: last heard at %d, want %d", what, got, want)
		}
	}
	hear := func(e Event) func() {
		e.Booking = Booking{Slot: 1, Generation: 1}
		return func() { p.Hear(now, &m, []Event{e}) }
	}
	var own Booking
	step("an own booking", 0, func() {
		p.Decide(func(s *Snapshot, b *Books) { own = b.Book(s.Slots[0].Ref, Load{Decode: 5}, now+1000) })
	})
	step("an own answer", 0, func() { p.FirstByte(now, own) })
	step("another's booking", 0, hear(Event{Kind: Booked, To: address(1), Left: time.Second}))
	step("another's answer", 41, hear(Event{Kind: Begun}))
	step("its tokens", 51, hear(Event{Kind: Told, Tokens: 5}))
	step("its end", 51, hear(Event{Kind: Ended}))
}
