package plugins_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// world is a pool of endpoints e0, e1 … and a cycle over the first plan of a configuration.
type world struct {
	built   *plugins.Built
	pool    *pool.Pool
	cycle   *plugins.Cycle
	request plugins.Request
	notes   notes
	now     pool.Instant
	seed    uint64
	among   func(*pool.Endpoint) bool
}

type notes map[reason.ID][]string

func (n notes) Note(id reason.ID, detail string) { n[id] = append(n[id], detail) }

func newWorld(t testing.TB, b *plugins.Built, endpoints int) *world {
	t.Helper()
	w := &world{built: b, notes: notes{}, now: 1}
	w.pool = pool.New("default", w.notes)
	w.pool.Update(w.now, members(endpoints))
	w.cycle = b.Plans[0].NewCycle(w.notes)
	w.cycle.Want = 1
	return w
}

func members(n int) []pool.Endpoint {
	out := make([]pool.Endpoint, n)
	for i := range out {
		out[i] = pool.Endpoint{
			Namespace: "default", Name: fmt.Sprintf("e%d", i),
			Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 8000),
		}
	}
	return out
}

// decide runs one decision for the request with this number, as far as the booking.
func (w *world) decide() ([]plugins.Leg, *reason.Refusal) {
	r := &w.request
	number, body, headers := r.Number, r.Body, r.Headers
	r.Prepare(w.built, nil)
	r.Number, r.Body, r.Headers, r.Now, r.API, r.PoolIndex = number, body, headers, w.now, openai.ChatCompletions, 0
	if no := w.built.Plans[0].Describe(w.notes, r); no != nil {
		return nil, no
	}
	if no := w.cycle.Prepare(r, w.pool.Snapshot(), w.pool.StaleAfter(), w.seed, w.among); no != nil {
		return nil, no
	}
	var legs []plugins.Leg
	var no *reason.Refusal
	w.pool.Decide(func(_ *pool.Snapshot, books *pool.Books) {
		books.At(w.now)
		if legs, no = w.cycle.Decide(books); no == nil {
			w.built.Plans[0].Claim(w.notes, r, legs, books)
			w.built.Plans[0].Booked(w.notes, r, legs, books)
		}
	})
	return legs, no
}

func (w *world) mustDecide(t testing.TB) []plugins.Leg {
	t.Helper()
	legs, no := w.decide()
	if no != nil {
		t.Fatal(no)
	}
	return legs
}
