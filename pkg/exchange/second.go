package exchange

import (
	"time"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// Replicas that decide within the time that a telling takes do not see each other, and may choose the same endpoint. So a decision is
// looked at a second time: what was chosen is booked and told, the request is held for as long as others' tellings take, and where
// another replica's booking for the same endpoint comes before its own (pool.Books.Meets), it is given back and decided anew. All
// replicas go by the same order, so that of those that meet all but the first move. What is decided anew is looked at as well, a few times
// at most.

// MaxReplicaWait bounds Options.ReplicaWait: who is farther away than that gains nothing by waiting.
const MaxReplicaWait = 20 * time.Millisecond

const (
	// replicasRun is for how long others count as running after one of them was heard to book. Who is met by one that books once
	// in that time is one in a thousand.
	replicasRun = pool.Instant(time.Second)

	// promptOverWait is how many times as long as the wait a prompt has to be computed for it to be worth the wait: that of a request that is held, since a
	// tenth more is the most that it costs, and those of the ones that it meets, since it would wait for them.
	promptOverWait = 20

	// looksMost is how often a decision is looked at again.
	looksMost = 3
)

// SecondLook is what came of a decision that was looked at twice.
type SecondLook struct {
	Held time.Duration `json:"heldNanos"`

	// First is where the request would have gone, had it not been decided anew, and Met says why it was; both are empty where its
	// choice stood.
	First *plugins.Candidate `json:"first,omitempty"`
	Met   string             `json:"met,omitempty"`
}

// looksTwice reports whether what was just booked is worth a second look, inside the pool's lock.
func (x *Exchange) looksTwice(c *plugins.Cycle, books *pool.Books) bool {
	wait, heard := x.s.o.ReplicaWait, books.HeardBooking()
	if wait == 0 || x.looks == looksMost || heard == 0 || x.r.Now-heard > replicasRun || len(c.Candidates) < 2 {
		return false
	}
	for i := range x.legs {
		if books.PromptTakes(x.legs[i].booking) >= promptOverWait*wait {
			return true
		}
	}
	return false
}

// look is the second look, once it is time: what was chosen goes, or is given back and decided anew.
func (x *Exchange) look(now pool.Instant) Action {
	draining := x.s.draining.Load()
	if now < x.lookAt && !draining {
		return Action{Do: Hold}
	}
	plan := x.plan()
	if x.looks++; x.looks == 1 {
		x.second = &SecondLook{}
	}
	x.second.Held += time.Duration(now - x.decided)
	x.decided = now
	met := ""
	x.pool().Decide(func(_ *pool.Snapshot, books *pool.Books) {
		books.At(now)
		if met = x.met(books); met == "" || draining {
			met = ""
			plan.Booked(x.s.o.Sink, &x.r, x.chosen(), books)
			return
		}
		for i := range x.legs {
			books.GiveBack(x.legs[i].booking)
		}
		plan.Unclaim(x.s.o.Sink, &x.r) // before facts are made anew: it is not cached there
	})
	if met == "" {
		return x.commit(now, plan)
	}
	x.freed.Store(true)
	return x.anew(now, plan, met)
}

// met says what speaks against the choice, inside the pool's lock; empty for nothing.
func (x *Exchange) met(books *pool.Books) string {
	for i := range x.legs {
		switch takes, open := books.Meets(x.legs[i].booking); {
		case !open:
			return "the endpoint has left the pool"
		case takes >= promptOverWait*x.s.o.ReplicaWait:
			return "another replica chose the endpoint at the same time, for prompts of " + takes.Round(time.Millisecond).String()
		}
	}
	return ""
}

// anew decides a second time. Where that leaves nobody, or nobody who has room, the first choice stands.
func (x *Exchange) anew(now pool.Instant, plan *plugins.Plan, met string) Action {
	s, first := x.s, plugins.Candidate{Name: x.legs[0].names[0], Address: x.legs[0].addrs[0]}
	c := s.cycle(plan.Index)
	defer s.cycles[plan.Index].Put(c)
	c.Want, c.Record = x.want, s.sampled(x.r.Number)
	booked, decided, again := false, false, false
	snapshot := x.pool().Snapshot()
	no := c.Prepare(&x.r, snapshot, x.pool().StaleAfter(), s.o.Seed, x.may)
	x.pool().Decide(func(snap *pool.Snapshot, books *pool.Books) {
		books.At(now)
		if no == nil && snap != snapshot {
			no = c.Prepare(&x.r, snap, x.pool().StaleAfter(), s.o.Seed, x.may)
		}
		var legs []plugins.Leg
		if no == nil && (len(c.Candidates) == 0 || s.o.Built.Readmit(s.o.Sink, c, books)) {
			legs, no = c.Decide(books)
		}
		if decided = len(legs) > 0; decided {
			x.book(c, legs, books)
			booked, again = true, x.looksTwice(c, books)
		} else {
			booked = x.bookAgain(books)
		}
		if booked && !again {
			plan.Booked(s.o.Sink, &x.r, x.chosen(), books)
		}
	})
	switch {
	case !booked && no != nil:
		return x.refuse(now, no)
	case !booked:
		return x.refuse(now, reason.Refuse(reason.AllFiltered, "%s while its request was held for other replicas, and no other has room", met))
	case decided:
		x.trace = c.Trace
		if x.second.First == nil {
			x.second.First, x.second.Met = &first, met
			x.note(reason.DecidedAnew, first.Name+": "+met)
		}
	}
	if again {
		x.lookAt = now + pool.Instant(s.o.ReplicaWait)
		s.expect(x, x.lookAt)
		return Action{Do: Hold}
	}
	return x.commit(now, plan)
}

// bookAgain books the first choice once more, inside the pool's lock. It reports whether all its endpoints are there.
func (x *Exchange) bookAgain(books *pool.Books) bool {
	for i := range x.legs {
		l := &x.legs[i]
		if l.booking = books.Book(l.refs[0], l.load, x.r.Now+pool.Instant(x.s.o.BookingDeadline)); l.booking == (pool.Booking{}) {
			for k := range i {
				books.GiveBack(x.legs[k].booking)
			}
			return false
		}
	}
	x.plan().Claim(x.s.o.Sink, &x.r, x.chosen(), books)
	return true
}

// chosen returns the legs that are booked, by ids.
func (x *Exchange) chosen() []plugins.Leg {
	legs := make([]plugins.Leg, len(x.legs))
	for i := range x.legs {
		ids := make([]pool.ID, len(x.legs[i].refs))
		for j, ref := range x.legs[i].refs {
			ids[j] = ref.ID
		}
		legs[i] = plugins.Leg{Profile: x.legs[i].profile, Result: plugins.Result{Endpoints: ids}}
	}
	return legs
}

// goesNowhere ends what a request has that was booked and is held for a second look.
func (x *Exchange) goesNowhere(now pool.Instant, why reason.ID) {
	if x.step != stepTold {
		return
	}
	x.booksFall(now)
	x.settleAs(now, why)
	x.freed.Store(true)
}
