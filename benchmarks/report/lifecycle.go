package report

import (
	"math"
	"slices"
	"time"

	"github.com/fairlead/fairlead/benchmarks/bench"
	"github.com/fairlead/fairlead/simulator/fleet"
	"github.com/fairlead/fairlead/simulator/scenarios"
)

// Lifecycle is the report of a run as inference-perf writes it (summary_lifecycle_metrics.json), for the tools that read
// that. Durations are seconds. What could not be measured is null.
type Lifecycle struct {
	LoadSummary struct {
		Count         int          `json:"count"`
		ScheduleDelay *Statistics  `json:"schedule_delay"`
		SendDuration  bench.Number `json:"send_duration"`
		RequestedRate bench.Number `json:"requested_rate"`
		AchievedRate  bench.Number `json:"achieved_rate"`
		Invalid       string       `json:"invalid,omitempty"`
		Unfinished    int          `json:"unfinished"`
	} `json:"load_summary"`
	Successes struct {
		Count   int `json:"count"`
		Latency struct {
			RequestLatency *Statistics `json:"request_latency"`
			NTPOT          *Statistics `json:"normalized_time_per_output_token"`
			TPOT           *Statistics `json:"time_per_output_token"`
			TTFT           *Statistics `json:"time_to_first_token"`
			ITL            *Statistics `json:"inter_token_latency"`
		} `json:"latency"`
		Throughput struct {
			Input    bench.Number `json:"input_tokens_per_sec"`
			Output   bench.Number `json:"output_tokens_per_sec"`
			Total    bench.Number `json:"total_tokens_per_sec"`
			Requests bench.Number `json:"requests_per_sec"`
		} `json:"throughput"`
		PromptTokens struct {
			Total    int64 `json:"total"`
			Cached   int64 `json:"cached"`
			Uncached int64 `json:"uncached"`
		} `json:"prompt_tokens"`
		PromptLen *Statistics `json:"prompt_len"`
		OutputLen *Statistics `json:"output_len"`
	} `json:"successes"`
	Failures struct {
		Count          int                `json:"count"`
		RequestLatency *Statistics        `json:"request_latency"`
		ByLabel        map[string]Failure `json:"by_label"`
	} `json:"failures"`
	Goodput struct {
		Percentage   bench.Number `json:"goodput_percentage"` // of what was offered
		RequestRate  bench.Number `json:"request_goodput"`
		TokenRate    bench.Number `json:"token_goodput"`
		GoodRequests int          `json:"good_requests"`
		Total        int          `json:"total_requests"`
	} `json:"goodput_metrics"`
}

// Failure is how often something went wrong, with a few of the messages.
type Failure struct {
	Count    int      `json:"count"`
	Messages []string `json:"messages,omitempty"`
}

// Statistics are a distribution with the percentiles of inference-perf.
type Statistics struct {
	Mean bench.Number `json:"mean"`
	Min  bench.Number `json:"min"`
	Max  bench.Number `json:"max"`
	P01  bench.Number `json:"p0.1"`
	P1   bench.Number `json:"p1"`
	P5   bench.Number `json:"p5"`
	P10  bench.Number `json:"p10"`
	P25  bench.Number `json:"p25"`
	P50  bench.Number `json:"median"`
	P75  bench.Number `json:"p75"`
	P90  bench.Number `json:"p90"`
	P95  bench.Number `json:"p95"`
	P99  bench.Number `json:"p99"`
	P999 bench.Number `json:"p99.9"`
}

// StatisticsOf sorts values and describes them; nil of nothing.
func StatisticsOf(v []float64) *Statistics {
	if len(v) == 0 {
		return nil
	}
	slices.Sort(v)
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	q := func(p float64) bench.Number { return bench.Number(bench.Quantile(v, p)) }
	return &Statistics{
		bench.Number(sum / float64(len(v))), bench.Number(v[0]), bench.Number(v[len(v)-1]),
		q(0.001), q(0.01), q(0.05), q(0.1), q(0.25), q(0.5), q(0.75), q(0.9), q(0.95), q(0.99), q(0.999),
	}
}

// LifecycleOf describes a run. Rates are per second from the first arrival to the last end.
func LifecycleOf(outcomes []fleet.Outcome, t scenarios.Targets) *Lifecycle {
	l := &Lifecycle{}
	l.Failures.ByLabel = map[string]Failure{}
	var e2e, ntpot, tpot, ttft, itl, failed, prompts, outputs []float64
	var generated, goodTokens int64
	begin, lastArrival, end := time.Duration(math.MaxInt64), time.Duration(0), time.Duration(0)
	for i := range outcomes {
		o := &outcomes[i]
		begin, lastArrival = min(begin, time.Duration(o.Arrived)), max(lastArrival, time.Duration(o.Arrived))
		end = max(end, time.Duration(o.End))
		if o.Status != fleet.Completed {
			label := o.Reason
			if label == "" {
				label = o.Status.String()
			}
			f := l.Failures.ByLabel[label]
			f.Count++
			l.Failures.ByLabel[label] = f
			l.Failures.Count++
			if o.Status == fleet.Unfinished {
				l.LoadSummary.Unfinished++
			} else {
				failed = append(failed, time.Duration(o.End-o.Arrived).Seconds())
			}
			continue
		}
		total := time.Duration(o.End - o.Arrived).Seconds()
		e2e = append(e2e, total)
		ntpot = append(ntpot, total/float64(o.Generated))
		if first, ok := o.TTFT(); ok {
			ttft = append(ttft, first.Seconds())
		}
		if gap, ok := o.ITL(); ok {
			tpot = append(tpot, gap.Seconds())
			itl = append(itl, gap.Seconds())
		}
		prompts, outputs = append(prompts, float64(o.Prompt)), append(outputs, float64(o.Generated))
		l.Successes.PromptTokens.Total += int64(o.Prompt)
		l.Successes.PromptTokens.Cached += int64(o.Cached)
		generated += int64(o.Generated)
		if bench.Good(o, t) {
			l.Goodput.GoodRequests++
			goodTokens += int64(o.Prompt) + int64(o.Generated)
		}
	}
	l.Successes.PromptTokens.Uncached = l.Successes.PromptTokens.Total - l.Successes.PromptTokens.Cached
	l.LoadSummary.Count, l.Goodput.Total, l.Successes.Count = len(outcomes), len(outcomes), len(e2e)
	lat := &l.Successes.Latency
	lat.RequestLatency, lat.NTPOT, lat.TPOT, lat.TTFT, lat.ITL = StatisticsOf(e2e), StatisticsOf(ntpot), StatisticsOf(tpot), StatisticsOf(ttft), StatisticsOf(itl)
	l.Successes.PromptLen, l.Successes.OutputLen, l.Failures.RequestLatency = StatisticsOf(prompts), StatisticsOf(outputs), StatisticsOf(failed)
	per := func(n float64, span time.Duration) bench.Number {
		if span <= 0 || len(outcomes) == 0 {
			return bench.Unknown
		}
		return bench.Number(n / span.Seconds())
	}
	span := max(end, lastArrival) - begin
	l.LoadSummary.SendDuration = per(1, 0)
	if len(outcomes) > 0 {
		l.LoadSummary.SendDuration = bench.Number((lastArrival - begin).Seconds())
	}
	l.LoadSummary.RequestedRate = per(float64(len(outcomes)), lastArrival-begin)
	l.LoadSummary.AchievedRate = l.LoadSummary.RequestedRate
	th := &l.Successes.Throughput
	th.Input, th.Output = per(float64(l.Successes.PromptTokens.Total), span), per(float64(generated), span)
	th.Total, th.Requests = per(float64(l.Successes.PromptTokens.Total+generated), span), per(float64(len(e2e)), span)
	l.Goodput.Percentage = bench.Unknown
	if len(outcomes) > 0 {
		l.Goodput.Percentage = bench.Number(100 * float64(l.Goodput.GoodRequests) / float64(len(outcomes)))
	}
	l.Goodput.RequestRate, l.Goodput.TokenRate = per(float64(l.Goodput.GoodRequests), span), per(float64(goodTokens), span)
	return l
}

// Observed adds what a client in wall-clock time knows besides: how late it sent each request, what was said of failures, and
// why its figures are not to be used, if so.
func (l *Lifecycle) Observed(delays []float64, messages map[string][]string, invalid string) {
	var known []float64
	for _, d := range delays {
		if !math.IsNaN(d) {
			known = append(known, d)
		}
	}
	l.LoadSummary.ScheduleDelay, l.LoadSummary.Invalid = StatisticsOf(known), invalid
	for label, list := range messages {
		f := l.Failures.ByLabel[label]
		f.Messages = list
		l.Failures.ByLabel[label] = f
	}
}
