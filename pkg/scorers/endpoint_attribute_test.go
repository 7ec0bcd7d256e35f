package scorers_test

import (
	"strings"
	"testing"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/scorers"
)

func attribute(typ string, fixed *scorers.AttributeRange) *scorers.EndpointAttribute {
	a := scorers.NewEndpointAttribute()
	a.AttributeKey, a.Algorithm.Type, a.Algorithm.Normalization.FixedRange = "gpu", typ, fixed
	return a
}

func TestEndpointAttribute(t *testing.T) {
	scorer := func(typ string, fixed *scorers.AttributeRange) func() plugins.Scorer {
		return func() plugins.Scorer { return attribute(typ, fixed) }
	}
	check(t, scorer("linear_higher_is_better", nil), []row{
		{"the span of the candidates", "a attribute.gpu=10; b attribute.gpu=15; c attribute.gpu=20", []float64{0, 0.5, 1}},
		{"who lacks it scores 0 and does not stretch the span", "a attribute.gpu=10; b; c attribute.gpu=20", []float64{0, 0, 1}},
		{"all equal score 1", "a attribute.gpu=5; b attribute.gpu=5", []float64{1, 1}},
		{"one alone scores 1", "a attribute.gpu=5", []float64{1}},
		{"negative values are values", "a attribute.gpu=-1; b attribute.gpu=-3", []float64{1, 0}},
		{"nobody has it", "a; b", []float64{0, 0}},
	})
	check(t, scorer("linear_lower_is_better", nil), []row{
		{"the other way round", "a attribute.gpu=10; b attribute.gpu=15; c attribute.gpu=20; d", []float64{1, 0.5, 0, 0}},
		{"all equal score 1", "a attribute.gpu=5; b attribute.gpu=5", []float64{1, 1}},
	})
	check(t, scorer("linear_lower_is_better", &scorers.AttributeRange{Min: 0, Max: 1}), []row{
		{"a fixed range; what is outside counts as its ends", "a attribute.gpu=0.25; b attribute.gpu=-2; c attribute.gpu=9; d", []float64{0.75, 1, 0, 0}},
		{"all equal", "a attribute.gpu=0.5; b attribute.gpu=0.5", []float64{0.5, 0.5}},
	})
}

func TestEndpointAttributeRefuses(t *testing.T) {
	both := attribute("linear_lower_is_better", &scorers.AttributeRange{Min: 0, Max: 1})
	both.Algorithm.Normalization.AdaptiveRange = &struct{}{}
	dcgm := attribute("linear_lower_is_better", nil)
	dcgm.Producer = "dcgm-extractor"
	for _, r := range []struct {
		name   string
		scorer *scorers.EndpointAttribute
		want   string
	}{
		{"an empty range", attribute("linear_lower_is_better", &scorers.AttributeRange{Min: 1, Max: 1}), "fixedRange.min is 1 and max is 1; min must be less than max"},
		{"two ranges", both, "fixedRange and adaptiveRange; give one of them"},
		{"another producer", dcgm, `producer is "dcgm-extractor"; attributes come from`},
	} {
		_, err := plugins.Build(plugins.Spec{Plugins: []plugins.PluginSpec{{Name: "it", Type: "it", Construct: func() (any, error) { return r.scorer, nil }}}}, nil)
		if err == nil || !strings.Contains(err.Error(), r.want) {
			t.Errorf("%s: got %v\nwant %s", r.name, err, r.want)
		}
	}
}
