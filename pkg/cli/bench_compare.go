package cli

import (
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/benchmarks/bench"
	"github.com/fairlead/fairlead/benchmarks/compare"
	"github.com/fairlead/fairlead/benchmarks/policy"
	"github.com/fairlead/fairlead/benchmarks/report"
	"github.com/fairlead/fairlead/simulator/scenarios"
)

// matrixFlags are what comparisons, sweeps and gates have in common.
type matrixFlags struct {
	workload  string
	scenarios []string
	seeds     int
	seed      uint64
	scale     float64
	least     float64
	capacity  bool
	parallel  int
}

func (f *matrixFlags) register(c *cobra.Command) {
	flags := c.Flags()
	flags.StringSliceVarP(&f.scenarios, "scenario", "s", []string{"s1"}, "scenarios by name (s1, s2-block0-trap …), pattern (c-*) or file; all for all")
	flags.StringVarP(&f.workload, "workload", "w", "", "file with other requests for the scenarios: a workload, or a configuration of inference-perf")
	flags.IntVar(&f.seeds, "seeds", 10, "runs of each policy and scenario, each with another seed")
	flags.Uint64Var(&f.seed, "seed", 1, "the first seed")
	flags.Float64Var(&f.scale, "scale", 1, "multiple of the scenarios' rates")
	flags.IntVar(&f.parallel, "parallel", 0, "runs at a time; 0 is one per processor. It changes nothing but the time")
}

func (f *matrixFlags) plan(names []string, note io.Writer, progress func(int, int)) (compare.Plan, error) {
	p := compare.Plan{Seeds: f.seeds, Seed: f.seed, Least: f.least, Capacities: f.capacity, Parallel: f.parallel, Progress: progress}
	var err error
	if p.Scenarios, err = loadScenarios(f.scenarios, note); err != nil {
		return p, err
	}
	if !(f.scale > 0) {
		return p, &usageError{fmt.Errorf("--scale %v: above 0", f.scale)}
	}
	for i, s := range p.Scenarios {
		if f.workload != "" {
			if s, err = s.WithWorkload(f.workload); err != nil {
				return p, err
			}
		}
		if f.scale != 1 {
			s = s.Scaled(f.scale)
		}
		p.Scenarios[i] = s
	}
	for _, name := range names {
		pol, err := policy.Named(name)
		if err != nil {
			return p, err
		}
		p.Policies = append(p.Policies, pol)
	}
	return p, nil
}

// loadScenarios returns the scenarios of these names. Of several that a pattern or "all" means, those that cannot run here
// are left out, with a line to note: they replay a trace that is absent, or show what does not fit.
func loadScenarios(names []string, note io.Writer) ([]*bench.Setup, error) {
	var out []*bench.Setup
	for _, name := range names {
		list, several := []string{name}, false
		if name == "all" || strings.ContainsAny(name, "*?") {
			list, several = matching(name), true
			if len(list) == 0 {
				return nil, fmt.Errorf("no scenario is called like %q; there are %s", name, strings.Join(scenarios.Names(), ", "))
			}
		}
		for _, n := range list {
			s, err := bench.Load(n)
			if err == nil && several {
				err = s.Runs()
			}
			switch {
			case err != nil && several:
				fmt.Fprintf(note, "fairlead: %s is left out: %v\n", n, err)
			case err != nil:
				return nil, err
			default:
				out = append(out, s)
			}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("none of %s can run here", strings.Join(names, ", "))
	}
	return out, nil
}

// matching returns the scenarios that a pattern means.
func matching(pattern string) []string {
	if pattern == "all" {
		return scenarios.Names()
	}
	var out []string
	for _, n := range scenarios.Names() {
		if ok, err := path.Match(pattern, n); err == nil && ok {
			out = append(out, n)
		}
	}
	return out
}

// outputs are the files that a command writes beside what it prints.
type outputs struct{ paths []string }

func (o *outputs) register(c *cobra.Command) {
	c.Flags().StringSliceVarP(&o.paths, "output", "o", nil, "files to write, by their ending: .json, .csv, .md, .html")
}

func (o *outputs) write(r *compare.Report) error {
	for _, path := range o.paths {
		write, ok := map[string]func(io.Writer, *compare.Report) error{
			".json": func(w io.Writer, r *compare.Report) error { return report.JSON(w, r) },
			".csv":  report.CSV, ".md": report.Markdown, ".html": report.HTML,
		}[strings.ToLower(filepath.Ext(path))]
		if !ok {
			return &usageError{fmt.Errorf("--output %s: its ending must be .json, .csv, .md or .html", path)}
		}
		if err := writeFile(path, func(w io.Writer) error { return write(w, r) }); err != nil {
			return err
		}
	}
	return nil
}

func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// progress shows how far the runs are, where somebody watches: a line that is written over, ten times a second.
func progress(w io.Writer) (show func(done, of int), clear func()) {
	f, ok := w.(*os.File)
	if !ok {
		return nil, func() {}
	}
	if info, err := f.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return nil, func() {}
	}
	start, last := time.Now(), time.Time{}
	show = func(done, of int) {
		if now := time.Now(); now.Sub(last) > 100*time.Millisecond || done == of {
			last = now
			left := time.Duration(float64(now.Sub(start)) / float64(done) * float64(of-done)).Round(time.Second)
			const width = 30
			full := width * done / of
			fmt.Fprintf(f, "\r[%s%s] %d of %d runs, about %v left \x1b[K", strings.Repeat("=", full), strings.Repeat(" ", width-full), done, of, left)
		}
	}
	return show, func() { fmt.Fprint(f, "\r\x1b[K") }
}

func benchCompareCommand() *cobra.Command {
	var f matrixFlags
	var out outputs
	c := &cobra.Command{
		Use:   "compare POLICY POLICY…",
		Short: "Compare policies on identical requests, seed by seed",
		Long: `Compare runs every policy on the same requests at the same instants, once per seed, and tells the differences to the first
one with their confidence intervals. Better and worse are said only of differences that are certain and matter. Where a
run is past its capacity no ratio of latencies is made: the rates up to which answers stay good are compared instead.`,
		Example: `  fairlead bench compare round-robin default --scenario s1,s2 --seeds 10
  fairlead bench compare default mine.yaml -s all -o report.html -o report.json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			show, clear := progress(c.ErrOrStderr())
			p, err := f.plan(args, c.ErrOrStderr(), show)
			if err != nil {
				return err
			}
			start := time.Now()
			r, err := compare.Run(c.Context(), p)
			clear()
			if err != nil {
				return err
			}
			if err := report.Text(c.OutOrStdout(), r); err != nil {
				return err
			}
			fmt.Fprintf(c.ErrOrStderr(), "%d runs in %.1f s\n", len(p.Scenarios)*len(p.Policies)*p.Seeds, time.Since(start).Seconds())
			return out.write(r)
		},
	}
	f.register(c)
	out.register(c)
	c.Flags().Float64Var(&f.least, "least-effect", 0.02, "relative difference below which nothing is better or worse")
	c.Flags().BoolVar(&f.capacity, "capacity", false, "find the capacity of every policy, not only where one is saturated")
	return c
}

func benchScenariosCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "scenarios",
		Short: "List the scenarios that ship",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			t := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			for _, name := range scenarios.Names() {
				s, err := scenarios.Get(name)
				if err != nil {
					return err
				}
				fmt.Fprintf(t, "%s\t%s\n", name, s.Title)
			}
			return t.Flush()
		},
	}
}
