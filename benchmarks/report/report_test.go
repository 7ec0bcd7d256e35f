package report_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/benchmarks/bench"
	"github.com/fairlead/fairlead/benchmarks/compare"
	"github.com/fairlead/fairlead/benchmarks/policy"
	"github.com/fairlead/fairlead/benchmarks/report"
	"github.com/fairlead/fairlead/simulator/scenarios"
)

func setup(t *testing.T, text string) *bench.Setup {
	t.Helper()
	s, err := scenarios.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	b, err := bench.Prepare(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func named(t *testing.T, name string) policy.Policy {
	t.Helper()
	p, err := policy.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// With a capacity of two, twenty users wait: percentiles, and what of them is waiting, are always printed.
func TestZ14MeanHidesQueueing(t *testing.T) {
	queued := map[int]bench.Number{}
	for _, users := range []int{1, 2, 20} {
		s := setup(t, fmt.Sprintf(`name: two at a time
fleet: [{pods: 1, hardware: h100-sxm, model: llama-3.1-8b, maxSeqs: 2}]
workload:
  requests: 200
  arrivals: {type: closed, users: %d}
  independent: {input: 500, output: 50}
`, users))
		r, err := s.Run(named(t, "round-robin"), 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		f := s.Figures(r)
		var out bytes.Buffer
		if err := report.Run(&out, "x", f); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"p50", "p99", "of it queue", "of it prefill"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("no %q in\n%s", want, out.String())
			}
		}
		queued[users] = f.Queue.P50
	}
	if queued[1] > 0.01 || queued[2] > 0.02 || queued[20] < 2 {
		t.Errorf("median queueing %v; want none with one and two users, and seconds with twenty", queued)
	}
}

const small = `name: small & <b>
title: A small one
shows: Something.
fleet: [{pods: 4, hardware: h100-sxm, model: llama-3.1-8b}]
targets: {ttft: 300ms, itl: 50ms}
workload:
  requests: 200
  arrivals: {type: poisson, rate: RATE}
  sharedPrefix: {groups: 20, system: 2000, question: 200, output: 50}
`

func compared(t *testing.T, rate string) *compare.Report {
	t.Helper()
	r, err := compare.Run(context.Background(), compare.Plan{
		Scenarios: []*bench.Setup{setup(t, strings.Replace(small, "RATE", rate, 1))},
		Policies:  []policy.Policy{named(t, "round-robin"), named(t, policy.Default)}, Seeds: 3, Seed: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Every format of a comparison, of one in order and of one past saturation: whole, and without anything from elsewhere.
func TestFormats(t *testing.T) {
	for _, rate := range []string{"40", "900"} {
		r := compared(t, rate)
		var text, html, md, csv, js bytes.Buffer
		for _, err := range []error{report.Text(&text, r), report.HTML(&html, r), report.Markdown(&md, r), report.CSV(&csv, r), report.JSON(&js, r)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		page := html.String()
		if strings.Contains(page, "http://") || strings.Contains(page, "https://") || strings.Contains(page, "<script") || strings.Contains(page, "<b>\"") || strings.Contains(page, "NaN") {
			t.Error("the page needs something from elsewhere, or holds what was not escaped, or a figure that is none")
		}
		for _, want := range []string{"prefers-color-scheme: dark", "small &amp; &lt;b&gt;", "<svg", "</html>"} {
			if !strings.Contains(page, want) {
				t.Errorf("no %q in the page", want)
			}
		}
		for _, tag := range []string{"table", "svg", "figure", "section", "details", "div", "tr", "text"} {
			if a, b := strings.Count(page, "<"+tag+" ")+strings.Count(page, "<"+tag+">"), strings.Count(page, "</"+tag+">"); a != b {
				t.Errorf("%d <%s>, %d closed", a, tag, b)
			}
		}
		if n := strings.Count(csv.String(), "\n"); n != 1+2*3*len(compare.Metrics()) {
			t.Errorf("%d lines of CSV", n)
		}
		var back compare.Report
		if err := json.Unmarshal(js.Bytes(), &back); err != nil || back.Whole() != nil {
			t.Errorf("%v, %v", err, back.Whole())
		}
		saturated := rate == "900"
		if got := strings.Contains(text.String(), "no ratio: past saturation"); got != saturated {
			t.Errorf("at %s/s ratios are refused: %v\n%s", rate, got, text.String())
		}
		if got := strings.Contains(md.String(), "| saturated |"); got != saturated {
			t.Errorf("at %s/s Markdown says saturated: %v", rate, got)
		}
	}
}

// The JSON of inference-perf, of nothing at all: whole, and null where nothing was measured.
func TestLifecycleOfNothing(t *testing.T) {
	text, err := json.Marshal(report.LifecycleOf(nil, scenarios.Targets{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"load_summary"`, `"time_to_first_token":null`, `"requested_rate":null`, `"goodput_percentage":null`, `"by_label":{}`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
}

func TestHeatMaps(t *testing.T) {
	s, err := compare.RunSweep(context.Background(), setup(t, strings.Replace(small, "RATE", "40", 1)), named(t, policy.Classic),
		[]compare.Axis{{Name: "prefix-cache-scorer", Values: []float64{0, 3}}, {Name: "rate", Values: []float64{1, 20}}}, 1, 1, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	var html, text bytes.Buffer
	if err := report.SweepHTML(&html, s); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{compare.Primary, "TTFT p99"} {
		m, err := compare.MetricNamed(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := report.SweepText(&text, s, m); err != nil {
			t.Fatal(err)
		}
	}
	if out := text.String(); !strings.Contains(out, " %") || !strings.Contains(out, "!-") || !strings.Contains(out, " ms") {
		t.Errorf("want goodput in %%, and TTFT where it means something, in\n%s", out)
	}
	if n := strings.Count(html.String(), "<figure>"); n != 5 {
		t.Errorf("%d heat maps, want goodput, hit rate, TTFT p50 and p99, ITL p99", n)
	}
	if !strings.Contains(html.String(), `fill="url(#hatch)"`) || strings.Contains(html.String(), "NaN") {
		t.Error("what is saturated is not hatched, or a figure is none")
	}
	if !strings.Contains(text.String(), "*") || !strings.Contains(text.String(), "!") {
		t.Errorf("neither the best nor what is saturated is marked in\n%s", text.String())
	}
}

// Who was refused, by class and by tenant, stands in every report.
func TestClassesAndTenants(t *testing.T) {
	r, err := compare.Run(context.Background(), compare.Plan{
		Scenarios: []*bench.Setup{setup(t, `name: classes
fleet: [{pods: 1, hardware: h100-sxm, model: llama-3.1-8b, maxSeqs: 2, maxWaiting: 3}]
targets: {ttft: 1s}
workload:
  requests: 300
  arrivals: {type: poisson, rate: 20}
  streams:
  - {name: gold, share: 0.3, priority: 10, independent: {input: 500, output: 50}}
  - {name: bronze, share: 0.7, tenants: 3, independent: {input: 500, output: 50}, aborts: {share: 0.2, after: 0.5}}
`)},
		Policies: []policy.Policy{named(t, "round-robin"), named(t, "random")}, Seeds: 2, Seed: 1, NoCapacities: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	f := r.Cells[0].Arms[0].Runs[0]
	gold, bronze := f.Classes[0], f.Classes[1]
	if gold.Failed == 0 || gold.Failed != gold.Reasons["engine_queue_full"] || gold.Aborted != 0 || bronze.Aborted == 0 || gold.Tokens == 0 {
		t.Errorf("gold %+v\nbronze %+v", gold, bronze)
	}
	tokens := int64(0)
	for _, tenant := range f.Tenants {
		tokens += tenant.Tokens
	}
	if len(f.Tenants) != 4 || tokens != gold.Tokens+bronze.Tokens {
		t.Errorf("%d tenants were served %d tokens, the classes %d", len(f.Tenants), tokens, gold.Tokens+bronze.Tokens)
	}
	for name, write := range map[string]func(*bytes.Buffer) error{
		"text":     func(w *bytes.Buffer) error { return report.Text(w, r) },
		"markdown": func(w *bytes.Buffer) error { return report.Markdown(w, r) },
		"html":     func(w *bytes.Buffer) error { return report.HTML(w, r) },
		"run":      func(w *bytes.Buffer) error { return report.Run(w, "x", f) },
	} {
		var out bytes.Buffer
		if err := write(&out); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"gold", "bronze", "tenant-3", "engine_queue_full", "served tokens"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: no %q in\n%s", name, want, out.String())
			}
		}
	}
}

// The summary shows the difference by which a verdict was made: that of p99 TTFT where goodput is equal.
func TestTheSummaryShowsWhatDecided(t *testing.T) {
	interval := func(mean float64) *compare.Interval { return &compare.Interval{Mean: mean, Low: mean, High: mean} }
	r := compared(t, "40")
	arm := &r.Cells[0].Arms[1]
	for _, tt := range []struct {
		goodput, all compare.Verdict
		want         string
	}{
		{compare.Equal, compare.Better, `better</span> TTFT p99 -25.0 %`},
		{compare.Equal, compare.Equal, `equal</span> goodput +0.5 %`},
		{compare.Better, compare.Better, `better</span> goodput +0.5 %`},
	} {
		var page bytes.Buffer
		arm.Verdict = tt.all
		arm.Differences = []compare.Difference{
			{Metric: "goodput", Relative: interval(0.005), Verdict: tt.goodput}, {Metric: "TTFT p99", Relative: interval(-0.25), Verdict: compare.Better},
		}
		if err := report.HTML(&page, r); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(page.String(), tt.want) {
			t.Errorf("goodput %s, in all %s: no %q", tt.goodput, tt.all, tt.want)
		}
	}
}
