package cli

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/benchmarks/compare"
	"github.com/fairlead/fairlead/benchmarks/policy"
	"github.com/fairlead/fairlead/benchmarks/report"
)

func benchSweepCommand() *cobra.Command {
	var scenario, policyName, metric string
	var axes, paths []string
	var seeds, parallel int
	var seed uint64
	c := &cobra.Command{
		Use:   "sweep",
		Short: "Run a scenario over a grid of weights, rates, pods or the quality of cache events",
		Long: `Sweep varies one thing or two: the rate (multiples of the scenario's), the number of pods, the weight of a scorer of the
configuration by its name, or how long the engines' cache events take (event-delay-ms) and which share of them is lost
(event-loss), to policies that hear them.`,
		Example: `  fairlead bench sweep --scenario s2 --axis rate=0.5..2/7
  fairlead bench sweep --scenario s4 --policy config.yaml --axis prefix-cache-scorer=0,1,2,3,4 --axis queue-scorer=1,2,3 -o sweep.html
  fairlead bench sweep --scenario c-hot40-110 --policy rule-dynamo-events --axis event-delay-ms=0,100,1000 --axis event-loss=0,0.01,0.1 --metric "hit rate"`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			m, err := compare.MetricNamed(metric)
			if err != nil {
				return &usageError{err}
			}
			setups, err := loadScenarios([]string{scenario}, c.ErrOrStderr())
			if err != nil {
				return err
			}
			p, err := policy.Named(policyName)
			if err != nil {
				return err
			}
			var parsed []compare.Axis
			for _, text := range axes {
				a, err := compare.ParseAxis(text)
				if err != nil {
					return &usageError{err}
				}
				parsed = append(parsed, a)
			}
			show, clear := progress(c.ErrOrStderr())
			s, err := compare.RunSweep(c.Context(), setups[0], p, parsed, seeds, seed, parallel, show)
			clear()
			if err != nil {
				return err
			}
			if err := report.SweepText(c.OutOrStdout(), s, m); err != nil {
				return err
			}
			return writeSweep(s, paths)
		},
	}
	flags := c.Flags()
	flags.StringVarP(&scenario, "scenario", "s", "s1", "scenario by name or file")
	flags.StringVarP(&policyName, "policy", "p", policy.Default, "configuration file, default, classic, or a comparison policy")
	flags.StringArrayVarP(&axes, "axis", "a", []string{"rate=0.5..2/7"}, "what to vary: NAME=A,B,C or NAME=FROM..TO/N; once or twice")
	flags.StringVarP(&metric, "metric", "m", compare.Primary, "what is printed: goodput, TTFT p99, hit rate, output …; files have all")
	flags.IntVar(&seeds, "seeds", 3, "runs of each point")
	flags.Uint64Var(&seed, "seed", 1, "the first seed")
	flags.IntVar(&parallel, "parallel", 0, "runs at a time; 0 is one per processor")
	flags.StringSliceVarP(&paths, "output", "o", nil, "files to write, by their ending: .json, .csv, .html")
	return c
}

func writeSweep(s *compare.Sweep, paths []string) error {
	for _, path := range paths {
		write, ok := map[string]func(io.Writer, *compare.Sweep) error{
			".json": func(w io.Writer, s *compare.Sweep) error { return report.JSON(w, s) },
			".csv":  report.SweepCSV, ".html": report.SweepHTML,
		}[strings.ToLower(filepath.Ext(path))]
		if !ok {
			return &usageError{fmt.Errorf("--output %s: its ending must be .json, .csv or .html", path)}
		}
		if err := writeFile(path, func(w io.Writer) error { return write(w, s) }); err != nil {
			return err
		}
	}
	return nil
}

func benchGateCommand() *cobra.Command {
	var parallel int
	c := &cobra.Command{
		Use:     "gate FILE",
		Short:   "Fail where comparisons come out otherwise than recorded",
		Example: `  fairlead bench gate benchmarks/gate.yaml`,
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			g, err := compare.ReadGate(args[0])
			if err != nil {
				return err
			}
			show, clear := progress(c.ErrOrStderr())
			found, err := g.Run(c.Context(), parallel, show)
			clear()
			if err != nil {
				return err
			}
			failed := 0
			for _, f := range found {
				state := "ok   "
				if len(f.Wrong) > 0 {
					state = "WRONG"
					failed++
				}
				fmt.Fprintf(c.OutOrStdout(), "%s  %s: %s against %s: %s  %s\n", state, f.Scenario, filepath.Base(f.Policy), filepath.Base(f.Against), f.Got, strings.Join(f.Wrong, "; "))
			}
			if failed > 0 {
				fmt.Fprintf(c.ErrOrStderr(), "%d of %d checks came out otherwise than recorded\n", failed, len(found))
				return errReported
			}
			return nil
		},
	}
	c.Flags().IntVar(&parallel, "parallel", 0, "runs at a time; 0 is one per processor")
	return c
}

func benchLayoutsCommand() *cobra.Command {
	var policyName string
	var seeds int
	var seed uint64
	c := &cobra.Command{
		Use:     "layouts SET",
		Short:   "Compare ways to use the same devices, and recommend one",
		Long:    `Layouts measures each layout of a set on the same requests, finds up to which rate it serves them within the targets, and says why others do not fit. There is the set mig-two-slots: an H100 in two slices 3g.40gb.`,
		Example: `  fairlead bench layouts mig-two-slots`,
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			p, err := policy.Named(policyName)
			if err != nil {
				return err
			}
			all, best, err := compare.Layouts(c.Context(), args[0], p, seeds, seed)
			if err != nil {
				return err
			}
			return report.LayoutsText(c.OutOrStdout(), all, best)
		},
	}
	c.Flags().StringVarP(&policyName, "policy", "p", policy.Default, "configuration file, or default")
	c.Flags().IntVar(&seeds, "seeds", 3, "runs of each layout")
	c.Flags().Uint64Var(&seed, "seed", 1, "the first seed")
	return c
}
