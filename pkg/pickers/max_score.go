package pickers

import "github.com/fairlead/fairlead/pkg/plugins"

// MaxScore picks the candidate with the highest total, and the next ones as fallbacks. Among equals it draws at random.
type MaxScore struct {
	// MaxNumOfEndpoints is the length of the list: the primary and its fallbacks. 0 or absent: as many as the gateway at hand
	// can use.
	MaxNumOfEndpoints int `json:"maxNumOfEndpoints" schema:"min=0"`
}

var _ plugins.Picker = (*MaxScore)(nil)

// NewMaxScore returns a MaxScore with its defaults.
func NewMaxScore() *MaxScore { return &MaxScore{} }

// Pick appends the indexes of the highest totals to dst, in descending order.
func (p *MaxScore) Pick(c *plugins.Cycle, totals []float64, want int, dst []int) []int {
	return best(c, totals, bound(p.MaxNumOfEndpoints, want), dst)
}
