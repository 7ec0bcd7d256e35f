package cli

import (
	"fmt"
	"io"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/benchmarks/bench"
	"github.com/fairlead/fairlead/benchmarks/report"
	"github.com/fairlead/fairlead/benchmarks/tuning"
)

func benchTuneCommand() *cobra.Command {
	var scenarios []string
	var workload, winner, folder, commit string
	var candidates, last, parallel int
	var seed uint64
	c := &cobra.Command{
		Use:   "tune",
		Short: "Search the weights, thresholds, filters and pickers that suit a scenario best",
		Long: `Tune runs many configurations on the scenario: all of them with one seed, the better third with twice as many, and so on
until few are left, each with up to eight. Better is more goodput, in steps of a hundredth of the best; within a step, a
shorter p99 TTFT. The winner is a configuration file, to be compared with others on seeds that it was not chosen by (compare
--seed 1000).`,
		Example: `  fairlead bench tune --scenario s4 --winner tuned.yaml
  fairlead bench compare default tuned.yaml --scenario s4 --seed 1000`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			setups, err := loadScenarios(scenarios, c.ErrOrStderr())
			if err != nil {
				return err
			}
			if candidates < 1 || last < 1 {
				return &usageError{fmt.Errorf("--candidates %d, --last %d: at least 1 each", candidates, last)}
			}
			if winner != "" && len(setups) != 1 {
				return &usageError{fmt.Errorf("--winner %s: there are %d scenarios, each with a winner of its own; name one", winner, len(setups))}
			}
			for _, s := range setups {
				if workload != "" {
					if s, err = s.WithWorkload(workload); err != nil {
						return err
					}
				}
				start := time.Now()
				found, err := tuning.Run(c.Context(), tuning.Plan{Setup: s, Candidates: tuning.Candidates(candidates), Seed: seed, Last: last, Parallel: parallel})
				if err != nil {
					return err
				}
				if err := standings(c.OutOrStdout(), s, found); err != nil {
					return err
				}
				fmt.Fprintf(c.ErrOrStderr(), "%s: %v\n", s.Name, time.Since(start).Round(time.Second))
				if winner != "" {
					text := found.Best[0].Candidate.Text()
					if err := writeFile(winner, func(w io.Writer) error { _, err := io.WriteString(w, text); return err }); err != nil {
						return err
					}
				}
				if folder != "" {
					record := tuning.Record{Commit: commit, Date: time.Now().UTC().Format(time.DateOnly), Candidates: candidates, Search: *found}
					if err := writeFile(filepath.Join(folder, s.Name+".json"), func(w io.Writer) error { return report.JSON(w, record) }); err != nil {
						return err
					}
				}
			}
			return nil
		},
	}
	flags := c.Flags()
	flags.StringSliceVarP(&scenarios, "scenario", "s", []string{"s1"}, "scenarios by name (s1, s2-block0-trap …), pattern (c-*) or file; all for all")
	flags.StringVarP(&workload, "workload", "w", "", "file with other requests for the scenarios: a workload, or a configuration of inference-perf")
	flags.IntVar(&candidates, "candidates", 220, "configurations to begin with")
	flags.IntVar(&last, "last", 6, "configurations that are left at the end")
	flags.Uint64Var(&seed, "seed", 1, "the first seed")
	flags.IntVar(&parallel, "parallel", 0, "runs at a time; 0 is one per processor. It changes nothing but the time")
	flags.StringVar(&winner, "winner", "", "write the winner's configuration to this file")
	flags.StringVar(&folder, "record", "", "write what was found into this folder, a file per scenario")
	flags.StringVar(&commit, "commit", version, "what made the record: a commit")
	return c
}

// standings prints who is left.
func standings(w io.Writer, s *bench.Setup, found *tuning.Search) error {
	fmt.Fprintf(w, "%s: %s\n ", s.Name, s.Title)
	for _, r := range found.Rounds {
		fmt.Fprintf(w, " %d with %d seeds,", r.Candidates, r.Seeds)
	}
	fmt.Fprintln(w, " the best first:")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  goodput\tTTFT p99\t\tconfiguration")
	for i := range found.Best {
		b := &found.Best[i]
		note := ""
		if b.Saturated {
			note = "saturated"
		}
		fmt.Fprintf(t, "  %.1f %%\t%.3f s\t%s\t%s\n", 100*float64(b.Goodput), float64(b.TTFTP99), note, b.Candidate)
	}
	return t.Flush()
}
