package filters

import (
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/reason"
)

// SLOHeadroomTier keeps the endpoints that are predicted to keep the client's targets, for the first token and between tokens; and
// all where none is, or all are. A target that the client does not name counts as 0, so that nobody keeps it.
//
// What is not predicted of an endpoint is no miss; where nothing is predicted of any, all stay, and latency_unpredicted is noted of
// requests that name a target. latency-scorer makes the same difference by itself; this filter makes it before
// other scorers.
type SLOHeadroomTier struct {
	// EpsilonExploreNeg is the share of requests that go to those who would miss a target, so that it is learned of them as well.
	EpsilonExploreNeg float64 `json:"epsilonExploreNeg" schema:"min=0,max=1"`

	// LatencyPredictionInfoProducerName names the plugin that predicts. Empty: the one that the configuration has.
	LatencyPredictionInfoProducerName string `json:"latencyPredictionInfoProducerName,omitempty"`

	ttft, itl             plugins.EndpointValues[float64]
	ttftTarget, itlTarget plugins.RequestValue[float64]
}

var _ plugins.Filter = (*SLOHeadroomTier)(nil)

// NewSLOHeadroomTier returns an SLOHeadroomTier with its defaults.
func NewSLOHeadroomTier() *SLOHeadroomTier { return &SLOHeadroomTier{EpsilonExploreNeg: 0.01} }

// Provision says what Filter reads.
func (s *SLOHeadroomTier) Provision(b *plugins.Builder) error {
	s.ttft, s.itl = plugins.Needs(b, plugins.PredictedTTFT), plugins.Needs(b, plugins.PredictedITL)
	s.ttftTarget, s.itlTarget = plugins.Needs(b, plugins.TTFTTarget), plugins.Needs(b, plugins.ITLTarget)
	return plugins.CheckProducer(b, plugins.PredictedTTFT, "latencyPredictionInfoProducerName", s.LatencyPredictionInfoProducerName)
}

// Filter clears the bits of one of the two tiers, where both have somebody.
func (s *SLOHeadroomTier) Filter(c *plugins.Cycle, keep plugins.Bits) {
	ttft, itl := s.ttft.Of(c), s.itl.Of(c)
	most, mostBetween := max(s.ttftTarget.Of(c.Request), 0), max(s.itlTarget.Of(c.Request), 0)
	misses := func(i int) bool {
		id := c.Candidates[i]
		return ttft[id] != plugins.Unknown && (ttft[id] > most || itl[id] > mostBetween)
	}
	missing, predicted := 0, false
	for i, id := range c.Candidates {
		predicted = predicted || ttft[id] != plugins.Unknown
		if misses(i) {
			missing++
		}
	}
	if !predicted && len(c.Candidates) > 0 && max(most, mostBetween) > 0 {
		c.NoteOnce(reason.LatencyUnpredicted, "slo-headroom-tier-filter")
	}
	if missing == 0 || missing == len(c.Candidates) {
		return
	}
	explores := s.EpsilonExploreNeg > 0 && c.Rand().Float64() < s.EpsilonExploreNeg
	for i := range c.Candidates {
		if misses(i) != explores {
			keep.Clear(i)
		}
	}
}
