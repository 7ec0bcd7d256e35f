package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/pkg/reason"
)

func docsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "docs DIR", Hidden: true, Args: cobra.ExactArgs(1),
		Short: "Print the reference pages from the code into a folder",
		RunE: func(_ *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(args[0], "reasons.md"), reasonsPage(), 0o644)
		},
	}
}

// reasonsPage prints the table of reasons.
func reasonsPage() []byte {
	var b strings.Builder
	b.WriteString("# Reasons\n\nPrinted from `pkg/reason` by `make generate`; do not edit.\n\n" +
		"A reason says why a request was refused, replaced, dropped or degraded. Its code is `error.code` of a refusal's body, the\n" +
		"label `reason` of `fairlead_reasons_total`, and an entry of the decision record.\n\n" +
		"## Refusals\n\n| code | status | dropped reason | means | remedy |\n|---|---|---|---|---|\n")
	for _, id := range reason.All() {
		if r := id.Row(); r.Status != 0 {
			fmt.Fprintf(&b, "| `%s` | %d | %s | %s | %s |\n", r.Code, r.Status, code(r.Dropped), r.Means, r.Remedy)
		}
	}
	b.WriteString("\nThe dropped reason is sent as `x-llm-d-request-dropped-reason`.\n\n" +
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
