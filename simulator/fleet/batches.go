package fleet

import (
	"math/rand/v2"

	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/simulator/engine"
)

// Batch is what a step of an engine changed in its prefix cache: one message of vLLM's stream of KV cache events.
type Batch struct {
	// Sequence numbers the batches of a process from 0. A number that does not come was lost; one that comes again, or a lower
	// one, is another process's.
	Sequence uint64

	// At is when it was published.
	At pool.Instant

	// Whole says that Events are not a step's changes but all that is cached after this batch, as asked for; see
	// [Listener.Blocks].
	Whole bool

	Events []engine.BlockEvent
}

// Listener is a decider that hears the engines' cache events. Engines make none for others.
type Listener interface {
	Decider

	// Blocks brings a batch of a listed member, as late and lossy as the scenario says. Those of one member come in the order in
	// which it published them, and all that are due come before the next decision. b is valid during the call.
	//
	// It returns whether the listener asks the member for all that it caches. The answer is a batch that is Whole, comes in order
	// with the others, as late as they, and cannot be lost; a member that is gone or cut off does not answer.
	Blocks(now pool.Instant, member int32, b *Batch) (ask bool)
}

// Onlooker is a decider that looks into the engines themselves: none that could be built, but a bound for those that can.
type Onlooker interface {
	Decider

	// Look gives it the way to look, before the run begins: how many of a chain's first blocks a member has in its cache at this
	// very instant. Nothing is cached in a member that is gone.
	Look(cached func(member int32, hashes []uint64) int)
}

// hwm bounds the batches on their way from one member (vLLM's default for its publisher's socket); those beyond are lost.
const hwm = 100_000

// outbox are the batches that are on their way from a member, in order.
type outbox struct {
	random  *rand.Rand
	batches []sent
	events  []engine.BlockEvent // of batches, in order
	first   int                 // of batches that was not brought yet
	begins  int                 // its events
	asked   bool                // a whole batch is on its way
	gap     bool                // what is published is lost
}

// sent is a batch on its way.
type sent struct {
	sequence uint64
	at, due  pool.Instant
	events   int // how many
	whole    bool
}

// publish sends the batches that are in events on their way. They begin with the number of the first.
func (f *Fleet) publish(p *pod, events []engine.BlockEvent) {
	for len(events) > 0 {
		n := 1
		for n < len(events) && events[n].Batch == events[0].Batch {
			n++
		}
		f.result.Batches++
		t, o := &f.telemetry, &p.outbox
		// Each draws the same numbers whatever becomes of it, so that a knob moves nothing but itself.
		lost, late := o.random.Float64() < t.EventLoss, pool.Instant(o.random.Float64()*float64(t.EventJitter))
		if lost || o.gap || len(o.batches)-o.first >= hwm {
			f.result.BatchesLost++
		} else {
			o.send(sent{sequence: events[0].Batch, at: pool.Instant(events[0].At), due: pool.Instant(events[0].At) + t.EventDelay + late, events: n}, events[:n])
		}
		events = events[n:]
	}
}

// send appends a batch. It comes no sooner than the one before, which it waits behind: a connection keeps the order.
func (o *outbox) send(s sent, events []engine.BlockEvent) {
	if o.first > len(o.batches)/2 {
		o.batches = o.batches[:copy(o.batches, o.batches[o.first:])]
		o.events = o.events[:copy(o.events, o.events[o.begins:])]
		o.first, o.begins = 0, 0
	}
	o.batches, o.events = append(o.batches, s), append(o.events, events...)
}

// hear brings every batch that is due, before a decision, and all pods forward for it.
func (f *Fleet) hear() {
	if f.listener == nil && !f.watched {
		return
	}
	for _, p := range f.pods {
		f.bring(p)
		f.deliver(p)
	}
}

func (f *Fleet) deliver(p *pod) {
	o := &p.outbox
	for o.first < len(o.batches) && o.batches[o.first].due <= f.now {
		s := o.batches[o.first]
		events := o.events[o.begins : o.begins+s.events]
		o.first++
		o.begins += s.events
		if s.whole {
			o.asked = false
		}
		b := Batch{Sequence: s.sequence, At: s.at, Whole: s.whole, Events: events}
		if f.listener.Blocks(f.now, p.number, &b) {
			f.tellWhole(p)
		}
	}
}

// tellWhole has a member tell all that it caches, unless it is already on its way.
func (f *Fleet) tellWhole(p *pod) {
	o := &p.outbox
	if o.asked || o.gap || !p.up || p.hung || p.engine.Batches() == 0 {
		return
	}
	o.asked = true
	all := p.engine.AppendCached(nil)
	o.send(sent{sequence: p.engine.Batches() - 1, at: f.now, due: f.now + f.telemetry.EventDelay, events: len(all), whole: true}, all)
}

// cutOff drops what is on its way from a member that is listed no more: nobody is connected to it.
func (p *pod) cutOff() {
	o := &p.outbox
	o.batches, o.events, o.first, o.begins, o.asked = o.batches[:0], o.events[:0], 0, 0, false
}

// look returns how much of a chain a member caches.
func (f *Fleet) look(member int32, hashes []uint64) int {
	if p := f.pods[member]; p.up {
		return p.engine.Cached(hashes)
	}
	return 0
}
