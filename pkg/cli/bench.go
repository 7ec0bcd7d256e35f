package cli

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/benchmarks/extproc"
)

func benchCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "bench",
		Short: "Compare scheduling policies on simulated fleets, fit simulated engines, measure what Fairlead costs",
		Long: `Bench runs scenarios in virtual time: simulated engines, and the production scheduler under a configuration of yours or
a policy to compare with. A policy is the file of an EndpointPickerConfig, "default", "classic" (the weights of llm-d, 2, 2 and
3), or one of the comparison policies: round-robin, random, least-request and service (what operators have without an endpoint
picker), and rule-… (how other routers decide). replicas=N:NAME is N schedulers beside each other; events=NAME and oracle=NAME are
a configuration that hears the engines' cache events, or sees what they cache.`,
	}
	group(c)
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0] // good enough to start a child where the platform cannot say
	}
	c.AddCommand(benchRunCommand(), benchCompareCommand(), benchMatrixCommand(), benchSweepCommand(), benchTuneCommand(), benchLayoutsCommand(), benchGateCommand(), benchReportCommand(), benchScenariosCommand(),
		extproc.Command([]string{self, "bench", "extproc"}, []string{self, "epp", "--grpc-bind=127.0.0.1"}), benchCalibrateCommand())
	return c
}
