package health

import (
	"net/netip"
	"sync"
	"time"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// endpoint is what is known of one.
type endpoint struct {
	incarnation uint32
	addr        netip.AddrPort
	class       plugins.CapacityClass
	joined      pool.Instant
	alive       pool.Instant // of the last answer that was none of its failures, or of another replica

	state   plugins.HealthState
	why     reason.ID // of the last ejection
	by      phase     // in which it was slow
	since   pool.Instant
	until   pool.Instant // of an ejection; 0 until it is drawn
	strikes int32        // ejections in a row
	told    bool         // that it was ejected was noted
	trials  int32        // open requests that try it
	working int32        // open requests

	fails int32 // requests in a row that it failed
	busy  int32 // answers in a row that it has no room, while it had nothing to do

	prompts float64 // seconds of prefill that were ever expected here
	ahead   float64 // those of them whose answers have not begun

	pace [phases]pace
	at   pool.Instant // when pace was last made to forget

	// Of one evaluation: open flights, and what the request that is being decided would cost.
	open   [phases]pace
	late   [phases]float64
	hung   int
	queues bool // requests wait in its engine
}

// ward is the state of one pool. Its methods are called with mu held.
type ward struct {
	mu        sync.Mutex
	snapshot  *pool.Snapshot // to which at was brought last
	at        []endpoint     // by id
	uncached  []int64        // tokens of the prompt at hand, by id
	classed   *pool.Snapshot // to which the classes were brought last
	flights   []flight
	free      int32
	reference [phases]float64 // the median ratio of time and work over endpoints in use; 0 where there are not two
	longest   float64         // what the longest answer of late is expected to take, in seconds
	compared  pool.Instant    // when endpoints were last compared
	next      pool.Instant    // of the next evaluation
	urgent    bool            // it is due now
	withheld  pool.Instant    // when it was last noted that an ejection was withheld
	scratch   []float64
}

func newWard() *ward { return &ward{free: -1} }

// forgiven is how long an endpoint is in use before its ejections in a row are forgotten.
const forgiven = pool.Instant(time.Minute)

// of returns the state of an endpoint, nil for one that is gone.
func (w *ward) of(ref pool.Ref) *endpoint {
	if ref.Incarnation == 0 || int(ref.ID) >= len(w.at) || w.at[ref.ID].incarnation != ref.Incarnation {
		return nil
	}
	return &w.at[ref.ID]
}

// sync follows the membership. An engine that restarted while it was ejected has shown that it is there, and begins anew with a
// small share.
func (w *ward) sync(now pool.Instant, s *pool.Snapshot) {
	if w.snapshot == s {
		return
	}
	w.snapshot = s
	for len(w.at) < len(s.Slots) {
		w.at = append(w.at, endpoint{})
	}
	for id := range s.Slots {
		is, e := &s.Slots[id], &w.at[id]
		if e.incarnation == is.Incarnation {
			continue
		}
		was := *e
		*e = endpoint{state: plugins.Closed, incarnation: is.Incarnation, addr: is.Addr, joined: now, alive: now, since: now, at: now}
		if is.Incarnation != 0 && was.incarnation != 0 && was.addr == is.Addr && (was.state == plugins.Ejected || was.state == plugins.HalfOpen) {
			e.state, e.why, e.told = plugins.SlowStart, was.why, true
		}
	}
}

// begin opens a flight.
func (w *ward) begin(f flight) (slot int32, generation uint32) {
	if w.free < 0 {
		w.flights = append(w.flights, flight{})
		slot = int32(len(w.flights) - 1)
	} else {
		slot = w.free
		w.free = w.flights[slot].next
	}
	f.used, f.generation = true, w.flights[slot].generation+1
	if f.generation == 0 {
		f.generation = 1 // 0 is that of no flight
	}
	w.flights[slot] = f
	return slot, f.generation
}

// flying returns an open flight, nil for one that has ended.
func (w *ward) flying(h plugins.HealthFlight) *flight {
	if h.Generation == 0 || int(h.Slot) >= len(w.flights) {
		return nil
	}
	if f := &w.flights[h.Slot]; f.used && f.generation == h.Generation {
		return f
	}
	return nil
}

// leaves takes a flight from its endpoint.
func (w *ward) leaves(f *flight) {
	if e := w.of(f.to); e != nil {
		e.working--
		if f.trial {
			e.trials--
		}
		e.answers(f)
	}
	f.trial, f.to = false, pool.Ref{}
}

// answers takes a flight's prompt out of those that are waited for.
func (e *endpoint) answers(f *flight) {
	if f.phase == answering {
		e.ahead = max(e.ahead-f.prefill, 0)
	}
}

func (w *ward) end(slot int32) {
	f := &w.flights[slot]
	w.leaves(f)
	f.used, f.next = false, w.free
	w.free = slot
}

// eject takes an endpoint out. What it did until here counts no more.
func (w *ward) eject(now pool.Instant, id pool.ID, why reason.ID) {
	e := &w.at[id]
	e.state, e.why, e.since, e.until, e.told = plugins.Ejected, why, now, 0, false
	e.strikes = min(e.strikes+1, 16)
	e.fails, e.busy = 0, 0
	e.pace = [phases]pace{}
	for i := range w.flights {
		if f := &w.flights[i]; f.used && f.to == (pool.Ref{ID: id, Incarnation: e.incarnation}) {
			f.past = true
			if f.trial {
				f.trial = false
				e.trials--
			}
		}
	}
	w.urgent = true
}

// restores lets an endpoint take a growing share.
func (e *endpoint) restores(now pool.Instant) {
	e.state, e.since, e.until = plugins.SlowStart, now, 0
	e.fails, e.busy = 0, 0
	e.pace = [phases]pace{}
}

// forget makes what is known of an endpoint's pace count less with time.
func (e *endpoint) forget(now pool.Instant, window time.Duration) {
	keep := kept(time.Duration(now-e.at), window)
	for p := range e.pace {
		e.pace[p].forget(keep)
	}
	e.at = now
}

// soft reports whether an ejection for this reason is a matter of degree, so that only a part of a pool may be out for it. Of
// an endpoint where nobody listens nothing is to be had, however many they are.
func soft(why reason.ID) bool {
	return why != reason.EndpointUnreachable && why != reason.EndpointSilent
}
