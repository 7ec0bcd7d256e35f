package flow

import (
	"slices"

	"github.com/fairlead/fairlead/pkg/pool"
)

// spare is what is known of the endpoints of one pool that are full. It is brought up to date before each use, by asking about
// those that were written since and those that were full: nothing else can be another, since time alone only makes room. So the
// request of a pool in which nobody is full costs the same however many endpoints there are.
type spare struct {
	of   *pool.Snapshot
	by   Rooms
	seen uint64    // touches of the books that were looked at
	full []pool.ID // those that have no room, of those that take requests: nobody waits for one that drains
	is   []bool    // by ID: it is in full
}

// look brings it up to date, inside the pool's lock.
func (k *spare) look(rooms Rooms, v *View, s *pool.Snapshot) {
	touches := v.Books.Touches()
	if k.of != s || k.by != rooms || touches-k.seen > pool.TouchesKept {
		k.of, k.by, k.full = s, rooms, k.full[:0]
		k.is = append(k.is[:0], make([]bool, len(s.Slots))...)
		for _, id := range s.Open {
			k.ask(rooms, v, id)
		}
		k.seen = touches
		return
	}
	for i := len(k.full) - 1; i >= 0; i-- { // from the end, since one that has room leaves its place to the last
		k.ask(rooms, v, k.full[i])
	}
	last := pool.ID(-1)
	for ; k.seen < touches; k.seen++ {
		if id := v.Books.Touched(k.seen); id != last { // a booking that ends writes twice
			k.ask(rooms, v, id)
			last = id
		}
	}
}

// ask has the detector say whether an endpoint is full.
func (k *spare) ask(rooms Rooms, v *View, id pool.ID) {
	if k.of.Slots[id].Draining {
		return
	}
	switch full := !rooms.HasRoom(v, id); {
	case full && !k.is[id]:
		k.full = append(k.full, id)
		k.is[id] = true
	case !full && k.is[id]:
		i := slices.Index(k.full, id)
		k.full[i] = k.full[len(k.full)-1]
		k.full = k.full[:len(k.full)-1]
		k.is[id] = false
	}
}

// has reports whether an endpoint had room at the last look.
func (k *spare) has(id pool.ID) bool { return !k.is[id] }
