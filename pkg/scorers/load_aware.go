package scorers

import "github.com/fairlead/fairlead/pkg/plugins"

// LoadAware prefers endpoints in whose engine few requests wait, in absolute numbers.
//
// With q = requests waiting at the last scrape + own bookings made after it and without a first byte, and T = threshold:
//
//	score = 0.5*(1 - min(q, T)/T)
//
// so that an endpoint without a queue scores 0.5, the most there is. An endpoint without telemetry scores the mean of those
// with; if there are none, all score 0.5.
type LoadAware struct {
	// Threshold is the length of the queue at which an endpoint scores 0.
	Threshold int32 `json:"threshold" schema:"min=1,max=1000000"`

	queued plugins.EndpointValues[int32]
}

var _ plugins.Scorer = (*LoadAware)(nil)

// NewLoadAware returns a LoadAware with its defaults.
func NewLoadAware() *LoadAware { return &LoadAware{Threshold: 128} }

// Provision says what Score reads.
func (l *LoadAware) Provision(b *plugins.Builder) error {
	l.queued = plugins.Needs(b, plugins.QueuedRequests)
	return nil
}

// Score writes one score per candidate into out.
func (l *LoadAware) Score(c *plugins.Cycle, out []float64) {
	queued := l.queued.Of(c)
	for i, id := range c.Candidates {
		out[i] = unknown
		if q := queued[id]; q != plugins.Unknown {
			out[i] = 0.5 * (1 - float64(min(q, l.Threshold))/float64(l.Threshold))
		}
	}
	neutral(out)
}
