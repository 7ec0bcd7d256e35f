package rules

import (
	"slices"
	"time"

	"github.com/fairlead/fairlead/pkg/pool"
)

// preble is the prefix-cache-preble policy of AIBrix (pkg/plugins/gateway/algorithms/prefix_cache_preble.go), after Preble
// (arXiv:2407.00023): where more than half of the prompt is matched, of the pods with the longest match the one with the least
// load; else the pod with the least cost. Both count the last three minutes: load the requests whose prompt the pod has; cost the
// sum over their different prompts of
//
//	missRate·count·prefillTime/pods + 45 tokens·0.15 s
//
// with missRate the share of the prompt that was new, pods how many have it, and prefillTime fitted to Mistral-7B on a V100.
// How long answers get, and how fast tokens come, is the constant of the source.
type preble struct {
	index   *table
	prompts map[uint64]*prompt
	all     []*prompt // in the order in which they first came
	window  []entry
	at      int // the first entry still within the window
	cost    []float64
	load    []float64
	among   []int32
}

// prompt is a text that was asked for within the window. Its pods keep it when the window has passed.
type prompt struct {
	fresh, tokens int64 // new tokens when it first came, of all
	count         int
	pods          []int32
}

type entry struct {
	at     pool.Instant
	prompt *prompt
}

const (
	prebleMatch  = 0.5
	prebleWindow = 3 * time.Minute
	prebleDecode = 45 * 0.15 // seconds
)

func newPreble() *preble {
	return &preble{index: newTable(0, 0), prompts: map[uint64]*prompt{}}
}

// prefillTime is in seconds, by the new tokens and all.
func prefillTime(fresh, tokens int64) float64 {
	n, c := float64(fresh), float64(tokens)
	linear := 55.0
	switch {
	case fresh >= 384:
		linear = float64(0.27106428*n) + 10.52444263
	case fresh >= 192:
		linear = -295 + float64(3.125*n) - float64(6.4e-3*n*n)
	}
	attention := 0.80
	if tokens > 1024 {
		attention = float64(4.65e-4*c) + 0.398
		if n <= 1024 {
			attention /= 2
		}
	}
	quadratic := 0.0
	if fresh >= 4096 {
		quadratic = -18.425 + float64(9.65e-3*n) + float64(5.4e-6*n*n)
	}
	return (linear + attention + quadratic) / 1000 / 0.9
}

func (p *prompt) cost() float64 {
	if p.count == 0 || len(p.pods) == 0 {
		return 0
	}
	return float64(float64(p.fresh)/float64(p.tokens)*float64(p.count)*prefillTime(p.fresh, p.tokens)/float64(len(p.pods))) + prebleDecode
}

// change has a prompt count otherwise in the sums of its pods.
func (p *preble) change(t *prompt, how func()) {
	p.add(t, -1)
	how()
	p.add(t, 1)
}

func (p *preble) add(t *prompt, sign float64) {
	for _, m := range t.pods {
		for int(m) >= len(p.cost) {
			p.cost, p.load = append(p.cost, 0), append(p.load, 0)
		}
		p.cost[m] += float64(sign * t.cost())
		p.load[m] += float64(sign * float64(t.count))
	}
}

func (p *preble) choose(b *books, q *query) int32 {
	for p.at < len(p.window) && q.now-p.window[p.at].at >= pool.Instant(prebleWindow) {
		t := p.window[p.at].prompt
		p.change(t, func() { t.count-- })
		p.window[p.at].prompt = nil
		p.at++
	}
	for len(p.cost) < len(b.at) {
		p.cost, p.load = append(p.cost, 0), append(p.load, 0)
	}
	depth, most := p.index.depths(q.now, b.members, q.hashes)
	if float64(q.matched(most)) > prebleMatch*float64(q.tokens) {
		p.among = p.among[:0]
		for i, m := range b.members {
			if depth[i] == most {
				p.among = append(p.among, m)
			}
		}
		return first(p.among, func(m int32) float64 { return p.load[m] })
	}
	return first(b.members, func(m int32) float64 { return p.cost[m] })
}

func (p *preble) sent(b *books, q *query, to int32) {
	_, most := p.index.depths(q.now, b.members, q.hashes)
	key := q.number // nothing to share
	if n := len(q.hashes); n > 0 {
		key = q.hashes[n-1]
	}
	t := p.prompts[key]
	if t == nil {
		t = &prompt{fresh: max(q.tokens-q.matched(most), 1), tokens: q.tokens}
		p.prompts[key] = t
		p.all = append(p.all, t)
	}
	p.change(t, func() {
		t.count++
		if !slices.Contains(t.pods, to) {
			t.pods = append(t.pods, to)
		}
	})
	p.window = append(p.window, entry{q.now, t})
	p.index.put(q.now, to, q.hashes)
}

func (p *preble) left(member int32) {
	p.index.forget(member)
	for _, t := range p.all {
		if slices.Contains(t.pods, member) {
			p.change(t, func() { t.pods = slices.DeleteFunc(t.pods, func(m int32) bool { return m == member }) })
		}
	}
}
