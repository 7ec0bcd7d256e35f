package compatibility

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/cli"
	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/exchange"
)

var update = flag.Bool("update", false, "write docs/compatibility.md anew")

const page = "../../docs/compatibility.md"

// TestThePageIsTrue holds docs/compatibility.md to the lists beside this file, which are complete, and to the code, which says
// what is here.
func TestThePageIsTrue(t *testing.T) {
	var b strings.Builder
	b.WriteString(preface)
	b.WriteString(pluginsSection(t))
	b.WriteString(flagsSection(t))
	b.WriteString(headersSection(t))
	b.WriteString(metricsSection(t))
	if *update {
		if err := os.WriteFile(page, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != b.String() {
		t.Error("docs/compatibility.md is stale: make generate")
	}
}

const preface = `# Compatibility with llm-d's endpoint picker

What of llm-d-router v0.10 is here, by name: plugin types, flags, headers and metadata keys, metrics. Printed by ` + "`make generate`" + `
from the lists in internal/compatibility and from what the code says of each; do not edit.

- **same**: here under its name, with its parameters and defaults.
- **mapped**: taken, and something else does its work.
- **ignored**: a flag that is taken and has no effect; the log says so.
- **refused**: the configuration or command line does not load, and the message says what to write instead.
- **removed**: a client's copy of the header is taken out, and nobody reads it.
- **absent**: not here, and nothing is asked of it.

A configuration is checked by ` + "`fairlead config check FILE`" + `, which tells of each line what does not hold.
`

// entry is a line of a list: a name and what is to be said of it.
type entry struct{ kind, name, note string }

// list reads a file of testdata.
func list(t *testing.T, file string) (out []entry) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	kind, seen := "", map[string]bool{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		if k, ok := strings.CutPrefix(line, "kind "); ok {
			kind = k
			continue
		}
		name, note, _ := strings.Cut(line, "\t")
		if seen[name] {
			t.Errorf("%s: %s stands twice", file, name)
		}
		seen[name] = true
		out = append(out, entry{kind, name, note})
	}
	return out
}

// required are parameters without which a type does not load.
var required = map[string]string{
	"session-id-producer": "{cookieName: sid}", "by-label": "{label: tier, validValues: [gold]}",
	"utilization-filter": "{conditions: [{metric: waiting-queue, maxValue: 64}]}", "active-request-filter": "{maxRequests: 10}",
	"endpoint-attribute-filter":    "{attribute: a, algorithm: {type: threshold, threshold: {operator: LessThan, value: 1}}}",
	"endpoint-attribute-scorer":    "{attributeKey: a, algorithm: {type: linear_lower_is_better}}",
	"header-label-affinity-scorer": "{headerName: x-tenant, labelKey: tenant}", "file-discovery": "{path: endpoints.yaml}",
}

func pluginsSection(t *testing.T) string {
	var b strings.Builder
	catalogue := catalog.Builtin()
	kind := ""
	for _, e := range list(t, "plugins.txt") {
		if e.kind != kind {
			kind = e.kind
			fmt.Fprintf(&b, "\n## %s\n\n| type | here | |\n|---|---|---|\n", kind)
		}
		state, note, name := "refused", e.note, "`"+e.name+"`"
		for _, c := range catalogue {
			if c.Type == e.name {
				state, name = "same", "[`"+e.name+"`](reference/plugins/"+e.name+".md)"
			}
		}
		if state != "same" {
			state, note = asked(t, e)
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", name, state, note)
	}
	return b.String()
}

// asked loads a configuration that names the type, and returns what comes of it.
func asked(t *testing.T, e entry) (state, note string) {
	t.Helper()
	parameters := required[e.name]
	if parameters == "" {
		parameters = "{}"
	}
	text := "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n- {type: " + e.name + ", parameters: " + parameters + "}\n- type: queue-scorer\n"
	if e.name == "file-discovery" {
		text += "dataLayer: {discovery: {pluginRef: file-discovery}}\n"
	}
	text += "schedulingProfiles:\n- name: default\n  plugins: [{pluginRef: queue-scorer}]\n"
	_, problems := config.Load([]byte(text), "f", catalog.Builtin())
	state = "mapped"
	for _, p := range problems {
		switch {
		case p.Severity == config.Error && p.Code == config.CodeUnknownType:
			t.Errorf("%s is not even known: %v", e.name, p)
			fallthrough
		case p.Severity == config.Error:
			return "refused", sentence(p.Suggestion)
		case p.Code == config.CodeDeprecated:
			note = sentence(p.Suggestion)
		}
	}
	if e.note != "" {
		note = e.note
	}
	return state, note
}

// sentence makes a suggestion one. Names such as gRPC stay as they are written.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	if first, _, _ := strings.Cut(text, " "); first == strings.ToLower(first) && !strings.Contains(first, "_") {
		text = strings.ToUpper(text[:1]) + text[1:]
	}
	return strings.ReplaceAll(text, "|", "\\|") + "."
}

func flagsSection(t *testing.T) string {
	help := output(t, "epp", "--help")
	var b strings.Builder
	b.WriteString("\n## Flags\n\nOf `fairlead epp`.\n\n| flag | here | |\n|---|---|---|\n")
	for _, e := range list(t, "flags.txt") {
		state, note := "same", e.note
		if !strings.Contains(help, "--"+e.name+" ") && !strings.Contains(help, "--"+e.name+"\n") {
			if e.note != "" {
				t.Errorf("flags.txt: --%s is not here: what is said of it stands in pkg/cli", e.name)
			}
			var why string
			if state, why = cli.UpstreamFlag(e.name); state == "" {
				t.Errorf("--%s is not even known: pkg/cli takes or refuses every flag of the list by its name", e.name)
			}
			note = sentence(why)
		}
		fmt.Fprintf(&b, "| `--%s` | %s | %s |\n", e.name, state, note)
	}
	return b.String()
}

// output is what a subcommand prints.
func output(t *testing.T, args ...string) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout := os.Stdout
	os.Stdout = w
	var text bytes.Buffer
	read := make(chan error)
	go func() {
		_, err := text.ReadFrom(r)
		read <- err
	}()
	code := cli.Main(catalog.Builtin(), args)
	os.Stdout = stdout
	_ = w.Close()
	if err := <-read; err != nil || code != 0 {
		t.Fatalf("fairlead %v: %d, %v", args, code, err)
	}
	return text.String()
}

func headersSection(t *testing.T) string {
	used := literals(t, "../../pkg", true)
	var b strings.Builder
	b.WriteString("\n## Headers and metadata keys\n\n| name | here | |\n|---|---|---|\n")
	for _, e := range list(t, "headers.txt") {
		state, note := "absent", "Passed on unread."
		instead, otherwise := strings.CutPrefix(e.note, "-") // said where it is not here
		switch {
		case slices.Contains(used, e.name) && otherwise:
			state, note = "same", ""
		case slices.Contains(used, e.name):
			state, note = "same", e.note
		case exchange.ControlHeader(e.name):
			state, note = "removed", instead
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", e.name, state, note)
	}
	return b.String()
}

func metricsSection(t *testing.T) string {
	printed := printedMetrics(t)
	var b strings.Builder
	b.WriteString("\n## Metrics\n\nNames begin with `llm_d_epp_`; `--legacy-metrics` prints older names too. [metrics.md](metrics.md) says why the others are absent.\n\n| name | here |\n|---|---|\n")
	for _, e := range list(t, "metrics.txt") {
		state := "absent"
		if printed[e.name] {
			state = "same"
		}
		fmt.Fprintf(&b, "| `%s` | %s |\n", e.name, state)
	}
	return b.String()
}

// printedMetrics are those of llm-d that the metrics page has: the list that its own test holds the page against, both ways.
func printedMetrics(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("../../pkg/gateway/admin/testdata/llm-d.txt")
	if err != nil {
		t.Fatal(err)
	}
	printed := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		if name, rest, ok := strings.Cut(line, " "); ok && name != "" && name != "#" && name != "absent" && rest != "" {
			printed[name] = true
		}
	}
	if !printed["flow_control_queue_size"] || printed["encoder_cache_queries_total"] || len(printed) < 30 {
		t.Fatalf("the list of metrics that are printed cannot be read: %v", printed)
	}
	return printed
}

// literals returns the texts that code below a directory has, tests and generated files aside; leaveOut leaves out those in
// the list of control headers, which only says what is removed.
func literals(t *testing.T, dir string, leaveOut bool) (out []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil || ast.IsGenerated(file) {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if fn, ok := n.(*ast.FuncDecl); ok && leaveOut && fn.Name.Name == "ControlHeader" {
				return false
			}
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil {
					out = append(out, text, strings.ToLower(text))
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
