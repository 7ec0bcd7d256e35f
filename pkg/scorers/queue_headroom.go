package scorers

import (
	"errors"

	"github.com/fairlead/fairlead/pkg/plugins"
)

// Queue prefers endpoints in whose engine few requests wait.
//
// With w the number of waiting requests, as last reported by the engine:
//
//	score = 1 - min(w, Full)/Full
//
// An endpoint that was never scraped scores Unknown: that nothing is known of it does not make it idle.
type Queue struct {
	// Full is the number of waiting requests at which an endpoint scores 0.
	Full int32 `json:"full" schema:"min=1"`

	// Unknown is the score of an endpoint without telemetry.
	Unknown float64 `json:"unknown" schema:"min=0,max=1"`

	waiting plugins.EndpointValues[int32]
}

var _ plugins.Scorer = (*Queue)(nil)

// NewQueue returns a Queue with its defaults.
func NewQueue() *Queue { return &Queue{Full: 128, Unknown: 0.5} }

// Provision says what Score reads and refuses parameters that are wrong only together.
func (q *Queue) Provision(b *plugins.Builder) error {
	q.waiting = plugins.Needs(b, plugins.WaitingRequests)
	if q.Full == 1 && q.Unknown == 1 {
		return errors.New("unknown 1 with full 1 prefers endpoints never seen to busy ones; lower unknown or raise full")
	}
	return nil
}

// Score writes one score per candidate into out, which arrives zeroed and as long as c.Candidates.
func (q *Queue) Score(c *plugins.Cycle, out []float64) {
	waiting := q.waiting.Of(c)
	for i, id := range c.Candidates {
		w := waiting[id]
		if w == plugins.Unknown {
			out[i] = q.Unknown
			continue
		}
		out[i] = 1 - float64(min(w, q.Full))/float64(q.Full)
	}
}
