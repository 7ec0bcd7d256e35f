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

// budget is a limit of the design.
type budget struct {
	mode  Mode
	chars int // 0: any
	rate  float64
	what  string
	limit float64
}

// The figures that have budgets, as lines name them.
const (
	cpuRatio = "CPU"
	cpuTime  = "CPU time"
	allocs   = "allocations"
	size     = "bytes"
	cores    = "cores"
	memory   = "resident memory"
)

// budgets are those of docs/design: of whole decisions in mode headers; of answers in the others, where a run in mode edges
// is what an answer costs however many chunks it has, the decision included, and one in mode full is nearly all chunks if
// there are a thousand: its allocations may be those of a decision, which leaves none to a chunk. Prompts of 400,000 characters
// are about 100,000 tokens, and come at a rate. Bytes are decimal.
func budgets() []budget {
	return []budget{
		{mode: Headers, chars: 8000, what: cpuRatio, limit: 1.5},
		{mode: Headers, chars: 8000, what: allocs, limit: 150},
		{mode: Headers, chars: 8000, what: size, limit: 25_000},
		{mode: Headers, chars: 100_000, what: cpuRatio, limit: 1.5},
		{mode: Headers, chars: 100_000, what: size, limit: 250_000},
		{mode: Headers, chars: 400_000, rate: 10, what: cores, limit: 0.1},
		{mode: Headers, chars: 400_000, rate: 10, what: memory, limit: 200 << 20 / 1e6},
		{mode: Edges, what: cpuTime, limit: 2000},
		{mode: Full, what: cpuRatio, limit: 0.4},
		{mode: Full, what: allocs, limit: 150},
	}
}

// budgetChunks is the length of an answer that the budget of mode full is for.
const budgetChunks = 1000

// Lines are the budget lines of a report: CPU, latencies and throughput as multiples of the floor in the same run,
// allocations and bytes exactly, with the floor's beside them.
func (r *Report) Lines() []Line {
	var lines []Line
	for i := range r.Sizes {
		s := &r.Sizes[i]
		ratio := func(what string, ratio, floor, own float64, unit string) {
			figure := fmt.Sprintf("%.2fx (%s / %s %s)", ratio, number(own), number(floor), unit)
			lines = append(lines, r.line(s.Chars, what, ratio, figure))
		}
		exact := func(what string, own, floor float64, unit string) {
			figure := fmt.Sprintf("%s%s (no-op %s%s)", number(own), unit, number(floor), unit)
			lines = append(lines, r.line(s.Chars, what, own, figure))
		}
		own, floor := &s.EPP.Median, &s.NoOp.Median
		ratio(cpuRatio, s.Ratio.CPUMicros, floor.CPUMicros, own.CPUMicros, "us")
		if r.Load.Mode == Edges {
			exact(cpuTime, own.CPUMicros, floor.CPUMicros, " us")
		}
		if r.Load.Rate > 0 {
			exact(cores, own.CPUMicros*r.Load.Rate/1e6, floor.CPUMicros*r.Load.Rate/1e6, "")
			exact(memory, own.RSSMegabytes, floor.RSSMegabytes, " MB")
		}
		exact(allocs, own.Allocs, floor.Allocs, "")
		exact(size, own.Bytes, floor.Bytes, "")
		ratio("p50", s.Ratio.P50Millis, floor.P50Millis, own.P50Millis, "ms")
		ratio("p99", s.Ratio.P99Millis, floor.P99Millis, own.P99Millis, "ms")
		ratio("decisions/s", s.Ratio.PerSecond, floor.PerSecond, own.PerSecond, "/s")

		failed := s.EPP.Failed + s.NoOp.Failed
		all := Line{
			Name:   r.name(s.Chars, "faults"),
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

// name is how a line is called: what was exchanged, at which prompt size, and the figure.
func (r *Report) name(chars int, what string) string {
	exchanged := "ext_proc decision"
	if r.Load.Rate > 0 {
		exchanged = fmt.Sprintf("ext_proc decisions at %g/s", r.Load.Rate)
	}
	switch r.Load.Mode {
	case Edges:
		exchanged = "ext_proc exchange in edges"
	case Full:
		exchanged = fmt.Sprintf("ext_proc exchange in full, %d chunks", r.Load.Chunks)
	}
	return fmt.Sprintf("%s, %d characters: %s", exchanged, chars, what)
}

// line judges one figure. One that could not be measured is over its budget.
func (r *Report) line(chars int, what string, value float64, figure string) Line {
	l := Line{Name: r.name(chars, what), Figure: figure, Budget: "-", Verdict: Reported, Value: value}
	measured := !math.IsNaN(value) && !math.IsInf(value, 0)
	if !measured {
		l.Figure, l.Value = "not measured", 0
	}
	for _, b := range budgets() {
		if b.mode != r.Load.Mode || b.rate != r.Load.Rate || b.chars != 0 && b.chars != chars || b.what != what || b.mode == Full && r.Load.Chunks < budgetChunks {
			continue
		}
		l.Limit, l.Budget = b.limit, "<= "+number(b.limit)
		switch what {
		case cpuRatio:
			l.Budget = fmt.Sprintf("<= %.1fx no-op", b.limit)
		case cpuTime:
			l.Budget += " us"
		case memory:
			l.Budget += " MB"
		}
		l.Verdict = Over
		if measured && value <= b.limit {
			l.Verdict = OK
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
