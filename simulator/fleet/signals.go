package fleet

import (
	"math/rand/v2"

	"github.com/fairlead/fairlead/pkg/pool"
)

// Signals say how well the scheduler sees the engines. The zero Signals are no readings at all.
type Signals struct {
	// Every is the period at which each engine is read; 0: never. The phases of the engines are drawn.
	Every pool.Instant

	// Age is how long a reading takes to arrive, Jitter what is drawn on top of it, uniformly from 0.
	Age, Jitter pool.Instant

	// Loss is the share of readings that do not arrive, 0 to 1.
	Loss float64

	// TokenError is by how much the scheduler's count of prompt tokens is off, as a share: 0.2 makes 1000 tokens 1200. It also
	// is the share of requests whose block hashes it cannot tell, as with a tokenizer that does not match.
	TokenError float64

	// EventDelay is how long the engines' cache events take to a [Listener], EventJitter what is drawn on top of it, uniformly
	// from 0; those of one engine keep their order. EventLoss is the share of batches that do not arrive, 0 to 1.
	EventDelay, EventJitter pool.Instant
	EventLoss               float64
}

// reading is a sample on its way.
type reading struct {
	due    pool.Instant
	order  uint64 // of being taken, among those due at one instant
	member int32
	sample pool.Sample
}

// Before orders readings by due, then order.
func (r reading) Before(q reading) bool { return r.due < q.due || r.due == q.due && r.order < q.order }

// telemetry reads the engines.
type telemetry struct {
	Signals
	random *rand.Rand
	tokens *rand.Rand
	taken  uint64
	inbox  Heap[reading]
}

// scrape reads pod p and plans the next reading.
func (f *Fleet) scrape(p *pod) {
	t := &f.telemetry
	p.scrapeAt = f.now + t.Every
	if !p.listed {
		return
	}
	f.result.Scrapes++
	t.taken++
	// Each reading draws the same numbers whatever becomes of it, so that a knob moves nothing but itself.
	lost, late := t.random.Float64() < t.Loss, pool.Instant(t.random.Float64()*float64(t.Jitter))
	if lost || !p.up || p.hung || p.blind {
		f.result.Lost++
		return
	}
	f.bring(p)
	g := p.engine.Gauges()
	s := pool.NoSample()
	s.At, s.Waiting, s.Running, s.KVUsage = f.now, g.Waiting, g.Running, g.KVUsage()
	s.Blocks, s.BlockTokens = p.spec.Profile.Blocks, p.spec.Profile.BlockTokens
	s.ProcessStart, s.FirstTokens, s.Gaps = p.started, p.firstTokens.timed(), p.gaps.timed()
	s.Preemptions = float64(p.engine.Counters().Preemptions)
	if p.spec.Options.Adapters > 0 {
		s.Adapters, s.AdaptersWaiting = p.adapters()
		s.AdaptersMax = p.spec.Options.MaxLoras
	}
	if t.Age+late == 0 {
		f.decider.Observe(f.now, p.number, s)
		return
	}
	t.inbox.Push(reading{f.now + t.Age + late, t.taken, p.number, s})
}
