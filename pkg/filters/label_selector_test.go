package filters_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/pkg/filters"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/plugins/pluginstest"
)

func selector(match map[string]string, expressions ...filters.LabelExpression) *filters.LabelSelector {
	f := filters.NewLabelSelector()
	f.MatchLabels, f.MatchExpressions = match, expressions
	return f
}

func TestLabelSelector(t *testing.T) {
	const world = `a label.tier=gold label.llm-d.ai/role=decode; b label.tier=silver; c label.llm-d.ai/role=prefill; d`
	for _, r := range []struct {
		name   string
		filter *filters.LabelSelector
		want   []string
	}{
		{"an empty selector keeps all", selector(nil), []string{"a", "b", "c", "d"}},
		{"a label must have the value", selector(map[string]string{"tier": "gold"}), []string{"a"}},
		{"all labels must have their value", selector(map[string]string{"tier": "gold", "llm-d.ai/role": "prefill"}), []string{}},
		{"In keeps any of the values", selector(nil, filters.LabelExpression{Key: "tier", Operator: "In", Values: []string{"gold", "silver"}}), []string{"a", "b"}},
		{"NotIn also keeps who lacks the label", selector(nil, filters.LabelExpression{Key: "tier", Operator: "NotIn", Values: []string{"gold"}}), []string{"b", "c", "d"}},
		{"Exists asks for the label alone", selector(nil, filters.LabelExpression{Key: "llm-d.ai/role", Operator: "Exists"}), []string{"a", "c"}},
		{"DoesNotExist keeps who lacks it", selector(nil, filters.LabelExpression{Key: "tier", Operator: "DoesNotExist"}), []string{"c", "d"}},
		{"labels and expressions hold together",
			selector(map[string]string{"tier": "gold"}, filters.LabelExpression{Key: "llm-d.ai/role", Operator: "In", Values: []string{"decode"}}), []string{"a"}},
	} {
		t.Run(r.name, func(t *testing.T) {
			if got := pluginstest.Filter(t, r.filter, world); !slices.Equal(got, r.want) {
				t.Errorf("got %v, want %v", got, r.want)
			}
		})
	}
}

func TestLabelSelectorRefuses(t *testing.T) {
	long := strings.Repeat("x", 64)
	for _, r := range []struct {
		name   string
		filter *filters.LabelSelector
		want   string
	}{
		{"an unknown operator", selector(nil, filters.LabelExpression{Key: "a", Operator: "Like"}), `matchExpressions[0]: operator of label "a" is "Like"; one of In, NotIn, Exists, DoesNotExist`},
		{"In without values", selector(nil, filters.LabelExpression{Key: "a", Operator: "In"}), `operator In of label "a" has no values`},
		{"NotIn without values", selector(nil, filters.LabelExpression{Key: "a", Operator: "NotIn"}), `operator NotIn of label "a" has no values`},
		{"Exists with values", selector(nil, filters.LabelExpression{Key: "a", Operator: "Exists", Values: []string{"b"}}), `operator Exists of label "a" has values ["b"]; it takes none`},
		{"an empty key", selector(nil, filters.LabelExpression{Operator: "Exists"}), `key "" cannot be a label's name`},
		{"a key with a space", selector(map[string]string{"a b": "c"}), `matchLabels: key "a b" cannot be a label's name`},
		{"a domain in capitals", selector(map[string]string{"Example.com/a": "c"}), `key "Example.com/a" cannot be`},
		{"an empty domain", selector(map[string]string{"/a": "c"}), `key "/a" cannot be`},
		{"a value that is too long", selector(map[string]string{"a": long}), `value "` + long + `" of label "a" cannot be a label's value`},
		{"the second of two wrong expressions, too", selector(nil, filters.LabelExpression{Key: "a", Operator: "x"}, filters.LabelExpression{Key: "b", Operator: "y"}), `matchExpressions[1]: operator of label "b"`},
	} {
		t.Run(r.name, func(t *testing.T) {
			_, err := plugins.Build(plugins.Spec{Plugins: []plugins.PluginSpec{
				{Name: "only-gold", Type: "label-selector-filter", Construct: func() (any, error) { return r.filter, nil }},
			}}, nil)
			if err == nil || !strings.Contains(err.Error(), `plugin "only-gold": `) || !strings.Contains(err.Error(), r.want) {
				t.Errorf("got %v\nwant %s", err, r.want)
			}
		})
	}
}

func TestLabelSelectorTakesAnEmptyValue(t *testing.T) {
	f := selector(map[string]string{"a": ""})
	if got := pluginstest.Filter(t, f, `x label.a=""; y label.a=b`); !slices.Equal(got, []string{"x"}) {
		t.Errorf("got %v, want [x]", got)
	}
}
