package tidy

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
	"testing"
)

// The words that every room may use, and what a plugin may see.
var (
	words  = []string{"pkg/reason", "pkg/openai"}
	seen   = append([]string{"pkg/pool", "pkg/plugins"}, words...)
	plugin = []string{"pkg/scorers", "pkg/filters", "pkg/pickers", "pkg/profiles", "pkg/producers", "pkg/health", "pkg/sessions", "pkg/conformance", "pkg/models", "pkg/admission", "pkg/kvindex",
		"pkg/pd", "pkg/flow", "pkg/maas"}
	decided = append([]string{"pkg/exchange", "pkg/config", "pkg/config/files", "pkg/catalog"}, seen...)
)

// room says what the files of one directory may import of ours, tests aside.
type room struct {
	dir  string
	may  []string // directories; an entry that ends in "/..." stands for all below it too
	core bool
}

// house lists every room. A directory that is not here does not exist until somebody says what it may know.
func house() []room {
	h := []room{
		{"pkg/reason", nil, true},
		{"pkg/openai", nil, true},
		{"pkg/pool", words, true},
		{"pkg/pool/engines", nil, true},
		{"pkg/quantile", nil, true},
		{"pkg/latency", []string{"pkg/quantile"}, true},
		{"pkg/pool/discovery", []string{"pkg/pool", "pkg/reason", "pkg/openai"}, false},
		{"pkg/pool/telemetry", []string{"pkg/pool", "pkg/pool/engines", "pkg/reason", "pkg/openai"}, false},
		{"pkg/plugins", append([]string{"pkg/pool"}, words...), true},
		{"pkg/plugins/pluginstest", seen, true},
		{"pkg/exchange", seen, true},
		{"pkg/config", append([]string{"pkg/pool/engines"}, seen...), true},
		{"pkg/config/files", append([]string{"pkg/config"}, seen...), false},
		{"pkg/catalog", append(slices.Clone(plugin), seen...), true},

		{"pkg/kvindex/blockhash", words, true},
		{"pkg/kvindex/events", append([]string{"pkg/kvindex", "pkg/kvindex/blockhash"}, seen...), false},
		{"pkg/kvindex/tokenizers", append([]string{"pkg/kvindex"}, seen...), false},
		{"pkg/pd/sidecar", append([]string{"pkg/pd"}, seen...), false},
		{"pkg/maas/store", append([]string{"pkg/maas"}, seen...), false},
		{"pkg/maas/api", append([]string{"pkg/maas"}, seen...), false},
		{"pkg/maas/controller", append([]string{"pkg/maas"}, seen...), false},
		{"pkg/maas/console", append([]string{"pkg/maas"}, seen...), false},

		{"pkg/gateway/clock", []string{"pkg/exchange", "pkg/pool"}, false},
		{"pkg/gateway/extproc", append([]string{"pkg/exchange", "pkg/gateway/clock", "pkg/gateway/extproc/h2", "pkg/gateway/extproc/wire"}, seen...), false},
		{"pkg/gateway/extproc/h2", nil, false},
		{"pkg/gateway/extproc/wire", []string{"pkg/openai"}, false},
		{"pkg/gateway/proxy", append([]string{"pkg/exchange", "pkg/gateway/clock"}, seen...), false},
		{"pkg/gateway/replicas", []string{"pkg/exchange", "pkg/pool", "pkg/reason"}, false},
		{"pkg/gateway/providers", append([]string{"pkg/exchange", "pkg/gateway/clock"}, seen...), false},
		{"pkg/gateway/ports", append([]string{"pkg/config/files"}, words...), false},
		{"pkg/gateway/admin", append([]string{"pkg/flow", "pkg/pool/telemetry", "pkg/pool/discovery", "pkg/gateway/clock"}, decided...), false},

		{"pkg/cli", []string{"pkg/...", "simulator/...", "benchmarks/..."}, false},
		{"cmd/fairlead", []string{"pkg/catalog", "pkg/cli"}, false},

		{"simulator/engine", append([]string{"pkg/pool", "pkg/kvindex/blockhash"}, words...), true},
		{"simulator/server", append([]string{"simulator/engine", "pkg/pool", "pkg/kvindex/blockhash"}, words...), false},
		{"simulator/fleet", append([]string{"simulator/engine", "simulator/scenarios", "pkg/pool", "pkg/kvindex/blockhash"}, words...), true},
		{"simulator/scenarios", append([]string{"simulator/engine", "pkg/pool"}, words...), true},

		{"internal/invariants", nil, true},
		{"internal/tidy", nil, false},
		{"internal/scenario", append([]string{"pkg/plugins/pluginstest"}, decided...), false},
		{"internal/adapters", nil, false},      // tests alone
		{"internal/reasons", nil, false},       // tests alone
		{"internal/compatibility", nil, false}, // tests alone
		{"internal/e2e", []string{"pkg/...", "simulator/...", "benchmarks/..."}, false},
		{"internal/adapters", []string{"pkg/..."}, false},
		{"internal/reasons", []string{"pkg/..."}, false},
		{"internal/describe", []string{"pkg/..."}, false},
	}
	for _, p := range plugin {
		may := slices.Clone(seen)
		if p == "pkg/kvindex" {
			may = append(may, "pkg/kvindex/blockhash")
		}
		if p == "pkg/producers" {
			may = append(may, "pkg/quantile", "pkg/latency")
		}
		h = append(h, room{p, may, true})
	}
	// Benchmarks wire whole processes together, and measure single rooms.
	measured := append(append([]string{"simulator/...", "benchmarks/...", "pkg/gateway/...", "pkg/pool/...", "pkg/kvindex/..."}, plugin...), decided...)
	for _, b := range []string{"benchmarks", "benchmarks/budgets", "benchmarks/calibration", "benchmarks/decision", "benchmarks/demo", "benchmarks/extproc", "benchmarks/peers", "benchmarks/children", "benchmarks/report", "benchmarks/rules", "benchmarks/tuning", "benchmarks/acceptance", "benchmarks/workload", "benchmarks/traces", "benchmarks/policy", "benchmarks/bench", "benchmarks/compare", "benchmarks/load"} {
		h = append(h, room{b, measured, false})
	}
	return h
}

func roomOf(dir string) (room, bool) {
	h := house()
	i := slices.IndexFunc(h, func(r room) bool { return r.dir == dir })
	if i < 0 {
		return room{}, false
	}
	return h[i], true
}

func (r room) mayImport(dir string) bool {
	return dir == "internal/invariants" || slices.ContainsFunc(r.may, func(m string) bool {
		if below, ok := strings.CutSuffix(m, "/..."); ok {
			return under(dir, below)
		}
		return m == dir
	})
}

// importsOneWay holds imports against the house. Tests may wire rooms together as they like.
func importsOneWay(f *file, c *complaints) {
	r, known := roomOf(f.room)
	if !known {
		c.at(f.ast.Package, "%s is no room of the house; put the file into a room of the design, or say in internal/tidy what the room may import", f.room)
		return
	}
	if f.test {
		return
	}
	f.imports(func(spec *ast.ImportSpec, p, _ string) {
		dir, ours := strings.CutPrefix(p, module)
		switch {
		case !ours || r.mayImport(dir):
		case slices.Contains(plugin, f.room) && under(dir, plugin...):
			c.at(spec.Pos(), "%s imports %s: a plugin never imports another; share a fact (pkg/plugins/facts.go) instead", f.room, dir)
		case dir == "pkg/plugins/pluginstest":
			c.at(spec.Pos(), "%s imports pluginstest; it is for tests alone", f.room)
		default:
			c.at(spec.Pos(), "%s imports %s; %s", f.room, dir, r.allowed())
		}
	})
}

func (r room) allowed() string {
	if len(r.may) == 0 {
		return "it may import nothing of ours"
	}
	return fmt.Sprintf("it may import %s: turn the dependency around, or hand the value in", strings.Join(r.may, ", "))
}

// The table itself runs one way: no chain of imports that it allows leads back to where it began.
func TestTheHouseHasNoCircles(t *testing.T) {
	h := house()
	state := map[string]int{} // 1: on the path, 2: done
	var visit func(dir string, chain []string)
	visit = func(dir string, chain []string) {
		switch state[dir] {
		case 1:
			t.Errorf("a circle: %s", strings.Join(append(chain, dir), " → "))
			return
		case 2:
			return
		}
		state[dir] = 1
		r, _ := roomOf(dir)
		for _, to := range h {
			if to.dir != dir && to.dir != "internal/invariants" && r.mayImport(to.dir) {
				// Benchmarks and the command line may use their own parts.
				if under(dir, "benchmarks") && under(to.dir, "benchmarks") {
					continue
				}
				visit(to.dir, append(chain, dir))
			}
		}
		state[dir] = 2
	}
	for _, r := range h {
		visit(r.dir, nil)
	}
}
