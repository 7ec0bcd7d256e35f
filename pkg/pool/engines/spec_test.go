package engines

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseSpec(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       Spec
		err        string
	}{
		{"a name", "vllm:num_requests_waiting", Spec{Name: "vllm:num_requests_waiting"}, ""},
		{"blanks around", " a ", Spec{Name: "a"}, ""},
		{"empty braces", "a{}", Spec{Name: "a"}, ""},
		{"a label", "a{b=c}", Spec{"a", []Matcher{{"b", "c"}}}, ""},
		{"labels are sorted", `a { c = "d" , b=x/y-z.1 }`, Spec{"a", []Matcher{{"b", "x/y-z.1"}, {"c", "d"}}}, ""},
		{"a comma at the end", "a{b=c,}", Spec{"a", []Matcher{{"b", "c"}}}, ""},
		{"in quotes anything", `a{b="}, \"\\\n"}`, Spec{"a", []Matcher{{"b", "}, \"\\\n"}}}, ""},
		{"an empty value in quotes", `a{b=""}`, Spec{"a", []Matcher{{"b", ""}}}, ""},
		{"nothing", "", Spec{}, `"" does not begin with the name of a series; write name or name{label=value}`},
		{"a digit", "1a", Spec{}, `"1a" does not begin with the name of a series; write name or name{label=value}`},
		{"words behind", "a b", Spec{}, `"a b" has "b" behind its name; write name or name{label=value}`},
		{"a range", "a[5m]", Spec{}, `"a[5m]" has "[5m]" behind its name; write name or name{label=value}`},
		{"an open brace", "a{b=c", Spec{}, `"a{b=c": label "b" has no value that ends before a comma or the closing brace`},
		{"an open quote", `a{b="c}`, Spec{}, `"a{b=\"c}": the value of label "b" has no closing quote`},
		{"no value", "a{b=}", Spec{}, `"a{b=}": label "b" has no value that ends before a comma or the closing brace`},
		{"no label", "a{=c}", Spec{}, `"a{=c}": "=c}" is no label with its value; write label=value`},
		{"another comparison", "a{b=~c}", Spec{}, `"a{b=~c}": label "b" is compared otherwise than by =; write b=value`},
		{"unequal", "a{b!=c}", Spec{}, `"a{b!=c}": "b!=c}" is no label with its value; write label=value`},
		{"a label twice", "a{b=c,b=d}", Spec{}, `"a{b=c,b=d}": label "b" is given twice; keep one of the two`},
		{"words after the brace", "a{b=c} x", Spec{}, `"a{b=c} x": "} x" stands behind label "b"; write a comma or the closing brace`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseSpec(tt.text)
			text := ""
			if err != nil {
				text = err.Error()
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || text != tt.err {
				t.Errorf("error %q, want %q; (-want +got):\n%s", text, tt.err, diff)
			}
			if err == nil {
				again, err := ParseSpec(got.String())
				if diff := cmp.Diff(got, again); diff != "" || err != nil {
					t.Errorf("%s reads as another: %v\n%s", got, err, diff)
				}
			}
		})
	}
}

func TestChoiceNamesTheEngineOfAnEndpoint(t *testing.T) {
	own := Choice{LabelKey: "engine", Default: "sglang"}
	for _, tt := range []struct {
		name   string
		choice Choice
		labels map[string]string
		want   string
	}{
		{"no labels", Choice{}, nil, "vllm"},
		{"the label", Choice{}, map[string]string{LabelKey: "triton"}, "triton"},
		{"the old label", Choice{}, map[string]string{LegacyLabelKey: "sglang"}, "sglang"},
		{"both: the new one", Choice{}, map[string]string{LegacyLabelKey: "sglang", LabelKey: "triton"}, "triton"},
		{"an empty label says nothing", Choice{}, map[string]string{LabelKey: "", LegacyLabelKey: "sglang"}, "sglang"},
		{"another default", own, nil, "sglang"},
		{"another label", own, map[string]string{"engine": "triton", LabelKey: "vllm"}, "triton"},
		{"another label knows no old name", own, map[string]string{LegacyLabelKey: "triton"}, "sglang"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.choice.Named(tt.labels); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestOwnEnginesReplaceBuiltInOnes(t *testing.T) {
	c := Choice{Engines: []Engine{{Name: "atom"}, {Name: "vllm", Note: "mine"}}}
	var names []string
	for _, e := range c.All() {
		names = append(names, e.Name+e.Note[:min(len(e.Note), 4)])
	}
	if diff := cmp.Diff([]string{"atom", "vllmmine"}, names[:2]); diff != "" || len(names) != len(Builtin())+1 {
		t.Errorf("got %q", names)
	}
}
