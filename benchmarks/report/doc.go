// Package report writes what was measured: as a table for a terminal, as Markdown, CSV and JSON, as a single HTML page with
// plots that needs nothing beside itself, and in the JSON of inference-perf, which other tools read.
package report

import (
	"fmt"
	"math"
	"strings"

	"github.com/fairlead/fairlead/benchmarks/bench"
	"github.com/fairlead/fairlead/benchmarks/compare"
)

// percent prints a share.
func percent(n bench.Number) string {
	if !n.Known() {
		return "-"
	}
	return fmt.Sprintf("%.1f %%", float64(n)*100)
}

// duration prints seconds in a unit that fits.
func duration(n bench.Number) string {
	switch v := float64(n); {
	case !n.Known():
		return "-"
	case v < 0.0995:
		return fmt.Sprintf("%.1f ms", v*1e3)
	case v < 0.9995:
		return fmt.Sprintf("%.0f ms", v*1e3)
	case v < 100:
		return fmt.Sprintf("%.2f s", v)
	default:
		return fmt.Sprintf("%.0f s", v)
	}
}

// figure prints a number with three digits that matter.
func figure(n bench.Number) string {
	v := float64(n)
	switch {
	case !n.Known():
		return "-"
	case v == math.Trunc(v) && math.Abs(v) < 1e6:
		return fmt.Sprintf("%.0f", v)
	case math.Abs(v) >= 100:
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// value prints a metric's value with its unit.
func value(n bench.Number, unit string) string {
	switch unit {
	case "share":
		return percent(n)
	case "s":
		return duration(n)
	case "":
		return figure(n)
	}
	if !n.Known() {
		return "-"
	}
	return figure(n) + " " + unit
}

// change prints a relative difference with its interval.
func change(i *compare.Interval) string {
	if i == nil {
		return "-"
	}
	return fmt.Sprintf("%+.1f %% [%+.1f, %+.1f]", i.Mean*100, i.Low*100, i.High*100)
}

// mean is the mean over the runs of an arm.
func mean(a *compare.Arm, of func(*bench.Figures) bench.Number) bench.Number {
	var v []float64
	for _, f := range a.Runs {
		v = append(v, float64(of(f)))
	}
	return bench.Number(compare.Mean(v))
}

// columns are those of the table of a scenario; latency ones stay empty where the policy is saturated.
var columns = []struct {
	name    string
	unit    string
	latency bool
	of      func(*bench.Figures) bench.Number
}{
	{"goodput", "share", false, func(f *bench.Figures) bench.Number { return f.Goodput }},
	{"TTFT p50", "s", true, func(f *bench.Figures) bench.Number { return f.TTFT.P50 }},
	{"p90", "s", true, func(f *bench.Figures) bench.Number { return f.TTFT.P90 }},
	{"p99", "s", true, func(f *bench.Figures) bench.Number { return f.TTFT.P99 }},
	{"queue p99", "s", true, func(f *bench.Figures) bench.Number { return f.Queue.P99 }},
	{"prefill p99", "s", true, func(f *bench.Figures) bench.Number { return f.Prefill.P99 }},
	{"ITL p50", "s", true, func(f *bench.Figures) bench.Number { return f.ITL.P50 }},
	{"p99 ", "s", true, func(f *bench.Figures) bench.Number { return f.ITL.P99 }},
	{"hit rate", "share", false, func(f *bench.Figures) bench.Number { return f.HitRate }},
	{"imbalance", "", false, func(f *bench.Figures) bench.Number { return f.Imbalance }},
	{"Jain", "", false, func(f *bench.Figures) bench.Number { return f.Jain }},
	{"refused", "", false, func(f *bench.Figures) bench.Number { return bench.Number(f.Refused) }},
}

// row is one policy's line in the table of a scenario.
func row(a *compare.Arm) []string {
	cells := []string{a.Policy}
	for _, c := range columns {
		if c.latency && a.Saturated {
			cells = append(cells, "saturated")
			continue
		}
		cells = append(cells, value(mean(a, c.of), c.unit))
	}
	return cells
}

func header() []string {
	cells := []string{"policy"}
	for _, c := range columns {
		cells = append(cells, strings.TrimSpace(c.name))
	}
	return cells
}

// capacity prints up to which rate a policy's answers stay good.
func capacity(a *compare.Arm) string {
	switch {
	case !a.Capacity.Known():
		return "-"
	case a.Capacity == 0:
		return "none"
	case a.Capacity >= 8:
		return fmt.Sprintf("> %s/s (8x)", figure(a.CapacityRate))
	}
	return fmt.Sprintf("%s/s (%.2fx)", figure(a.CapacityRate), float64(a.Capacity))
}

// verdict prints what an arm's comparison came to.
func verdict(a *compare.Arm) string {
	if a.Verdict == "" {
		return "(reference)"
	}
	s := string(a.Verdict)
	if a.Why != "" {
		s += ", " + a.Why
	}
	return s
}
