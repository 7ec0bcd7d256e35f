package tidy

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// module is the prefix of our own import paths.
const module = "github.com/fairlead/fairlead/"

// file is one Go file of the module.
type file struct {
	path string // from the module's root, with slashes
	room string // its directory: "pkg/pool/telemetry"
	test bool
	src  []byte
	fset *token.FileSet
	ast  *ast.File
	// siblings are all files of the same directory, this one included.
	siblings []*file
}

// rule is one house rule.
type rule struct {
	name string
	each func(f *file, c *complaints)
}

// rules are the house rules, in the order in which they are reported.
func rules() []rule {
	return []rule{
		{"rooms import one way", importsOneWay},
		{"the core has no network, files, logger or metrics", coreImports},
		{"the core starts nothing, waits for nothing and knows no clock", coreStatements},
		{"no package state changes after start", packageState},
		{"adapters decide nothing", adaptersDecideNothing},
		{"no leftover markers", leftoverMarkers},
		{"no code in comments", codeInComments},
		{"files are short and packages have names of their own", filesAndPackages},
		{"what is exported is documented", exportedIsDocumented},
		{"parameters of plugins are documented", parametersAreDocumented},
		{"no init functions", noInit},
		{"a skipped test says what is missing", skipsSayWhat},
		{"tests do not sleep", testsDoNotSleep},
	}
}

// complaints collects what a rule finds in one file.
type complaints struct {
	file  *file
	found []string
	lines []int // of found, ascending
}

func (c *complaints) at(pos token.Pos, format string, args ...any) {
	c.line(c.file.fset.Position(pos).Line, format, args...)
}

func (c *complaints) line(line int, format string, args ...any) {
	i := len(c.lines)
	for i > 0 && c.lines[i-1] > line {
		i--
	}
	c.lines = slices.Insert(c.lines, i, line)
	c.found = slices.Insert(c.found, i, fmt.Sprintf("%s:%d: %s", c.file.path, line, fmt.Sprintf(format, args...)))
}

func TestHouseRules(t *testing.T) {
	files := readModule(t, filepath.Join("..", ".."))
	if len(files) < 50 {
		t.Fatalf("only %d Go files found; is this the module's root?", len(files))
	}
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			for _, f := range files {
				c := &complaints{file: f}
				r.each(f, c)
				for _, msg := range c.found {
					t.Error(msg)
				}
			}
		})
	}
}

// readModule parses every Go file of the module but generated ones.
func readModule(t *testing.T, root string) []*file {
	t.Helper()
	var files []*file
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if base := path.Base(rel); rel != "." && (strings.HasPrefix(base, ".") || base == "testdata" || base == "node_modules" || rel == "bin") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(rel, ".go") {
			return nil
		}
		src, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		f, err := parse(rel, src)
		if err != nil {
			return err
		}
		if !ast.IsGenerated(f.ast) {
			files = append(files, f)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	link(files)
	return files
}

func parse(rel string, src []byte) (*file, error) {
	f := &file{path: rel, room: path.Dir(rel), test: strings.HasSuffix(rel, "_test.go"), src: src, fset: token.NewFileSet()}
	var err error
	f.ast, err = parser.ParseFile(f.fset, rel, src, parser.ParseComments)
	return f, err
}

func link(files []*file) {
	rooms := map[string][]*file{}
	for _, f := range files {
		rooms[f.room] = append(rooms[f.room], f)
	}
	for _, f := range files {
		f.siblings = rooms[f.room]
	}
}

// imports calls yield for each import: its path and the name by which the file knows it.
func (f *file) imports(yield func(spec *ast.ImportSpec, importPath, name string)) {
	for _, spec := range f.ast.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		name := path.Base(p)
		if strings.HasPrefix(name, "v") && strings.Trim(name[1:], "0123456789") == "" && name != "v" {
			name = path.Base(path.Dir(p))
		}
		if spec.Name != nil {
			name = spec.Name.Name
		}
		yield(spec, p, name)
	}
}

// selections calls yield for each use of a name of an imported package, such as time.Now.
func (f *file) selections(yield func(at token.Pos, importPath, name string)) {
	paths := map[string]string{}
	f.imports(func(_ *ast.ImportSpec, p, name string) { paths[name] = p })
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && x.Obj == nil && paths[x.Name] != "" {
				yield(sel.Pos(), paths[x.Name], sel.Sel.Name)
			}
		}
		return true
	})
}

// under reports whether a path is one of dirs or lies below one.
func under(p string, dirs ...string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return p == d || strings.HasPrefix(p, d+"/") })
}
