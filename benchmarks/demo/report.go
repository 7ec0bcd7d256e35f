package demo

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// row is one load with both policies on it.
type row struct {
	load                 string
	rate                 float64
	roundRobin, fairlead Result
	gatewayCPU           time.Duration // used by the gateway process in Fairlead's phase
}

// overhead is what the gateway itself says of its decisions, in wall time.
type overhead struct {
	decisions uint64
	p50, p99  time.Duration // upper bounds of the histogram's buckets
}

// readOverhead reads the histogram of decision times from the gateway's metrics page.
func readOverhead(ctx context.Context, admin string) (overhead, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, admin+"/metrics", nil)
	if err != nil {
		return overhead{}, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return overhead{}, err
	}
	defer res.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(res.Body)
	if err != nil {
		return overhead{}, fmt.Errorf("the gateway's metrics page: %w", err)
	}
	var o overhead
	for _, m := range families["fairlead_decision_duration_seconds"].GetMetric() {
		h := m.GetHistogram()
		o.decisions += h.GetSampleCount()
		quantile := func(q float64) time.Duration {
			for _, b := range h.GetBucket() {
				if float64(b.GetCumulativeCount()) >= q*float64(h.GetSampleCount()) && !math.IsInf(b.GetUpperBound(), 0) {
					return time.Duration(b.GetUpperBound() * float64(time.Second))
				}
			}
			return 0
		}
		o.p50, o.p99 = quantile(0.5), quantile(0.99)
	}
	return o, nil
}

// report prints the table and says plainly who did better where.
func report(w io.Writer, rows []row, own overhead) {
	fmt.Fprintln(w, "\nResults in engine time. TTFT is the time to the first token, hit rate the share\n"+
		"of prompt tokens found in a pod's prefix cache.")
	for _, r := range rows {
		fmt.Fprintf(w, "\n%s (%.1f sessions/s)\n", r.load, r.rate)
		fmt.Fprintf(w, "  %-12s %8s  %8s  %8s  %8s  %8s  %6s\n", "policy", "requests", "TTFT p50", "TTFT p99", "hit rate", "tokens/s", "errors")
		for _, res := range []Result{r.roundRobin, r.fairlead} {
			fmt.Fprintf(w, "  %-12s %8d  %8s  %8s  %6.0f %%  %8.0f  %6d\n", res.Policy, res.Requests,
				readable(res.Quantile(0.5)), readable(res.Quantile(0.99)), 100*res.HitRate(), res.TokensPerSecond(), res.Errors)
		}
		fmt.Fprintf(w, "  fairlead: TTFT p50 %s, p99 %s, tokens/s %s\n",
			verdict(float64(r.roundRobin.Quantile(0.5)), float64(r.fairlead.Quantile(0.5)), false),
			verdict(float64(r.roundRobin.Quantile(0.99)), float64(r.fairlead.Quantile(0.99)), false),
			verdict(r.roundRobin.TokensPerSecond(), r.fairlead.TokensPerSecond(), true))
	}
	if own.decisions > 0 {
		var cpu time.Duration
		requests := 0
		for _, r := range rows {
			cpu += r.gatewayCPU
			requests += r.fairlead.Requests
		}
		fmt.Fprintf(w, "\nFairlead's own overhead, in wall time: a decision took at most %v (p50) and\n"+
			"%v (p99), over %d decisions; the whole gateway used %v CPU\n"+
			"per request, streaming included. Round-robin went to the pods directly and paid\n"+
			"none of it.\n",
			own.p50, own.p99, own.decisions, (cpu / time.Duration(max(requests, 1))).Round(10*time.Microsecond))
	}
	for _, r := range rows {
		for _, res := range []Result{r.roundRobin, r.fairlead} {
			if res.Errors > 0 {
				fmt.Fprintf(w, "first error of %s, %s: %v\n", res.Policy, r.load, res.FirstErr)
			}
		}
	}
}

// verdict says by which factor Fairlead is better or worse; less than 3 % is no difference.
func verdict(roundRobin, fairlead float64, moreIsBetter bool) string {
	if roundRobin <= 0 || fairlead <= 0 {
		return "not measured"
	}
	gain := roundRobin / fairlead
	if moreIsBetter {
		gain = fairlead / roundRobin
	}
	switch {
	case gain > 1.03:
		return fmt.Sprintf("%.2fx better", gain)
	case gain < 1/1.03:
		return fmt.Sprintf("%.2fx WORSE", 1/gain)
	}
	return "equal"
}

// readable prints a duration with three digits or so.
func readable(d time.Duration) string {
	switch {
	case d >= 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d >= time.Second:
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
	return fmt.Sprintf("%.0f ms", float64(d)/float64(time.Millisecond))
}
