package kvindex

import (
	"math"
	"time"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
)

// Hot finds the prefixes that so many requests share that one endpoint cannot serve them, and has copies of them made before it
// is lost.
//
// Requests are counted by the hashes of their prefixes of 1, 2, 4, 8 … blocks, with a half-life of ten seconds; the 256 that
// are asked for most are remembered, in 24 kB a pool. With λ requests a second for a prefix, each of which costs w beyond what
// is cached of it, it is work for
//
//	pods = λ · w,    w = prefill of what is not cached + decode
//
// endpoints, and should stand on pods / targetLoad of them, rounded up. While it stands on fewer, and on one at least, the next
// request for it is to bring it to the endpoint with the least load among the others, if that has less than those who hold it; at
// most one at a time, as long as computing the prefix takes. A request that has more cached at one endpoint than at any other is
// not sent away from there.
//
// A prefix of which little is asked is copied too once the lack of a copy has cost more than one does: whenever those who hold it have
// more before them than the idlest of the others, its request waits for the difference, and when these waits add up to
//
//	payback · prefill of the prefix · (1 + 40 · (gap / 50 ms)⁴)
//
// the request brings it there. The last factor is what the copy takes from those who decode there, with gap the time between their
// tokens: it is dear where gaps are near what operators promise. Waits are forgotten with a half-life of a minute.
//
// Decode counts with the share of an endpoint's time that a sequence takes in a batch so large that a step takes twice as long
// as an empty one.
type Hot struct {
	// TargetLoad is the share of an endpoint's time that requests for one prefix may take before it is copied to one more.
	TargetLoad float64 `json:"targetLoad" schema:"min=0.05,max=1"`

	// MaxCopies bounds the endpoints on which a prefix should stand; 0 is all.
	MaxCopies int32 `json:"maxCopies" schema:"min=0"`

	// Payback is for how many times as long as computing a prefix takes its requests must have waited before it is copied, however
	// little it is asked for; 0 is never.
	Payback float64 `json:"payback" schema:"min=0,max=1000"`

	// MinTokens is the length from which on a prefix counts.
	MinTokens int64 `json:"minTokens" schema:"min=1"`

	pools []*popular // by the pool's place in the configuration

	prompt   plugins.RequestValue[int64]
	hashes   plugins.RequestValue[[]uint64]
	blocks   plugins.EndpointValues[int32]
	tokens   plugins.EndpointValues[int64]
	loads    plugins.EndpointValues[plugins.EngineLoad]
	traffic  plugins.RequestValue[plugins.Traffic]
	expected plugins.RequestValue[int64]

	foretold bool

	hot    plugins.RequestValue[plugins.HotPrefix]
	copies plugins.EndpointValues[bool]
}

var (
	_ plugins.Observer = (*Hot)(nil)
	_ plugins.Heir     = (*Hot)(nil)
	_ plugins.Hearer   = (*Hot)(nil)
)

// NewHot returns a Hot with its defaults.
func NewHot() *Hot { return &Hot{TargetLoad: 0.3, Payback: 2, MinTokens: 512} }

// Provision says what it reads and makes.
func (h *Hot) Provision(b *plugins.Builder) error {
	h.prompt, h.hashes = plugins.Needs(b, plugins.PromptTokens), plugins.Needs(b, plugins.BlockHashes)
	h.blocks, h.tokens = plugins.Needs(b, plugins.CachedBlocks), plugins.Needs(b, plugins.CachedTokens)
	h.loads, h.traffic = plugins.Needs(b, plugins.EngineLoads), plugins.Needs(b, plugins.Traffics)
	h.expected, h.foretold = plugins.Uses(b, plugins.ExpectedOutput)
	h.hot, h.copies = plugins.Provides(b, plugins.HotPrefixes), plugins.Provides(b, plugins.DeliberateCopies)
	h.pools = make([]*popular, len(b.Pools))
	for i := range h.pools {
		h.pools[i] = new(popular)
	}
	return nil
}

// Inherit shares the counts of each pool that stays, whichever configuration decides.
func (h *Hot) Inherit(from any, pools []int) {
	for i, was := range pools {
		if was >= 0 {
			h.pools[i] = from.(*Hot).pools[was]
		}
	}
}

// maxDepths bounds how many prefixes of a prompt are counted: the last of them has a million blocks.
const maxDepths = 21

// Observe counts the request, and says which of its prefixes is hot and where it is to be brought.
func (h *Hot) Observe(c *plugins.Cycle, _ *pool.Books) {
	r := c.Request
	h.hot.Set(r, plugins.HotPrefix{})
	hashes := h.hashes.Of(r)
	prompt := h.prompt.Of(r)
	if len(hashes) == 0 || len(c.Candidates) == 0 || prompt <= 0 {
		return
	}
	now := time.Duration(c.Now).Seconds()
	counts := h.pools[c.PoolIndex]
	counts.mu.Lock()
	defer counts.mu.Unlock()
	perBlock := max(prompt/int64(len(hashes)), 1)
	most, second := h.longest(c)
	mean := h.mean(c)
	decode := h.decode(r, &mean, prompt)
	var found, paid plugins.HotPrefix
	var place, paidPlace int16
	var length, paidLength int64
	var paidTo pool.ID
	for depth, blocks := 0, 1; depth < maxDepths && blocks <= len(hashes); depth, blocks = depth+1, 2*blocks {
		tokens := perBlock * int64(blocks)
		if tokens < h.MinTokens {
			continue
		}
		i := counts.touch(hashes[blocks-1], now)
		if i < 0 {
			continue
		}
		work := counts.cost(i, mean.Prefill(float64(max(prompt-max(most, tokens), 0)), float64(max(most, tokens)))+decode)
		p := plugins.HotPrefix{Hash: hashes[blocks-1], Blocks: int32(blocks), PerSecond: counts.rate(i, now)}
		p.Pods = p.PerSecond * work / 1000
		p.Target = h.target(p.Pods, len(c.Candidates))
		if p.Target > 1 {
			found, place, length = p, i, tokens
		}
		if p.PerSecond > 0 && h.Payback > 0 && most < 2*tokens {
			if to, holders, due := h.due(c, counts, i, p.Blocks, tokens, now); due {
				p.Holders, p.Target = holders, max(p.Target, holders+1)
				paid, paidPlace, paidLength, paidTo = p, i, tokens, to
			}
		}
	}
	if paid.Blocks > 0 {
		h.hot.Set(r, paid)
		counts.of[paidPlace].waited = 0
		h.copy(c, counts, paidPlace, paidTo, paidLength, now)
		return
	}
	if found.Blocks == 0 {
		return
	}
	held := h.blocks.Of(c)
	for _, id := range c.Candidates {
		if held[id] >= found.Blocks {
			found.Holders++
		}
	}
	h.hot.Set(r, found)
	if found.Holders == 0 || found.Holders >= found.Target || now < counts.of[place].copyAt {
		return
	}
	if found.Holders == 1 && most >= 2*length || found.Holders > 1 && most-second > length/8 {
		return // it has more there than what many share
	}
	if id, ok := h.idlest(c, held, found.Blocks); ok {
		h.copy(c, counts, place, id, length, now)
	}
}

// copy has the request bring the prefix at a place to a candidate; the next copy may be made when this one is computed.
func (h *Hot) copy(c *plugins.Cycle, counts *popular, place int16, to pool.ID, tokens int64, now float64) {
	h.copies.Of(c)[to] = true
	counts.of[place].copyAt = now + h.loads.Of(c)[to].Prefill(float64(tokens), 0)/1000
}

// What a copy takes from those who decode where it is computed: by breaks more in gaps of breaksAt milliseconds, and less by the
// fourth power in shorter ones (docs/design/0041-hot-prefixes.md).
const (
	breaks   = 40.0
	breaksAt = 50.0
)

// due counts what the request waits because the idlest candidate does not hold the prefix, and reports whether it is time to bring it
// there.
func (h *Hot) due(c *plugins.Cycle, counts *popular, place int16, blocks int32, tokens int64, now float64) (to pool.ID, holders int32, due bool) {
	held, loads := h.blocks.Of(c), h.loads.Of(c)
	with, without := math.Inf(1), math.Inf(1)
	for _, id := range c.Candidates {
		l := &loads[id]
		first := l.BacklogMS + float64(1.5*l.Step(l.Running, l.ResidentTokens)) // until it could begin to be computed, as in the cost
		switch {
		case held[id] >= blocks:
			with, holders = min(with, first), holders+1
		case first < without:
			without, to = first, id
		}
	}
	if holders == 0 || without >= with || h.MaxCopies > 0 && holders >= h.MaxCopies {
		return 0, 0, false
	}
	l := &loads[to]
	gap := l.Step(l.Running, l.ResidentTokens) / (1 - l.Busy) / breaksAt
	square := float64(gap * gap)
	price := h.Payback * l.Prefill(float64(tokens), 0) * (1 + float64(breaks*square*square))
	waited := counts.wait(place, now, with-without)
	return to, holders, waited > price && now >= counts.of[place].copyAt
}

// Hear counts a request that another replica decided.
func (h *Hot) Hear(poolIndex int, now pool.Instant, _ pool.Ref, chain []uint64, blockTokens int) {
	counts := h.pools[poolIndex]
	counts.mu.Lock()
	defer counts.mu.Unlock()
	for depth, blocks := 0, 1; depth < maxDepths && blocks <= len(chain); depth, blocks = depth+1, 2*blocks {
		if int64(blockTokens)*int64(blocks) >= h.MinTokens {
			counts.touch(chain[blocks-1], time.Duration(now).Seconds())
		}
	}
}

// longest returns how many of the prompt's tokens the candidate has cached that has most, and the one after it.
func (h *Hot) longest(c *plugins.Cycle) (most, second int64) {
	cached := h.tokens.Of(c)
	for _, id := range c.Candidates {
		if n := cached[id]; n > most {
			most, second = n, most
		} else {
			second = max(second, n)
		}
	}
	return most, second
}

// mean returns what prompts and steps cost on average over the candidates.
func (h *Hot) mean(c *plugins.Cycle) (mean plugins.EngineLoad) {
	loads := h.loads.Of(c)
	for _, id := range c.Candidates {
		l := &loads[id]
		mean.PrefillMSPerToken += l.PrefillMSPerToken
		mean.AttentionTokens += l.AttentionTokens
		mean.StepMSPerSequence += l.StepMSPerSequence
		mean.StepMSPerKToken += l.StepMSPerKToken
	}
	n := float64(len(c.Candidates))
	mean.PrefillMSPerToken /= n
	mean.AttentionTokens /= n
	mean.StepMSPerSequence /= n
	mean.StepMSPerKToken /= n
	return mean
}

// decode returns how much of an endpoint's time the answer takes, in milliseconds. In a batch whose sequences' parts of a step are
// together as long as an empty step, a step takes twice their sum.
func (h *Hot) decode(r *plugins.Request, mean *plugins.EngineLoad, prompt int64) float64 {
	out := h.traffic.Of(r).OutputTokens
	if h.foretold {
		if expected := h.expected.Of(r); expected != plugins.Unknown {
			out = float64(expected)
		}
	}
	out = max(out, 0)
	return 2 * out * mean.Step(1, float64(prompt)+out/2) // the mean has no StepMS
}

func (h *Hot) target(pods float64, candidates int) int32 {
	most := float64(candidates)
	if h.MaxCopies > 0 {
		most = min(most, float64(h.MaxCopies))
	}
	return int32(max(min(math.Ceil(pods/h.TargetLoad), most), 1))
}

// tokensAhead is over how many tokens of an answer two endpoints' loads are compared.
const tokensAhead = 100

// idlest returns the candidate with the least load among those who do not hold the prefix, if that is less than the mean of
// those who do.
func (h *Hot) idlest(c *plugins.Cycle, held []int32, blocks int32) (at pool.ID, ok bool) {
	loads := h.loads.Of(c)
	least, holding, holders := math.Inf(1), 0.0, 0.0
	for _, id := range c.Candidates {
		l := &loads[id]
		load := l.BacklogMS + float64(tokensAhead*l.Step(l.Running, l.ResidentTokens))
		switch {
		case held[id] >= blocks:
			holding, holders = holding+load, holders+1
		case load < least:
			least, at = load, id
		}
	}
	return at, least < holding/holders
}
