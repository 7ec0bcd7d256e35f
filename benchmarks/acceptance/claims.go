package acceptance

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// Page is where the claims stand, from the folder of this package.
const Page = "../../docs/scheduling.md"

// Verdict is what a claim came to.
type Verdict string

// The verdicts.
const (
	Holds      Verdict = "holds"
	Fails      Verdict = "fails"
	NotDecided Verdict = "not decided" // the model is not sure enough to tell
)

// Say ends the test of a claim: whether it holds, and the figure that came out, in words without a vertical bar. It prints the
// claim's line, and with UPDATE in the environment records it in the page. The test fails if the page has another verdict or no row
// for it.
func Say(t testing.TB, v Verdict, format string, args ...any) {
	t.Helper()
	figure := fmt.Sprintf(format, args...)
	rows, err := Rows(Page)
	if err != nil {
		t.Fatal(err)
	}
	name, _, _ := strings.Cut(t.Name(), "/")
	row := find(rows, name)
	if row == nil {
		t.Fatalf("docs/scheduling.md has no row for %s: add | claim | `%s` | figure | verdict |", name, name)
	}
	fmt.Printf("%s: %s: %s (%s)\n", row.Claim, strings.ToUpper(string(v)), figure, row.Command())
	if os.Getenv("UPDATE") != "" {
		row.Figure, row.Verdict = figure, v
		if err := record(Page, row); err != nil {
			t.Fatal(err)
		}
		return
	}
	if v != row.Verdict {
		t.Errorf("%s: %s, recorded is %s: %s", row.Claim, v, row.Verdict, figure)
	}
}

// Is is Holds where a claim came out as it should, else Fails.
func Is(ok bool) Verdict {
	if ok {
		return Holds
	}
	return Fails
}
