package scorers

import (
	"slices"
	"sync"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
)

// NoHitLRU spreads prompts of which no endpoint has anything cached: the one that has had none for the longest time is
// first.
//
// With r the number of candidates that had such a prompt less recently, or never, of n:
//
//	score = 1 - r/(n - 1), and 1 if there is one candidate
//
// so that those that never had one all score 1. If a candidate has a part of the prompt cached, all score 0.5, and other
// scorers decide. What counts as a use is the booking of a cold request; each of its legs counts.
type NoHitLRU struct {
	// LRUSize is how many endpoints of a pool are remembered. The least recently used is forgotten, and counts as never used.
	LRUSize int `json:"lruSize" schema:"min=1,max=1048576"`

	// PrefixMatchInfoProducerName names the plugin whose match is read. Empty: the one that the configuration has.
	PrefixMatchInfoProducerName string `json:"prefixMatchInfoProducerName,omitempty"`

	blocks plugins.EndpointValues[int32]
	cold   plugins.RequestValue[bool]
	used   plugins.EndpointValues[int64]

	pools   []*lastUses // by the pool's place in the configuration; shared with who inherits
	scratch sync.Pool   // of *[]int64
}

// lastUses are the last uses of a pool's endpoints, by their ids.
type lastUses struct {
	mu    sync.Mutex
	clock int64 // the last use of all
	known int   // entries of at that are set
	at    []lastUse
}

type lastUse struct {
	incarnation uint32
	use         int64 // 0: never, or forgotten
}

var (
	_ plugins.Producer    = (*NoHitLRU)(nil)
	_ plugins.Scorer      = (*NoHitLRU)(nil)
	_ plugins.RequestHook = (*NoHitLRU)(nil)
	_ plugins.Heir        = (*NoHitLRU)(nil)
)

// NewNoHitLRU returns a NoHitLRU with its defaults.
func NewNoHitLRU() *NoHitLRU { return &NoHitLRU{LRUSize: 1024} }

// Provision says what is read and made: the instance's own memory is a fact, so that a decision can be made again.
func (l *NoHitLRU) Provision(b *plugins.Builder) error {
	l.blocks = plugins.Needs(b, plugins.CachedBlocks)
	plugins.Provides(b, plugins.ColdPrompt(b.Name))
	plugins.Provides(b, plugins.LastColdUse(b.Name))
	l.cold, l.used = plugins.Needs(b, plugins.ColdPrompt(b.Name)), plugins.Needs(b, plugins.LastColdUse(b.Name))
	l.pools = make([]*lastUses, len(b.Pools))
	for i := range l.pools {
		l.pools[i] = new(lastUses)
	}
	return plugins.CheckProducer(b, plugins.CachedBlocks, "prefixMatchInfoProducerName", l.PrefixMatchInfoProducerName)
}

// Inherit shares what is known of each pool that stays.
func (l *NoHitLRU) Inherit(from any, pools []int) {
	for i, was := range pools {
		if was >= 0 {
			l.pools[i] = from.(*NoHitLRU).pools[was]
		}
	}
}

// Produce looks whether anybody has a part of the prompt, and recalls when each candidate was last used.
func (l *NoHitLRU) Produce(c *plugins.Cycle) {
	blocks, used := l.blocks.Of(c), l.used.Of(c)
	cold := true
	for _, id := range c.Candidates {
		cold = cold && blocks[id] <= 0
	}
	l.cold.Set(c.Request, cold)
	uses := l.pools[c.PoolIndex]
	uses.mu.Lock()
	defer uses.mu.Unlock()
	for _, id := range c.Candidates {
		used[id] = uses.last(c.Snapshot.Slots[id].Ref)
	}
}

// Score writes one score per candidate into out.
func (l *NoHitLRU) Score(c *plugins.Cycle, out []float64) {
	n := len(c.Candidates)
	if !l.cold.Of(c.Request) {
		for i := range out {
			out[i] = 0.5
		}
		return
	}
	used := l.used.Of(c)
	sorted, ok := l.scratch.Get().(*[]int64)
	if !ok {
		sorted = new([]int64)
	}
	*sorted = (*sorted)[:0]
	for _, id := range c.Candidates {
		*sorted = append(*sorted, max(used[id], 0))
	}
	slices.Sort(*sorted)
	for i, id := range c.Candidates {
		rank, _ := slices.BinarySearch(*sorted, max(used[id], 0))
		out[i] = 1 - float64(rank)/float64(max(n-1, 1))
	}
	l.scratch.Put(sorted)
}

// Commit notes that a cold request uses the primary of each leg.
func (l *NoHitLRU) Commit(r *plugins.Request, legs []plugins.Leg, _ *plugins.Outgoing) {
	if !l.cold.Of(r) {
		return
	}
	uses := l.pools[r.PoolIndex]
	uses.mu.Lock()
	defer uses.mu.Unlock()
	for _, leg := range legs {
		if len(leg.Endpoints) > 0 {
			uses.use(r.Snapshot.Slots[leg.Endpoints[0]].Ref, l.LRUSize)
		}
	}
}

func (u *lastUses) last(of pool.Ref) int64 {
	if int(of.ID) < len(u.at) && u.at[of.ID].incarnation == of.Incarnation {
		return u.at[of.ID].use
	}
	return 0
}

func (u *lastUses) use(of pool.Ref, most int) {
	for int(of.ID) >= len(u.at) {
		u.at = append(u.at, lastUse{})
	}
	if u.at[of.ID].use == 0 {
		if u.known == most {
			u.forget()
		}
		u.known++
	}
	u.clock++
	u.at[of.ID] = lastUse{of.Incarnation, u.clock}
}

// forget drops the least recent use.
func (u *lastUses) forget() {
	oldest := -1
	for i := range u.at {
		if use := u.at[i].use; use != 0 && (oldest < 0 || use < u.at[oldest].use) {
			oldest = i
		}
	}
	u.at[oldest] = lastUse{}
	u.known--
}
