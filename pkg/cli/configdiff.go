package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/plugins"
)

// diffReport is what config diff found, as --output json prints it.
type diffReport struct {
	Before      string              `json:"before"`
	After       string              `json:"after"`
	Differences []config.Difference `json:"differences"`
}

func configDiffCommand(entries []plugins.Entry) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "diff A B",
		Short: "Tell in what two configurations mean something else; exit code 1 if they do",
		Long: "Diff compares two configurations (- is standard input) once all defaults are filled in: plugins with their parameters,\n" +
			"those that are added by default among them, profiles with their weights, pools, stages. What stands in another order or\n" +
			"form and means the same is no difference. It ends with exit code 1 if there is one, or if a file does not load.",
		Example: "  fairlead config diff old.yaml new.yaml\n  curl -s http://127.0.0.1:9090/debug/config | fairlead config diff - new.yaml",
		Args:    cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			var sides [2]checked
			for i, path := range args {
				sides[i] = check(path, entries)
				for _, p := range sides[i].Problems {
					fmt.Fprintln(c.ErrOrStderr(), p.Report())
				}
				if !sides[i].Loads {
					return fmt.Errorf("%s does not load", sides[i].File)
				}
			}
			a, b := sides[0], sides[1]
			r := diffReport{a.File, b.File, config.Diff(a.loaded, b.loaded, a.built.Layout(), b.built.Layout())}
			if output == outputJSON {
				if r.Differences == nil {
					r.Differences = []config.Difference{}
				}
				if err := writeJSON(c.OutOrStdout(), r); err != nil {
					return err
				}
			} else {
				for _, d := range r.Differences {
					fmt.Fprintln(c.OutOrStdout(), d)
				}
			}
			if len(r.Differences) > 0 {
				return errReported
			}
			return nil
		},
	}
	outputFlag(c, &output)
	return c
}
