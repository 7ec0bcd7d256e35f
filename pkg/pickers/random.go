package pickers

import "github.com/fairlead/fairlead/pkg/plugins"

// Random picks a candidate at random, all equally likely whatever their totals, and others as fallbacks likewise.
type Random struct {
	// MaxNumOfEndpoints is the length of the list: the primary and its fallbacks. 0 or absent: as many as the gateway at hand
	// can use.
	MaxNumOfEndpoints int `json:"maxNumOfEndpoints" schema:"min=0"`
}

var _ plugins.Picker = (*Random)(nil)

// NewRandom returns a Random with its defaults.
func NewRandom() *Random { return &Random{} }

// Pick appends the indexes of random candidates to dst.
func (p *Random) Pick(c *plugins.Cycle, _ []float64, want int, dst []int) []int {
	return best(c, nil, bound(p.MaxNumOfEndpoints, want), dst)
}
