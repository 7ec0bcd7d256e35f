package policy

import (
	"fmt"
	"slices"

	"github.com/fairlead/fairlead/pkg/pool"
)

// grapevine brings what schedulers tell of their bookings to the others, some time later. What is told within a tenth of that
// time goes together.
type grapevine struct {
	delay  pool.Instant
	told   [][]pool.Event // by who tells, since the last letter
	mail   []letter       // in order of due
	hears  []*Production
	mirror [][]pool.Mirror // by who hears, then who tells
	last   pool.Instant    // of spread
}

type letter struct {
	due    pool.Instant
	from   int
	events []pool.Event
}

// acquaint has the schedulers tell each other.
func (r *replicas) acquaint(delay pool.Instant) error {
	g := &grapevine{delay: delay, told: make([][]pool.Event, len(r.all))}
	for i, d := range r.all {
		it, ok := d.(interface{ production() *Production })
		if !ok {
			return fmt.Errorf("only a configuration tells others of its bookings")
		}
		p := it.production()
		g.hears = append(g.hears, p)
		g.mirror = append(g.mirror, make([]pool.Mirror, len(r.all)))
		p.pool.Follow(func(e pool.Event) {
			e.Chain = slices.Clone(e.Chain)
			g.told[i] = append(g.told[i], e)
		})
	}
	r.grapevine = g
	return nil
}

// spread delivers what has arrived and sends what was told. It returns when to call it again, 0 for when something was decided.
func (g *grapevine) spread(now pool.Instant, busy bool) pool.Instant {
	if g == nil {
		return 0
	}
	g.last = now
	for len(g.mail) > 0 && g.mail[0].due <= now {
		l := g.mail[0]
		g.mail = g.mail[1:]
		for at, p := range g.hears {
			if at != l.from {
				p.scheduler.Hear(now, p.pool, &g.mirror[at][l.from], l.events)
			}
		}
	}
	for from, events := range g.told {
		if len(events) > 0 {
			g.mail = append(g.mail, letter{now + g.delay, from, events})
			g.told[from] = nil
		}
	}
	if len(g.mail) == 0 && !busy {
		return 0
	}
	return now + max(g.delay/10, 1)
}

// flush delivers what is on its way.
func (g *grapevine) flush() {
	if g == nil {
		return
	}
	g.spread(g.spread(g.last, true)+g.delay, false) // what was told leaves with the first, and is there at the second
}
