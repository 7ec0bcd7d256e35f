package engines

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the table of docs/metrics.md")

// The table of the documentation is that of the code.
func TestDocumentation(t *testing.T) {
	const file, begin, end = "../../../docs/metrics.md", "<!-- engines: printed by go test ./pkg/pool/engines -update -->\n", "<!-- end of engines -->\n"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(data), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", file)
	}
	want := head + begin + "\n" + table() + "\n" + end + tail
	switch {
	case want == string(data):
	case *update:
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil { //nolint:gosec // documentation
			t.Fatal(err)
		}
	default:
		t.Errorf("%s is stale: go test ./pkg/pool/engines -update", file)
	}
}

func table() string {
	var b strings.Builder
	all := Builtin()
	b.WriteString("| engine |")
	for s := range NumSignals {
		fmt.Fprintf(&b, " %s |", s)
	}
	b.WriteString("\n|" + strings.Repeat("---|", int(NumSignals)+1) + "\n")
	for _, e := range all {
		fmt.Fprintf(&b, "| `%s` |", e.Name)
		for s := range NumSignals {
			var cells []string
			for _, source := range e.Reads[s] {
				cell := "`" + source.Spec.String() + "`"
				if source.Label != "" {
					cell += " label `" + source.Label + "`"
				}
				cells = append(cells, cell)
			}
			if cells == nil {
				cells = []string{"–"}
			}
			fmt.Fprintf(&b, " %s |", strings.Join(cells, ", else "))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	for _, e := range all {
		fmt.Fprintf(&b, "- `%s`: %s\n", e.Name, e.Note)
	}
	return b.String()
}
