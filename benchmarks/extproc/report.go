package extproc

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
)

// Measured is one run at one prompt size with what it cost the server.
type Measured struct {
	Chars   int     `json:"chars"`
	Result  *Result `json:"result"`
	Cost    Cost    `json:"cost"`
	Figures Figures `json:"figures"`
}

// WriteMeasured prints runs as a table, and below it the first faults in words.
func WriteMeasured(w io.Writer, runs []Measured) error {
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "chars\tdecisions\tfailed\tshed\tdecisions/s\tp50 ms\tp99 ms\tmax ms\tCPU us\tallocs\tbytes\tRSS MB\t")
	for _, m := range runs {
		f := m.Figures
		fmt.Fprintf(t, "%d\t%d\t%d\t%d\t%.0f\t%.3f\t%.3f\t%.3f\t%s\t%s\t%s\t%s\t\n", m.Chars, m.Result.Decisions, m.Result.Failed(),
			m.Result.Shed, f.PerSecond, f.P50Millis, f.P99Millis, millis(m.Result.Max),
			number(f.CPUMicros), number(f.Allocs), number(f.Bytes), number(f.RSSMegabytes))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, m := range runs {
		if err := writeFaults(w, fmt.Sprintf("%d characters", m.Chars), m.Result.Faults, m.Result.Examples); err != nil {
			return err
		}
	}
	return nil
}

func writeFaults(w io.Writer, where string, faults map[FaultKind]uint64, examples []string) error {
	kinds := make([]FaultKind, 0, len(faults))
	for k := range faults {
		kinds = append(kinds, k)
	}
	slices.Sort(kinds)
	for _, k := range kinds {
		if _, err := fmt.Fprintf(w, "%s: %d x %s\n", where, faults[k], k); err != nil {
			return err
		}
	}
	for _, e := range examples {
		if _, err := fmt.Fprintf(w, "  %s\n", e); err != nil {
			return err
		}
	}
	return nil
}

// Write prints the report as a table: per size the floor, the picker and their ratio.
func (r *Report) Write(w io.Writer) error {
	load := fmt.Sprintf("concurrency %d", r.Load.Concurrency)
	if r.Load.Rate > 0 {
		load = fmt.Sprintf("%g/s", r.Load.Rate)
	}
	fmt.Fprintf(w, "%d endpoints, mode %s, framing %s, %s, median of %d rounds, seed %d\n",
		r.Endpoints, r.Load.Mode, r.Load.Framing, load, r.Rounds, r.Load.Seed)
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "chars\t\tdecisions\tfailed\tdecisions/s\tp50 ms\tp99 ms\tCPU us\tallocs\tbytes\tRSS MB\t")
	row := func(chars, who string, decisions, failed string, f Figures, format string) {
		cell := func(v float64) string {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return "-"
			}
			if format != "" {
				return fmt.Sprintf(format, v)
			}
			return number(v)
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", chars, who, decisions, failed, cell(f.PerSecond),
			cell(f.P50Millis), cell(f.P99Millis), cell(f.CPUMicros), cell(f.Allocs), cell(f.Bytes), cell(f.RSSMegabytes))
	}
	for i := range r.Sizes {
		s := &r.Sizes[i]
		row(fmt.Sprint(s.Chars), "no-op", fmt.Sprint(s.NoOp.Decisions), fmt.Sprint(s.NoOp.Failed), s.NoOp.Median, "")
		row("", "fairlead", fmt.Sprint(s.EPP.Decisions), fmt.Sprint(s.EPP.Failed), s.EPP.Median, "")
		row("", "ratio", "", "", s.Ratio, "%.2fx")
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for i := range r.Sizes {
		s := &r.Sizes[i]
		for _, side := range []struct {
			who string
			*Side
		}{{"no-op", &s.NoOp}, {"fairlead", &s.EPP}} {
			where := fmt.Sprintf("%s, %d characters", side.who, s.Chars)
			if err := writeFaults(w, where, side.Faults, side.Examples); err != nil {
				return err
			}
		}
	}
	return nil
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
