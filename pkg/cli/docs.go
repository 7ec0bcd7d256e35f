package cli

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/reason"
)

func docsCommand(entries []plugins.Entry) *cobra.Command {
	return &cobra.Command{
		Use: "docs DIR", Hidden: true, Args: cobra.ExactArgs(1),
		Short: "Print the reference pages from the code into a folder",
		RunE: func(_ *cobra.Command, args []string) error {
			pages := referencePages(entries)
			if err := os.RemoveAll(filepath.Join(args[0], "plugins")); err != nil { // pages of types that are gone
				return err
			}
			for _, name := range slices.Sorted(maps.Keys(pages)) {
				path := filepath.Join(args[0], filepath.FromSlash(name))
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					return err
				}
				if err := os.WriteFile(path, pages[name], 0o644); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// referencePages prints every page of the reference, by its path below docs/reference.
func referencePages(entries []plugins.Entry) map[string][]byte {
	all := manuals(entries)
	pages := map[string][]byte{"reasons.md": reasonsPage(), "plugins/README.md": pluginsIndex(all)}
	for _, m := range all {
		pages["plugins/"+m.Type+".md"] = m.page()
	}
	return pages
}

// reasonsPage prints the table of reasons.
func reasonsPage() []byte {
	var b strings.Builder
	b.WriteString("# Reasons\n\nPrinted from `pkg/reason` by `make generate`; do not edit.\n\n" +
		"A reason says why a request was refused, replaced, dropped or degraded. Its code is `error.code` of a refusal's body, the\n" +
		"label `reason` of `fairlead_reasons_total`, and an entry of the decision record.\n\n" +
		"## Refusals\n\n| code | status | Retry-After | dropped reason | means | remedy |\n|---|---|---|---|---|---|\n")
	for _, id := range reason.All() {
		if r := id.Row(); r.Status != 0 {
			after := ""
			if r.RetryAfter > 0 {
				after = fmt.Sprint(int(r.RetryAfter.Seconds()))
			}
			fmt.Fprintf(&b, "| `%s` | %d | %s | %s | %s | %s |\n", r.Code, r.Status, after, code(r.Dropped), r.Means, r.Remedy)
		}
	}
	b.WriteString("\nThe dropped reason is sent as `x-llm-d-request-dropped-reason`. Retry-After is in seconds; a\nrefusal that knows better sends another.\n\n" +
		"## Without a status: the request went on\n\n| code | means | remedy |\n|---|---|---|\n")
	for _, id := range reason.All() {
		if r := id.Row(); r.Status == 0 {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", r.Code, r.Means, r.Remedy)
		}
	}
	return []byte(b.String())
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}
