package admin

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/pool/telemetry"
	"github.com/fairlead/fairlead/pkg/reason"
)

// logAgain is how long a reason that was logged stays quiet.
const logAgain = time.Minute

// Metrics counts what happens in a process. It is the sink of reasons and the meter of exchanges; everything on it may be
// called from any goroutine and never blocks on anything outside. No label has a value that a client chooses.
type Metrics struct {
	registry *prometheus.Registry
	log      *slog.Logger

	reasons []prometheus.Counter // by reason.ID
	mu      sync.Mutex
	logged  []time.Time // by reason.ID, when last
	hushed  []int       // by reason.ID, how often since

	requests *prometheus.CounterVec
	wait     *prometheus.HistogramVec
	decision prometheus.Histogram
	ttft     *prometheus.HistogramVec
	duration *prometheus.HistogramVec
	tokens   *prometheus.CounterVec
	messages *prometheus.CounterVec
	scrapes  *prometheus.CounterVec
	scrape   prometheus.Histogram
}

var (
	_ reason.Sink    = (*Metrics)(nil)
	_ exchange.Meter = (*Metrics)(nil)
)

// fine are buckets from a microsecond, for what a decision takes; coarse ones from a millisecond, for what an engine does.
var (
	fine   = []float64{1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 5e-2, 0.1, 0.5, 1, 5, 30, 120}
	coarse = []float64{0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 60, 120, 300, 600}
)

// NewMetrics returns metrics on a registry of their own, with those of process and runtime. The first of each kind of
// reason goes to log, and further ones once a minute with their number.
func NewMetrics(log *slog.Logger) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), log: log}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "fairlead_" + name, Help: help}, labels)
		m.registry.MustRegister(v)
		return v
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "fairlead_" + name, Help: help, Buckets: buckets}, labels)
		m.registry.MustRegister(v)
		return v
	}
	reasons := counter("reasons_total", "Occurrences of a reason: refusals, fallbacks, degraded modes.", "reason")
	for _, id := range append([]reason.ID{0}, reason.All()...) {
		var c prometheus.Counter
		if id != 0 {
			c = reasons.WithLabelValues(id.String())
		}
		m.reasons = append(m.reasons, c)
	}
	m.logged, m.hushed = make([]time.Time, len(m.reasons)), make([]int, len(m.reasons))
	m.requests = counter("requests_total", "Requests that were decided; outcome is forwarded, answered or the code of the refusal.", "pool", "api", "outcome")
	m.wait = histogram("decision_wait_seconds", "From a request's headers to its decision: reading the body, holds and the queue included.", fine, "pool")
	m.decision = histogram("decision_duration_seconds", "Time spent inside the call that made a decision.", fine).WithLabelValues().(prometheus.Histogram)
	m.ttft = histogram("ttft_seconds", "From a request's headers to the headers of its answer.", coarse, "pool")
	m.duration = histogram("request_duration_seconds", "From a request's headers to the end of its answer.", coarse, "pool", "ending")
	m.tokens = counter("tokens_total", "Tokens that engines reported of answers we saw; kind is prompt, cached or completion.", "pool", "kind")
	m.messages = counter("ext_proc_messages_total", "Messages that gateways sent, by kind.", "kind")
	m.scrapes = counter("scrapes_total", "Metrics pages asked for, by outcome: ok or failed.", "outcome")
	m.scrape = histogram("scrape_duration_seconds", "Time of a metrics page.", coarse).WithLabelValues().(prometheus.Histogram)
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Note counts a reason, and logs it unless one of its kind was logged within the last minute.
func (m *Metrics) Note(id reason.ID, detail string) {
	if id == 0 || int(id) >= len(m.reasons) {
		return
	}
	m.reasons[id].Inc()
	now := time.Now()
	m.mu.Lock()
	if now.Sub(m.logged[id]) < logAgain {
		m.hushed[id]++
		m.mu.Unlock()
		return
	}
	hushed := m.hushed[id]
	m.logged[id], m.hushed[id] = now, 0
	m.mu.Unlock()
	row := id.Row()
	attributes := []any{"reason", row.Code, "means", row.Means, "remedy", row.Remedy}
	if detail != "" {
		attributes = append(attributes, "detail", detail)
	}
	if hushed > 0 {
		attributes = append(attributes, "unlogged_before", hushed)
	}
	m.log.Log(context.Background(), level(id), "reason", attributes...)
}

// level of a reason's log line: our own faults are errors, what an operator can mend warnings, what clients do is told at
// info.
func level(id reason.ID) slog.Level {
	switch row := id.Row(); {
	case row.Status == 500:
		return slog.LevelError
	case row.Status >= 500, row.Status == 429:
		return slog.LevelWarn
	case row.Status != 0:
		return slog.LevelInfo
	}
	switch id {
	case reason.ClientAborted, reason.NeverScraped, reason.LateEnd, reason.SecondEndOfStream, reason.BodyUnread, reason.FallbackServed:
		return slog.LevelInfo
	case reason.HookPanic:
		return slog.LevelError
	}
	return slog.LevelWarn
}

// Decided counts a decision.
func (m *Metrics) Decided(poolName string, api openai.API, refused string, wait pool.Instant) {
	outcome := refused
	switch {
	case outcome != "":
	case poolName == "":
		outcome = "answered"
	default:
		outcome = "forwarded"
	}
	m.requests.WithLabelValues(poolName, api.String(), outcome).Inc()
	m.wait.WithLabelValues(poolName).Observe(time.Duration(wait).Seconds())
}

// Settled counts an end.
func (m *Metrics) Settled(poolName string, _ openai.API, o plugins.Outcome) {
	ending := o.EndingCode
	if ending == "" {
		ending = "clean"
	}
	if o.TTFT >= 0 {
		m.ttft.WithLabelValues(poolName).Observe(o.TTFT.Seconds())
	}
	m.duration.WithLabelValues(poolName, ending).Observe(o.Total.Seconds())
	for _, t := range []struct {
		kind string
		n    int64
	}{{"prompt", o.Prompt}, {"cached", o.Cached}, {"completion", o.Out}} {
		if t.n > 0 {
			m.tokens.WithLabelValues(poolName, t.kind).Add(float64(t.n))
		}
	}
}

// ObserveDecision takes the time that the call took in which a decision was made.
func (m *Metrics) ObserveDecision(d time.Duration) { m.decision.Observe(d.Seconds()) }

// Received counts a message of a gateway.
func (m *Metrics) Received(kind string) { m.messages.WithLabelValues(kind).Inc() }

// Scraped counts a metrics page.
func (m *Metrics) Scraped(s telemetry.Scrape) {
	outcome := "ok"
	if s.Err != nil {
		outcome = "failed"
	}
	m.scrapes.WithLabelValues(outcome).Inc()
	m.scrape.Observe(s.Took.Seconds())
}
