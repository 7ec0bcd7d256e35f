package cli

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/benchmarks/bench"
	"github.com/fairlead/fairlead/benchmarks/policy"
	"github.com/fairlead/fairlead/benchmarks/report"
	"github.com/fairlead/fairlead/simulator/fleet"
)

func benchRunCommand() *cobra.Command {
	var scenario, policyName, lifecycle, asJSON string
	var seed uint64
	var scale float64
	c := &cobra.Command{
		Use:   "run",
		Short: "Run one scenario under one policy in virtual time, and print its figures",
		Example: `  fairlead bench run --scenario s1 --policy default
  fairlead bench run --scenario mine.yaml --policy config.yaml --lifecycle summary_lifecycle_metrics.json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			setups, err := loadScenarios([]string{scenario}, scale)
			if err != nil {
				return err
			}
			if len(setups) != 1 {
				return &usageError{fmt.Errorf("--scenario %s: one at a time; compare takes several", scenario)}
			}
			p, err := policy.Named(policyName)
			if err != nil {
				return err
			}
			return runOnce(c, setups[0], p, seed, lifecycle, asJSON)
		},
	}
	flags := c.Flags()
	flags.StringVarP(&scenario, "scenario", "s", "s1", "scenario by name or file")
	flags.StringVarP(&policyName, "policy", "p", policy.Default, "configuration file, default, or a comparison policy")
	flags.Uint64Var(&seed, "seed", 1, "seed of the requests")
	flags.Float64Var(&scale, "scale", 1, "multiple of the scenario's rates")
	flags.StringVar(&lifecycle, "lifecycle", "", "write the figures as inference-perf does (summary_lifecycle_metrics.json) to this file")
	flags.StringVar(&asJSON, "json", "", "write all figures to this file as JSON")
	return c
}

func runOnce(c *cobra.Command, s *bench.Setup, p policy.Policy, seed uint64, lifecycle, asJSON string) error {
	start := time.Now()
	r, err := s.Run(p, seed, 0)
	if err != nil {
		return err
	}
	took := time.Since(start)
	f := s.Figures(r)
	title := fmt.Sprintf("%s under %s, seed %d: %s", s.Name, p.Name, seed, s.Title)
	if err := report.Run(c.OutOrStdout(), title, f); err != nil {
		return err
	}
	fmt.Fprintf(c.ErrOrStderr(), "%d requests, %v of virtual time, %d steps in %.2f s\n",
		len(r.Outcomes), time.Duration(r.End).Round(time.Second), r.Steps, took.Seconds())
	if lifecycle != "" {
		if err := writeFile(lifecycle, func(w io.Writer) error { return report.JSON(w, report.LifecycleOf(measured(s, r), s.Targets)) }); err != nil {
			return err
		}
	}
	if asJSON != "" {
		return writeFile(asJSON, func(w io.Writer) error { return report.JSON(w, f) })
	}
	return nil
}

// measured leaves out what arrived during the warm-up.
func measured(s *bench.Setup, r *fleet.Result) []fleet.Outcome {
	for i := range r.Outcomes {
		if time.Duration(r.Outcomes[i].Arrived) >= s.Warmup {
			return r.Outcomes[i:]
		}
	}
	return nil
}
