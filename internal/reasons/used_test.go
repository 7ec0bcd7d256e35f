package reasons

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/cli"
	"github.com/fairlead/fairlead/pkg/reason"
)

// ofStages are the reasons that plugins alone give, and no built-in one does: queues, look-ups and policies. They are words
// that a stage needs to speak with clients.
var ofStages = []reason.ID{reason.ForbiddenHeader, reason.QueueFull, reason.QueueTimeout, reason.LookupTimeout}

// TestEveryReasonIsUsed: a row that no code outside the table names is a promise that nobody keeps.
func TestEveryReasonIsUsed(t *testing.T) {
	names := constants(t)
	used := map[string]bool{}
	for _, dir := range []string{"cmd", "pkg", "simulator", "benchmarks"} {
		err := filepath.WalkDir(filepath.Join("..", "..", dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || filepath.Base(filepath.Dir(path)) == "reason" {
				return err
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			logsLevels := filepath.Base(path) == "reasons.go" // says how loud a reason is, not that it occurs
			ast.Inspect(parsed, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && !logsLevels {
					if x, ok := s.X.(*ast.Ident); ok && x.Name == "reason" {
						used[s.Sel.Name] = true
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	exempt := map[reason.ID]bool{}
	for _, id := range ofStages {
		exempt[id] = true
		if used[names[id-1]] {
			t.Errorf("%v is used by now; it needs no exemption", id)
		}
	}
	for _, id := range reason.All() {
		if !exempt[id] && !used[names[id-1]] {
			t.Errorf("%v (%s) is used nowhere: use it, or take it out of the table", id, names[id-1])
		}
	}
}

// constants returns the names of the IDs, in table order.
func constants(t *testing.T) (names []string) {
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", "pkg", "reason", "table.go"), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range parsed.Decls {
		if block, ok := d.(*ast.GenDecl); ok && block.Tok == token.CONST {
			for _, spec := range block.Specs {
				if name := spec.(*ast.ValueSpec).Names[0].Name; name != "_" {
					names = append(names, name)
				}
			}
		}
	}
	if len(names) != len(reason.All()) {
		t.Fatalf("%d constants, %d rows", len(names), len(reason.All()))
	}
	return names
}

// TestTheReferencePageIsThatOfTheTable: docs/reference holds what the code prints, and nothing else.
func TestTheReferencePageIsThatOfTheTable(t *testing.T) {
	printed, kept := t.TempDir(), filepath.Join("..", "..", "docs", "reference")
	if code := cli.Main(catalog.Builtin(), []string{"docs", printed}); code != 0 {
		t.Fatalf("fairlead docs ended with %d", code)
	}
	pages := map[string]bool{}
	for _, dir := range []string{printed, kept} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			pages[e.Name()] = true
		}
	}
	if len(pages) == 0 {
		t.Error("there is no page")
	}
	for page := range pages {
		want, err := os.ReadFile(filepath.Join(printed, page))
		if err != nil {
			t.Errorf("%s is printed by nobody", page)
			continue
		}
		if got, err := os.ReadFile(filepath.Join(kept, page)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("docs/reference/%s is stale (%v): make generate", page, err)
		}
	}
}
