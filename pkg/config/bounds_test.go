package config_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fairlead/fairlead/pkg/config"
)

func TestEverythingIsBounded(t *testing.T) {
	repeat := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	rows := []struct {
		name, text, want string
		problems         int
	}{
		{"the text", strings.Repeat("#", config.MaxBytes+1), "f: 1048577 bytes long; at most 1048576", 1},
		{"entries of a list", head + "plugins:\n" + repeat(1001, "- {type: queue-scorer, name: n%d}\n"), "f:4:1: plugins has 1001 entries; at most 1000", 1},
		{"problems", head + repeat(200, "k%d: 1\n"), "f: more than 100 problems; mend these first", 101},
		{"aliases", head + "plugins:\n- type: knobs-scorer\n  parameters:\n    tables:\n      a: &a [" + strings.Repeat("{},", 999) + "]\n" + repeat(200, "      k%d: *a\n"),
			"more than 100000 values; use fewer aliases", 1},
		{"depth", head + "plugins: " + strings.Repeat("[", 20000), "exceeded max depth", 1},
		{"names", head + "plugins: [{type: queue-scorer, name: " + strings.Repeat("x", 254) + "}]\n", "the name has 254 bytes, more than 253", 1},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			file, problems := config.Load([]byte(row.text), "f", entries())
			if file != nil || len(problems) != row.problems {
				t.Fatalf("%d problems, want %d: %.300v", len(problems), row.problems, problems)
			}
			if last := problems[len(problems)-1].Error(); !strings.Contains(last, row.want) {
				t.Errorf("got %s\nwant %s", last, row.want)
			}
		})
	}
}

func TestLongValuesAreCutInMessages(t *testing.T) {
	_, problems := config.Load([]byte(head+"plugins: "+strings.Repeat("é", 1000)+"\n"), "f", entries())
	if len(problems) != 1 || len(problems[0].Error()) > 200 {
		t.Errorf("%v", problems)
	}
}

// TestProblemsAreBrief: what is wrong with a very long text is told without repeating all of it.
func TestProblemsAreBrief(t *testing.T) {
	long := strings.Repeat("é", 200_000)
	for _, row := range []struct{ name, text string }{
		{"a name", "plugins: [{type: random-picker, name: " + long + "}]\n"},
		{"a field", long + ": 1\n"},
		{"a type", "plugins: [{type: " + long + "}]\n"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, problems := config.Load([]byte(head+row.text), "f", entries())
			if !config.HasErrors(problems) {
				t.Fatal("it loads")
			}
			for _, p := range problems {
				if text := p.Error(); len(text) > 5000 || !utf8.ValidString(text) {
					t.Errorf("%d bytes: %.300s", len(text), text)
				}
			}
		})
	}
}
