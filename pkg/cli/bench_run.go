package cli

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/fairlead/fairlead/benchmarks/bench"
	"github.com/fairlead/fairlead/benchmarks/load"
	"github.com/fairlead/fairlead/benchmarks/policy"
	"github.com/fairlead/fairlead/benchmarks/report"
	"github.com/fairlead/fairlead/benchmarks/workload"
	"github.com/fairlead/fairlead/simulator/fleet"
)

// runFlags are those of "fairlead bench run".
type runFlags struct {
	scenario, workload, policy string
	seed                       uint64
	scale                      float64
	lifecycle, json            string

	target, model, keyFile, sessionHeader string
	timeout                               time.Duration
	stopIfErrors                          float64
	maxOpen                               int
}

func benchRunCommand() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "run",
		Short: "Run one scenario under one policy, and print its figures; with --target, send its requests to a real server",
		Long: `Run runs a scenario in virtual time. With --target its requests go to a server in wall-clock time instead, as streamed chat
completions; the scenario's fleet and the policy then mean nothing. Latency counts from when a request was due. A run in
which the client sent late is flagged invalid. Ctrl-C ends a run, and what there was is reported.`,
		Example: `  fairlead bench run --scenario s1 --policy default
  fairlead bench run --scenario mine.yaml --policy config.yaml --lifecycle summary_lifecycle_metrics.json
  fairlead bench run --workload inference-perf.yaml --target http://127.0.0.1:8080 --model llama-3.1-8b`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			setups, err := loadScenarios([]string{f.scenario}, c.ErrOrStderr())
			if err != nil {
				return err
			}
			if len(setups) != 1 {
				return &usageError{fmt.Errorf("--scenario %s: one at a time; compare takes several", f.scenario)}
			}
			s := setups[0]
			if f.workload != "" {
				if s, err = s.WithWorkload(f.workload); err != nil {
					return err
				}
			}
			if !(f.scale > 0) {
				return &usageError{fmt.Errorf("--scale %v: above 0", f.scale)}
			}
			if f.scale != 1 {
				s = s.Scaled(f.scale)
			}
			if f.target != "" {
				return f.wall(c, s)
			}
			p, err := policy.Named(f.policy)
			if err != nil {
				return err
			}
			return f.virtual(c, s, p)
		},
	}
	flags := c.Flags()
	flags.StringVarP(&f.scenario, "scenario", "s", "s1", "scenario by name or file")
	flags.StringVarP(&f.workload, "workload", "w", "", "file with other requests for the scenario: a workload, or a configuration of inference-perf")
	flags.StringVarP(&f.policy, "policy", "p", policy.Default, "configuration file, default, classic, or a comparison policy")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of the requests")
	flags.Float64Var(&f.scale, "scale", 1, "multiple of the scenario's rates")
	flags.StringVar(&f.lifecycle, "lifecycle", "", "write the figures as inference-perf does (summary_lifecycle_metrics.json) to this file")
	flags.StringVar(&f.json, "json", "", "write all figures to this file as JSON")
	flags.StringVar(&f.target, "target", "", "URL of a server to which the requests go, in wall-clock time")
	flags.StringVar(&f.model, "model", "", "model that requests ask the target for where the workload does not say")
	flags.StringVar(&f.keyFile, "key-file", "", "file with the API key for the target")
	flags.DurationVar(&f.timeout, "timeout", 10*time.Minute, "longest time of a request to the target")
	flags.Float64Var(&f.stopIfErrors, "stop-if-errors", 0, "share of failures beyond which the run ends; 0 is never")
	flags.IntVar(&f.maxOpen, "max-open", 4096, "requests under way at the target beyond which others wait, and count as late")
	flags.StringVar(&f.sessionHeader, "session-header", "", "response header whose last value goes with a session's next request")
	return c
}

func (f *runFlags) virtual(c *cobra.Command, s *bench.Setup, p policy.Policy) error {
	start := time.Now()
	r, err := s.Run(p, f.seed, 0)
	if err != nil {
		return err
	}
	took := time.Since(start)
	figures := s.Figures(r)
	title := fmt.Sprintf("%s under %s, seed %d: %s", s.Name, p.Name, f.seed, s.Title)
	if err := report.Run(c.OutOrStdout(), title, figures); err != nil {
		return err
	}
	fmt.Fprintf(c.ErrOrStderr(), "%d requests, %v of virtual time, %d steps in %.2f s\n",
		len(r.Outcomes), time.Duration(r.End).Round(time.Second), r.Steps, took.Seconds())
	return f.write(figures, report.LifecycleOf(measured(s, r), s.Targets))
}

// wall sends the requests to the target.
func (f *runFlags) wall(c *cobra.Command, s *bench.Setup) error {
	source, err := workload.New(s.Requests, f.seed)
	if err != nil {
		return err
	}
	o := load.Options{
		URL: f.target, Model: f.model, Source: source, Timeout: f.timeout, MaxOpen: f.maxOpen, StopIfErrors: f.stopIfErrors, SessionHeader: f.sessionHeader,
	}
	if f.keyFile != "" {
		if o.Key, err = readKey(f.keyFile); err != nil {
			return err
		}
	}
	r, err := load.Run(c.Context(), o)
	if err != nil {
		return &usageError{fmt.Errorf("--target: %w", err)}
	}
	if err := source.Err(); err != nil {
		return err
	}
	figures := s.Figures(&fleet.Result{Outcomes: r.Outcomes})
	figures.Late(r.Delays)
	if err := report.Run(c.OutOrStdout(), fmt.Sprintf("%s against %s, seed %d", s.Name, f.target, f.seed), figures); err != nil {
		return err
	}
	l := report.LifecycleOf(r.Outcomes, s.Targets)
	l.Observed(r.Delays, r.Messages, r.Invalid())
	if err := f.write(figures, l); err != nil {
		return err
	}
	for _, why := range []string{r.Cut, r.Invalid()} {
		if why != "" {
			fmt.Fprintf(c.ErrOrStderr(), "fairlead: the run does not count: %s\n", why)
		}
	}
	if r.Cut != "" || r.Invalid() != "" {
		return errReported
	}
	return nil
}

// readKey reads a key without the line's end.
func readKey(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	for len(text) > 0 && text[len(text)-1] <= ' ' {
		text = text[:len(text)-1]
	}
	return string(text), nil
}

func (f *runFlags) write(figures *bench.Figures, l *report.Lifecycle) error {
	if f.lifecycle != "" {
		if err := writeFile(f.lifecycle, func(w io.Writer) error { return report.JSON(w, l) }); err != nil {
			return err
		}
	}
	if f.json != "" {
		return writeFile(f.json, func(w io.Writer) error { return report.JSON(w, figures) })
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
