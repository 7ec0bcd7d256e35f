package report_test

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/benchmarks/report"
)

var update = flag.Bool("update", false, "print the recorded matrix into docs/scheduling.md")

// The table in the documentation is that of the recorded matrix.
func TestTheRecordedMatrixIsInTheDocumentation(t *testing.T) {
	s, err := report.ReadStandings("../results/matrix.json")
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := report.StandingsMarkdown(&b, s); err != nil {
		t.Fatal(err)
	}
	const page, begin, end = "../../docs/scheduling.md", "<!-- make matrix: begin -->\n", "<!-- make matrix: end -->\n"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), begin)
	_, tail, ended := strings.Cut(rest, end)
	if !ok || !ended {
		t.Fatalf("%s lacks the lines %q and %q", page, begin, end)
	}
	want := head + begin + b.String() + end + tail
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(text) != want {
		t.Errorf("%s does not have the recorded matrix; run go test ./benchmarks/report -update", page)
	}
}
