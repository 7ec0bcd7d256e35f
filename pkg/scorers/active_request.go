package scorers

import "github.com/fairlead/fairlead/pkg/plugins"

// ActiveRequest prefers endpoints to which we have sent few requests that have not ended.
//
// With c own requests in flight, and max the most that a candidate has:
//
//	score = 1                              if c <= idleThreshold
//	        (max - c)/max * maxBusyScore   else
//
// The count is our own and exact; engines need not be scraped for it.
type ActiveRequest struct {
	// IdleThreshold is how many requests an endpoint may have in flight and still count as idle.
	IdleThreshold int32 `json:"idleThreshold" schema:"min=0,max=1000000"`

	// MaxBusyScore is the score that endpoints which are not idle stay below.
	MaxBusyScore float64 `json:"maxBusyScore" schema:"min=0,max=1"`

	// InFlightLoadProducerName names the plugin whose count is read. The books count for all, so that it may be the
	// configuration's inflight-load-producer or left out.
	InFlightLoadProducerName string `json:"inFlightLoadProducerName,omitempty"`

	flying plugins.EndpointValues[int32]
}

var _ plugins.Scorer = (*ActiveRequest)(nil)

// NewActiveRequest returns an ActiveRequest with its defaults.
func NewActiveRequest() *ActiveRequest { return &ActiveRequest{MaxBusyScore: 1} }

// Provision says what Score reads.
func (a *ActiveRequest) Provision(b *plugins.Builder) error {
	a.flying = plugins.Needs(b, plugins.InFlightRequests)
	return plugins.CheckInFlightProducer(b, a.InFlightLoadProducerName)
}

// Score writes one score per candidate into out.
func (a *ActiveRequest) Score(c *plugins.Cycle, out []float64) {
	flying := a.flying.Of(c)
	most := int32(0)
	for _, id := range c.Candidates {
		most = max(most, flying[id])
	}
	for i, id := range c.Candidates {
		if n := flying[id]; n <= a.IdleThreshold {
			out[i] = 1
		} else {
			out[i] = float64(most-n) / float64(most) * a.MaxBusyScore
		}
	}
}
