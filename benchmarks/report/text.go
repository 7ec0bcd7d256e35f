package report

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/fairlead/fairlead/benchmarks/bench"
	"github.com/fairlead/fairlead/benchmarks/compare"
)

// shown are the metrics whose differences the short reports list; JSON, CSV and HTML have all.
var shown = []string{"goodput", "TTFT p50", "TTFT p99", "ITL p99", "hit rate", "output"}

// Text writes the comparison for a terminal.
func Text(w io.Writer, r *compare.Report) error {
	for i := range r.Cells {
		c := &r.Cells[i]
		fmt.Fprintf(w, "%s: %s\n%s\n", c.Scenario, c.Title, conditions(r, c))
		if c.Needs != "" {
			fmt.Fprintf(w, "needs: %s\n", c.Needs)
		}
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(t, "  "+strings.Join(append(header(), "capacity"), "\t"))
		for k := range c.Arms {
			fmt.Fprintln(t, "  "+strings.Join(append(row(&c.Arms[k]), capacity(&c.Arms[k])), "\t"))
		}
		for _, list := range groups(c) {
			fmt.Fprintln(t, "  "+strings.Join(append([]string{list.what}, groupHeader...), "\t"))
			for _, row := range list.rows {
				fmt.Fprintln(t, "  "+strings.Join(row, "\t"))
			}
		}
		if err := t.Flush(); err != nil {
			return err
		}
		for k := 1; k < len(c.Arms); k++ {
			if err := difference(w, c, k); err != nil {
				return err
			}
		}
		fmt.Fprintln(w)
	}
	return nil
}

func conditions(r *compare.Report, c *compare.Cell) string {
	f := c.Arms[0].Runs[0]
	return fmt.Sprintf("%d requests at %s/s, %d seeds from %d", f.Offered, figure(f.OfferedRate), r.Seeds, r.Seed)
}

func difference(w io.Writer, c *compare.Cell, k int) error {
	a := &c.Arms[k]
	fmt.Fprintf(w, "  %s against %s: %s\n", a.Policy, c.Arms[0].Policy, strings.ToUpper(string(a.Verdict))+strings.TrimPrefix(verdict(a), string(a.Verdict)))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, d := range a.Differences {
		if !slices.Contains(shown, d.Metric) {
			continue
		}
		if d.Verdict == compare.Saturated {
			fmt.Fprintf(t, "    %s\tno ratio: past saturation\n", d.Metric)
			continue
		}
		fmt.Fprintf(t, "    %s\t%s → %s\t%s\twins %s\t%s\n", d.Metric, value(d.A, d.Unit), value(d.B, d.Unit), change(d.Relative), wins(d.WinRate), d.Verdict)
	}
	return t.Flush()
}

func wins(n bench.Number) string {
	if !n.Known() {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", float64(n)*100)
}

// Markdown writes the comparison as tables.
func Markdown(w io.Writer, r *compare.Report) error {
	line := func(cells []string) { fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | ")) }
	for i := range r.Cells {
		c := &r.Cells[i]
		fmt.Fprintf(w, "## %s\n\n%s. %s.\n\n", c.Scenario, c.Title, conditions(r, c))
		head := append(header(), "capacity", "verdict against "+c.Arms[0].Policy, "goodput, 95 % interval")
		line(head)
		line(slices.Repeat([]string{"---"}, len(head)))
		for k := range c.Arms {
			a := &c.Arms[k]
			interval := "-"
			if len(a.Differences) > 0 {
				interval = change(a.Differences[0].Relative)
			}
			line(append(row(a), capacity(a), verdict(a), interval))
		}
		fmt.Fprintln(w)
		for _, list := range groups(c) {
			head := append([]string{list.what}, groupHeader...)
			line(head)
			line(slices.Repeat([]string{"---"}, len(head)))
			for _, row := range list.rows {
				line(row)
			}
			fmt.Fprintln(w)
		}
	}
	return nil
}

// CSV writes a line for each scenario, policy, seed and metric.
func CSV(w io.Writer, r *compare.Report) error {
	out := csv.NewWriter(w)
	if err := out.Write([]string{"scenario", "policy", "seed", "metric", "unit", "value"}); err != nil {
		return err
	}
	for i := range r.Cells {
		for k := range r.Cells[i].Arms {
			a := &r.Cells[i].Arms[k]
			for s, f := range a.Runs {
				for _, m := range compare.Metrics() {
					v := ""
					if n := m.Of(f); n.Known() {
						v = strconv.FormatFloat(float64(n), 'g', 9, 64)
					}
					if err := out.Write([]string{r.Cells[i].Scenario, a.Policy, strconv.FormatUint(r.Seed+uint64(s), 10), m.Name, m.Unit, v}); err != nil {
						return err
					}
				}
			}
		}
	}
	out.Flush()
	return out.Error()
}

// JSON writes everything.
func JSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(v)
}

// Run writes the figures of single runs for a terminal.
func Run(w io.Writer, name string, f *bench.Figures) error {
	fmt.Fprintf(w, "%s\n", name)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	aborted := ""
	if f.Aborted > 0 {
		aborted = fmt.Sprintf("aborted %d, ", f.Aborted)
	}
	fmt.Fprintf(t, "  offered\t%d at %s/s\tcompleted %d, refused %d, failed %d, %sunfinished %d\n", f.Offered, figure(f.OfferedRate), f.Completed, f.Refused, f.Failed, aborted, f.Unfinished)
	for _, why := range slices.Sorted(keys(f.Reasons)) {
		fmt.Fprintf(t, "  \t%s\t%d\n", why, f.Reasons[why])
	}
	note := ""
	if f.Saturated {
		note = "SATURATED: the backlog grew until the end; latencies say how long the run was"
	}
	fmt.Fprintf(t, "  goodput\t%s of what was offered\t%s/s  %s\n", percent(f.Goodput), figure(f.GoodRate), note)
	fmt.Fprintf(t, "  tokens\tin %s/s, out %s/s\thit rate %s, preemptions %d\n", figure(f.InputRate), figure(f.OutputRate), percent(f.HitRate), f.Preemptions)
	fmt.Fprintf(t, "  balance\tbusiest pod %sx the mean\tJain index over tenants %s\n", figure(f.Imbalance), figure(f.Jain))
	if f.EventBatches > 0 {
		fmt.Fprintf(t, "  cache events\t%d messages\t%d lost\n", f.EventBatches, f.EventBatchesLost)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(t, "  \tmean\tp50\tp90\tp95\tp99\tmax\tn")
	for _, s := range spreads(f) {
		fmt.Fprintf(t, "  %s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\n", s.name, duration(s.Mean), duration(s.P50), duration(s.P90), duration(s.P95), duration(s.P99), duration(s.Max), s.N)
	}
	if f.Delay != nil {
		s := f.Delay
		fmt.Fprintf(t, "  sent late by\t%s\t%s\t%s\t%s\t%s\t%s\t%d\n", duration(s.Mean), duration(s.P50), duration(s.P90), duration(s.P95), duration(s.P99), duration(s.Max), s.N)
	}
	for _, list := range [][]bench.Group{f.Classes, f.Tenants} {
		if len(list) == 0 {
			continue
		}
		fmt.Fprintln(t, "  \t"+strings.Join(groupHeader, "\t"))
		for i := range list {
			fmt.Fprintln(t, "  "+strings.Join(groupRow(list[i].Name, list[i:i+1]), "\t"))
		}
	}
	return t.Flush()
}

type namedSpread struct {
	name string
	bench.Spread
}

func spreads(f *bench.Figures) []namedSpread {
	return []namedSpread{{"TTFT", f.TTFT}, {"of it queue", f.Queue}, {"of it prefill", f.Prefill}, {"ITL", f.ITL}, {"longest gap", f.Gap}, {"E2E", f.E2E}}
}

func keys(m map[string]int) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}
