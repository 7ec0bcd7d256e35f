package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker to what git describes.
var version = "devel"

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Args: cobra.NoArgs,
		Short: "Print the version, the Go release and the platform",
		Run: func(c *cobra.Command, _ []string) {
			v := version
			if info, ok := debug.ReadBuildInfo(); ok && v == "devel" && info.Main.Version != "" {
				v = info.Main.Version
			}
			fmt.Fprintf(c.OutOrStdout(), "fairlead %s %s %s/%s\n", v, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		},
	}
}
