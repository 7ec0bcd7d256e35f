package sessions

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fairlead/fairlead/pkg/pool"
)

// The table against a map and a list in the order in which sessions were last seen.
func TestTableIsAMapWithABound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 4).Draw(t, "most")
		const ttl = 10
		tab := newTable(most, ttl*time.Nanosecond)
		type known struct {
			to   pool.Ref
			seen pool.Instant
		}
		model, order := map[uint64]known{}, []uint64{}
		gone := func(id uint64) {
			delete(model, id)
			for i := range order {
				if order[i] == id {
					order = append(order[:i], order[i+1:]...)
					return
				}
			}
		}
		now := pool.Instant(0)
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			now += pool.Instant(rapid.IntRange(0, 5).Draw(t, "later"))
			id := uint64(rapid.IntRange(1, 6).Draw(t, "id"))
			ref := pool.Ref{ID: pool.ID(rapid.IntRange(0, 2).Draw(t, "endpoint")), Incarnation: 1}
			switch rapid.IntRange(0, 3).Draw(t, "do") {
			case 0:
				tab.bind(now, id, ref)
				gone(id)
				if len(order) == most {
					gone(order[0])
				}
				model[id], order = known{ref, now}, append(order, id)
			case 1:
				tab.release(id, ref)
				if model[id].to == ref {
					gone(id)
				}
			case 2:
				tab.sweep(now)
				for len(order) > 0 && now-model[order[0]].seen > ttl {
					gone(order[0])
				}
			}
			for id := uint64(1); id <= 6; id++ {
				want, ok := model[id]
				ok = ok && now-want.seen <= ttl
				to, found := tab.find(now, id)
				if found != ok || ok && to != want.to {
					t.Fatalf("session %d: got %v %v, want %v %v", id, to, found, want.to, ok)
				}
			}
			if tab.size() != len(model) || len(tab.entries) > most {
				t.Fatalf("%d sessions in %d entries, want %d in at most %d", tab.size(), len(tab.entries), len(model), most)
			}
		}
	})
}
