package kvindex

import (
	"fmt"
	"math"
	"time"

	"github.com/fairlead/fairlead/pkg/kvindex/blockhash"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// MinBlockTokens is the least size of a block; see Producer.BlockSizeTokens.
const MinBlockTokens = 64

// Producer tells how much of a prompt each endpoint is believed to have cached, without a tokenizer and without hearing
// from the engines: an endpoint to which a prompt was sent has it, until newer ones have filled its cache.
//
// A prompt is cut into blocks (package blockhash). With the booking its blocks are credited to the primary of each leg, before
// the next decision is made, so that requests with the same prefix that come in the same instant meet. An answer confirms the
// credit. When another endpoint than the primary answers, it moves there; when nobody answered, an error came, or the client
// went away before its prompt can have been computed, what the request had newly credited is taken back, and so is what was
// not confirmed in time. What an endpoint holds is bounded by the size of its cache, the least recently used ends of prompts
// going first. An engine that restarts begins with nothing.
type Producer struct {
	// AutoTune has the size of each endpoint's cache taken from its engine (cache blocks x block tokens) as soon as that was
	// scraped. Without it, and until then, LRUCapacityPerServer holds.
	AutoTune bool `json:"autoTune"`

	// BlockSizeTokens is the size of a block in tokens of 4 bytes. Values below 64 count as 64: finer blocks cost memory and
	// time and match no better, since the tokens are estimated.
	BlockSizeTokens int `json:"blockSizeTokens" schema:"min=0,was=blockSize"`

	// MaxPrefixBlocksToMatch bounds how many blocks of a prompt are hashed and matched. It counts where
	// MaxPrefixTokensToMatch is 0; 0 is no bound.
	MaxPrefixBlocksToMatch int `json:"maxPrefixBlocksToMatch" schema:"min=0"`

	// MaxPrefixTokensToMatch is the same bound in tokens, and wins. 0: MaxPrefixBlocksToMatch holds.
	MaxPrefixTokensToMatch int `json:"maxPrefixTokensToMatch" schema:"min=0"`

	// LRUCapacityPerServer is how many blocks an endpoint is believed to hold where its engine does not say. A block costs
	// 28 bytes.
	LRUCapacityPerServer int `json:"lruCapacityPerServer" schema:"min=1,max=16777216"`

	// UnconfirmedTTLMs is how long, in milliseconds beyond the time when its prompt should have been computed, a credit waits
	// for an answer; then it is taken back until one comes. Where answers are never seen, none is taken back. 0: as long as the
	// request runs.
	UnconfirmedTTLMs int64 `json:"unconfirmedTTLMs" schema:"min=0,max=3600000"`

	blockTokens int
	limit       int // blocks; 0 is none

	indexes []*Approximate // by the pool's place in the configuration; shared with who inherits
	looked  []observed     // likewise, not shared

	prompt  plugins.RequestValue[int64]
	hashes  plugins.RequestValue[[]uint64]
	total   plugins.RequestValue[int32]
	credits plugins.RequestValue[[]plugins.PrefixCredit]
	matched plugins.RequestValue[int64]
	tokens  plugins.EndpointValues[int64]
	blocks  plugins.EndpointValues[int32]
}

// observed says which membership's sizes are known, and since when; it is guarded by the pool's lock.
type observed struct {
	version uint64
	at      pool.Instant
}

// sizesEvery is how often the sizes of the engines' caches are looked at while the membership stays. They change with a
// restart alone, which changes the membership too, or come with a first scrape.
const sizesEvery = pool.Instant(time.Second)

var (
	_ plugins.Describer    = (*Producer)(nil)
	_ plugins.Producer     = (*Producer)(nil)
	_ plugins.Observer     = (*Producer)(nil)
	_ plugins.Claimer      = (*Producer)(nil)
	_ plugins.Booker       = (*Producer)(nil)
	_ plugins.RequestHook  = (*Producer)(nil)
	_ plugins.ResponseHook = (*Producer)(nil)
	_ plugins.Settler      = (*Producer)(nil)
	_ plugins.Heir         = (*Producer)(nil)
	_ plugins.Hearer       = (*Producer)(nil)
)

// NewProducer returns a Producer with its defaults.
func NewProducer() *Producer {
	return &Producer{
		AutoTune: true, BlockSizeTokens: MinBlockTokens, MaxPrefixBlocksToMatch: 2048, MaxPrefixTokensToMatch: 131072,
		LRUCapacityPerServer: 31250, UnconfirmedTTLMs: 5000,
	}
}

// Provision says what it makes, refuses a bound below one block, and warns of sizes that count as others.
func (p *Producer) Provision(b *plugins.Builder) error {
	p.prompt = plugins.Needs(b, plugins.PromptTokens)
	p.hashes = plugins.Provides(b, plugins.BlockHashes)
	p.total = plugins.Provides(b, plugins.PromptBlocks)
	p.credits = plugins.Provides(b, plugins.PrefixCredits)
	p.matched = plugins.Provides(b, plugins.PrefixMatched)
	p.tokens = plugins.Provides(b, plugins.CachedTokens)
	p.blocks = plugins.Provides(b, plugins.CachedBlocks)

	p.blockTokens = max(p.BlockSizeTokens, MinBlockTokens)
	p.limit = p.MaxPrefixBlocksToMatch
	if p.MaxPrefixTokensToMatch > 0 {
		if p.limit = p.MaxPrefixTokensToMatch / p.blockTokens; p.limit == 0 {
			return fmt.Errorf("maxPrefixTokensToMatch is %d, less than one block of %d tokens, so that nothing would ever match; at least %d, or 0 for no bound",
				p.MaxPrefixTokensToMatch, p.blockTokens, p.blockTokens)
		}
		b.Warn("maxPrefixBlocksToMatch", "maxPrefixBlocksToMatch is %d and has no effect beside maxPrefixTokensToMatch %d; set maxPrefixTokensToMatch to 0, or remove it",
			p.MaxPrefixBlocksToMatch, p.MaxPrefixTokensToMatch)
	}
	if p.BlockSizeTokens < MinBlockTokens {
		b.Warn("blockSizeTokens", "blockSizeTokens is %d and counts as %d; write %d, or remove it", p.BlockSizeTokens, MinBlockTokens, MinBlockTokens)
	}
	p.indexes = make([]*Approximate, len(b.Pools))
	for i := range p.indexes {
		p.indexes[i] = new(Approximate)
	}
	p.looked = make([]observed, len(b.Pools))
	return nil
}

// Inherit shares the index of each pool that stays: blocks are of the same size and seed with the same parameters, and an
// index is safe for several.
func (p *Producer) Inherit(from any, pools []int) {
	for i, was := range pools {
		if was >= 0 {
			p.indexes[i] = from.(*Producer).indexes[was]
		}
	}
}

// Blocks returns how many blocks are believed to be held in all pools.
func (p *Producer) Blocks() int {
	n := 0
	for _, x := range p.indexes {
		n += x.Held()
	}
	return n
}

// Describe hashes the prompt. Where the summary brings hashes, as a trace does, these are taken.
func (p *Producer) Describe(r *plugins.Request) {
	hashes := p.hashes.Of(r)[:0]
	if s := r.Body; s != nil {
		if s.BlockHashes != nil {
			given := s.BlockHashes
			if p.limit > 0 {
				given = given[:min(len(given), p.limit*p.blockTokens/p.tokensOfBlock(r))]
			}
			hashes = append(hashes, given...)
		} else {
			model := r.Target.Model
			if model == "" {
				model = s.Model
			}
			hashes = blockhash.Append(hashes, s, blockhash.Seed(model, r.Target.Adapter, s.Salt), p.blockTokens, p.limit)
		}
	}
	p.hashes.Set(r, hashes)
	p.total.Set(r, int32(len(hashes)))
	p.credits.Set(r, p.credits.Of(r)[:0])
}

// tokensOfBlock returns the size of the request's blocks, in tokens.
func (p *Producer) tokensOfBlock(r *plugins.Request) int {
	if s := r.Body; s != nil && s.BlockHashes != nil && s.BlockTokens > 0 {
		return int(s.BlockTokens)
	}
	return p.blockTokens
}

// Produce matches the prompt's blocks against all candidates.
func (p *Producer) Produce(c *plugins.Cycle) {
	x := p.indexes[c.PoolIndex]
	if n := x.Lapse(c.Now); n > 0 {
		c.Note(reason.PrefixUnconfirmed, "")
	}
	p.match(c, x)
}

// match fills the facts per endpoint.
func (p *Producer) match(c *plugins.Cycle, x *Approximate) {
	r := c.Request
	hashes, blocks, tokens := p.hashes.Of(r), p.blocks.Of(c), p.tokens.Of(c)
	p.matched.Set(r, x.Match(c.Snapshot, c.Candidates, hashes, blocks))
	prompt := p.prompt.Of(r)
	for _, id := range c.Candidates {
		tokens[id] = p.tokensIn(r, int64(blocks[id]), prompt)
	}
}

// tokensIn returns how many of the prompt's tokens so many blocks are. An engine computes at least the last token anew,
// whatever it has cached (vLLM, kv_cache_manager.get_computed_blocks).
func (p *Producer) tokensIn(r *plugins.Request, blocks, prompt int64) int64 {
	if blocks == 0 {
		return 0
	}
	tokens := blocks * int64(p.tokensOfBlock(r))
	if s := r.Body; s.BlockHashes == nil && s.PromptBytes > 0 && prompt > 0 {
		// As many as are in these bytes: a prompt of token ids has more bytes to a token than text.
		tokens = tokens * blockhash.BytesPerToken * prompt / s.PromptBytes
	}
	return max(min(tokens, prompt-1), 0)
}

// Observe matches again if somebody was booked since Produce, and takes the sizes of the engines' caches from their samples,
// about once a second.
func (p *Producer) Observe(c *plugins.Cycle, books *pool.Books) {
	if x := p.indexes[c.PoolIndex]; x.Changes() != p.matched.Of(c.Request) {
		p.match(c, x)
	}
	last := &p.looked[c.PoolIndex]
	if !p.AutoTune || last.version == c.Snapshot.Version && c.Now < last.at+sizesEvery {
		return
	}
	*last = observed{c.Snapshot.Version, c.Now}
	for _, id := range c.Snapshot.Members {
		if s := &books.Samples[id]; s.Blocks > 0 && s.BlockTokens > 0 {
			p.indexes[c.PoolIndex].Size(c.Snapshot.Slots[id].Ref, int64(s.Blocks)*int64(s.BlockTokens))
		}
	}
}

// Claim claims the prompt for the primary of each leg.
func (p *Producer) Claim(r *plugins.Request, legs []plugins.Leg, books *pool.Books) {
	hashes, credits := p.hashes.Of(r), p.credits.Of(r)[:0]
	otherwise := int64(p.LRUCapacityPerServer) * int64(p.blockTokens)
	for _, leg := range legs {
		if len(leg.Endpoints) == 0 || len(hashes) == 0 {
			continue
		}
		id := leg.Endpoints[0]
		ends, deadline := max(books.BacklogEnds[id], r.Now), pool.Instant(0)
		if p.UnconfirmedTTLMs > 0 && ends < math.MaxInt64/2 {
			deadline = ends + pool.Instant(p.UnconfirmedTTLMs)*pool.Instant(time.Millisecond)
		}
		credits = append(credits, plugins.PrefixCredit(p.indexes[r.PoolIndex].Claim(r.Snapshot.Slots[id].Ref, hashes, p.tokensOfBlock(r), otherwise, r.Now, ends, deadline)))
	}
	p.credits.Set(r, credits)
}

// Unclaim takes the claims back: the request goes elsewhere.
func (p *Producer) Unclaim(r *plugins.Request) {
	p.takeBack(r)
	p.release(r)
}

// Booked tells other replicas where the prompt goes. What they were told is not taken back, so that it has to stand.
func (p *Producer) Booked(r *plugins.Request, legs []plugins.Leg, books *pool.Books) {
	hashes := p.hashes.Of(r)
	for _, leg := range legs {
		if len(leg.Endpoints) > 0 {
			books.Bring(r.Snapshot.Slots[leg.Endpoints[0]].Ref, hashes, p.tokensOfBlock(r))
		}
	}
}

// Hear credits an endpoint with a prompt that another replica has sent there. It stands on nobody's account: should the endpoint
// not serve it, it goes as those do that are not asked for.
func (p *Producer) Hear(poolIndex int, _ pool.Instant, to pool.Ref, chain []uint64, blockTokens int) {
	p.indexes[poolIndex].Credit(to, chain, blockTokens, int64(p.LRUCapacityPerServer)*int64(p.blockTokens))
}

// Commit writes what was claimed.
func (p *Producer) Commit(r *plugins.Request, _ []plugins.Leg, _ *plugins.Outgoing) {
	for _, credit := range p.credits.Of(r) {
		p.indexes[r.PoolIndex].Write(Claim(credit))
	}
}

// Wants asks for the answer's beginning, which tells who serves.
func (p *Producer) Wants() plugins.Parts { return plugins.FirstByte }

// Respond confirms, and moves the client's leg's credit to who really serves. An engine that answers with an error has computed
// nothing.
func (p *Producer) Respond(r *plugins.Request, _ plugins.Parts, _ []byte) {
	if r.Status >= 300 {
		p.takeBack(r)
		return
	}
	p.served(r, r.Served)
}

func (p *Producer) served(r *plugins.Request, by pool.Ref) {
	x := p.indexes[r.PoolIndex]
	for i, credit := range p.credits.Of(r) {
		if i == 0 && by.Incarnation != 0 {
			x.Follow(Claim(credit), by)
		}
		x.Confirm(Claim(credit))
	}
}

func (p *Producer) takeBack(r *plugins.Request) {
	for _, credit := range p.credits.Of(r) {
		p.indexes[r.PoolIndex].TakeBack(Claim(credit))
	}
}

// Settle follows who served where that is learned at the end, and takes back the credit of a request that nobody answered, or
// that was broken off before its prompt can have been computed.
func (p *Producer) Settle(r *plugins.Request, o plugins.Outcome) {
	x := p.indexes[r.PoolIndex]
	switch {
	case o.Served.Incarnation != 0:
		if r.Status < 300 {
			p.served(r, o.Served)
		}
		if o.Ending != 0 && o.Out <= 0 {
			for _, credit := range p.credits.Of(r) {
				x.TakeBackBefore(Claim(credit), o.Total)
			}
		}
	case o.Ending != 0: // else nobody saw who answered: the pick is the best guess
		p.takeBack(r)
	}
	p.release(r)
}

// release ends the claims of a request.
func (p *Producer) release(r *plugins.Request) {
	for _, credit := range p.credits.Of(r) {
		p.indexes[r.PoolIndex].Release(Claim(credit))
	}
	p.credits.Set(r, p.credits.Of(r)[:0])
}
