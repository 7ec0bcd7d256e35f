package pickers

import (
	"math"
	"sync"

	"github.com/fairlead/fairlead/pkg/plugins"
)

// WeightedRandom picks at random, each candidate as often as its share of the sum of all totals, and fallbacks likewise
// among those that are left.
//
// Each candidate draws the key U^(1/total), U uniform in [0,1), and the highest keys win (Efraimidis and Spirakis, A-Res). A
// total of 0 never wins against one above; where all are 0, all are equally likely.
type WeightedRandom struct {
	// MaxNumOfEndpoints is the length of the list: the primary and its fallbacks. 0 or absent: as many as the gateway at hand
	// can use.
	MaxNumOfEndpoints int `json:"maxNumOfEndpoints" schema:"min=0"`

	scratch sync.Pool // of *[]float64
}

var _ plugins.Picker = (*WeightedRandom)(nil)

// NewWeightedRandom returns a WeightedRandom with its defaults.
func NewWeightedRandom() *WeightedRandom { return &WeightedRandom{} }

// Pick appends the indexes of the highest keys to dst, in descending order.
func (p *WeightedRandom) Pick(c *plugins.Cycle, totals []float64, want int, dst []int) []int {
	keys, ok := p.scratch.Get().(*[]float64)
	if !ok {
		keys = new([]float64)
	}
	*keys = (*keys)[:0]
	for _, total := range totals {
		key := math.Inf(-1)
		if u := c.Rand().Float64(); total > 0 {
			key = math.Log(u) / total // the order of U^(1/total), without its underflow
		}
		*keys = append(*keys, key)
	}
	dst = best(c, *keys, bound(p.MaxNumOfEndpoints, want), dst)
	p.scratch.Put(keys)
	return dst
}
