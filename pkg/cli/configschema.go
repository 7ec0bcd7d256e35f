package cli

import (
	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/plugins"
)

func configSchemaCommand(entries []plugins.Entry) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of configuration files, for editors",
		Long: "Schema prints a JSON Schema (2020-12) of configuration files: fields, plugin types with their parameters, bounds,\n" +
			"defaults and descriptions. What config check accepts the schema accepts; check finds more.",
		Example: "  fairlead config schema > endpointpickerconfig.schema.json",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := c.OutOrStdout().Write(config.Schema(entries, catalog.Descriptions()))
			return err
		},
	}
}
