package admission

import (
	"math"
	"strconv"
	"time"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// Probabilistic refuses requests of a priority below 0 with 429, the more of them the fuller their pool is:
//
//	p = min(saturation^Power · K, 1)
//	saturation = Σ w · max(queue / QueueDepthThreshold, usage / KVCacheUtilThreshold) / Σ w, over the pool's endpoints
//
// queue is how many requests wait in the engine, and those that were sent there since its sample was taken and have no first
// byte, so that a burst between two samples is seen; usage is the used share of its KV cache. Of an endpoint without a fresh
// sample the own requests without a first byte are the queue. w is the size of its KV cache in tokens, so that a small endpoint
// counts for what it is; 1 for all where one of the sizes is not known. With the defaults nobody passes from a saturation of
// 0.32 on.
//
// The same request of the same run fares the same in a replay: chance comes from the decision's id.
type Probabilistic struct {
	// QueueDepthThreshold is the number of waiting requests at which an endpoint is full.
	QueueDepthThreshold float64 `json:"queueDepthThreshold" schema:"min=0.001"`

	// KVCacheUtilThreshold is the share of its KV cache at which an endpoint is full.
	KVCacheUtilThreshold float64 `json:"kvCacheUtilThreshold" schema:"min=0.001,max=1"`

	// Power says how late refusals begin: the larger, the later and the more suddenly.
	Power float64 `json:"power" schema:"min=0.1,max=100"`

	// K is the share that is refused at a saturation of 1, where it is below 1; above, all are refused earlier. 0 refuses nobody.
	K float64 `json:"k" schema:"min=0,max=1000000000"`

	pools []*pool.Pool
}

var (
	_ plugins.Stage      = (*Probabilistic)(nil)
	_ plugins.BodyReader = (*Probabilistic)(nil)
	_ plugins.Attacher   = (*Probabilistic)(nil)
)

// NewProbabilistic returns a Probabilistic with its defaults, which are llm-d's.
func NewProbabilistic() *Probabilistic {
	return &Probabilistic{QueueDepthThreshold: 5, KVCacheUtilThreshold: 0.8, Power: 5, K: 300}
}

// Attach tells it the pools.
func (p *Probabilistic) Attach(pools []*pool.Pool, _ reason.Sink) { p.pools = pools }

// Phase says that it runs when the priority is known.
func (*Probabilistic) Phase() plugins.Phase { return plugins.AtAdmit }

// Reads asks for the headers alone.
func (*Probabilistic) Reads() plugins.Reads { return plugins.ReadsHeaders }

// Enter refuses by chance. A pool without endpoints is no reason of its own to refuse.
func (p *Probabilistic) Enter(r *plugins.Request) plugins.Verdict {
	if r.Target.Priority >= 0 {
		return plugins.Verdict{}
	}
	of := p.pools[r.PoolIndex]
	saturation := 0.0
	of.Decide(func(s *pool.Snapshot, books *pool.Books) { saturation = p.saturation(r.Now, s, books, of.StaleAfter()) })
	dropped := min(math.Pow(saturation, p.Power)*p.K, 1)
	if chance(r.ID) >= dropped {
		return plugins.Verdict{}
	}
	return plugins.Verdict{Refusal: reason.Refuse(reason.DroppedEarly, "its priority is %d, and at a saturation of %.2f %.0f %% of such requests pass",
		r.Target.Priority, saturation, 100*(1-dropped))}
}

// saturation is called inside the pool's lock.
func (p *Probabilistic) saturation(now pool.Instant, s *pool.Snapshot, books *pool.Books, stale time.Duration) float64 {
	var sum, plain, weights float64
	sized, n := true, 0
	for _, id := range s.Members {
		if s.Slots[id].Draining {
			continue
		}
		of := &books.Samples[id]
		queue, used := float64(books.NoFirstByte[id]), 0.0
		if of.State(now, stale) == pool.Fresh {
			if of.Waiting >= 0 {
				queue = float64(of.Waiting + books.AfterSample[id])
			}
			used = max(of.KVUsage, 0)
		}
		full := max(queue/p.QueueDepthThreshold, used/p.KVCacheUtilThreshold)
		w := float64(of.Blocks) * float64(of.BlockTokens)
		sized = sized && of.Blocks > 0 && of.BlockTokens > 0
		sum, weights = sum+float64(full*w), weights+w
		plain += full
		n++
	}
	switch {
	case n == 0:
		return 0
	case sized:
		return sum / weights
	}
	return plain / float64(n)
}

// chanceDigits is how many hexadecimal digits of an id are used, 52 bits.
const chanceDigits = 13

// chance returns a number from 0 up to but not 1, spread evenly over ids.
func chance(id string) float64 {
	n, err := strconv.ParseUint(id[:min(len(id), chanceDigits)], 16, 64)
	if err != nil {
		return 0
	}
	return float64(n) / (1 << (4 * chanceDigits))
}
