package tidy

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// core reports whether the file belongs to the core and runs in production: tests may do what they need to.
func (f *file) core() bool {
	r, _ := roomOf(f.room)
	return r.core && !f.test
}

// coreForbidden are imports that the core has no business with, and what to use instead. An entry covers what is below it.
var coreForbidden = []struct{ path, instead string }{
	{"net", "use net/netip for addresses; everything else belongs to an edge"},
	{"os", "take bytes or values; reading them is an edge's business"},
	{"io/fs", "take bytes or values; reading them is an edge's business"},
	{"path/filepath", "take bytes or values; reading them is an edge's business"},
	{"syscall", "leave it to an edge"},
	{"log", "hand in a reason.Sink, or return an error"},
	{"math/rand", "use math/rand/v2 with a generator that is handed in"},
	{"crypto/rand", "use a seed that is handed in"},
	{"database/sql", "ask a typed port; the store is an edge"},
	{"google.golang.org/grpc", "ask a typed port; the connection is an edge"},
	{"github.com/envoyproxy", "use types of our own; protobufs are an edge's business"},
	{"google.golang.org/protobuf", "use types of our own; protobufs are an edge's business"},
	{"k8s.io", "use types of our own; Kubernetes is an edge's business"},
	{"sigs.k8s.io", "use types of our own; Kubernetes is an edge's business"},
	{"github.com/prometheus", "use counters that are handed in"},
	{"go.opentelemetry.io", "use counters and records that are handed in"},
	{"github.com/spf13", "take options as a struct; flags belong to pkg/cli"},
	{"github.com/fsnotify", "take bytes that are handed in; watching is an edge's business"},
}

func coreImports(f *file, c *complaints) {
	if !f.core() {
		return
	}
	f.imports(func(spec *ast.ImportSpec, p, _ string) {
		if p == "net/netip" || p == "math/rand/v2" {
			return
		}
		if p == "testing" && f.room != "pkg/plugins/pluginstest" {
			c.at(spec.Pos(), "imports testing; that is for files ending in _test.go")
		}
		for _, no := range coreForbidden {
			if under(p, no.path) {
				c.at(spec.Pos(), "the core imports %s; %s", p, no.instead)
			}
		}
	})
}

// coreNames are names of allowed packages that act behind the caller's back, and what to use instead.
var coreNames = []struct {
	path, names, instead string
}{
	{"time", "Now Since Until", "use the now that is handed in: time is data"},
	{"time", "Sleep After AfterFunc NewTimer NewTicker Tick", "return the next deadline; the edge owns the timers"},
	{"time", "Local LoadLocation", "use time.UTC"},
	{"context", "WithTimeout WithDeadline WithTimeoutCause WithDeadlineCause AfterFunc", "return the next deadline; the edge owns the timers"},
	{"fmt", "Print Printf Println Scan Scanf Scanln", "return the text, or write to an io.Writer that is handed in"},
	{"runtime", "GC Gosched NumGoroutine SetFinalizer AddCleanup", "leave it to an edge"},
}

// randAllowed are the names of math/rand/v2 that draw from no global generator.
var randAllowed = []string{"Rand", "New", "PCG", "NewPCG", "ChaCha8", "NewChaCha8", "Zipf", "NewZipf", "Source"}

func coreStatements(f *file, c *complaints) {
	if !f.core() {
		return
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			c.at(n.Pos(), "a goroutine in the core; return an action and let the edge run it")
		case *ast.SelectStmt:
			c.at(n.Pos(), "select in the core; its choice is random: order the cases by hand")
		case *ast.CallExpr:
			if id, ok := n.Fun.(*ast.Ident); ok && id.Obj == nil && (id.Name == "print" || id.Name == "println") {
				c.at(n.Pos(), "%s writes to standard error; return the text", id.Name)
			}
		}
		return true
	})
	f.selections(func(at token.Pos, p, name string) {
		if p == "math/rand/v2" && !slices.Contains(randAllowed, name) {
			c.at(at, "rand.%s draws from the global generator; use the stream that is handed in (Cycle.Rand)", name)
		}
		for _, no := range coreNames {
			if p == no.path && slices.Contains(strings.Fields(no.names), name) {
				c.at(at, "%s.%s in the core; %s", p, name, no.instead)
			}
		}
	})
}

// packageState complains of functions that assign to a variable of their package: state belongs to a value somebody made.
func packageState(f *file, c *complaints) {
	if f.test {
		return
	}
	vars := map[string]bool{}
	for _, s := range f.siblings {
		if s.test || s.ast.Name.Name != f.ast.Name.Name {
			continue
		}
		for _, d := range s.ast.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.VAR {
				for _, spec := range g.Specs {
					for _, name := range spec.(*ast.ValueSpec).Names {
						vars[name.Name] = name.Name != "_"
					}
				}
			}
		}
	}
	// A name of the package is one that no narrower scope of this file declares: unresolved, or resolved to the file's own
	// declaration at the top.
	ours := func(e ast.Expr) (*ast.Ident, bool) {
		for {
			switch x := e.(type) {
			case *ast.IndexExpr:
				e = x.X
			case *ast.SelectorExpr:
				e = x.X
			case *ast.StarExpr:
				e = x.X
			case *ast.ParenExpr:
				e = x.X
			case *ast.Ident:
				return x, vars[x.Name] && (x.Obj == nil || f.ast.Scope.Lookup(x.Name) == x.Obj)
			default:
				return nil, false
			}
		}
	}
	complain := func(e ast.Expr) {
		if id, ok := ours(e); ok {
			c.at(id.Pos(), "assigns to the package's variable %s; keep the state in a value that somebody makes", id.Name)
		}
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				for _, lhs := range n.Lhs {
					complain(lhs)
				}
			}
		case *ast.IncDecStmt:
			complain(n.X)
		}
		return true
	})
}
