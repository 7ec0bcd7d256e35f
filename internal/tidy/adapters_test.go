package tidy

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// adapters drive an exchange and carry bytes; what they decide would have to be decided twice.
var adapters = []string{"pkg/gateway/extproc", "pkg/gateway/proxy"}

// adapterMay are the rooms that an adapter may import and the names that it may use of them; no names: all. What is not here
// would be a decision: to refuse, to shape an error, to read a body, to know a path or a pool. Of reasons it may name those that
// tell the exchange what became of a connection.
var adapterMay = map[string][]string{
	"pkg/exchange": {"Action", "Continue", "Hold", "Reply", "Forward", "Ignore", "Via", "Ending", "FromStream", "FromLog", "Exchange", "Scheduler",
		"Waker", "ControlHeader", "HeaderDestination", "HeaderServed", "HeaderSubset"},
	"pkg/openai":        {"Header", "Headers", "Reply", "Edit", "Splice", "Delta", "Usage", "Unknown"},
	"pkg/reason":        {"ID", "Sink", "Discard", "Internal", "UpstreamUnreachable", "UpstreamBroken"},
	"pkg/gateway/clock": nil,

	// How the bytes come, and what they say.
	"pkg/gateway/extproc/h2":   nil,
	"pkg/gateway/extproc/wire": nil,

	"pkg/plugins": {"Outgoing", "Parts", "FirstByte", "Usage", "Chunks", "Rewrite", "Unknown"},
	"pkg/pool":    {"Instant"},
}

// adapterNever are fields and methods through which a decision would be made, or one that was made be judged again.
var adapterNever = []string{"Snapshot", "Books", "Decide", "Pick", "Score", "Filter", "Produce", "NewCycle", "Candidates", "Samples", "Members", "Slots",
	"Legs", "Target", "Refusal", "Summary", "Decision", "Tick"}

func adaptersDecideNothing(f *file, c *complaints) {
	if f.test || !slices.Contains(adapters, f.room) {
		return
	}
	f.imports(func(spec *ast.ImportSpec, p, _ string) {
		if dir, ours := strings.CutPrefix(p, module); ours {
			if _, ok := adapterMay[dir]; !ok {
				c.at(spec.Pos(), "an adapter imports %s; it drives an exchange and knows nothing else: decide in pkg/exchange", dir)
			}
		}
		if under(p, "math/rand") {
			c.at(spec.Pos(), "an adapter imports %s; chance is part of a decision: draw in pkg/exchange", p)
		}
	})
	f.selections(func(at token.Pos, p, name string) {
		dir, ours := strings.CutPrefix(p, module)
		if names := adapterMay[dir]; ours && names != nil && !slices.Contains(names, name) {
			c.at(at, "an adapter uses %s.%s; of %s it may use %s", dir[strings.LastIndexByte(dir, '/')+1:], name, dir, strings.Join(names, ", "))
		}
	})
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && slices.Contains(adapterNever, sel.Sel.Name) {
			c.at(sel.Sel.Pos(), "an adapter reaches for %s; decide in pkg/exchange and tell the adapter by an Action", sel.Sel.Name)
		}
		return true
	})
}
