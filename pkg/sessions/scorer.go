package sessions

import "github.com/fairlead/fairlead/pkg/plugins"

// Scorer prefers the endpoint to which the session's last request went: 1 for it, 0 for the others. Without a session, or if
// its endpoint is no candidate, all score 0.
type Scorer struct{ affinity }

var (
	_ plugins.Producer    = (*Scorer)(nil)
	_ plugins.Scorer      = (*Scorer)(nil)
	_ plugins.RequestHook = (*Scorer)(nil)
	_ plugins.AnswerHook  = (*Scorer)(nil)
	_ plugins.Settler     = (*Scorer)(nil)
	_ plugins.Ticker      = (*Scorer)(nil)
	_ plugins.Heir        = (*Scorer)(nil)
)

// NewScorer returns a Scorer with its defaults.
func NewScorer() *Scorer { return &Scorer{newAffinity()} }

// Score writes one score per candidate into out.
func (s *Scorer) Score(c *plugins.Cycle, out []float64) {
	pin := s.pin.Of(c)
	for i, id := range c.Candidates {
		if pin[id] {
			out[i] = 1
		}
	}
}

// Inherit shares the sessions of each pool that stays.
func (s *Scorer) Inherit(from any, pools []int) { s.inherit(&from.(*Scorer).affinity, pools) }
