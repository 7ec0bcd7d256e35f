package pool_test

import (
	"testing"

	"github.com/fairlead/fairlead/pkg/pool"
)

func TestChangesRiseWithWhatMayHaveMadeRoom(t *testing.T) {
	p := pool.New("p", nil)
	told := 0
	p.Watch(func(pool.Instant) {
		told++
		p.Decide(func(*pool.Snapshot, *pool.Books) {}) // the lock is released
	})
	p.Update(1, []pool.Endpoint{{Namespace: "ns", Name: "a"}})
	at := p.Snapshot().Slots[0].Ref
	book := func() (b pool.Booking) {
		p.Decide(func(_ *pool.Snapshot, books *pool.Books) { b = books.Book(at, pool.Load{}, 50) })
		return b
	}
	var b pool.Booking
	var m pool.Mirror
	for _, step := range []struct {
		what  string
		do    func()
		rises bool
		tells bool
	}{
		{"a booking", func() { b = book() }, false, false},
		{"a first byte", func() { p.FirstByte(2, b) }, true, false},
		{"progress", func() { p.Progress(2, b, 3) }, true, false},
		{"a move", func() { p.Move(2, b, at, pool.Load{}) }, true, false},
		{"an end", func() { p.End(3, b) }, true, false},
		{"a deadline", func() { book(); p.Expire(60) }, true, false},
		{"no deadline", func() { p.Expire(61) }, false, false},
		{"what another picker books", func() {
			p.Hear(61, &m, []pool.Event{{Kind: pool.Booked, Booking: pool.Booking{Slot: 1, Generation: 1}}, {Kind: pool.Brought}})
		}, false, false},
		{"it books again, its end unheard", func() {
			p.Hear(61, &m, []pool.Event{{Kind: pool.Booked, Booking: pool.Booking{Slot: 1, Generation: 2}}})
		}, true, false},
		{"an end of none of its bookings", func() {
			p.Hear(61, &m, []pool.Event{{Kind: pool.Ended, Booking: pool.Booking{Slot: 1, Generation: 1}}})
		}, false, false},
		{"its first byte", func() {
			p.Hear(61, &m, []pool.Event{{Kind: pool.Begun, Booking: pool.Booking{Slot: 1, Generation: 2}}})
		}, true, false},
		{"its end", func() {
			p.Hear(61, &m, []pool.Event{{Kind: pool.Ended, Booking: pool.Booking{Slot: 1, Generation: 2}}})
		}, true, false},
		{"another picker that has gone", func() { p.Forget(61, &m) }, true, true},
		{"a sample", func() { p.Observe(62, at, pool.NoSample()) }, true, true},
		{"a membership", func() { p.Update(63, nil) }, true, true},
	} {
		before, heard := p.Changes(), told
		step.do()
		if got := p.Changes() > before; got != step.rises {
			t.Errorf("%s: rises is %v, want %v", step.what, got, step.rises)
		}
		if got := told > heard; got != step.tells {
			t.Errorf("%s: told is %v, want %v", step.what, got, step.tells)
		}
	}
	p.Watch(nil)
	before := told
	p.Update(64, nil)
	if told != before {
		t.Error("a watcher that was taken away is told")
	}
}
