package compare

import (
	"fmt"
	"strings"

	"github.com/fairlead/fairlead/benchmarks/bench"
)

// Metric is one figure by which runs are compared.
type Metric struct {
	Name, Unit string
	More       bool // more is better
	Latency    bool // it means nothing in a saturated run
	Of         func(*bench.Figures) bench.Number
}

// Primary is the metric whose verdict is the comparison's.
const Primary = "goodput"

// Metrics returns what is compared, the primary one first.
func Metrics() []Metric {
	return []Metric{
		{"goodput", "share", true, false, func(f *bench.Figures) bench.Number { return f.Goodput }},
		{"TTFT mean", "s", false, true, func(f *bench.Figures) bench.Number { return f.TTFT.Mean }},
		{"TTFT p50", "s", false, true, func(f *bench.Figures) bench.Number { return f.TTFT.P50 }},
		{"TTFT p90", "s", false, true, func(f *bench.Figures) bench.Number { return f.TTFT.P90 }},
		{"TTFT p99", "s", false, true, func(f *bench.Figures) bench.Number { return f.TTFT.P99 }},
		{"ITL mean", "s", false, true, func(f *bench.Figures) bench.Number { return f.ITL.Mean }},
		{"ITL p99", "s", false, true, func(f *bench.Figures) bench.Number { return f.ITL.P99 }},
		{"longest gap p99", "s", false, true, func(f *bench.Figures) bench.Number { return f.Gap.P99 }},
		{"E2E p50", "s", false, true, func(f *bench.Figures) bench.Number { return f.E2E.P50 }},
		{"queue p99", "s", false, true, func(f *bench.Figures) bench.Number { return f.Queue.P99 }},
		{"prefill p99", "s", false, true, func(f *bench.Figures) bench.Number { return f.Prefill.P99 }},
		{"output", "tokens/s", true, false, func(f *bench.Figures) bench.Number { return f.OutputRate }},
		{"hit rate", "share", true, false, func(f *bench.Figures) bench.Number { return f.HitRate }},
		{"imbalance", "x", false, false, func(f *bench.Figures) bench.Number { return f.Imbalance }},
		{"Jain index", "", true, false, func(f *bench.Figures) bench.Number { return f.Jain }},
		{"preemptions", "", false, false, func(f *bench.Figures) bench.Number { return bench.Number(f.Preemptions) }},
		{"refused", "requests", false, false, func(f *bench.Figures) bench.Number { return bench.Number(f.Refused) }},
	}
}

// MetricNamed returns the metric of this name. The error says what names there are.
func MetricNamed(name string) (Metric, error) {
	var names []string
	for _, m := range Metrics() {
		if m.Name == name {
			return m, nil
		}
		names = append(names, m.Name)
	}
	return Metric{}, fmt.Errorf("metric %q: there is none of this name; there are %s", name, strings.Join(names, ", "))
}
