package report

import (
	"encoding/csv"
	"fmt"
	"html"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/fairlead/fairlead/benchmarks/bench"
	"github.com/fairlead/fairlead/benchmarks/compare"
)

func goodput(f *bench.Figures) bench.Number { return f.Goodput }

// SweepText writes a sweep for a terminal: a grid of one metric, and where goodput is best. Latencies past saturation are left
// out.
func SweepText(w io.Writer, s *compare.Sweep, m compare.Metric) error {
	best := s.Best()
	what := m.Name
	if m.Name == compare.Primary {
		what += " of what was offered"
	}
	fmt.Fprintf(w, "%s under %s, %d seeds: %s; * is the best by goodput, ! past saturation\n", s.Scenario, s.Policy, s.Seeds, what)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	last := s.Axes[len(s.Axes)-1]
	if len(s.Axes) == 2 {
		fmt.Fprintf(t, "%s \\ %s\t", s.Axes[0].Name, last.Name)
	} else {
		fmt.Fprintf(t, "%s\t", last.Name)
	}
	for _, v := range last.Values {
		fmt.Fprintf(t, "%.5g\t", v)
	}
	for i := range s.Points {
		if i%len(last.Values) == 0 {
			head := ""
			if len(s.Axes) == 2 {
				head = fmt.Sprintf("%.5g", s.Points[i].At[0])
			}
			fmt.Fprintf(t, "\n%s\t", head)
		}
		mark := ""
		if s.Points[i].Arm.Saturated {
			mark = "!"
		}
		if i == best {
			mark += "*"
		}
		v := mean(&s.Points[i].Arm, m.Of)
		if m.Latency && s.Points[i].Arm.Saturated {
			v = bench.Unknown
		}
		fmt.Fprintf(t, "%s%s\t", mark, value(v, m.Unit))
	}
	fmt.Fprintln(t)
	return t.Flush()
}

// SweepCSV writes a line for each point, seed and metric.
func SweepCSV(w io.Writer, s *compare.Sweep) error {
	out := csv.NewWriter(w)
	head := []string{"scenario", "policy"}
	for _, a := range s.Axes {
		head = append(head, a.Name)
	}
	if err := out.Write(append(head, "seed", "metric", "unit", "value")); err != nil {
		return err
	}
	for i := range s.Points {
		for k, f := range s.Points[i].Arm.Runs {
			line := []string{s.Scenario, s.Policy}
			for _, v := range s.Points[i].At {
				line = append(line, strconv.FormatFloat(v, 'g', -1, 64))
			}
			for _, m := range compare.Metrics() {
				v := ""
				if n := m.Of(f); n.Known() {
					v = strconv.FormatFloat(float64(n), 'g', 9, 64)
				}
				if err := out.Write(append(line[:len(line):len(line)], strconv.Itoa(k), m.Name, m.Unit, v)); err != nil {
					return err
				}
			}
		}
	}
	out.Flush()
	return out.Error()
}

// SweepHTML writes a sweep as a page with a heat map for each of the main figures.
func SweepHTML(w io.Writer, s *compare.Sweep) error {
	p := begin("Fairlead sweep: " + s.Scenario + ", " + s.Policy)
	p.f(`<p class="lead">%d seeds at every point. A cell past saturation is hatched, and its latencies are left out.</p><div class="plots">`, s.Seeds)
	for _, c := range columns {
		switch name := strings.TrimSpace(c.name); {
		case name == "goodput", name == "hit rate":
			p.heat(name, s, c.of, c.unit, true, false)
		case c.name == "TTFT p50" || c.name == "p99":
			p.heat(map[string]string{"p99": "TTFT p99"}[c.name]+map[string]string{"TTFT p50": "TTFT p50"}[c.name], s, c.of, c.unit, false, true)
		case c.name == "p99 ":
			p.heat("ITL p99", s, c.of, c.unit, false, true)
		}
	}
	p.f(`</div>`)
	return p.end(w)
}

// heat draws a grid: the better a value among those of the grid, the stronger its colour.
func (p *page) heat(title string, s *compare.Sweep, of func(*bench.Figures) bench.Number, unit string, more, latency bool) {
	across := s.Axes[len(s.Axes)-1].Values
	down := []float64{math.NaN()}
	if len(s.Axes) == 2 {
		down = s.Axes[0].Values
	}
	v := make([]bench.Number, len(s.Points))
	low, high := math.Inf(1), math.Inf(-1)
	for i := range s.Points {
		v[i] = mean(&s.Points[i].Arm, of)
		if latency && s.Points[i].Arm.Saturated {
			v[i] = bench.Unknown
		}
		if v[i].Known() {
			low, high = min(low, float64(v[i])), max(high, float64(v[i]))
		}
	}
	const left, top, tall = 70.0, 22.0, 30.0
	wide := (plotWidth - left) / float64(len(across))
	p.plot(title, 0, top+tall*float64(len(down))+18)
	p.f(`<defs><pattern id="hatch" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path d="M0 0V6" stroke="var(--muted)"/></pattern></defs>`)
	for c, x := range across {
		p.f(`<text x="%.1f" y="14" class="tick">%.5g</text>`, left+wide*(float64(c)+0.5), x)
	}
	for r, y := range down {
		at := top + tall*float64(r)
		if !math.IsNaN(y) {
			p.f(`<text x="%.1f" y="%.1f" class="name">%.5g</text>`, left-8, at+tall/2+4, y)
		}
		for c := range across {
			i := r*len(across) + c
			x := left + wide*float64(c)
			fill, opacity := "var(--track)", 1.0
			if v[i].Known() {
				strength := 1.0
				if high > low {
					strength = (float64(v[i]) - low) / (high - low)
					if !more {
						strength = 1 - strength
					}
				}
				fill, opacity = "var(--c3)", 0.08+0.62*strength
			}
			p.f(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s" fill-opacity="%.2f"/>`, x+1, at+1, wide-2, tall-2, fill, opacity)
			if s.Points[i].Arm.Saturated {
				p.f(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="url(#hatch)" fill-opacity="0.35"/>`, x+1, at+1, wide-2, tall-2)
			}
			p.f(`<text x="%.1f" y="%.1f" class="cell">%s</text>`, x+wide/2, at+tall/2+4, html.EscapeString(value(v[i], unit)))
		}
	}
	label := s.Axes[len(s.Axes)-1].Name
	if len(s.Axes) == 2 {
		label += " across, " + s.Axes[0].Name + " down"
	}
	p.f(`<text x="%.1f" y="%.1f" class="tick">%s</text></svg></figure>`, left+(plotWidth-left)/2, top+tall*float64(len(down))+14, html.EscapeString(label))
}

// LayoutsText writes the layouts of a set, and which of them is best.
func LayoutsText(w io.Writer, all []compare.Layout, best string) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "layout\tgoodput\tTTFT p50\tp99\tITL p50\tp99\tone model up to\tpolicy\t")
	for i := range all {
		l := &all[i]
		if l.Refused != "" {
			fmt.Fprintf(t, "%s\tdoes not fit\t\t\t\t\t\t\t\n", l.Scenario)
			continue
		}
		a := l.Arm
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", l.Scenario, percent(mean(a, goodput)),
			duration(mean(a, func(f *bench.Figures) bench.Number { return f.TTFT.P50 })), duration(mean(a, func(f *bench.Figures) bench.Number { return f.TTFT.P99 })),
			duration(mean(a, func(f *bench.Figures) bench.Number { return f.ITL.P50 })), duration(mean(a, func(f *bench.Figures) bench.Number { return f.ITL.P99 })),
			figure(a.CapacityRate)+"/s", l.Policy)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for i := range all {
		if all[i].Refused != "" {
			fmt.Fprintf(w, "refused: %s\n", all[i].Refused)
		}
		if all[i].Estimated != "" {
			fmt.Fprintf(w, "%s: %s\n", all[i].Scenario, all[i].Estimated)
		}
		if all[i].Copies > 1 {
			fmt.Fprintf(w, "%s: %d models side by side, %s/s in all\n", all[i].Scenario, all[i].Copies, figure(all[i].Total))
		}
	}
	if best != "" {
		fmt.Fprintf(w, "recommended: %s\n", best)
	}
	return nil
}
