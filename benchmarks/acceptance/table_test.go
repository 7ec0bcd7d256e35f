package acceptance_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/benchmarks/acceptance"
)

// tests returns the names of the test functions in a folder, whatever their build tags.
func tests(t *testing.T, folder string) map[string]bool {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for _, path := range paths {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") && fn.Name.Name != "TestMain" {
				tagged := false
				for _, c := range f.Comments {
					tagged = tagged || strings.Contains(c.List[0].Text, "//go:build acceptance")
				}
				out[fn.Name.Name] = tagged
			}
		}
	}
	return out
}

// Every claim of the page has its test, and every test here its claim.
func TestThePageAndTheTestsAreInStep(t *testing.T) {
	rows, err := acceptance.Rows(acceptance.Page)
	if err != nil {
		t.Fatal(err)
	}
	here := tests(t, ".")
	claimed := map[string]bool{}
	for _, r := range rows {
		claimed[r.Test] = true
		name := r.Test[strings.LastIndexByte(r.Test, '.')+1:]
		found := here
		if r.Package() != "" {
			found = tests(t, filepath.Join("../..", filepath.FromSlash(r.Package())))
		}
		if _, ok := found[name]; !ok {
			t.Errorf("%q: there is no test %s", r.Claim, r.Test)
		}
		switch r.Verdict {
		case acceptance.Holds, acceptance.Fails, acceptance.NotDecided:
		default:
			t.Errorf("%q: verdict %q; holds, fails or not decided", r.Claim, r.Verdict)
		}
		if r.Claim == "" || r.Asked == "" || r.Figure == "" {
			t.Errorf("%s: a row without claim, what is asked, or figure", r.Test)
		}
	}
	for name, tagged := range here {
		if tagged && !claimed[name] {
			t.Errorf("docs/scheduling.md has no row for %s", name)
		}
	}
}
