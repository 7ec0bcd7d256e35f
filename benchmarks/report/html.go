package report

import (
	_ "embed"
	"fmt"
	"html"
	"io"
	"math"
	"strings"

	"github.com/fairlead/fairlead/benchmarks/bench"
	"github.com/fairlead/fairlead/benchmarks/compare"
)

//go:embed page.css
var style string

// HTML writes the comparison as one page, which needs no network and follows the reader's light or dark theme.
func HTML(w io.Writer, r *compare.Report) error {
	p := begin("Fairlead bench: " + strings.Join(r.Policies, ", "))
	p.f(`<p class="lead">%d seeds from %d on identical requests; differences are to <b>%s</b>, with 95 %% intervals. A difference of less than %.1f %% does not matter.</p>`,
		r.Seeds, r.Seed, html.EscapeString(r.Policies[0]), r.Least*100)
	p.summary(r)
	for i := range r.Cells {
		p.cell(r, &r.Cells[i])
	}
	return p.end(w)
}

// page collects HTML.
type page struct{ strings.Builder }

func begin(title string) *page {
	p := &page{}
	p.f(`<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark"><title>%s</title><style>%s</style></head><body><main><h1>%s</h1>`,
		html.EscapeString(title), style, html.EscapeString(title))
	return p
}

func (p *page) f(format string, args ...any) { fmt.Fprintf(&p.Builder, format, args...) }

func (p *page) end(w io.Writer) error {
	p.f("</main></body></html>\n")
	_, err := io.WriteString(w, p.String())
	return err
}

// class of a verdict, which colours it.
func class(v compare.Verdict) string {
	if v == "" {
		return "reference"
	}
	return string(v)
}

func orReference(v compare.Verdict) string {
	if v == "" {
		return "reference"
	}
	return string(v)
}

func (p *page) summary(r *compare.Report) {
	if len(r.Policies) < 2 {
		return
	}
	p.f(`<h2>Verdicts</h2><table><tr><th>scenario</th>`)
	for _, name := range r.Policies[1:] {
		p.f(`<th>%s</th>`, html.EscapeString(name))
	}
	p.f(`</tr>`)
	for i := range r.Cells {
		c := &r.Cells[i]
		p.f(`<tr><td><a href="#%s">%s</a></td>`, html.EscapeString(c.Scenario), html.EscapeString(c.Scenario))
		for k := 1; k < len(c.Arms); k++ {
			a := &c.Arms[k]
			detail := ""
			if d := decisive(a); d != nil && d.Relative != nil && a.Verdict != compare.Saturated {
				detail = " " + d.Metric + " " + change(d.Relative)
			}
			p.f(`<td title="%s"><span class="verdict %s">%s</span>%s</td>`, html.EscapeString(a.Why), class(a.Verdict), html.EscapeString(string(a.Verdict)), html.EscapeString(detail))
		}
		p.f(`</tr>`)
	}
	p.f(`</table>`)
}

// decisive is the difference by which the verdict was made: that of goodput, or that of p99 TTFT where goodput is equal and the
// verdict is not. It is nil without differences.
func decisive(a *compare.Arm) *compare.Difference {
	if len(a.Differences) == 0 {
		return nil
	}
	if a.Differences[0].Verdict == compare.Equal && a.Verdict != compare.Equal {
		for i := range a.Differences {
			if a.Differences[i].Metric == "TTFT p99" {
				return &a.Differences[i]
			}
		}
	}
	return &a.Differences[0]
}

func (p *page) cell(r *compare.Report, c *compare.Cell) {
	p.f(`<section id="%s"><h2>%s</h2><p>%s. %s.</p>`, html.EscapeString(c.Scenario), html.EscapeString(c.Scenario), html.EscapeString(c.Title), html.EscapeString(conditions(r, c)))
	if c.Shows != "" {
		p.f(`<p class="note">%s</p>`, html.EscapeString(c.Shows))
	}
	if c.Needs != "" {
		p.f(`<p class="note">Needs: %s</p>`, html.EscapeString(c.Needs))
	}
	p.f(`<div class="plots">`)
	p.bars("Goodput, share of what was offered", c, 1, func(f *bench.Figures) bench.Number { return f.Goodput }, percent)
	p.spreads("Time to first token: p50, p90, p99", c, func(f *bench.Figures) bench.Spread { return f.TTFT })
	p.spreads("Mean time between tokens: p50, p90, p99", c, func(f *bench.Figures) bench.Spread { return f.ITL })
	p.bars("Prompt tokens found in the cache", c, 1, func(f *bench.Figures) bench.Number { return f.HitRate }, percent)
	p.f(`</div><div class="wide"><table><tr>`)
	for i, h := range header() {
		p.f(`<th>%s</th>`, html.EscapeString(h))
		if i == 0 {
			p.f(`<th>verdict</th><th>capacity</th>`)
		}
	}
	p.f(`</tr>`)
	for k := range c.Arms {
		p.f(`<tr>`)
		a := &c.Arms[k]
		for i, cell := range row(a) {
			p.f(`<td>%s</td>`, html.EscapeString(cell))
			if i == 0 {
				p.f(`<td title="%s"><span class="verdict %s">%s</span></td><td>%s</td>`, html.EscapeString(verdict(a)), class(a.Verdict), html.EscapeString(orReference(a.Verdict)), html.EscapeString(capacity(a)))
			}
		}
		p.f(`</tr>`)
	}
	p.f(`</table></div>`)
	for _, list := range groups(c) {
		p.f(`<div class="wide"><table><tr><th>%s</th>`, list.what)
		for _, h := range groupHeader {
			p.f(`<th>%s</th>`, html.EscapeString(h))
		}
		p.f(`</tr>`)
		for _, row := range list.rows {
			p.f(`<tr>`)
			for _, cell := range row {
				p.f(`<td>%s</td>`, html.EscapeString(cell))
			}
			p.f(`</tr>`)
		}
		p.f(`</table></div>`)
	}
	for k := 1; k < len(c.Arms); k++ {
		p.differences(c, k)
	}
	p.f(`</section>`)
}

func (p *page) differences(c *compare.Cell, k int) {
	a := &c.Arms[k]
	p.f(`<details%s><summary>%s against %s, every metric</summary><div class="wide"><table><tr><th>metric</th><th>%s</th><th>%s</th><th>difference [95 %% interval]</th><th>by resampling</th><th>wins</th><th>verdict</th></tr>`,
		map[bool]string{true: " open", false: ""}[len(c.Arms) == 2], html.EscapeString(a.Policy), html.EscapeString(c.Arms[0].Policy), html.EscapeString(c.Arms[0].Policy), html.EscapeString(a.Policy))
	for _, d := range a.Differences {
		p.f(`<tr><td>%s</td>`, html.EscapeString(d.Metric))
		if d.Verdict == compare.Saturated {
			p.f(`<td colspan="5">no ratio: past saturation, a latency measures how long the run was</td>`)
		} else {
			p.f(`<td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td>`, html.EscapeString(value(d.A, d.Unit)), html.EscapeString(value(d.B, d.Unit)), html.EscapeString(change(d.Relative)), html.EscapeString(change(d.Resampled)), html.EscapeString(wins(d.WinRate)))
		}
		p.f(`<td><span class="verdict %s">%s</span></td></tr>`, class(d.Verdict), html.EscapeString(string(d.Verdict)))
	}
	p.f(`</table></div></details>`)
}

// The plots: labels at the left, a bar or a row of marks per policy, its value at the right. Units are those of the viewBox.
const (
	plotWidth = 520.0
	labelEnd  = 130.0
	barsEnd   = 430.0
	rowHeight = 26.0
	plotTop   = 8.0
)

func (p *page) plot(title string, rows int, axis float64) {
	height := plotTop + rowHeight*float64(rows) + axis
	p.f(`<figure><figcaption>%s</figcaption><svg viewBox="0 0 %.0f %.0f" role="img" aria-label="%s">`, html.EscapeString(title), plotWidth, height, html.EscapeString(title))
}

func label(name string) string {
	if r := []rune(name); len(r) > 19 {
		return "…" + string(r[len(r)-18:])
	}
	return name
}

// bars draws means with their intervals over the seeds.
func (p *page) bars(title string, c *compare.Cell, most float64, of func(*bench.Figures) bench.Number, show func(bench.Number) string) {
	p.plot(title, len(c.Arms), 0)
	for k := range c.Arms {
		var v []float64
		for _, f := range c.Arms[k].Runs {
			if n := of(f); n.Known() {
				v = append(v, float64(n))
			}
		}
		y := plotTop + rowHeight*float64(k)
		p.f(`<text x="%.0f" y="%.1f" class="name">%s</text>`, labelEnd-8, y+13, html.EscapeString(label(c.Arms[k].Policy)))
		p.f(`<rect x="%.1f" y="%.1f" width="%.1f" height="16" class="track"/>`, labelEnd, y, barsEnd-labelEnd)
		if len(v) > 0 {
			at := func(x float64) float64 { return labelEnd + (barsEnd-labelEnd)*min(max(x/most, 0), 1) }
			i := compare.MeanInterval(v, 0.95)
			p.f(`<rect x="%.1f" y="%.1f" width="%.1f" height="16" class="bar c%d"/>`, labelEnd, y, at(i.Mean)-labelEnd, k%6)
			if len(v) > 1 && i.High > i.Low {
				p.f(`<path d="M%.1f %.1fH%.1fM%.1f %.1fv8M%.1f %.1fv8" class="whisker"/>`, at(i.Low), y+8, at(i.High), at(i.Low), y+4, at(i.High), y+4)
			}
		}
		p.f(`<text x="%.0f" y="%.1f" class="value">%s</text>`, barsEnd+8, y+13, html.EscapeString(show(mean(&c.Arms[k], of))))
	}
	p.f(`</svg></figure>`)
}

// spreads draws p50, p90 and p99 on a logarithmic axis of seconds.
func (p *page) spreads(title string, c *compare.Cell, of func(*bench.Figures) bench.Spread) {
	low, high := math.Inf(1), math.Inf(-1)
	rows := make([][3]bench.Number, len(c.Arms))
	for k := range c.Arms {
		a := &c.Arms[k]
		rows[k] = [3]bench.Number{
			mean(a, func(f *bench.Figures) bench.Number { return of(f).P50 }),
			mean(a, func(f *bench.Figures) bench.Number { return of(f).P90 }),
			mean(a, func(f *bench.Figures) bench.Number { return of(f).P99 }),
		}
		for _, n := range rows[k] {
			if n.Known() && n > 0 && !a.Saturated {
				low, high = min(low, float64(n)), max(high, float64(n))
			}
		}
	}
	p.plot(title, len(c.Arms), 18)
	defer p.f(`</svg></figure>`)
	from, to := math.Floor(math.Log10(low)*2)/2, math.Ceil(math.Log10(high)*2)/2
	if !(to > from) {
		to = from + 0.5
	}
	at := func(x float64) float64 { return labelEnd + (barsEnd-labelEnd)*(math.Log10(x)-from)/(to-from) }
	bottom := plotTop + rowHeight*float64(len(c.Arms))
	if !math.IsInf(low, 1) {
		for e := math.Ceil(from); e <= to; e++ {
			x := at(math.Pow(10, e))
			p.f(`<path d="M%.1f %.1fV%.1f" class="grid"/><text x="%.1f" y="%.1f" class="tick">%s</text>`, x, plotTop-4, bottom, x, bottom+12, duration(bench.Number(math.Pow(10, e))))
		}
	}
	for k := range c.Arms {
		y := plotTop + rowHeight*float64(k)
		p.f(`<text x="%.0f" y="%.1f" class="name">%s</text>`, labelEnd-8, y+13, html.EscapeString(label(c.Arms[k].Policy)))
		v := rows[k]
		switch {
		case c.Arms[k].Saturated:
			p.f(`<text x="%.1f" y="%.1f" class="muted">past saturation</text>`, labelEnd+6, y+13)
			continue
		case !v[0].Known() || v[0] <= 0:
			continue
		}
		p.f(`<path d="M%.1f %.1fH%.1f" class="range s%d"/>`, at(float64(v[0])), y+8, at(float64(v[2])), k%6)
		for i, n := range v {
			p.f(`<circle cx="%.1f" cy="%.1f" r="%d" class="bar c%d"/>`, at(float64(n)), y+8, 5-i, k%6)
		}
		p.f(`<text x="%.0f" y="%.1f" class="value">%s</text>`, barsEnd+8, y+13, duration(v[2]))
	}
}
