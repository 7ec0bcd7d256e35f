package rules

import (
	"time"

	"github.com/fairlead/fairlead/pkg/pool"
)

// dynamo is the KV router of NVIDIA Dynamo at temperature 0 (docs/components/router/router-concepts.md and
// router-configuration.md), in blocks of 16 tokens:
//
//	prefill = max(active prefill + prompt - overlap, 0)
//	cost    = prefill + decode            or, as lmetric, prefill·(decode + 1)
//
// Active prefill are uncached tokens sent and without a first token. Decode are the prompt blocks of active requests, those in
// common counted once, and this request's; they are freed at its end. Output blocks are not tracked, as by default. The smallest
// cost is chosen.
//
// Its index is the approximate one, which it uses where engines send no events: what was sent is believed for 120 s, up to 2^20
// blocks; or, with events, what engines tell. A worker answers for the batches that are missing (kv-event-replay-comparison.md).
// What was just sent is not believed then, as by default (--router-predicted-ttl-secs). Left out is its queue: nothing is held,
// however long the backlogs.
type dynamo struct {
	cost   func(prefill, decode float64) float64
	index  index
	own    *table           // the index, where it is the approximate one
	active []map[uint64]int // by member: active requests by block
	decode []float64        // by member: active blocks of 16
}

const (
	dynamoBlock = 16
	dynamoLimit = 1 << 20
	dynamoTTL   = 120 * time.Second
)

func linear(prefill, decode float64) float64  { return prefill + decode }
func product(prefill, decode float64) float64 { return prefill * (decode + 1) }

// index is what a rule believes of caches, a *table or a *Heard.
type index interface {
	depths(now pool.Instant, members []int32, hashes []uint64) (depth []int, most int)
	put(now pool.Instant, member int32, hashes []uint64)
	forget(member int32)
}

func newDynamo(cost func(prefill, decode float64) float64) *dynamo {
	own := newTable(0, pool.Instant(dynamoTTL))
	return &dynamo{cost: cost, index: own, own: own}
}

// dynamoEvents is dynamo with the engines' events.
type dynamoEvents struct {
	*dynamo
	heard *Heard
}

func newDynamoEvents() *dynamoEvents {
	h := &Heard{Asks: true}
	return &dynamoEvents{&dynamo{cost: linear, index: h}, h}
}

func (d *dynamoEvents) hear() *Heard { return d.heard }

func (d *dynamo) grow(to int32) {
	for int(to) >= len(d.active) {
		d.active, d.decode = append(d.active, map[uint64]int{}), append(d.decode, 0)
	}
}

// tail are the blocks of 16 that the prompt has behind its full blocks: nobody else has them.
func tail(q *query) float64 {
	rest := q.tokens - int64(len(q.hashes))*q.block
	return float64((max(rest, 0) + dynamoBlock - 1) / dynamoBlock)
}

func (d *dynamo) choose(b *books, q *query) int32 {
	depth, _ := d.index.depths(q.now, b.members, q.hashes)
	cost := make([]float64, len(b.at))
	each := float64(q.block) / dynamoBlock
	for i, m := range b.members {
		d.grow(m)
		prefill := float64(b.at[m].prefill+q.tokens-q.matched(depth[i])) / dynamoBlock
		decode := d.decode[m] + tail(q)
		for _, h := range q.hashes {
			if d.active[m][h] == 0 {
				decode += each
			}
		}
		cost[m] = d.cost(max(prefill, 0), decode)
	}
	return b.least(b.members, 0, func(m int32) float64 { return cost[m] })
}

func (d *dynamo) uncached(q *query, to int32) int64 {
	_, most := d.index.depths(q.now, []int32{to}, q.hashes)
	return q.tokens - q.matched(most)
}

func (d *dynamo) sent(_ *books, q *query, to int32) {
	d.grow(to)
	if d.own != nil {
		d.own.limit = int(max(dynamoLimit*dynamoBlock/q.block, 1))
	}
	d.index.put(q.now, to, q.hashes)
	d.decode[to] += tail(q)
	for _, h := range q.hashes {
		if d.active[to][h]++; d.active[to][h] == 1 {
			d.decode[to] += float64(q.block) / dynamoBlock
		}
	}
}

func (d *dynamo) ended(_ *books, k *booking) {
	d.decode[k.to] -= tail(&k.query)
	for _, h := range k.hashes {
		if d.active[k.to][h]--; d.active[k.to][h] == 0 {
			delete(d.active[k.to], h)
			d.decode[k.to] -= float64(k.block) / dynamoBlock
		}
	}
}

func (d *dynamo) left(member int32) { d.index.forget(member) }
