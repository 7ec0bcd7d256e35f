// Command budgets measures what the project's design promises and prints name, figure, budget and verdict. Allocations and
// bytes gate as they are; times gate only as ratios to something fixed that is measured in the same run.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/fairlead/fairlead/benchmarks/extproc"
)

func main() {
	binary := flag.String("binary", "bin/fairlead", "the fairlead that serves decisions")
	asJSON := flag.String("json", "", "write the lines to this file as JSON")
	quick := flag.Bool("quick", false, "leave out what needs processes of its own")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	fmt.Printf("%s %s/%s, %d processors; times are this machine's, shared with whatever else it does\n\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	var lines []extproc.Line
	lines = append(lines, cycleLines()...)
	lines = append(lines, predictionLines()...)
	lines = append(lines, bodyLines()...)
	lines = append(lines, prefixLines()...)
	lines = append(lines, queueLines()...)
	simulated, err := fleetLines()
	lines = append(lines, simulated...)
	var telemetry []extproc.Line
	if err == nil {
		telemetry, err = pageLines()
	}
	if err == nil && !*quick {
		var polled extproc.Line
		if polled, err = pollLine(ctx, *binary); err == nil {
			telemetry = append(telemetry, polled)
		}
	}
	lines = append(lines, telemetry...)
	if err == nil && !*quick {
		c := extproc.NewComparison([]string{*binary, "bench", "extproc"}, []string{*binary, "epp"})
		c.Progress = os.Stderr
		var decisions []extproc.Line
		for _, of := range []extproc.Comparison{answering(c, extproc.Headers), longPrompts(c), answering(c, extproc.Edges), answering(c, extproc.Full)} {
			if decisions, err = decisionLines(ctx, of); err != nil {
				break
			}
			lines = append(lines, decisions...)
		}
	}
	if err == nil && !*quick {
		var proxied []extproc.Line
		proxied, err = proxyLines(ctx, *binary)
		lines = append(lines, proxied...)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "budgets:", err)
		os.Exit(1)
	}
	os.Exit(print(lines, *asJSON))
}

// answering is the comparison with what a mode shows of answers: decisions at every size by their headers, and answers of
// 1,000 chunks at one size, of which edges sees nothing and full sees all.
func answering(c extproc.Comparison, mode extproc.Mode) extproc.Comparison {
	c.Load.Mode = mode
	if mode == extproc.Headers {
		return c
	}
	c.Sizes, c.Rounds = []int{8_000}, 2
	if mode == extproc.Full {
		c.Load.Chunks = 1_000
	}
	return c
}

// longPrompts is the comparison with prompts of about 100,000 tokens, ten a second.
func longPrompts(c extproc.Comparison) extproc.Comparison {
	c.Load.Mode, c.Load.Rate, c.Load.Concurrency, c.Load.Duration = extproc.Headers, 10, 100, 5*time.Second
	c.Sizes, c.Rounds = []int{400_000}, 1
	return c
}

// decisionLines compares whole decisions with the floor. A ratio that is over is measured once more before it counts: on a
// machine that others use too, one run in many goes astray.
func decisionLines(ctx context.Context, c extproc.Comparison) ([]extproc.Line, error) {
	for again := false; ; again = true {
		report, err := c.Run(ctx)
		if err != nil {
			return nil, err
		}
		lines := report.Lines()
		over := slices.ContainsFunc(lines, func(l extproc.Line) bool { return l.Verdict == extproc.Over })
		if !over || again {
			return lines, nil
		}
		fmt.Fprintln(os.Stderr, "over budget; measuring once more")
	}
}

// print shows the lines and returns the exit code.
func print(lines []extproc.Line, asJSON string) int {
	over := 0
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "what\tfigure\tbudget\tverdict")
	for _, l := range lines {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", l.Name, l.Figure, l.Budget, l.Verdict)
		if l.Verdict == extproc.Over {
			over++
		}
	}
	t.Flush()
	fmt.Printf("\n%d lines, %d over budget\n", len(lines), over)
	if asJSON != "" {
		data, err := json.MarshalIndent(lines, "", "  ")
		if err == nil {
			err = os.WriteFile(asJSON, data, 0o644)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "budgets:", err)
			return 1
		}
	}
	if over > 0 {
		return 1
	}
	return 0
}

// atMost judges a figure against a limit.
func atMost(name, figure string, value, limit float64, unit string) extproc.Line {
	l := extproc.Line{Name: name, Figure: figure, Budget: fmt.Sprintf("<= %g%s", limit, unit), Verdict: extproc.OK, Value: value, Limit: limit}
	if !(value <= limit) {
		l.Verdict = extproc.Over
	}
	return l
}

// reported is a figure without a gate; budget says what the design asks for.
func reported(name, figure, budget string, value float64) extproc.Line {
	return extproc.Line{Name: name, Figure: figure, Budget: budget, Verdict: extproc.Reported, Value: value}
}

func micros(ns float64) string { return fmt.Sprintf("%.2f us", ns/1000) }

// nanos is the time of one operation, as the best of a hundred measurements of about 3 ms: what the machine does beside only
// ever adds, and a span that is shorter than a turn of the kernel's scheduler may pass without an interruption however busy
// the machine is.
func nanos(op func()) float64 {
	const span = 3 * time.Millisecond
	n := 1
	for {
		took := timed(op, n)
		if took > span/3 {
			n = max(int(float64(n)*float64(span)/float64(took)), 1)
			break
		}
		n *= 2
	}
	best := timed(op, n)
	for range 99 {
		best = min(best, timed(op, n))
	}
	return float64(best) / float64(n)
}

func timed(op func(), n int) time.Duration {
	start := time.Now()
	for range n {
		op()
	}
	return time.Since(start)
}

// allocations is the number of allocations of one operation, on average over many.
func allocations(op func()) float64 {
	const runs = 200
	op()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		op()
	}
	runtime.ReadMemStats(&after)
	return float64((after.Mallocs - before.Mallocs) / runs)
}
