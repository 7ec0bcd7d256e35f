package config

import (
	"strings"
	"testing"

	"github.com/fairlead/fairlead/pkg/catalog"
)

// Each type of llm-d's registry is known by name: it loads, or is refused as what it is, never as a mistyped one.
func TestEveryTypeOfLlmdsRegistryIsKnown(t *testing.T) {
	seen := map[string]bool{}
	for _, o := range otherTypes {
		if seen[o.typ] {
			t.Errorf("%s is listed twice", o.typ)
		}
		seen[o.typ] = true
		text := "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n- type: " + o.typ + "\n- type: queue-scorer\n  name: other\n"
		_, problems := Load([]byte(text), "f", catalog.Builtin())
		for _, p := range problems {
			switch p.Code {
			case CodeNotAvailable:
				if p.Suggestion == "" || !strings.Contains(p.Message, o.typ) || p.Line != 4 {
					t.Errorf("%s: %v", o.typ, p)
				}
			case CodeUnknownType, CodeUnknownField:
				t.Errorf("%s: %v", o.typ, p)
			}
		}
	}
	if len(seen) < 97 {
		t.Errorf("%d types are known, llm-d's registry has 97 or more", len(seen))
	}
	for _, o := range otherTypes {
		if o.use != "" && !seen[o.use] {
			t.Errorf("%s suggests %s, which nobody knows", o.typ, o.use)
		}
	}
}

func TestNearest(t *testing.T) {
	names := []string{"full", "unknown", "queue-scorer", "max-score-picker", "maxNumOfEndpoints"}
	for name, want := range map[string]string{
		"ful": "full", "Full": "full", "flul": "full", "unkown": "unknown", "queue_scorer": "queue-scorer", "queueScorer": "queue-scorer", "maxNumOfEndpoint": "maxNumOfEndpoints",
		"max-scorer-picker": "max-score-picker", "threshold": "", "": "", "x": "", "fu": "",
	} {
		if got := nearest(name, names); got != want {
			t.Errorf("nearest to %q is %q, want %q", name, got, want)
		}
	}
	for _, row := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"ab", "ba", 1}, {"kitten", "sitting", 3}, {"abc", "abc", 0}, {"abcdef", "x", 4}} {
		if got := edits(row.a, row.b, 4); got != row.want {
			t.Errorf("%q is %d edits from %q, want %d", row.a, got, row.b, row.want)
		}
	}
}

func TestProblemsPrintWhereWhatAndWhatToDo(t *testing.T) {
	for want, p := range map[string]Problem{
		"a.yaml:3:5: full is 0; at least 1": {File: "a.yaml", Line: 3, Column: 5, Message: "full is 0", Suggestion: "at least 1"},
		"a.yaml:3:1: full is 0":             {File: "a.yaml", Line: 3, Message: "full is 0"},
		"a.yaml: warning: it is old":        {File: "a.yaml", Severity: Warning, Message: "it is old"},
		"it is old":                         {Message: "it is old"},
	} {
		if got := p.Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
