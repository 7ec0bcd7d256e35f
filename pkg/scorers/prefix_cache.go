package scorers

import "github.com/fairlead/fairlead/pkg/plugins"

// PrefixCache prefers endpoints that are believed to hold the beginning of the prompt in their KV cache.
//
// With m of the prompt's t full blocks and m' tokens matched:
//
//	score = w*min(1, m'/scale)² + (1 - w)*m/t
//
// where w is matchLengthWeight and scale is matchLengthScaleTokens: the first term values long matches as such, the
// second the share of the prompt. A prompt without a full block, and an endpoint of which nothing is known, score 0.
type PrefixCache struct {
	// PrefixMatchInfoProducerName names the plugin whose match is read. Empty: the one that the configuration has. A
	// configuration has one prefix producer, so that any other name than its own is refused.
	PrefixMatchInfoProducerName string `json:"prefixMatchInfoProducerName,omitempty"`

	// MatchLengthWeight is the weight of the absolute length of the match; the share of the prompt has the rest.
	MatchLengthWeight float64 `json:"matchLengthWeight" schema:"min=0,max=1"`

	// MatchLengthScaleTokens is the length of a match, in tokens, beyond which more length adds nothing.
	MatchLengthScaleTokens int64 `json:"matchLengthScaleTokens" schema:"min=1"`

	tokens plugins.EndpointValues[int64]
	blocks plugins.EndpointValues[int32]
	total  plugins.RequestValue[int32]
}

var _ plugins.Scorer = (*PrefixCache)(nil)

// NewPrefixCache returns a PrefixCache with its defaults.
func NewPrefixCache() *PrefixCache { return &PrefixCache{MatchLengthScaleTokens: 8192} }

// Provision says what Score reads, and refuses the name of a producer that is not there.
func (p *PrefixCache) Provision(b *plugins.Builder) error {
	p.tokens = plugins.Needs(b, plugins.CachedTokens)
	p.blocks = plugins.Needs(b, plugins.CachedBlocks)
	p.total = plugins.Needs(b, plugins.PromptBlocks)
	if p.MatchLengthWeight == 0 {
		b.Warn("matchLengthScaleTokens", "matchLengthScaleTokens has no effect while matchLengthWeight is 0; raise matchLengthWeight, or remove it")
	}
	return plugins.CheckProducer(b, plugins.CachedBlocks, "prefixMatchInfoProducerName", p.PrefixMatchInfoProducerName)
}

// Score writes one score per candidate into out.
func (p *PrefixCache) Score(c *plugins.Cycle, out []float64) {
	total := p.total.Of(c.Request)
	if total <= 0 {
		return
	}
	tokens, blocks := p.tokens.Of(c), p.blocks.Of(c)
	w, scale := p.MatchLengthWeight, float64(p.MatchLengthScaleTokens)
	for i, id := range c.Candidates {
		if blocks[id] <= 0 {
			continue
		}
		length := min(1, float64(max(tokens[id], 0))/scale)
		share := float64(blocks[id]) / float64(total)
		out[i] = float64(w*float64(length*length)) + float64((1-w)*share)
	}
}
