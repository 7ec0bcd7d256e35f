package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fairlead/fairlead/benchmarks/bench"
	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/pool/discovery"
	"github.com/fairlead/fairlead/pkg/reason"
	"github.com/fairlead/fairlead/simulator/scenarios"
)

// page is one file of the documentation.
type page struct {
	name   string
	blocks []block
}

// block is a fenced block: ```language, then text.
type block struct{ language, text string }

// documentation returns README.md, the other pages at the top, and everything below docs.
func documentation(t *testing.T) (pages []page) {
	root := filepath.Join("..", "..")
	read := func(name string) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		p := page{name: name}
		for i, part := range strings.Split("\n"+string(text), "\n```") {
			if language, text, ok := strings.Cut(part, "\n"); ok && i%2 == 1 {
				p.blocks = append(p.blocks, block{language, text + "\n"})
			}
		}
		pages = append(pages, p)
	}
	for _, name := range []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md"} {
		if _, err := os.Stat(filepath.Join(root, name)); err == nil {
			read(filepath.Join(root, name))
		}
	}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(name string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(name) == ".md" {
			read(name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// TestYAMLOfTheDocumentationLoads: every block is a configuration, an endpoint file or a scenario of bench, and is accepted as
// it stands; on one page the endpoint files fit the pools of the configuration before them.
func TestYAMLOfTheDocumentationLoads(t *testing.T) {
	configurations, endpoints := 0, 0
	for _, p := range documentation(t) {
		pools := []*pool.Pool{pool.New("default", reason.Discard{})}
		for _, b := range p.blocks {
			switch {
			case b.language != "yaml":
			case strings.Contains("\n"+b.text, "\nkind: "+config.Kind+"\n"):
				configurations++
				file, problems := config.Load([]byte(b.text), p.name, catalog.Builtin())
				if file == nil || len(problems) > 0 {
					t.Errorf("%v in\n%s", problems, b.text)
					continue
				}
				built, problems := file.Build()
				if built == nil {
					t.Errorf("%v in\n%s", problems, b.text)
					continue
				}
				pools = pools[:0]
				for _, plan := range built.Plans {
					pools = append(pools, pool.New(plan.Pool.Name, reason.Discard{}))
				}
			case strings.HasPrefix(b.text, "endpoints:"):
				endpoints++
				entries, problems := discovery.Parse([]byte(b.text), p.name)
				if len(problems) == 0 {
					problems = discovery.Apply(1, entries, pools)
				}
				if len(problems) > 0 || len(entries) == 0 {
					t.Errorf("%v in\n%s", problems, b.text)
				}
			case strings.HasPrefix(b.text, "name:"):
				s, err := scenarios.Parse([]byte(b.text))
				if err == nil {
					_, err = bench.Prepare(s)
				}
				if err != nil {
					t.Errorf("%v in\n%s", err, b.text)
				}
			default:
				t.Errorf("%s: neither a configuration nor an endpoint file nor a scenario:\n%s", p.name, b.text)
			}
		}
	}
	if configurations < 2 || endpoints < 2 {
		t.Errorf("%d configurations and %d endpoint files found; README.md and docs/pools.md show one of each", configurations, endpoints)
	}
}

// TestCommandsOfTheDocumentationAreTaken: what a shell block calls of us exists, with these flags and values.
func TestCommandsOfTheDocumentationAreTaken(t *testing.T) {
	found := 0
	for _, p := range documentation(t) {
		for _, b := range p.blocks {
			if b.language != "sh" {
				continue
			}
			for line := range strings.Lines(strings.ReplaceAll(b.text, "\\\n", " ")) {
				line, _, _ = strings.Cut(line, " #")
				words := strings.Fields(line)
				if len(words) == 0 || words[0] != "bin/fairlead" && words[0] != "fairlead" {
					continue
				}
				found++
				var args []string
				for _, w := range words[1:] {
					if w == "&" || w == "|" || strings.HasPrefix(w, ">") {
						break
					}
					args = append(args, strings.Trim(w, `'"`))
				}
				c, rest, err := rootCommand(catalog.Builtin()).Find(args)
				if err == nil {
					err = c.ParseFlags(rest)
				}
				if err == nil {
					err = c.ValidateArgs(c.Flags().Args())
				}
				if err != nil || !c.Runnable() {
					t.Errorf("%s: %q: %v", p.name, strings.TrimSpace(line), err)
				}
			}
		}
	}
	if found < 4 {
		t.Errorf("only %d commands found", found)
	}
}

// TestFlagsOfTheDocumentationExist: a flag that a page names anywhere is one of some subcommand.
func TestFlagsOfTheDocumentationExist(t *testing.T) {
	known := map[string]bool{"lora": true, "enable-metrics": true} // of an older version, which the changelog names, and of SGLang
	var collect func(*cobra.Command)
	collect = func(c *cobra.Command) {
		for _, fs := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
			fs.VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
		}
		for _, sub := range c.Commands() {
			collect(sub)
		}
	}
	collect(rootCommand(catalog.Builtin()))
	named, found := regexp.MustCompile("`--([a-z][a-z0-9-]+)"), 0
	for _, p := range documentation(t) {
		text, err := os.ReadFile(p.name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			found++
			if !known[m[1]] {
				t.Errorf("%s: there is no --%s", p.name, m[1])
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d flags found", found)
	}
}

// TestLinksOfTheDocumentationLead: what a page links to in this repository is there.
func TestLinksOfTheDocumentationLead(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	found := 0
	for _, p := range documentation(t) {
		text, err := os.ReadFile(p.name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			found++
			if _, err := os.Stat(filepath.Join(filepath.Dir(p.name), m[1])); err != nil {
				t.Errorf("%s: links to %s: %v", p.name, m[1], err)
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d links found", found)
	}
}

// TestBoundsOfTheDocumentationAreTheFlags: the table of bounds names each bound's flag, and its default as the flag has it.
func TestBoundsOfTheDocumentationAreTheFlags(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	c := &cobra.Command{Use: "gateway"}
	(&serveFlags{}).register(c, "gateway")
	_, table, _ := strings.Cut(string(text), "\n## Bounds\n")
	table, _, _ = strings.Cut(table, "\n## ")
	named := ""
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 5 || !strings.Contains(cells[1], "`--") {
			continue
		}
		named += cells[1]
		flags, defaults := strings.Split(cells[1], ","), strings.Split(cells[2], ", ")
		for i, name := range flags {
			name = strings.Trim(name, " `-")
			flag := c.Flags().Lookup(name)
			if flag == nil {
				t.Errorf("--%s is no flag", name)
				continue
			}
			said := strings.TrimSpace(defaults[min(i, len(defaults)-1)])
			if !strings.HasPrefix(name, "max-concurrent-streams") && flag.DefValue != plainNumber(said) {
				t.Errorf("--%s is %s where nobody says otherwise; the table says %s", name, flag.DefValue, said)
			}
		}
	}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if strings.HasPrefix(f.Name, "max-") && !strings.Contains(named, "`--"+f.Name+"`") {
			t.Errorf("--%s is a bound, and the table does not know it", f.Name)
		}
	})
}

// plainNumber returns what a flag prints for a value as the documentation writes it: 128 KiB, 65,536, 10 min, none.
func plainNumber(said string) string {
	said = strings.ReplaceAll(said, ",", "")
	if said == "none" {
		return "0"
	}
	number, unit, _ := strings.Cut(said, " ")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return said
	}
	switch unit {
	case "min":
		return (time.Duration(n) * time.Minute).String()
	case "KiB":
		n <<= 10
	case "MiB":
		n <<= 20
	case "GiB":
		n <<= 30
	}
	return strconv.FormatInt(n, 10)
}
