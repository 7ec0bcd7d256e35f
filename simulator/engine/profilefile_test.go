package engine_test

import (
	"strings"
	"testing"

	"github.com/fairlead/fairlead/simulator/engine"
)

func TestProfilesSurviveTheirFiles(t *testing.T) {
	for _, p := range engine.Profiles() {
		data, err := p.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := engine.DecodeProfile(data); err != nil || got != p {
			t.Fatalf("got %+v, %v; want %+v from\n%s", got, err, p, data)
		}
	}
}

func TestProfileFilesRefused(t *testing.T) {
	data, err := profile(t, "h100-sxm").Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, from, to, want string }{
		{"nothing", string(data), "", "profile: it is empty"},
		{"a member that is not known", "blocks:", "blokcs:", "line 5: field blokcs not found"},
		{"a duration without unit", "base: 6.63ms", "base: fast", `line 14: cannot unmarshal`},
		{"no blocks", "blocks: 29205", "blocks: 0", "Blocks is 0; at least 2"},
		{"blocks beyond all memory", "blocks: 29205", "blocks: 2147483647", "Blocks is 2147483647; at most 16777216"},
		{"a negative coefficient", "perSequence: 5.2µs", "perSequence: -1ns", "nothing in it may be negative"},
		{"no model", "model: meta-llama/Llama-3.1-8B-Instruct", "model: ''", `model is "" and hardware "h100-sxm"; both are needed`},
		{"a source of no figure", "perSequence:\n    kind", "perSeq:\n    kind", `sources has "perSeq"`},
		{"a kind that is none", "kind: fitted", "kind: guessed", `of kind "guessed"; measured, fitted or derived`},
	} {
		text := strings.Replace(string(data), c.from, c.to, 1)
		if text == string(data) {
			t.Fatalf("%s: %q is not in\n%s", c.name, c.from, data)
		}
		if _, err := engine.DecodeProfile([]byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
}
