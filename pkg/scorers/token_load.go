package scorers

import "github.com/fairlead/fairlead/pkg/plugins"

// TokenLoad prefers endpoints that have few prompt tokens to compute, this request's among them.
//
// With f tokens in flight on the endpoint, u of the prompt's tokens that it has not cached, and T = queueThresholdTokens:
//
//	score = 1 - min(f + u, T)/T
//
// Tokens in flight are those of own requests without a first byte; an inflight-load-producer may add those of answers.
// Without a prefix producer in the configuration nothing counts as cached.
type TokenLoad struct {
	// QueueThresholdTokens is the number of tokens at which an endpoint scores 0.
	QueueThresholdTokens int64 `json:"queueThresholdTokens" schema:"min=1"`

	// InFlightLoadProducerName names the plugin whose count is read: the configuration's inflight-load-producer. Empty: the
	// one that there is, or the books.
	InFlightLoadProducerName string `json:"inFlightLoadProducerName,omitempty"`

	flying plugins.EndpointValues[int64]
	cached plugins.EndpointValues[int64]
	prompt plugins.RequestValue[int64]
}

var _ plugins.Scorer = (*TokenLoad)(nil)

// NewTokenLoad returns a TokenLoad with its defaults.
func NewTokenLoad() *TokenLoad { return &TokenLoad{QueueThresholdTokens: 4194304} }

// Provision says what Score reads.
func (l *TokenLoad) Provision(b *plugins.Builder) error {
	l.flying = plugins.Needs(b, plugins.InFlightTokens)
	l.prompt = plugins.Needs(b, plugins.PromptTokens)
	l.cached, _ = plugins.Uses(b, plugins.CachedTokens)
	return plugins.CheckInFlightProducer(b, l.InFlightLoadProducerName)
}

// Score writes one score per candidate into out.
func (l *TokenLoad) Score(c *plugins.Cycle, out []float64) {
	flying, cached, prompt := l.flying.Of(c), l.cached.Of(c), max(l.prompt.Of(c.Request), 0)
	full := l.QueueThresholdTokens
	for i, id := range c.Candidates {
		load := max(flying[id], 0) + max(prompt-max(cached[id], 0), 0)
		out[i] = 1 - float64(min(load, full))/float64(full)
	}
}
