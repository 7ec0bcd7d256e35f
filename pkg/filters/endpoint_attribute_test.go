package filters_test

import (
	"testing"

	"github.com/fairlead/fairlead/pkg/filters"
	"github.com/fairlead/fairlead/pkg/plugins"
)

func attribute(operator string, set func(*filters.EndpointAttribute)) *filters.EndpointAttribute {
	f := filters.NewEndpointAttribute()
	f.Attribute, f.Algorithm = "gpu", filters.Comparison{Type: "threshold", Threshold: filters.Threshold{Operator: operator, Value: 0.9}}
	if set != nil {
		set(f)
	}
	return f
}

func TestEndpointAttribute(t *testing.T) {
	const world = "low attribute.gpu=0.1; at attribute.gpu=0.9; high attribute.gpu=1; none"
	for operator, want := range map[string]string{
		"LessThan": "low none", "LessThanOrEqual": "low at none", "GreaterThan": "high none", "GreaterThanOrEqual": "at high none",
		"Equal": "at none", "NotEqual": "low high none",
	} {
		check(t, func() plugins.Filter { return attribute(operator, nil) }, []row{{operator, world, want}})
	}
	fail := func(f *filters.EndpointAttribute) { f.OnMissing = "Fail" }
	check(t, func() plugins.Filter { return attribute("LessThan", fail) }, []row{
		{"who lacks it goes", world, "low"},
		{"nobody is left", "a attribute.gpu=1; b", ""},
		{"all lack it", "a; b", ""},
	})
	check(t, func() plugins.Filter {
		return attribute("LessThan", func(f *filters.EndpointAttribute) { f.OnMissing, f.FallbackOnEmpty = "Fail", true })
	}, []row{{"or all stay where nobody would", "a attribute.gpu=1; b", "a b"}, {"but no longer than that", world, "low"}})
	refuses(t, "another producer", attribute("Equal", func(f *filters.EndpointAttribute) { f.Producer = "dcgm-extractor" }), `producer is "dcgm-extractor"`)
}
