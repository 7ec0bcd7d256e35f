package flow_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/flow"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/pool"
)

// A request that another replica meets is decided anew among endpoints with room alone, and counts as dispatched once, whatever comes
// of it.
func TestWhoIsDecidedAnewGoesWhereThereIsRoom(t *testing.T) {
	for _, row := range []struct {
		name   string
		full   string // endpoints at which another replica has a request already
		waited bool   // it comes out of the queue
		want   string
		leaves bool
	}{
		{name: "all others have room", want: "b or c"},
		{name: "one has", full: "b", want: "c"},
		{name: "none has", full: "bc", want: "a"},
		{name: "it had waited", full: "b", waited: true, want: "c"},
		{name: "it had waited, and none has room", full: "bc", waited: true, want: "a"},
		{name: "its client goes away", waited: true, leaves: true, want: ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			h := newHouse(t, 3)
			m := pool.Mirror{First: true}
			slot := uint32(0)
			books := func(at byte, turn int64) {
				slot++
				e := pool.Event{Kind: pool.Booked, Booking: pool.Booking{Slot: slot, Generation: 1}, To: h.p.Snapshot().Slots[at-'a'].Addr,
					Load: pool.Load{UncachedPrefill: 5000}, Left: time.Hour, Turn: turn}
				if h.s.Hear(h.now, h.p, &m, []pool.Event{e}) != 0 {
					t.Fatal("what was told is of no use")
				}
			}
			// Whatever is not full is taken for a moment, so that the choice is a.
			others := "bc"
			for i := range len(others) {
				books(others[i], 1)
			}
			if row.waited {
				books('a', 1)
			}
			s := openai.NewSummary()
			s.Complete, s.PromptTokens = true, 2000
			w := &wake{h: h}
			w.x = h.s.Begin(h.now, w)
			h.wants(w.x.Described(h.now, s, exchange.Said{}), exchange.Hold, 0)
			ends := func(slot int) {
				h.s.Hear(h.now, h.p, &m, []pool.Event{{Kind: pool.Ended, Booking: pool.Booking{Slot: uint32(slot), Generation: 1}}})
			}
			if row.waited {
				ends(3)
			}
			if n := h.p.Open(); n != 3 {
				t.Fatalf("%d bookings, want two of the other and its own", n)
			}
			for i := range len(others) {
				if !strings.Contains(row.full, others[i:i+1]) {
					ends(i + 1)
				}
			}
			books('a', 1)
			books('a', 1) // so that those which are full look better
			if row.leaves {
				w.x.End(h.now, exchange.Ending{ByClient: true})
			}
			got := ""
			for range 4 { // what is decided anew is looked at again
				h.now += pool.Instant(time.Millisecond)
				h.s.Tick(h.now)
				if a := w.x.Resume(h.now); a.Do == exchange.Forward {
					got = string(rune('a' + a.To[0].Addr().As4()[3] - 1))
				}
			}
			if got != row.want && (row.want != "b or c" || got != "b" && got != "c") {
				t.Errorf("went to %q, want %q", got, row.want)
			}
			w.x.End(h.now, exchange.Ending{Clean: true})
			h.p.Forget(h.now, &m)
			q := h.built.Queue().(*flow.Queue)
			stats := q.Stats(h.now)
			if h.p.Open() != 0 || stats.Requests != 0 || stats.Places != 0 || q.Deadline() != 0 {
				t.Errorf("left: %d bookings, %s", h.p.Open(), fmt.Sprintf("%+v", stats))
			}
		})
	}
}
