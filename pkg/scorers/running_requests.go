package scorers

import "github.com/fairlead/fairlead/pkg/plugins"

// RunningRequests prefers the endpoints in whose batch the fewest requests run, relative to the other candidates.
//
// With q = requests running at the last scrape + own bookings made after it and without a first byte:
//
//	score = (max - q)/(max - min), and 1 for all if all are equal
//
// An endpoint without telemetry counts as the mean of those with, plus its own bookings; if no candidate has telemetry,
// the own bookings in flight decide.
type RunningRequests struct{ minmax }

var _ plugins.Scorer = (*RunningRequests)(nil)

// NewRunningRequests returns a RunningRequests; it has no parameters.
func NewRunningRequests() *RunningRequests { return &RunningRequests{} }

// Provision says what Score reads.
func (r *RunningRequests) Provision(b *plugins.Builder) error {
	r.minmax = newMinmax(b, plugins.RunningRequests)
	return nil
}

// Score writes one score per candidate into out.
func (r *RunningRequests) Score(c *plugins.Cycle, out []float64) { r.score(c, out) }
