package policy

import (
	"fmt"
	"slices"

	"github.com/fairlead/fairlead/pkg/pool"
)

// grapevine brings what schedulers tell of their bookings to the others, some time later.
type grapevine struct {
	delay  pool.Instant
	now    pool.Instant
	mail   []letter // in order of due
	hears  []*Production
	mirror [][]pool.Mirror // by who hears, then who tells
}

// letter is what one tells in an instant.
type letter struct {
	due    pool.Instant
	from   int
	events []pool.Event
}

// acquaint has the schedulers tell each other.
func (r *replicas) acquaint(delay pool.Instant) error {
	g := &grapevine{delay: delay}
	for i, d := range r.all {
		it, ok := d.(interface{ production() *Production })
		if !ok {
			return fmt.Errorf("only a configuration tells others of its bookings")
		}
		p := it.production()
		g.hears = append(g.hears, p)
		mirrors := make([]pool.Mirror, len(r.all))
		for k := range mirrors {
			mirrors[k].First = k < i
		}
		g.mirror = append(g.mirror, mirrors)
		p.pool.Follow(func(e pool.Event) {
			e.Chain = slices.Clone(e.Chain)
			g.tell(i, e)
		})
	}
	r.grapevine = g
	return nil
}

func (g *grapevine) tell(from int, e pool.Event) {
	due := g.now + g.delay
	if n := len(g.mail) - 1; n >= 0 && g.mail[n].from == from && g.mail[n].due == due {
		g.mail[n].events = append(g.mail[n].events, e)
		return
	}
	g.mail = append(g.mail, letter{due, from, []pool.Event{e}})
}

// spread delivers what has arrived by now, each letter at its instant. It comes before whatever happens now.
func (g *grapevine) spread(now pool.Instant) {
	if g == nil {
		return
	}
	for len(g.mail) > 0 && g.mail[0].due <= now {
		l := g.mail[0]
		g.mail = g.mail[1:]
		g.now = l.due
		for at, p := range g.hears {
			if at != l.from {
				p.scheduler.Hear(l.due, p.pool, &g.mirror[at][l.from], l.events)
			}
		}
	}
	g.now = now
}

// next is when something arrives, 0 for never.
func (g *grapevine) next() pool.Instant {
	if g == nil || len(g.mail) == 0 {
		return 0
	}
	return g.mail[0].due
}

// flush delivers what is on its way.
func (g *grapevine) flush() {
	for g.next() != 0 {
		g.spread(g.next())
	}
}
