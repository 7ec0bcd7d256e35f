package admin

import (
	"cmp"
	"slices"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/flow"
	"github.com/fairlead/fairlead/pkg/pool"
)

// flowsShown bounds the flows of a band that are told apart, in pages and in metrics: those with the most that waits. What waits
// of the others is summed under "other".
const flowsShown = 50

// Queue is what /debug/queue says: who waits. Of a configuration that was replaced, whose requests are not over, the numbers are
// added to those in force.
type Queue struct {
	Requests    int64       `json:"requests"`
	Bytes       int64       `json:"bytes"`
	MaxRequests int64       `json:"maxRequests"` // 0: no bound
	MaxBytes    int64       `json:"maxBytes"`
	Pools       []QueuePool `json:"pools"`
}

// QueuePool is what waits for one pool.
type QueuePool struct {
	Pool       string          `json:"pool"`
	Empty      bool            `json:"empty"` // no endpoint takes requests
	Saturation float64         `json:"saturation"`
	Prefill    float64         `json:"prefillSaturation"`
	Decode     float64         `json:"decodeSaturation"`
	Stale      int             `json:"endpointsWithoutFreshSample"`
	Short      []string        `json:"endpointsShortOfMemory"` // by their gauges
	Doubted    []string        `json:"endpointsOfDoubtedMemory"`
	Bands      []QueueBand     `json:"bands"`
	Evictions  []QueueEviction `json:"evictions"`
}

// QueueBand is what waits at one priority.
type QueueBand struct {
	Priority      int32             `json:"priority"`
	Configured    bool              `json:"configured"`
	Requests      int64             `json:"requests"`
	Bytes         int64             `json:"bytes"`
	MaxRequests   int64             `json:"maxRequests"`
	MaxBytes      int64             `json:"maxBytes"`
	Ceiling       float64           `json:"ceiling"`
	Shut          bool              `json:"shut"` // the pool is too full for it
	OldestSeconds float64           `json:"oldestSeconds"`
	Flows         []QueueFlow       `json:"flows"`
	Ended         map[string]uint64 `json:"ended"` // by outcome, since the band was made
}

// QueueFlow is what waits of one tenant.
type QueueFlow struct {
	ID       string `json:"id"`
	Requests int64  `json:"requests"`
	Bytes    int64  `json:"bytes"`
}

// QueueEviction is what was taken back of one priority.
type QueueEviction struct {
	Priority int32  `json:"priority"`
	Running  int    `json:"running"` // that may be taken back at present
	Issued   uint64 `json:"issued"`
	Taken    uint64 `json:"taken"`
}

// readQueue reads the queues of all schedulers that run, each once.
func readQueue(now pool.Instant, s *exchange.Scheduler) (all Queue) {
	all.Pools = []QueuePool{}
	var read []*flow.Queue
	for _, q := range s.Queues() {
		c, ok := q.(*flow.Queue)
		if !ok || slices.ContainsFunc(read, func(o *flow.Queue) bool { return o.Shares(c.Control) }) {
			continue
		}
		read = append(read, c)
		stats := c.Stats(now)
		all.Requests, all.Bytes = all.Requests+stats.Requests, all.Bytes+stats.Bytes
		all.MaxRequests, all.MaxBytes = stats.MaxRequests, stats.MaxBytes
		for i := range stats.Pools {
			all.add(&stats.Pools[i])
		}
	}
	for i := range all.Pools {
		for j := range all.Pools[i].Bands {
			all.Pools[i].Bands[j].bound()
		}
	}
	return all
}

// add merges the state of a pool into that which is known of it.
func (q *Queue) add(of *flow.PoolStats) {
	i := slices.IndexFunc(q.Pools, func(p QueuePool) bool { return p.Pool == of.Pool })
	if i < 0 {
		i = len(q.Pools)
		q.Pools = append(q.Pools, QueuePool{Pool: of.Pool, Bands: []QueueBand{}, Evictions: []QueueEviction{}})
	}
	p := &q.Pools[i]
	p.Short, p.Doubted = append([]string{}, of.ShortOfMemory...), append([]string{}, of.Doubted...)
	p.Empty, p.Saturation, p.Prefill, p.Decode, p.Stale = of.Empty, of.Saturation.Value, of.Saturation.Prefill, of.Saturation.Decode, of.Saturation.Stale
	for j := range of.Bands {
		p.addBand(&of.Bands[j])
	}
	for _, e := range of.Evictions {
		k, known := slices.BinarySearchFunc(p.Evictions, e.Priority, func(o QueueEviction, p int32) int { return cmp.Compare(o.Priority, p) })
		if !known {
			p.Evictions = slices.Insert(p.Evictions, k, QueueEviction{Priority: e.Priority})
		}
		to := &p.Evictions[k]
		to.Running, to.Issued, to.Taken = to.Running+e.Running, to.Issued+e.Issued, to.Taken+e.Taken
	}
}

func (p *QueuePool) addBand(b *flow.BandStats) {
	i, known := slices.BinarySearchFunc(p.Bands, b.Priority, func(o QueueBand, priority int32) int { return cmp.Compare(priority, o.Priority) })
	if !known {
		p.Bands = slices.Insert(p.Bands, i, QueueBand{Priority: b.Priority, Flows: []QueueFlow{}, Ended: map[string]uint64{}})
	}
	to := &p.Bands[i]
	to.Configured, to.MaxRequests, to.MaxBytes, to.Ceiling = b.Configured, b.MaxRequests, b.MaxBytes, b.Ceiling
	to.Requests, to.Bytes, to.Shut = to.Requests+b.Requests, to.Bytes+b.Bytes, to.Shut || b.Shut
	to.OldestSeconds = max(to.OldestSeconds, b.Oldest.Seconds())
	for _, f := range b.Flows {
		to.addFlow(QueueFlow{ID: f.ID, Requests: f.Requests, Bytes: f.Bytes})
	}
	for _, o := range flow.Outcomes() {
		if n := b.Ended[o]; n > 0 {
			to.Ended[o.String()] += n
		}
	}
}

func (b *QueueBand) addFlow(f QueueFlow) {
	if f.ID == "" {
		f.ID = defaultFlow
	}
	if i := slices.IndexFunc(b.Flows, func(o QueueFlow) bool { return o.ID == f.ID }); i >= 0 {
		b.Flows[i].Requests += f.Requests
		b.Flows[i].Bytes += f.Bytes
		return
	}
	b.Flows = append(b.Flows, f)
}

// bound keeps the flows of which the most waits, and sums the others.
func (b *QueueBand) bound() {
	slices.SortFunc(b.Flows, func(a, c QueueFlow) int {
		return cmp.Or(cmp.Compare(c.Requests, a.Requests), cmp.Compare(a.ID, c.ID))
	})
	if len(b.Flows) <= flowsShown {
		return
	}
	rest := QueueFlow{ID: otherLabel}
	for _, f := range b.Flows[flowsShown:] {
		rest.Requests += f.Requests
		rest.Bytes += f.Bytes
	}
	b.Flows = append(b.Flows[:flowsShown:flowsShown], rest)
}
