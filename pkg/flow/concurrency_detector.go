package flow

import "github.com/fairlead/fairlead/pkg/plugins"

// ConcurrencyDetector measures how full a pool is by what runs at it, as it was sent through this process:
//
//	saturation = sum of what is in flight / (endpoints · maximum of one)
//
// in requests, in tokens, or by the greater of both. Room and booking are one step, so that no burst goes beyond it. New
// endpoints add room and no load.
type ConcurrencyDetector struct {
	// MaxConcurrency is how many requests an endpoint is meant to run.
	MaxConcurrency int64 `json:"maxConcurrency" schema:"min=1" unit:"requests"`

	// ConcurrencyMode says what is counted: requests, tokens, or hybrid for the greater of both.
	ConcurrencyMode string `json:"concurrencyMode" schema:"enum=requests|tokens|hybrid"`

	// MaxTokenConcurrency is how many tokens an endpoint is meant to hold: uncached prompt tokens before the first byte, and
	// expected or known tokens of answers.
	MaxTokenConcurrency int64 `json:"maxTokenConcurrency" schema:"min=1" unit:"tokens"`

	// Headroom is how far above its maximum an endpoint may be as a candidate of a profile. Here the detector is no filter, so
	// that it changes nothing.
	Headroom float64 `json:"headroom" schema:"min=0"`

	// InFlightLoadProducerName names the plugin whose count is read. The books count for all, so that it may be the
	// configuration's inflight-load-producer or left out.
	InFlightLoadProducerName string `json:"inFlightLoadProducerName,omitempty" schema:"max=253"`
}

var _ Detector = (*ConcurrencyDetector)(nil)

// NewConcurrencyDetector returns a ConcurrencyDetector with its defaults.
func NewConcurrencyDetector() *ConcurrencyDetector {
	return &ConcurrencyDetector{MaxConcurrency: 100, ConcurrencyMode: "requests", MaxTokenConcurrency: 1_000_000}
}

// Provision warns of a parameter without effect.
func (d *ConcurrencyDetector) Provision(b *plugins.Builder) error {
	if d.Headroom != 0 {
		b.Warn("headroom", "headroom has no effect, since the detector is no filter; use utilization-filter in a profile")
	}
	return nil
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
