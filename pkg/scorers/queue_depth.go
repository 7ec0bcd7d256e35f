package scorers

import "github.com/fairlead/fairlead/pkg/plugins"

// QueueDepth prefers the endpoints in whose engine the fewest requests wait, relative to the other candidates.
//
// With q = requests waiting at the last scrape + own bookings made after it and without a first byte:
//
//	score = (max - q)/(max - min), and 1 for all if all are equal
//
// An endpoint without telemetry counts as the mean of those with, plus its own bookings; if no candidate has telemetry,
// the own bookings in flight decide. Being relative, 0 against 1 waiting counts as much as 0 against 1000.
type QueueDepth struct{ minmax }

var _ plugins.Scorer = (*QueueDepth)(nil)

// NewQueueDepth returns a QueueDepth; it has no parameters.
func NewQueueDepth() *QueueDepth { return &QueueDepth{} }

// Provision says what Score reads.
func (q *QueueDepth) Provision(b *plugins.Builder) error {
	q.minmax = newMinmax(b, plugins.WaitingRequests)
	return nil
}

// Score writes one score per candidate into out.
func (q *QueueDepth) Score(c *plugins.Cycle, out []float64) { q.score(c, out) }
