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
}

// reading is a sample on its way.
type reading struct {
	due    pool.Instant
	order  uint64 // of being taken, among those due at one instant
	member int32
	sample pool.Sample
}

// readings is a heap of readings by due and order.
type readings []reading

func (q readings) before(i, j int) bool {
	return q[i].due < q[j].due || q[i].due == q[j].due && q[i].order < q[j].order
}

func (q *readings) push(r reading) {
	*q = append(*q, r)
	h := *q
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h.before(i, up) {
			return
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

func (q *readings) pop() reading {
	h := *q
	top := h[0]
	last := len(h) - 1
	h[0] = h[last]
	h = h[:last]
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if h.before(child, least) {
				least = child
			}
		}
		if least == i {
			break
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
	*q = h
	return top
}

// telemetry reads the engines.
type telemetry struct {
	Signals
	random *rand.Rand
	tokens *rand.Rand
	taken  uint64
	inbox  readings
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
	s.ProcessStart = p.started
	if p.spec.Options.Adapters > 0 {
		s.Adapters, s.AdaptersWaiting = p.adapters()
		s.AdaptersMax = p.spec.Options.MaxLoras
	}
	if t.Age+late == 0 {
		f.decider.Observe(f.now, p.number, s)
		return
	}
	t.inbox.push(reading{f.now + t.Age + late, t.taken, p.number, s})
}
