package filters

import "github.com/fairlead/fairlead/pkg/plugins"

// EndpointAttribute keeps the endpoints one of whose numbers compares well with a threshold: a metric that the configuration
// has read, an annotation or a label.
type EndpointAttribute struct {
	// Attribute is the attribute's name.
	Attribute string `json:"attribute" schema:"required,min=1,max=317"`

	// Producer is what reads the attribute: core-metrics-extractor, or empty.
	Producer string `json:"producer,omitempty" schema:"max=253"`

	// OnMissing says what becomes of an endpoint without the attribute: Pass keeps it, Fail removes it.
	OnMissing string `json:"onMissing" schema:"enum=Pass|Fail"`

	// FallbackOnEmpty keeps all where none would be left.
	FallbackOnEmpty bool `json:"fallbackOnEmpty"`

	// Algorithm is the comparison.
	Algorithm Comparison `json:"algorithm" schema:"required"`

	value plugins.EndpointValues[plugins.Scalar]
}

// Comparison is a kind of comparison with what it needs.
type Comparison struct {
	// Type is threshold.
	Type string `json:"type" schema:"required,enum=threshold"`

	// Threshold is what type threshold compares with.
	Threshold Threshold `json:"threshold" schema:"required"`
}

// Threshold is one bound.
type Threshold struct {
	// Operator stands between an endpoint's value, on its left, and Value.
	Operator string `json:"operator" schema:"required,enum=LessThan|LessThanOrEqual|GreaterThan|GreaterThanOrEqual|Equal|NotEqual"`

	// Value is the bound.
	Value float64 `json:"value" schema:"required"`
}

var _ plugins.Filter = (*EndpointAttribute)(nil)

// NewEndpointAttribute returns an EndpointAttribute; attribute and algorithm must be given.
func NewEndpointAttribute() *EndpointAttribute { return &EndpointAttribute{OnMissing: "Pass"} }

// Provision says what Filter reads.
func (f *EndpointAttribute) Provision(b *plugins.Builder) error {
	f.value = plugins.Needs(b, plugins.AttributeNamed(f.Attribute))
	return plugins.CheckAttributeProducer(f.Producer)
}

// Filter clears the bit of every candidate that does not compare well.
func (f *EndpointAttribute) Filter(c *plugins.Cycle, keep plugins.Bits) {
	value, left := f.value.Of(c), 0
	for i, id := range c.Candidates {
		v := value[id]
		if v.Known && f.Algorithm.Threshold.holds(v.Value) || !v.Known && f.OnMissing == "Pass" {
			left++
		} else {
			keep.Clear(i)
		}
	}
	if left == 0 && f.FallbackOnEmpty {
		keepAll(c, keep)
	}
}

func (t *Threshold) holds(v float64) bool {
	switch t.Operator {
	case "LessThan":
		return v < t.Value
	case "LessThanOrEqual":
		return v <= t.Value
	case "GreaterThan":
		return v > t.Value
	case "GreaterThanOrEqual":
		return v >= t.Value
	case "Equal":
		return v == t.Value
	default:
		return v != t.Value
	}
}

// keepAll takes back what a filter has removed.
func keepAll(c *plugins.Cycle, keep plugins.Bits) {
	for i := range c.Candidates {
		keep.Add(i)
	}
}
