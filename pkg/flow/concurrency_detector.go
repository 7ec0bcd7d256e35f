package flow

import "github.com/fairlead/fairlead/pkg/plugins"

// ConcurrencyDetector measures how full a pool is by what runs at it, as it was sent through this process:
//
//	saturation = sum of what is in flight / (endpoints · maximum of one)
//
// in requests, in tokens, or by the greater of both. Room and booking are one step, so that no burst goes beyond it. New
// endpoints add room and no load.
//
// In a profile it is a filter, as llm-d's is: it keeps the endpoints at which less is in flight than their maximum times 1 + Headroom,
// and none where none is. Tokens are those of the fact in-flight-tokens then. A file of llm-d's that names no profiles has it in its profile
// where it declares it; one of our own has it not.
type ConcurrencyDetector struct {
	// MaxConcurrency is how many requests an endpoint is meant to run.
	MaxConcurrency int64 `json:"maxConcurrency" schema:"min=1" unit:"requests"`

	// ConcurrencyMode says what is counted: requests, tokens, or hybrid for the greater of both.
	ConcurrencyMode string `json:"concurrencyMode" schema:"enum=requests|tokens|hybrid"`

	// MaxTokenConcurrency is how many tokens an endpoint is meant to hold: uncached prompt tokens before the first byte, and
	// expected or known tokens of answers.
	MaxTokenConcurrency int64 `json:"maxTokenConcurrency" schema:"min=1" unit:"tokens"`

	// Headroom is how far above its maximum an endpoint may be as a candidate of a profile, as a share of it. It changes nothing about
	// when the pool is full.
	Headroom float64 `json:"headroom" schema:"min=0"`

	// InFlightLoadProducerName names the plugin whose count is read. The books count for all, so that it may be the
	// configuration's inflight-load-producer or left out.
	InFlightLoadProducerName string `json:"inFlightLoadProducerName,omitempty" schema:"max=253"`

	requests plugins.EndpointValues[int32]
	tokens   plugins.EndpointValues[int64]
}

var (
	_ Detector       = (*ConcurrencyDetector)(nil)
	_ plugins.Filter = (*ConcurrencyDetector)(nil)
)

// NewConcurrencyDetector returns a ConcurrencyDetector with its defaults.
func NewConcurrencyDetector() *ConcurrencyDetector {
	return &ConcurrencyDetector{MaxConcurrency: 100, ConcurrencyMode: "requests", MaxTokenConcurrency: 1_000_000}
}

// Provision says what Filter reads.
func (d *ConcurrencyDetector) Provision(b *plugins.Builder) error {
	d.requests, d.tokens = plugins.Needs(b, plugins.InFlightRequests), plugins.Needs(b, plugins.InFlightTokens)
	return nil
}

// Filter keeps the endpoints that are below their maximum and the headroom above it.
func (d *ConcurrencyDetector) Filter(c *plugins.Cycle, keep plugins.Bits) {
	requests, tokens := d.requests.Of(c), d.tokens.Of(c)
	mostRequests, mostTokens := float64(float64(d.MaxConcurrency)*(1+d.Headroom)), float64(float64(d.MaxTokenConcurrency)*(1+d.Headroom))
	for i, id := range c.Candidates {
		if d.ConcurrencyMode != "tokens" && float64(requests[id]) >= mostRequests || d.ConcurrencyMode != "requests" && float64(tokens[id]) >= mostTokens {
			keep.Clear(i)
		}
	}
}

// Saturation returns the share that is in flight.
func (d *ConcurrencyDetector) Saturation(v *View) Saturation {
	var requests, tokens mean
	for _, id := range v.Members {
		requests.add(v.Stages[id], float64(v.Books.Requests[id]))
		tokens.add(v.Stages[id], float64(v.Books.PrefillTokens[id]+v.Books.DecodeTokens[id]))
	}
	byRequests, byTokens := requests.of(float64(d.MaxConcurrency)), tokens.of(float64(d.MaxTokenConcurrency))
	switch d.ConcurrencyMode {
	case "tokens":
		return byTokens
	case "hybrid":
		return Saturation{Value: max(byRequests.Value, byTokens.Value), Prefill: max(byRequests.Prefill, byTokens.Prefill),
			Decode: max(byRequests.Decode, byTokens.Decode)}
	}
	return byRequests
}
