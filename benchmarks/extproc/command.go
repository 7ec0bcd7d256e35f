package extproc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// options are the flags of the command.
type options struct {
	load         Load
	chars        []int
	mode         string
	framing      string
	pid          int
	metricsURL   string
	idle         time.Duration
	json, budget bool

	noop, compare bool
	eppCommand    string
	eppConfig     string
	rounds        int
	warmUp        time.Duration
	endpoints     int
	procs         int

	serve        string
	serveMetrics string
	destinations []string
}

// Command returns `bench extproc`. self is the command line under which a process reaches it again, to serve the no-op
// server; epp that of an endpoint picker.
func Command(self, epp []string) *cobra.Command {
	o := &options{load: NewLoad("")}
	c := &cobra.Command{
		Use: "extproc", Args: cobra.NoArgs,
		Short: "Measure what decisions cost an ext_proc server, alone or against a no-op server",
		Long: "Extproc plays Envoy in FULL_DUPLEX_STREAMED mode against an ext_proc server: one stream per request, chat\n" +
			"completions of exact prompt sizes with shared prefixes, every byte compared. It measures decisions per second,\n" +
			"latency from the last byte of the body to the answer to the headers, and, of a server whose process and metrics\n" +
			"page are known, CPU, memory and allocations per decision, its use at rest subtracted.\n\n" +
			"With --compare it starts `fairlead epp` and a no-op server, measures them in turn in one run, and prints the\n" +
			"ratios; with --budget as lines of name, figure, budget and verdict, and fails if one is over.",
		Example: "  fairlead bench extproc --compare\n" +
			"  fairlead bench extproc --target 127.0.0.1:9002 --pid 4711 --metrics-url http://127.0.0.1:9090/metrics\n" +
			"  fairlead bench extproc --noop --mode full --chunks 1000 --chars 200",
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(c.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			o.load.Mode, o.load.Framing = Mode(o.mode), Framing(o.framing)
			if !c.Flags().Changed("concurrency") && o.load.Rate > 0 {
				o.load.Concurrency = 1000
			}
			if o.load.Requests > 0 && !c.Flags().Changed("duration") {
				o.load.Duration = 0
			} else if o.compare && !c.Flags().Changed("duration") {
				o.load.Duration = NewComparison(nil, nil).Load.Duration
			}
			return o.run(ctx, c, self, epp)
		},
	}
	o.flags(c)
	return c
}

func (o *options) flags(c *cobra.Command) {
	f, l := c.Flags(), &o.load
	d := NewComparison(nil, nil)
	f.StringVar(&l.Target, "target", "", "address of the ext_proc server, host:port")
	f.BoolVar(&o.noop, "noop", false, "start a no-op server and measure it, instead of --target")
	f.BoolVar(&o.compare, "compare", false, "start a no-op server and an endpoint picker and measure both in turn")
	f.IntSliceVar(&o.chars, "chars", d.Sizes, "prompt sizes in characters")
	f.IntVar(&l.Concurrency, "concurrency", l.Concurrency, "exchanges at a time; with --rate the most that may be open (1000 if not given)")
	f.Float64Var(&l.Rate, "rate", 0, "arrivals per second, whether or not earlier ones have ended; 0 begins one when another ends")
	f.DurationVar(&l.Duration, "duration", l.Duration, "length of a run (with --compare of each of its slots; 2s if not given)")
	f.Uint64Var(&l.Requests, "requests", 0, "end a run after this many exchanges; 0 leaves it to --duration")
	f.IntVar(&l.Connections, "connections", l.Connections, "HTTP/2 connections")
	f.BoolVar(&l.TLS, "tls", false, "encrypt; certificates are not verified")
	f.StringVar(&l.Model, "model", l.Model, "model that requests name")
	f.Uint64Var(&l.Seed, "seed", l.Seed, "makes bodies, ids and arrivals")
	f.StringVar(&o.mode, "mode", string(l.Mode), "what of a response is sent: headers, edges (and access-log entries), full (and --chunks)")
	f.IntVar(&l.Chunks, "chunks", 0, "response chunks of an exchange, in mode full")
	f.DurationVar(&l.ChunkInterval, "chunk-interval", 0, "time between them; 0 sends the next when the last has come back")
	f.StringVar(&o.framing, "framing", string(l.Framing), "cut bodies as Envoy does for an http1 or an http2 client")
	f.DurationVar(&l.Timeout, "timeout", l.Timeout, "bound of one exchange")
	f.IntVar(&o.pid, "pid", 0, "process of --target, for CPU and memory (Linux)")
	f.StringVar(&o.metricsURL, "metrics-url", "", "metrics page of --target with the Go runtime's figures, for allocations")
	f.DurationVar(&o.idle, "idle", d.Idle, "how long a server is watched at rest, to subtract what it uses then; 0 subtracts nothing of --target")
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.BoolVar(&o.budget, "budget", false, "with --compare print name | figure | budget | verdict, and fail if one is over")
	f.StringVar(&o.eppCommand, "epp-command", "", "endpoint picker to compare, program and arguments separated by blanks (default: this program's epp)")
	f.StringVar(&o.eppConfig, "epp-config", "", "its configuration file (default: queue, KV utilisation and prefix scorers, 2:2:3, max-score picker)")
	f.IntVar(&o.rounds, "rounds", d.Rounds, "slots of each server per size, with --compare")
	f.DurationVar(&o.warmUp, "warm-up", d.WarmUp, "unmeasured run per server and size before, with --compare or --noop")
	f.IntVar(&o.endpoints, "endpoints", d.Endpoints, "model servers to choose from, with --compare or --noop")
	f.IntVar(&o.procs, "server-procs", 0, "GOMAXPROCS of the started servers; 0 leaves it")
	f.StringVar(&o.serve, "noop-serve", "", "serve a no-op server on this address, host:port, until interrupted")
	f.StringVar(&o.serveMetrics, "noop-metrics", "", "address of its metrics page; none if empty")
	f.StringSliceVar(&o.destinations, "noop-destinations", []string{"127.0.0.1:8000"}, "address:port list that it hands out in turn")
}

func (o *options) run(ctx context.Context, c *cobra.Command, self, epp []string) error {
	modes := 0
	for _, chosen := range []bool{o.load.Target != "", o.noop, o.compare, o.serve != ""} {
		if chosen {
			modes++
		}
	}
	if modes != 1 {
		return errors.New("give one of --target, --noop, --compare, --noop-serve")
	}
	if o.budget && !o.compare {
		return errors.New("--budget needs --compare: a budget is a multiple of the floor in the same run")
	}
	switch {
	case o.serve != "":
		return ServeNoOp(ctx, Serving{
			Address: o.serve, MetricsAddress: o.serveMetrics, Destinations: o.destinations, TLS: o.load.TLS,
		}, c.OutOrStdout())
	case o.compare:
		if o.eppCommand != "" {
			epp = strings.Fields(o.eppCommand)
		}
		return o.runCompare(ctx, c, self, epp)
	case o.noop:
		return o.runNoOp(ctx, c, self)
	}
	return o.measure(ctx, c, &Meter{PID: o.pid, MetricsURL: o.metricsURL})
}

// environment is what started servers get beside ours.
func (o *options) environment() []string {
	if o.procs <= 0 {
		return nil
	}
	return []string{fmt.Sprintf("GOMAXPROCS=%d", o.procs)}
}

func (o *options) runNoOp(ctx context.Context, c *cobra.Command, self []string) error {
	destinations := make([]string, max(o.endpoints, 1))
	for i := range destinations {
		destinations[i] = fmt.Sprintf("127.0.0.1:%d", 8000+i)
	}
	s, err := startNoOp(ctx, self, o.environment(), destinations, o.load.TLS)
	if err != nil {
		return err
	}
	defer s.stop()
	o.load.Target = s.target
	if o.warmUp > 0 {
		l := o.load
		l.Chars, l.Requests, l.Duration, l.First = o.chars[0], 0, o.warmUp, 1<<40
		if _, err := Run(ctx, l); err != nil {
			return s.child.During("warming up", err)
		}
	}
	return o.measure(ctx, c, s.meter)
}

// measure runs the load once per size against the target and prints the table.
func (o *options) measure(ctx context.Context, c *cobra.Command, m *Meter) error {
	if o.idle > 0 && (m.PID != 0 || m.MetricsURL != "") {
		if err := m.Calibrate(ctx, o.idle); err != nil {
			return err
		}
	}
	var runs []Measured
	var failed uint64
	for _, chars := range o.chars {
		l := o.load
		l.Chars = chars
		r, cost, err := m.Measure(ctx, l)
		if err != nil {
			return err
		}
		failed += r.Failed()
		runs = append(runs, Measured{Chars: chars, Result: r, Cost: cost, Figures: figuresOf(r, cost)})
	}
	write := func() error { return WriteMeasured(c.OutOrStdout(), runs) }
	if o.json {
		write = func() error { return writeJSON(c.OutOrStdout(), runs) }
	}
	if err := write(); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d exchanges had a fault", failed)
	}
	return nil
}

func (o *options) runCompare(ctx context.Context, c *cobra.Command, self, epp []string) error {
	cmp := NewComparison(self, epp)
	cmp.Load, cmp.Sizes, cmp.Rounds, cmp.WarmUp, cmp.Idle = o.load, o.chars, o.rounds, o.warmUp, o.idle
	cmp.Endpoints, cmp.Environment, cmp.Progress = o.endpoints, o.environment(), c.ErrOrStderr()
	if o.eppConfig != "" {
		config, err := os.ReadFile(o.eppConfig)
		if err != nil {
			return fmt.Errorf("--epp-config: %w", err)
		}
		cmp.Config = config
	}
	report, err := cmp.Run(ctx)
	if err != nil {
		return err
	}
	return o.print(c, report)
}

// print writes the report as asked, and fails if a line is over its budget or, without budgets, an exchange had a fault.
func (o *options) print(c *cobra.Command, report *Report) (err error) {
	lines := report.Lines()
	out := c.OutOrStdout()
	switch {
	case o.budget && o.json:
		err = writeJSON(out, lines)
	case o.budget:
		for _, l := range lines {
			if _, err = fmt.Fprintln(out, l); err != nil {
				break
			}
		}
	case o.json:
		err = writeJSON(out, report)
	default:
		err = report.Write(out)
	}
	if err != nil {
		return err
	}
	var over []string
	for _, l := range lines {
		if l.Verdict == Over && (o.budget || l.Limit == 0) {
			over = append(over, l.Name)
		}
	}
	if len(over) > 0 {
		return fmt.Errorf("over budget: %s", strings.Join(over, "; "))
	}
	return nil
}
