package cli

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/benchmarks/compare"
	"github.com/fairlead/fairlead/benchmarks/report"
)

func benchReportCommand() *cobra.Command {
	var out outputs
	c := &cobra.Command{
		Use:     "report FILE.json",
		Short:   "Write a recorded comparison again: as text, Markdown, CSV or HTML",
		Example: `  fairlead bench report comparison.json -o comparison.html`,
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			text, err := os.ReadFile(args[0])
			if err != nil {
				return err
			}
			var r compare.Report
			if err := json.Unmarshal(text, &r); err != nil {
				return fmt.Errorf("%s: %w; want what compare --output FILE.json wrote", args[0], err)
			}
			if err := r.Whole(); err != nil {
				return fmt.Errorf("%s: %w; want what compare --output FILE.json wrote", args[0], err)
			}
			if len(out.paths) == 0 {
				return report.Text(c.OutOrStdout(), &r)
			}
			return out.write(&r)
		},
	}
	out.register(c)
	return c
}
