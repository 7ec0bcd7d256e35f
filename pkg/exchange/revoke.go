package exchange

import (
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// revoke takes a request back that is on its way, or at its engine, and whose answer has not begun: its books fall, it is
// settled with the refusal's reason, and its adapter, woken, finds Reply in place of the answer and resets what it sent. It
// reports whether that was still possible: not once the answer's headers came, and not where the transport's stream has
// ended, since nobody can tell the client then.
func (x *Exchange) revoke(now pool.Instant, no *reason.Refusal) bool {
	x.mu.Lock()
	if x.step != stepForwarded && x.step != stepTold || x.answered || x.settled || x.streamOver {
		if x.step == stepForwarded && !x.answered && !x.settled {
			x.note(reason.NotRevocable, "")
		}
		x.mu.Unlock()
		return false
	}
	x.booksFall(now)
	if x.step == stepForwarded {
		x.settleAs(now, no.ID)
	}
	a := x.refuse(now, no)
	x.revoked, x.pending = &a, nil // it may have been let go so shortly before that nobody fetched that
	x.mu.Unlock()
	x.r.Wake()
	return true
}

// takenBack returns the reply of a request that was revoked, else Ignore: whichever of its calls the adapter makes first has to
// find it.
func (x *Exchange) takenBack() Action {
	if x.revoked != nil {
		return *x.revoked
	}
	return Action{Do: Ignore}
}

// evict takes back whom the queue names, until it names nobody. It reports whether anybody was: then there is room.
func (s *Scheduler) evict(now pool.Instant) (any bool) {
	b := s.o.Built
	for {
		r, no, ok := b.Evict(s.o.Sink, now)
		if !ok {
			return any
		}
		taken := r.Owner.(*Exchange).revoke(now, no)
		b.Evicted(s.o.Sink, now, r, taken)
		any = any || taken
	}
}
