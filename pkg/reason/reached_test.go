package reason

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// byStages are reasons that the built-in plugins have no use for yet: a stage that authenticates, asks somebody or queues
// refuses with them.
var byStages = map[string]bool{"ForbiddenHeader": true, "QueueFull": true, "QueueTimeout": true, "LookupTimeout": true}

// TestEachReasonIsProducedAndReached holds that code other than tests names each reason of the table, and that a test
// names it, as reason.Name or by its code. That each occurs when it is driven to is shown in internal/reasons.
func TestEachReasonIsProducedAndReached(t *testing.T) {
	names := tableNames(t)
	produced, reached := map[string]bool{}, map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.Contains(path, "pkg/reason/") {
			return err
		}
		if strings.HasSuffix(path, "pkg/gateway/admin/reasons.go") { // says how loud a reason is, not that it occurs
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return err
		}
		if ast.IsGenerated(file) { // prints what others do
			return nil
		}
		test := strings.HasSuffix(path, "_test.go")
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if room, ok := n.X.(*ast.Ident); ok && room.Name == "reason" {
					if test {
						reached[n.Sel.Name] = true
					} else {
						produced[n.Sel.Name] = true
					}
				}
			case *ast.BasicLit:
				if text, err := strconv.Unquote(n.Value); err == nil && test && n.Kind == token.STRING {
					for word := range strings.FieldsSeq(text) {
						reached[strings.Trim(word, `"',.:()`)] = true
					}
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, id := range All() {
		name := names[i]
		if !produced[name] && !byStages[name] {
			t.Errorf("%s: no code notes it or refuses with it", name)
		}
		if !reached[name] && !reached[id.String()] {
			t.Errorf("%s: no test names it", name)
		}
	}
}

// tableNames reads the names of the constants, in table order.
func tableNames(t *testing.T) (names []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "table.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
			for _, s := range g.Specs {
				if name := s.(*ast.ValueSpec).Names[0].Name; name != "_" {
					names = append(names, name)
				}
			}
		}
	}
	if len(names) != len(All()) {
		t.Fatalf("%d constants and %d rows", len(names), len(All()))
	}
	return names
}
