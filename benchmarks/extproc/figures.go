package extproc

import (
	"encoding/json"
	"math"
	"slices"
	"time"
)

// Figures are the numbers of a run, or medians of several. A figure that was not measured is NaN, and absent in JSON.
type Figures struct {
	CPUMicros, Allocs, Bytes, P50Millis, P99Millis, PerSecond, RSSMegabytes float64
}

// figure names one of Figures and says where it is.
type figure struct {
	name string // in tables and JSON
	of   func(*Figures) *float64
}

// figures lists all of them in the order of tables.
func figures() []figure {
	return []figure{
		{"cpu_us", func(f *Figures) *float64 { return &f.CPUMicros }},
		{"allocs", func(f *Figures) *float64 { return &f.Allocs }},
		{"bytes", func(f *Figures) *float64 { return &f.Bytes }},
		{"p50_ms", func(f *Figures) *float64 { return &f.P50Millis }},
		{"p99_ms", func(f *Figures) *float64 { return &f.P99Millis }},
		{"per_second", func(f *Figures) *float64 { return &f.PerSecond }},
		{"rss_mb", func(f *Figures) *float64 { return &f.RSSMegabytes }},
	}
}

// figuresOf are the figures of one run.
func figuresOf(r *Result, c Cost) Figures {
	f := Figures{
		CPUMicros: math.NaN(), Allocs: math.NaN(), Bytes: math.NaN(), RSSMegabytes: math.NaN(),
		P50Millis: millis(r.P50), P99Millis: millis(r.P99), PerSecond: r.PerSecond,
	}
	if c.CPU != nil {
		f.CPUMicros = float64(*c.CPU) / float64(time.Microsecond)
	}
	if c.Allocs != nil {
		f.Allocs, f.Bytes = *c.Allocs, *c.Bytes
	}
	if c.RSS != nil {
		f.RSSMegabytes = float64(*c.RSS) / 1e6
	}
	return f
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// over returns each figure of f as a multiple of floor's.
func (f Figures) over(floor Figures) Figures {
	var out Figures
	for _, g := range figures() {
		*g.of(&out) = *g.of(&f) / *g.of(&floor)
	}
	return out
}

// medians returns the median of each figure over the runs; NaN where any run lacks it or there are none.
func medians(runs []Figures) Figures {
	var out Figures
	for _, g := range figures() {
		values := make([]float64, len(runs))
		for i := range runs {
			values[i] = *g.of(&runs[i])
		}
		*g.of(&out) = median(values)
	}
	return out
}

func median(values []float64) float64 {
	if len(values) == 0 || slices.ContainsFunc(values, math.IsNaN) {
		return math.NaN()
	}
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

// MarshalJSON writes the figures that were measured, rounded to a thousandth.
func (f Figures) MarshalJSON() ([]byte, error) {
	out := map[string]float64{}
	for _, g := range figures() {
		if v := *g.of(&f); !math.IsNaN(v) && !math.IsInf(v, 0) {
			out[g.name] = math.Round(v*1000) / 1000
		}
	}
	return json.Marshal(out)
}
