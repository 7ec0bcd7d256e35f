package extproc

import (
	"fmt"
	"math"
)

// Verdict says how a figure stands to its budget.
type Verdict string

const (
	// OK: within the budget.
	OK Verdict = "ok"
	// Over: beyond it; the run has failed.
	Over Verdict = "over"
	// Due: beyond a budget that the stock protobuf codec cannot meet; printed, and no failure.
	Due Verdict = "due"
	// Reported: there is no budget.
	Reported Verdict = "reported"
)

// Line is one line of a budget table. Figure and Budget are as printed, with unit; Value and Limit are the same as
// numbers, Limit 0 where there is no budget.
type Line struct {
	Name    string  `json:"name"`
	Figure  string  `json:"figure"`
	Budget  string  `json:"budget"`
	Verdict Verdict `json:"verdict"`
	Value   float64 `json:"value"`
	Limit   float64 `json:"limit,omitempty"`
}

// String is the line as printed: name | figure | budget | verdict.
func (l Line) String() string {
	return fmt.Sprintf("%s | %s | %s | %s", l.Name, l.Figure, l.Budget, l.Verdict)
}

// budget is a limit of the design for a whole decision at one prompt size.
type budget struct {
	chars int
	what  string
	limit float64
	// due: the stock codec's own copies and messages are beyond the limit already.
	due bool
}

// budgets are those of docs/design for whole ext_proc decisions. Quantities in bytes are decimal.
func budgets() []budget {
	return []budget{
		{chars: 8000, what: "CPU", limit: 1.5},
		{chars: 8000, what: "allocations", limit: 150, due: true},
		{chars: 8000, what: "bytes", limit: 25_000, due: true},
		{chars: 100_000, what: "CPU", limit: 1.5},
		{chars: 100_000, what: "bytes", limit: 250_000, due: true},
	}
}

// Lines are the budget lines of a report: CPU, latencies and throughput as multiples of the floor in the same run,
// allocations and bytes exactly, with the floor's beside them.
func (r *Report) Lines() []Line {
	var lines []Line
	for i := range r.Sizes {
		s := &r.Sizes[i]
		ratio := func(what string, ratio, floor, own float64, unit string) {
			figure := fmt.Sprintf("%.2fx (%s / %s %s)", ratio, number(own), number(floor), unit)
			lines = append(lines, line(s.Chars, what, ratio, figure))
		}
		exact := func(what string, own, floor float64) {
			lines = append(lines, line(s.Chars, what, own, fmt.Sprintf("%s (no-op %s)", number(own), number(floor))))
		}
		own, floor := &s.EPP.Median, &s.NoOp.Median
		ratio("CPU", s.Ratio.CPUMicros, floor.CPUMicros, own.CPUMicros, "us")
		exact("allocations", own.Allocs, floor.Allocs)
		exact("bytes", own.Bytes, floor.Bytes)
		ratio("p50", s.Ratio.P50Millis, floor.P50Millis, own.P50Millis, "ms")
		ratio("p99", s.Ratio.P99Millis, floor.P99Millis, own.P99Millis, "ms")
		ratio("decisions/s", s.Ratio.PerSecond, floor.PerSecond, own.PerSecond, "/s")

		failed := s.EPP.Failed + s.NoOp.Failed
		all := Line{
			Name:   name(s.Chars, "faults"),
			Figure: fmt.Sprintf("%d of %d", failed, failed+s.EPP.Decisions+s.NoOp.Decisions),
			Budget: "0", Verdict: OK, Value: float64(failed),
		}
		if failed > 0 || s.EPP.Decisions == 0 || s.NoOp.Decisions == 0 {
			all.Verdict = Over
		}
		lines = append(lines, all)
	}
	return lines
}

func name(chars int, what string) string {
	return fmt.Sprintf("ext_proc decision, %d characters: %s", chars, what)
}

// line judges one figure. One that could not be measured is over its budget.
func line(chars int, what string, value float64, figure string) Line {
	l := Line{Name: name(chars, what), Figure: figure, Budget: "-", Verdict: Reported, Value: value}
	if math.IsNaN(value) || math.IsInf(value, 0) {
		l.Figure, l.Value = "not measured", 0
	}
	for _, b := range budgets() {
		if b.chars != chars || b.what != what {
			continue
		}
		l.Limit, l.Budget = b.limit, "<= "+number(b.limit)
		if what == "CPU" {
			l.Budget = fmt.Sprintf("<= %.1fx no-op", b.limit)
		}
		switch {
		case value <= b.limit:
			l.Verdict = OK
		case b.due && !math.IsNaN(value):
			l.Verdict = Due
		default:
			l.Verdict = Over
		}
	}
	return l
}

// number prints three significant digits of small numbers and whole large ones.
func number(v float64) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case math.Abs(v) >= 100:
		return fmt.Sprintf("%.0f", v)
	default:
		return fmt.Sprintf("%.3g", v)
	}
}
