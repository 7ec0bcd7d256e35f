package tidy

import (
	"strings"
	"testing"
)

// Each rule is tried on code that it must refuse and on code beside it that it must let pass.
func TestRulesBite(t *testing.T) {
	const doc = "// Package p is a sample.\npackage p\n"
	rows := []struct {
		rule, path, src string
		want            []string // the start of each complaint after "path:"; none: it passes
	}{
		// Rooms.
		{"rooms import one way", "pkg/novelty/a.go", doc, []string{"2: pkg/novelty is no room"}},
		{"rooms import one way", "pkg/pool/a.go", doc + `import _ "github.com/fairlead/fairlead/pkg/plugins"`, []string{"3: pkg/pool imports pkg/plugins; it may import pkg/reason"}},
		{"rooms import one way", "pkg/scorers/a.go", doc + `import _ "github.com/fairlead/fairlead/pkg/pickers"`, []string{"3: pkg/scorers imports pkg/pickers: a plugin never imports another"}},
		{"rooms import one way", "pkg/models/a.go", doc + `import _ "github.com/fairlead/fairlead/pkg/kvindex/blockhash"`, []string{"3: pkg/models imports pkg/kvindex/blockhash: a plugin never"}},
		{"rooms import one way", "pkg/exchange/a.go", doc + `import _ "github.com/fairlead/fairlead/pkg/models"`, []string{"3: pkg/exchange imports pkg/models"}},
		{"rooms import one way", "pkg/reason/a.go", doc + `import _ "github.com/fairlead/fairlead/pkg/openai"`, []string{"3: pkg/reason imports pkg/openai; it may import nothing of ours"}},
		{"rooms import one way", "pkg/scorers/a.go", doc + `import _ "github.com/fairlead/fairlead/pkg/plugins/pluginstest"`, []string{"3: pkg/scorers imports pluginstest; it is for tests alone"}},
		{"rooms import one way", "simulator/engine/a.go", doc + `import _ "github.com/fairlead/fairlead/pkg/exchange"`, []string{"3: simulator/engine imports pkg/exchange"}},
		{"rooms import one way", "pkg/scorers/a_test.go", doc + `import _ "github.com/fairlead/fairlead/pkg/pickers"`, nil},
		{"rooms import one way", "pkg/kvindex/a.go", doc + `import _ "github.com/fairlead/fairlead/pkg/kvindex/blockhash"`, nil},
		{"rooms import one way", "pkg/cli/a.go", doc + `import _ "github.com/fairlead/fairlead/benchmarks/demo"`, nil},

		// The core's imports.
		{"the core has no network, files, logger or metrics", "pkg/pool/a.go", doc + "import (\n_ \"net\"\n_ \"net/http\"\n_ \"net/netip\"\n_ \"os\"\n_ \"os/exec\"\n_ \"log/slog\"\n)",
			[]string{"4: the core imports net;", "5: the core imports net/http;", "7: the core imports os; take bytes", "8: the core imports os/exec;", "9: the core imports log/slog; hand in a reason.Sink"}},
		{"the core has no network, files, logger or metrics", "pkg/exchange/a.go", doc + "import (\n_ \"google.golang.org/grpc/codes\"\n_ \"github.com/prometheus/common/model\"\n_ \"k8s.io/client-go/rest\"\n_ \"database/sql\"\n_ \"math/rand\"\n_ \"testing\"\n)",
			[]string{"4: the core imports google.golang.org/grpc", "5: the core imports github.com/prom", "6: the core imports k8s.io", "7: the core imports database/sql", "8: the core imports math/rand; use math/rand/v2", "9: imports testing"}},
		{"the core has no network, files, logger or metrics", "pkg/pool/telemetry/a.go", doc + "import _ \"net/http\"", nil},
		{"the core has no network, files, logger or metrics", "pkg/pool/a_test.go", doc + "import _ \"os\"", nil},

		// The core's statements.
		{"the core starts nothing, waits for nothing and knows no clock", "pkg/exchange/a.go", doc + `import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)
func f(c chan int, ctx context.Context) {
	go f(c, ctx)
	select { case <-c: }
	_ = time.Now()
	time.Sleep(time.Second)
	_ = rand.IntN(3)
	_ = rand.New(rand.NewPCG(1, 2))
	fmt.Println(time.Duration(3))
	println("x")
	context.WithTimeout(ctx, 1)
}`, []string{"10: a goroutine", "11: select in the core", "12: time.Now", "13: time.Sleep", "14: rand.IntN draws from the global generator", "16: fmt.Println", "17: println", "18: context.WithTimeout"}},
		{"the core starts nothing, waits for nothing and knows no clock", "pkg/exchange/a.go", doc + `import clock "time"
var _ = clock.Now()
func f(time struct{ Now int }) int { return time.Now }`, []string{"4: time.Now in the core; use the now that is handed in"}},
		{"the core starts nothing, waits for nothing and knows no clock", "pkg/gateway/proxy/a.go", doc + "func f() { go f() }", nil},

		// State.
		{"no package state changes after start", "pkg/pool/a.go", doc + `var count, table = 0, map[string]int{}
func f(other struct{ count int }) {
	count++
	table["a"] = 1
	other.count = 3
	count := 4
	count = 5
	_ = count
}`, []string{"5: assigns to the package's variable count", "6: assigns to the package's variable table"}},

		// Adapters.
		{"adapters decide nothing", "pkg/gateway/extproc/a.go", doc + `import (
	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
)
var _ config.File
var _ plugins.Outgoing
var _ plugins.Cycle
var _ pool.Instant
func f(p *pool.Pool) { p.Decide(nil) }`, []string{"4: an adapter imports pkg/config", "10: an adapter uses plugins.Cycle; of pkg/plugins it may use Outgoing", "12: an adapter uses pool.Pool", "12: an adapter reaches for Decide"}},
		{"adapters decide nothing", "pkg/gateway/proxy/a.go", doc + `import (
	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/reason"
)
func f(s *exchange.Scheduler, path string) *openai.Reply {
	if openai.ClassifyPath("POST", path) == openai.Other {
		return openai.ErrorReply(0, 404, "x", "y", 0, "")
	}
	_ = reason.Refuse(reason.NoEndpoint, "")
	s.Tick(0)
	return nil
}`, []string{"9: an adapter uses openai.ClassifyPath; of pkg/openai it may use Header", "9: an adapter uses openai.Other", "10: an adapter uses openai.ErrorReply",
			"12: an adapter uses reason.Refuse", "12: an adapter uses reason.NoEndpoint", "13: an adapter reaches for Tick"}},
		{"adapters decide nothing", "pkg/gateway/admin/a.go", doc + `import _ "github.com/fairlead/fairlead/pkg/config"`, nil},

		// Comments.
		{"no leftover markers", "pkg/pool/a.go", doc + "// TO" + "DO: later\nvar x = \"FIX" + "ME\"\n/* a\n XX" + "X */", []string{"3: TO" + "DO is left", "6: XX" + "X is left"}},
		{"no code in comments", "pkg/pool/a.go", doc + "//foo.bar(x)\n// if x > 3 {\n// }\n// a, b := f(x)\n// return f(x)\n// t.Fatal(err)\n", []string{"3:", "4:", "5:", "6:", "7:", "8:"}},
		{"no code in comments", "pkg/pool/a.go", doc + "// Foo returns x (or y).\n//\n//\tx := f()\n//\tfor {\n//go:build linux\n//nolint:errcheck\n// for example {a}: b\n// f(x) = x², that is\n// if it is so, {}\n", nil},

		// Files.
		{"files are short and packages have names of their own", "pkg/pool/a.go", doc + strings.Repeat("\n", 800), []string{"701: 802 lines; at most 700"}},
		{"files are short and packages have names of their own", "pkg/util/types.go", "package util\n", []string{"1: package util says nothing", "1: util says nothing", "1: types says nothing"}},

		// Documentation.
		{"what is exported is documented", "pkg/pool/a.go", "package p\nfunc F() {}\ntype T struct{}\nfunc (T) M() {}\nfunc (*t) M() {}\ntype t int\nconst C = 1\nvar v, V = 1, 2\n",
			[]string{"1: package p has no comment", "2: F has no comment", "3: T has no comment", "4: M has no comment", "7: C has no comment", "8: V has no comment"}},
		{"what is exported is documented", "pkg/pool/a.go", doc + "// F is.\nfunc F() {}\n// The constants.\nconst (\nA = 1\nB = 2\n)\nvar (\nC = 3 // C is three.\n)\n", nil},
		{"what is exported is documented", "benchmarks/demo/a.go", doc + "func F() {}\n", nil},
		{"parameters of plugins are documented", "pkg/scorers/a.go", doc + "type T struct {\n\tA int `json:\"a\"`\n\t// B is.\n\tB int `json:\"b\"`\n\tC int `json:\"-\"`\n\tD int\n}\n", []string{"4: parameter A has no comment"}},

		// Functions and tests.
		{"no init functions", "pkg/pool/a.go", doc + "func init() {}\ntype t int\nfunc (t) init() {}\n", []string{"3: an init function"}},
		{"a skipped test says what is missing", "pkg/pool/a_test.go", doc + `func f(t *testing.T) {
	t.Skip()
	t.Skip("flaky")
	t.SkipNow()
	t.Skip("needs the envoy binary")
	t.Skipf("%s is not installed", name)
}
func g(t *rapid.T) { t.Skip() }`, []string{"4: a skipped test", "5: a skipped test", "6: SkipNow says nothing"}},
		{"tests do not sleep", "pkg/pool/a_test.go", doc + "import \"time\"\nfunc f() { time.Sleep(1) }", []string{"4: time.Sleep in a test"}},
		{"tests do not sleep", "pkg/pool/a_test.go", doc + "import (\n\"testing/synctest\"\n\"time\"\n)\nfunc f() { synctest.Wait(); time.Sleep(1) }", nil},
	}
	tried := map[string]bool{}
	for _, row := range rows {
		t.Run(row.rule+" "+row.path, func(t *testing.T) {
			f, err := parse(row.path, []byte(row.src))
			if err != nil {
				t.Fatal(err)
			}
			link([]*file{f})
			c := &complaints{file: f}
			for _, r := range rules() {
				if r.name == row.rule {
					r.each(f, c)
					tried[r.name] = tried[r.name] || len(row.want) > 0
				}
			}
			for i, msg := range c.found {
				if i >= len(row.want) || !strings.HasPrefix(msg, row.path+":"+row.want[i]) {
					t.Errorf("complaint %d is %q", i, msg)
				}
			}
			if len(c.found) < len(row.want) {
				t.Errorf("%d complaints, want %d: %q", len(c.found), len(row.want), c.found)
			}
		})
	}
	for _, r := range rules() {
		if !tried[r.name] {
			t.Errorf("the rule %q is tried on no bad code", r.name)
		}
	}
}
