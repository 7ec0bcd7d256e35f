package flow_test

import (
	"strings"
	"testing"

	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/config"
)

// What a file says of the queue and its policies that cannot be, or that changes nothing, is told when the file is read.
func TestParametersThatCannotBeOrChangeNothing(t *testing.T) {
	for _, r := range []struct {
		name, plugins string
		refuses       string // the problem that refuses the file; empty: it loads
		warns         []string
	}{
		{"a weight below 0", "- {type: token-deficit-fairness-policy, parameters: {weights: {b: 1, a: -5}}}\n", `weights: that of "a" is -5; from 0.001 to 1000`, nil},
		{"a weight of 0", "- {type: token-deficit-fairness-policy, parameters: {weights: {a: 0}}}\n", `weights: that of "a" is 0; from 0.001 to 1000`, nil},
		{"a weight that overflows", "- {type: token-deficit-fairness-policy, parameters: {weights: {a: 1e18}}}\n", `weights: that of "a" is 1e+18; from 0.001 to 1000`, nil},
		{"weights at their bounds", "- {type: token-deficit-fairness-policy, parameters: {weights: {a: 0.001, b: 1000}}}\n- {type: flow-control, parameters: {defaultPriorityBand: {fairnessPolicyRef: token-deficit-fairness-policy}}}\n", "", nil},
		{"programs that are not compared", "- {type: program-aware-fairness, parameters: {lasWeightService: 0, lasWeightHeadWait: 0}}\n", "lasWeightService and lasWeightHeadWait are both 0", nil},
		{"programs by how long they wait alone", "- {type: program-aware-fairness, parameters: {lasWeightService: 0}}\n", "", nil},
		{"a program that is remembered for centuries", "- {type: program-aware-fairness, parameters: {evictionTtlSeconds: 9223372037}}\n", "evictionTtlSeconds is 9223372037; at most 31536000", nil},
		{"weights of bands under strict sharing", "- {type: flow-control, parameters: {priorityBands: [{priority: 1}, {priority: 2, weight: 3}], defaultPriorityBand: {weight: 2}, defaultNegativePriorityBand: {weight: 2}}}\n", "",
			[]string{"priorityBands[1].weight has no effect", "defaultPriorityBand.weight has no effect", "defaultNegativePriorityBand.weight has no effect"}},
		{"weights of bands under weighted sharing", "- {type: flow-control, parameters: {bandSharing: weighted, priorityBands: [{priority: 2, weight: 3}], defaultPriorityBand: {weight: 2}}}\n", "", nil},
		{"a look-ahead without late binding", "- {type: flow-control, parameters: {lateBinding: false, lookAhead: 8, patience: 1s, maxOvertaken: 3}}\n", "",
			[]string{"lookAhead has no effect while lateBinding is false", "patience has no effect while lateBinding", "maxOvertaken has no effect while lateBinding"}},
		{"no late binding", "- {type: flow-control, parameters: {lateBinding: false}}\n", "", nil},
		{"patience without a look-ahead", "- {type: flow-control, parameters: {lookAhead: 0, patience: 1s}}\n", "", []string{"patience has no effect while lookAhead is 0"}},
		{"a time to wait for an endpoint that is not waited for", "- {type: flow-control, parameters: {holdWhenEmpty: false, noEndpointRequestTTL: 5s}}\n", "", []string{"noEndpointRequestTTL holds for those alone that wait when their pool becomes empty"}},
		{"an empty pool that is not waited for", "- {type: flow-control, parameters: {holdWhenEmpty: false}}\n", "", nil},
	} {
		t.Run(r.name, func(t *testing.T) {
			file, problems := config.Load([]byte("apiVersion: fairlead.dev/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n- type: queue-scorer\n"+r.plugins), "f", catalog.Builtin())
			if file != nil {
				_, more := file.Build()
				problems = append(problems, more...)
			}
			var warnings []string
			refused := false
			for _, p := range problems {
				switch {
				case p.Severity == config.Error && r.refuses != "" && strings.Contains(p.Error(), r.refuses):
					refused = true
				case p.Severity == config.Error:
					t.Errorf("it is refused: %v", p)
				case strings.Contains(p.Error(), "effect") || strings.Contains(p.Error(), "holds for"):
					warnings = append(warnings, p.Error())
				}
			}
			if refused != (r.refuses != "") {
				t.Errorf("it loads: %v", problems)
			}
			if len(warnings) != len(r.warns) {
				t.Fatalf("warnings %q, want %d", warnings, len(r.warns))
			}
			for _, want := range r.warns {
				if !strings.Contains(strings.Join(warnings, "\n"), want) {
					t.Errorf("%q is not in %q", want, warnings)
				}
			}
		})
	}
}
