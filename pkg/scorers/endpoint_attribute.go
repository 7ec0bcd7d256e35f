package scorers

import (
	"errors"
	"fmt"
	"math"

	"github.com/fairlead/fairlead/pkg/plugins"
)

// EndpointAttribute scores endpoints by one number that is known of them: a metric that the configuration has read, an
// annotation or a label.
//
// With v the attribute's value, in a range from min to max:
//
//	score = (v - min)/(max - min)      if higher is better
//	        1 - (v - min)/(max - min)  if lower is better
//
// The range is fixed, and values outside count as its ends; or it spans the candidates' values, and all that have the
// attribute score 1 if these are equal. An endpoint without the attribute scores 0.
type EndpointAttribute struct {
	// AttributeKey is the attribute's name.
	AttributeKey string `json:"attributeKey" schema:"required,min=1,max=317"`

	// Producer is what reads the attribute: core-metrics-extractor, or empty.
	Producer string `json:"producer,omitempty" schema:"max=253"`

	// Algorithm says how the value becomes a score.
	Algorithm AttributeAlgorithm `json:"algorithm" schema:"required"`

	value plugins.EndpointValues[plugins.Scalar]
	lower bool
	fixed *AttributeRange
}

// AttributeAlgorithm is a direction and a range.
type AttributeAlgorithm struct {
	// Type is linear_lower_is_better or linear_higher_is_better.
	Type string `json:"type" schema:"required,enum=linear_lower_is_better|linear_higher_is_better"`

	// Normalization says which range counts: at most one of fixedRange and adaptiveRange. Absent: adaptiveRange.
	Normalization AttributeNormalization `json:"normalization"`
}

// AttributeNormalization is the choice of a range.
type AttributeNormalization struct {
	// FixedRange is a range that is known.
	FixedRange *AttributeRange `json:"fixedRange,omitempty"`

	// AdaptiveRange spans the candidates' values; it has no parameters.
	AdaptiveRange *struct{} `json:"adaptiveRange,omitempty"`
}

// AttributeRange is a range of values.
type AttributeRange struct {
	// Min is its lower end.
	Min float64 `json:"min" schema:"required"`

	// Max is its upper end, above Min.
	Max float64 `json:"max" schema:"required"`
}

var _ plugins.Scorer = (*EndpointAttribute)(nil)

// NewEndpointAttribute returns an EndpointAttribute; attribute and type must be given.
func NewEndpointAttribute() *EndpointAttribute { return &EndpointAttribute{} }

// Provision says what Score reads, and refuses an empty range, or two.
func (a *EndpointAttribute) Provision(b *plugins.Builder) error {
	a.value = plugins.Needs(b, plugins.AttributeNamed(a.AttributeKey))
	a.lower, a.fixed = a.Algorithm.Type == "linear_lower_is_better", a.Algorithm.Normalization.FixedRange
	if err := plugins.CheckAttributeProducer(a.Producer); err != nil || a.fixed == nil {
		return err
	}
	if a.Algorithm.Normalization.AdaptiveRange != nil {
		return errors.New("algorithm.normalization has fixedRange and adaptiveRange; give one of them")
	}
	if !(a.fixed.Min < a.fixed.Max) {
		return fmt.Errorf("algorithm.normalization.fixedRange.min is %v and max is %v; min must be less than max", a.fixed.Min, a.fixed.Max)
	}
	return nil
}

// Score writes one score per candidate into out.
func (a *EndpointAttribute) Score(c *plugins.Cycle, out []float64) {
	value := a.value.Of(c)
	from, to := math.Inf(1), math.Inf(-1)
	if a.fixed != nil {
		from, to = a.fixed.Min, a.fixed.Max
	} else {
		for _, id := range c.Candidates {
			if v := value[id]; v.Known {
				from, to = min(from, v.Value), max(to, v.Value)
			}
		}
	}
	for i, id := range c.Candidates {
		v := value[id]
		switch {
		case !v.Known:
			continue
		case from == to:
			out[i] = 1
			continue
		}
		out[i] = (min(max(v.Value, from), to) - from) / (to - from)
		if a.lower {
			out[i] = 1 - out[i]
		}
	}
}
