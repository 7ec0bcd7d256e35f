package report_test

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/benchmarks/bench"
	"github.com/fairlead/fairlead/benchmarks/compare"
	"github.com/fairlead/fairlead/benchmarks/report"
)

func standings() *compare.Standings {
	score := func(policy string, goodput bench.Number, saturated bool) compare.Score {
		return compare.Score{Policy: policy, Commit: "abc", Goodput: []bench.Number{goodput, goodput}, TTFT: []bench.Number{0.5, 0.7}, MissedITL: 0.25, HitRate: 0.5, Imbalance: 1.5, Saturated: saturated}
	}
	return &compare.Standings{Date: "2026-12-01", Commit: "abc", Seeds: 2, Seed: 1, Policies: []string{"default", "rule-a", "rule-b"}, Rows: []compare.Row{
		{Scenario: "s1", Title: "One", Scores: []compare.Score{score("default", 0.9, false), score("rule-a", 0.8, false), score("rule-b", 0.5, true)}},
		{Scenario: "s2", Title: "Two", Scores: []compare.Score{score("default", 0.5, false), score("rule-a", 0.625, true)}},
	}}
}

func TestStandings(t *testing.T) {
	var text, markdown bytes.Buffer
	if err := report.Standings(&text, standings()); err != nil {
		t.Fatal(err)
	}
	if err := report.StandingsMarkdown(&markdown, standings()); err != nil {
		t.Fatal(err)
	}
	sum := "Of 2 scenarios, `default` has more than 2 % less goodput than the best rule of another router in 1 (s2); at worst -20.0 % (s2), at best +12.5 % (s1)."
	for what, want := range map[string][]string{
		text.String():     {sum, "600 ms / 600 ms", "past saturation", "25.0 % / 25.0 %", "LOST"},
		markdown.String(): {sum, "| s1 | **90.0** | 80.0 | 50.0° |", "| s2 | 50.0 | **62.5**° | |", "| s2 | 50.0 % | 62.5 %, `rule-a` | -20.0 % (-20.0 to -20.0) | past saturation | **lost** |"},
	} {
		for _, w := range want {
			if !strings.Contains(what, w) {
				t.Errorf("no %q in\n%s", w, what)
			}
		}
	}
}

func TestStandingsAreReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "matrix.json")
	var b bytes.Buffer
	if err := report.StandingsJSON(&b, standings()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := report.ReadStandings(path); err != nil || !reflect.DeepEqual(got, standings()) {
		t.Errorf("%v, %+v of\n%s", err, got, b.String())
	}
	if err := os.WriteFile(path, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := report.ReadStandings(path); err == nil {
		t.Error("an empty object is a matrix")
	}
}
