package cli

import (
	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/pkg/plugins"
)

func configCommand(entries []plugins.Entry) *cobra.Command {
	c := &cobra.Command{
		Use:   "config",
		Short: "Check, explain and compare configuration files, and print their schema",
	}
	group(c)
	c.AddCommand(configCheckCommand(entries), configExplainCommand(entries), configDiffCommand(entries), configSchemaCommand(entries))
	return c
}
