package rules

import (
	"slices"
	"time"

	"github.com/fairlead/fairlead/pkg/pool"
)

// told is what engines tell, as llm-d-router's precise index keeps it (pkg/kvcache, pkg/kvevents,
// requestcontrol/dataproducer/preciseprefixcache): it makes its own keys from the tokens of each block and its parent's key, and
// drops blocks whose parent it does not know; it does not look at sequence numbers, as long as no replay socket is set, which
// is the default; and it believes for 2 s what it has just sent. Its bound of ten endpoints for a block is left out.
type told struct{ heard *Heard }

const preciseBelieved = 2 * time.Second

func newTold() *told {
	return &told{&Heard{Parents: true, Believed: pool.Instant(preciseBelieved)}}
}

func (t *told) depth(q *query, member int32) int { return t.heard.Depth(q.now, member, q.hashes) }

func (t *told) blocks(q *query) int { return len(q.hashes) }

func (t *told) put(_ *books, q *query, member int32) { t.heard.Sent(q.now, member, q.hashes) }

func (t *told) left(member int32) { t.heard.Forget(member) }

// precise is the profile of llm-d's guide of precise prefix caching until July 2026
// (guides/precise-prefix-cache-routing/router, speculative indexing on): the weights of queue, KV memory and prefix, the last
// over what engines tell, and
//
//   - 2·(no-hit-lru)
//
// which is 0.5 for all if anybody holds a block of the prompt; else 1 for the endpoint that had such a prompt least recently or
// never, 0 for the one that had the last (scheduling/scorer/nohitlru).
type precise struct {
	weights
	told *told
	cold []int32 // members by their last cold prompt, the latest last
}

const preciseNoHit = 2.0

func newPrecise() *precise {
	t := newTold()
	return &precise{weights: weights{2, believed{t}}, told: t}
}

func (p *precise) hear() *Heard { return p.told.heard }

func (p *precise) choose(b *books, q *query) int32 {
	totals := p.totals(b, q)
	if n := len(b.members); n > 1 && p.isCold(b, q) {
		rank := 0
		for _, never := range [...]bool{true, false} {
			for _, m := range p.leastRecent(b, never) {
				totals[m] += float64(preciseNoHit * (1 - float64(rank)/float64(n-1)))
				rank++
			}
		}
	}
	return b.least(b.members, 0, func(m int32) float64 { return -totals[m] })
}

// isCold reports whether no member holds anything of the prompt.
func (p *precise) isCold(b *books, q *query) bool {
	return !slices.ContainsFunc(b.members, func(m int32) bool { return p.depth(q, m) > 0 })
}

// leastRecent are the members that never had a cold prompt, or those that had, the latest last.
func (p *precise) leastRecent(b *books, never bool) []int32 {
	var out []int32
	if never {
		for _, m := range b.members {
			if !slices.Contains(p.cold, m) {
				out = append(out, m)
			}
		}
		return out
	}
	for _, m := range p.cold {
		if slices.Contains(b.members, m) {
			out = append(out, m)
		}
	}
	return out
}

func (p *precise) sent(b *books, q *query, to int32) {
	if p.isCold(b, q) {
		p.cold = append(slices.DeleteFunc(p.cold, func(m int32) bool { return m == to }), to)
	}
	p.put(b, q, to)
}

func (p *precise) left(member int32) {
	p.cold = slices.DeleteFunc(p.cold, func(m int32) bool { return m == member })
	p.told.left(member)
}

// preciseSticky is the profile of the same guide since August 2026: "sticky until saturated" over what engines tell.
type preciseSticky struct {
	sticky
	told *told
}

func newPreciseSticky() *preciseSticky {
	t := newTold()
	return &preciseSticky{sticky: sticky{believed: believed{t}}, told: t}
}

func (p *preciseSticky) hear() *Heard { return p.told.heard }
