package flow

import (
	"fmt"
	"math"
	"sync/atomic"

	"github.com/fairlead/fairlead/pkg/plugins"
)

// Ceilings say up to which saturation a band may fill the pool: a band is let go while the pool's saturation is below its
// ceiling. A ceiling above 1 counts as 1. They are asked once per dispatch, for all bands together.
type Ceilings interface {
	// Ceilings writes one ceiling per band into out; priorities are those of the bands, highest first.
	Ceilings(saturation float64, priorities []int32, out []float64)
}

// Alternating is implemented by ceilings that close and open a band from one call to the next, so that a band that was
// found closed is to be asked again soon though nothing happens.
type Alternating interface {
	// Alternates reports whether at this saturation the next call may open what this one has closed.
	Alternates(saturation float64) bool
}

// StaticLimit gives all bands the same ceiling.
type StaticLimit struct {
	// Threshold is the saturation at which nobody is let go any more.
	Threshold float64 `json:"threshold" schema:"min=0.001,max=1"`
}

// NewStaticLimit returns a StaticLimit with its default.
func NewStaticLimit() *StaticLimit { return &StaticLimit{Threshold: 1} }

// Ceilings writes the threshold for every band.
func (p *StaticLimit) Ceilings(_ float64, _ []int32, out []float64) {
	for i := range out {
		out[i] = p.Threshold
	}
}

// Holdback keeps room for higher bands: the highest has the ceiling MaxCeiling, the lowest MinCeiling, and those between lie on
// a line between the two, by their place in the order or by the value of their priorities:
//
//	rank   ceiling of band i of n = MaxCeiling - i·(MaxCeiling - MinCeiling)/(n - 1)
//	value  ceiling of priority p  = MinCeiling + (p - lowest)/(highest - lowest)·(MaxCeiling - MinCeiling)
//
// Bands are those of the priorities that the configuration names, listed or as those of objectives, of 0, and of priorities in which
// somebody waits or did lately. The only band there is has MaxCeiling.
type Holdback struct {
	// Shape is the line on which the ceilings lie; linear is the only one.
	Shape string `json:"shape" schema:"enum=linear"`

	// Domain says by what the bands lie on it: rank, their place in the order, or value, the number that their priority is.
	Domain string `json:"domain" schema:"enum=rank|value"`

	// MinCeiling is the ceiling of the lowest band. Below 0.001 it counts as that, so that at 0 the band goes while the pool is
	// idle, and no sooner.
	MinCeiling float64 `json:"minCeiling" schema:"required,min=0,max=1"`

	// MaxCeiling is the ceiling of the highest band.
	MaxCeiling float64 `json:"maxCeiling" schema:"min=0.001,max=1"`
}

// leastCeiling is the lowest that a band has, so that none is shut out of an idle pool for ever.
const leastCeiling = 0.001

// NewHoldback returns a Holdback; minCeiling must be given.
func NewHoldback() *Holdback { return &Holdback{Shape: "linear", Domain: "rank", MaxCeiling: 1} }

// Provision refuses a lowest ceiling above the highest.
func (p *Holdback) Provision(*plugins.Builder) error {
	if p.MinCeiling > p.MaxCeiling {
		return fmt.Errorf("minCeiling is %v, above maxCeiling %v; exchange the two", p.MinCeiling, p.MaxCeiling)
	}
	return nil
}

// Ceilings writes the points of the line.
func (p *Holdback) Ceilings(_ float64, priorities []int32, out []float64) {
	n := len(out)
	for i := range out {
		share := 1.0 // of the way from the lowest to the highest
		switch {
		case n < 2:
		case p.Domain == "value":
			lowest, highest := int64(priorities[n-1]), int64(priorities[0])
			share = float64(int64(priorities[i])-lowest) / float64(highest-lowest)
		default:
			share = 1 - float64(i)/float64(n-1)
		}
		out[i] = max(p.MinCeiling+float64(share*(p.MaxCeiling-p.MinCeiling)), leastCeiling)
	}
}

// SoftReflective lets lower bands through ever more rarely as the pool fills, and does not close them before it is full. With s
// the saturation and n bands, band i reaches its limit when s ≥ 1 - i·s/(n - 1); from there on it is open in one of
// round(s/(1 - s)) calls, all such bands in the same ones, since a band below a closed one is never reached. The highest band
// is always open while s < 1.
type SoftReflective struct{ calls atomic.Int64 }

// NewSoftReflective returns a SoftReflective; it has no parameters.
func NewSoftReflective() *SoftReflective { return &SoftReflective{} }

// Alternates reports whether bands are closed in turn at this saturation.
func (p *SoftReflective) Alternates(s float64) bool { return s >= 0.5 && s < 1 }

// Ceilings writes 1 for open and 0 for closed bands.
func (p *SoftReflective) Ceilings(s float64, priorities []int32, out []float64) {
	n := len(out)
	open := false
	if n > 1 && p.Alternates(s) {
		period := int64(max(math.Round(s/(1-s)), 1))
		open = p.calls.Add(1)%period == 0
	}
	for i := range out {
		switch {
		case i == 0, s < 1-float64(i)*s/float64(n-1), open:
			out[i] = 1
		default:
			out[i] = 0
		}
	}
}
