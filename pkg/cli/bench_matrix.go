package cli

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/benchmarks/bench"
	"github.com/fairlead/fairlead/benchmarks/compare"
	"github.com/fairlead/fairlead/benchmarks/policy"
	"github.com/fairlead/fairlead/benchmarks/report"
	"github.com/fairlead/fairlead/simulator/scenarios"
)

func benchMatrixCommand() *cobra.Command {
	var f matrixFlags
	var with string
	var paths []string
	c := &cobra.Command{
		Use:   "matrix [POLICY…]",
		Short: "Set a policy beside the rules of other routers in many scenarios",
		Long: `Matrix runs policies in scenarios, and tells how the first one stands beside the best rule of another router: what it gains, and
what it loses by more than 2 % of the goodput. Without policies it runs "default" beside everything that is built in; without
scenarios all but those that repeat what others published (p-…) and those whose pods share requests. --with takes from a file
of an earlier matrix what is not run again.`,
		Example: `  fairlead bench matrix --seeds 3 -o matrix.json
  fairlead bench matrix default --with matrix.json -o matrix.json -o matrix.md
  fairlead bench matrix mine.yaml classic rule-dynamo -s s1,c-*`,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				args = policy.Names()
			}
			var earlier *compare.Standings
			if with != "" {
				var err error
				if earlier, err = report.ReadStandings(with); err != nil {
					return err
				}
			}
			show, clear := progress(c.ErrOrStderr())
			p, err := f.plan(args, c.ErrOrStderr(), show)
			if err != nil {
				return err
			}
			p.NoCapacities = true
			p.Scenarios = slices.DeleteFunc(p.Scenarios, func(s *bench.Setup) bool {
				return shared(s) || !c.Flags().Changed("scenario") && strings.HasPrefix(s.Name, "p-")
			})
			r, err := compare.Run(c.Context(), p)
			clear()
			if err != nil {
				return err
			}
			s := compare.StandingsOf(r, time.Now().UTC().Format(time.DateOnly), version)
			if earlier != nil {
				if s, err = s.With(earlier); err != nil {
					return &usageError{fmt.Errorf("--with %s: %w", with, err)}
				}
			}
			if err := report.Standings(c.OutOrStdout(), s); err != nil {
				return err
			}
			for _, path := range paths {
				write, ok := map[string]func(io.Writer) error{
					".json": func(w io.Writer) error { return report.StandingsJSON(w, s) },
					".md":   func(w io.Writer) error { return report.StandingsMarkdown(w, s) },
				}[strings.ToLower(filepath.Ext(path))]
				if !ok {
					return &usageError{fmt.Errorf("--output %s: its ending must be .json or .md", path)}
				}
				if err := writeFile(path, write); err != nil {
					return err
				}
			}
			return nil
		},
	}
	f.register(c)
	flags := c.Flags()
	flags.Lookup("scenario").DefValue = "all"
	f.scenarios = []string{"all"}
	flags.StringVar(&with, "with", "", "file of an earlier matrix (.json), for what is not run again")
	flags.StringSliceVarP(&paths, "output", "o", nil, "files to write, by their ending: .json, .md")
	return c
}

// shared reports whether the scenario's pods share requests, which no rule of another router here decides.
func shared(s *bench.Setup) bool {
	return slices.ContainsFunc(s.Fleet, func(g scenarios.Group) bool { return g.Role != "" })
}
