package tidy

import (
	"bytes"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// maxLines bounds a file: what can be read in one sitting.
const maxLines = 700

// emptyNames are package names that say nothing.
var emptyNames = []string{"util", "utils", "common", "helper", "helpers", "types", "misc", "base", "shared", "lib"}

func filesAndPackages(f *file, c *complaints) {
	if lines := bytes.Count(f.src, []byte("\n")); lines > maxLines {
		c.line(maxLines+1, "%d lines; at most %d: split the file by what it is about", lines, maxLines)
	}
	if name := f.ast.Name.Name; slices.Contains(emptyNames, name) {
		c.at(f.ast.Name.Pos(), "package %s says nothing; name it after what it knows", name)
	}
	for _, part := range strings.Split(strings.TrimSuffix(f.path, ".go"), "/") {
		if slices.Contains(emptyNames, part) {
			c.at(f.ast.Package, "%s says nothing; name it after what it is about", part)
		}
	}
}

var marker = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b`)

func leftoverMarkers(f *file, c *complaints) {
	f.comments(func(line int, text string) {
		if m := marker.FindString(text); m != "" {
			c.line(line, "%s is left; do it, or open an issue and take the mark out", m)
		}
	})
}

// comments calls yield for each line of each comment, with its slashes.
func (f *file) comments(yield func(line int, text string)) {
	for _, g := range f.ast.Comments {
		for _, one := range g.List {
			first := f.fset.Position(one.Pos()).Line
			for i, text := range strings.Split(one.Text, "\n") {
				yield(first+i, text)
			}
		}
	}
}

// What prose never looks like, and code that was switched off does. Examples in documentation are indented by a tab and
// pass.
var switchedOff = []*regexp.Regexp{
	regexp.MustCompile(`^//[a-z]\w*(\.\w+)*\(.*\)$`),                               // a call, without the space that gofmt puts before prose
	regexp.MustCompile(`^// ?(if|for|switch|func|select) .*\{$`),                   // a block's head
	regexp.MustCompile(`^// ?\}( else.*\{)?$`),                                     // a block's end
	regexp.MustCompile(`^// ?[\w.\[\], ]+ (:=|\+=) [^ ].*[\w)\]}"]$`),              // an assignment
	regexp.MustCompile(`^// ?(return|defer|go) [\w.]+\(.*\)$`),                     // a statement with a call
	regexp.MustCompile(`^// ?(t|b|fmt|log|slog|os)\.[A-Z]\w*\(.*\)$`),              // a call of a package
	regexp.MustCompile(`^// ?(import|package) ["\w]+$`),                            // a head of a file
	regexp.MustCompile(`^// ?(var|const|type) \w+ (= .*|struct \{|interface \{)$`), // a declaration
}

func codeInComments(f *file, c *complaints) {
	f.comments(func(line int, text string) {
		for _, re := range switchedOff {
			if re.MatchString(text) {
				c.line(line, "code in a comment: %s; delete it, history keeps it", strings.TrimSpace(strings.TrimPrefix(text, "//")))
				return
			}
		}
	})
}

// exportedIsDocumented asks for a comment on every exported declaration of pkg and simulator, and on every package.
func exportedIsDocumented(f *file, c *complaints) {
	if f.test {
		return
	}
	if !slices.ContainsFunc(f.siblings, func(s *file) bool { return !s.test && s.ast.Doc != nil }) && f == f.firstSource() {
		c.at(f.ast.Package, "package %s has no comment; say in its doc.go what it is", f.ast.Name.Name)
	}
	if !under(f.room, "pkg", "simulator") {
		return
	}
	for _, d := range f.ast.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && d.Doc == nil && exportedReceiver(d) {
				c.at(d.Name.Pos(), "%s has no comment; say what it does, its units, errors, and what nil and zero mean", d.Name.Name)
			}
		case *ast.GenDecl:
			if d.Tok == token.IMPORT {
				continue
			}
			for _, spec := range d.Specs {
				name, doc := exportedName(spec)
				if name != nil && doc == nil && d.Doc == nil {
					c.at(name.Pos(), "%s has no comment; say what it is, its unit, and what zero means", name.Name)
				}
			}
		}
	}
}

func (f *file) firstSource() *file {
	for _, s := range f.siblings {
		if !s.test {
			return s
		}
	}
	return nil
}

func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return true
	}
	e := d.Recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return true
		}
	}
}

// exportedName returns the first exported name of a declaration and its own comment, before it or at the end of its line.
func exportedName(spec ast.Spec) (*ast.Ident, *ast.CommentGroup) {
	either := func(a, b *ast.CommentGroup) *ast.CommentGroup {
		if a != nil {
			return a
		}
		return b
	}
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() {
			return s.Name, either(s.Doc, s.Comment)
		}
	case *ast.ValueSpec:
		for _, n := range s.Names {
			if n.IsExported() {
				return n, either(s.Doc, s.Comment)
			}
		}
	}
	return nil, nil
}

// parametersAreDocumented asks for a comment on every parameter of a plugin: the reference is printed from it.
func parametersAreDocumented(f *file, c *complaints) {
	if f.test || !slices.Contains(plugin, f.room) {
		return
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		st, ok := n.(*ast.StructType)
		if !ok {
			return true
		}
		for _, field := range st.Fields.List {
			if field.Tag == nil || len(field.Names) == 0 || !field.Names[0].IsExported() || field.Doc != nil || field.Comment != nil {
				continue
			}
			if tag, err := strconv.Unquote(field.Tag.Value); err == nil && strings.Contains(tag, `json:"`) && !strings.Contains(tag, `json:"-"`) {
				c.at(field.Pos(), "parameter %s has no comment; say what it means, its unit, and what zero and absent do", field.Names[0].Name)
			}
		}
		return true
	})
}

func noInit(f *file, c *complaints) {
	for _, d := range f.ast.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
			c.at(fn.Pos(), "an init function; list it in the catalogue, or make the value where it is used")
		}
	}
}

// missing are the words of which a skipped test must use one, before what is missing.
var missing = regexp.MustCompile(`\b(needs|not installed|not found|no|without|absent|missing|only|takes)\b`)

func skipsSayWhat(f *file, c *complaints) {
	if !f.test {
		return
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		recv, ok := sel.X.(*ast.Ident)
		if !ok || !slices.Contains([]string{"t", "b", "f", "tb"}, recv.Name) || ofRapid(recv) {
			return true
		}
		switch sel.Sel.Name {
		case "SkipNow":
			c.at(call.Pos(), "SkipNow says nothing; use Skip with what is missing")
		case "Skip", "Skipf":
			said := ""
			for _, arg := range call.Args {
				if lit, ok := arg.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					said += lit.Value + " "
				}
			}
			if !missing.MatchString(said) {
				c.at(call.Pos(), "a skipped test must say which component it needs and does not find: t.Skip(\"needs …\")")
			}
		}
		return true
	})
}

// ofRapid reports whether a receiver is a *rapid.T: its Skip drops one draw and no test.
func ofRapid(recv *ast.Ident) bool {
	if recv.Obj == nil {
		return false
	}
	field, ok := recv.Obj.Decl.(*ast.Field)
	if !ok {
		return false
	}
	star, ok := field.Type.(*ast.StarExpr)
	if !ok {
		return false
	}
	sel, ok := star.X.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := sel.X.(*ast.Ident)
	return ok && pkg.Name == "rapid"
}

// testsDoNotSleep allows time.Sleep in files that use synctest, where it passes at once, and in end-to-end tests, which ask
// other processes again and again: those have a clock of their own and no channel to wait for.
func testsDoNotSleep(f *file, c *complaints) {
	if !f.test || f.room == "internal/e2e" {
		return
	}
	virtual := false
	f.imports(func(_ *ast.ImportSpec, p, _ string) { virtual = virtual || p == "testing/synctest" })
	if virtual {
		return
	}
	f.selections(func(at token.Pos, p, name string) {
		if p == "time" && name == "Sleep" {
			c.at(at, "time.Sleep in a test; wait for a channel, or use testing/synctest")
		}
	})
}
