package cli

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/benchmarks/extproc"
)

func benchCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure what Fairlead costs, and fit simulated engines to real ones",
	}
	group(c)
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0] // good enough to start a child where the platform cannot say
	}
	c.AddCommand(extproc.Command([]string{self, "bench", "extproc"}, []string{self, "epp", "--grpc-bind=127.0.0.1"}), benchCalibrateCommand())
	return c
}
