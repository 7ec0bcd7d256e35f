package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/benchmarks/demo"
)

func demoCommand() *cobra.Command {
	o := demo.Defaults()
	c := &cobra.Command{
		Use: "demo", Args: cobra.NoArgs,
		Short: "Simulated pods and multi-turn traffic: round-robin against Fairlead, in about 90 seconds",
		Long: "Demo starts simulated pods and a fairlead gateway as processes of its own, on free loopback ports, and plays the same\n" +
			"multi-turn traffic four times: round-robin and Fairlead, each at a rate below and at one above round-robin's knee.\n" +
			"It shows load and prefix hits of each pod while it runs, then a table of both. Ctrl-C ends everything it started.",
		RunE: func(c *cobra.Command, _ []string) error {
			if o.Speed <= 0 || o.Speed > 10 {
				return fmt.Errorf("--speed is %g; above 0 and at most 10, where the pods' streams still fit into a processor", o.Speed)
			}
			binary, err := os.Executable()
			if err != nil {
				return err
			}
			o.Binary, o.Out, o.Terminal = binary, c.OutOrStdout(), isTerminal(os.Stdout)
			return demo.Run(c.Context(), o)
		},
	}
	f := c.Flags()
	f.IntVar(&o.Pods, "pods", o.Pods, "number of simulated pods")
	f.StringVar(&o.Hardware, "hardware", o.Hardware, "hardware profile of the pods")
	f.Float64Var(&o.Speed, "speed", o.Speed, "engine seconds per second, at most 10")
	f.DurationVar(&o.Phase, "phase", o.Phase, "wall time of each of the four phases")
	f.Uint64Var(&o.Seed, "seed", o.Seed, "seed of the traffic")
	f.Float64Var(&o.Below, "below", o.Below, "sessions per engine second of the lower load")
	f.Float64Var(&o.Above, "above", o.Above, "sessions per engine second of the higher load")
	return c
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "" && os.Getenv("TERM") != "dumb"
}
