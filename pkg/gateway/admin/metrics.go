package admin

import (
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/pool/telemetry"
	"github.com/fairlead/fairlead/pkg/reason"
)

// Metrics counts what happens in a process. It is the sink of reasons and the meter of exchanges; everything on it may be
// called from any goroutine and never blocks on anything outside. No label has a value that a client chooses.
type Metrics struct {
	registry *prometheus.Registry
	log      *slog.Logger

	reasons []occurrences // by reason.ID

	mu     sync.Mutex                            // of whoever adds to series
	series atomic.Pointer[map[string]poolSeries] // by pool; replaced, never modified

	requests *prometheus.CounterVec
	wait     *prometheus.HistogramVec
	decision prometheus.Histogram
	ttft     *prometheus.HistogramVec
	duration *prometheus.HistogramVec
	tokens   *prometheus.CounterVec
	messages *prometheus.CounterVec
	scrapes  *prometheus.CounterVec
	scrape   prometheus.Histogram
	bytes    prometheus.Counter
	rejected prometheus.Counter
	reloads  *prometheus.CounterVec
	reloaded prometheus.Gauge
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
// reason goes to log, and further ones once a minute with their number. A nil log discards.
func NewMetrics(log *slog.Logger) *Metrics {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	m := &Metrics{registry: prometheus.NewRegistry(), log: log}
	m.series.Store(&map[string]poolSeries{})
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
	m.countReasons()
	m.requests = counter("requests_total", "Requests that were decided; outcome is forwarded, answered (by us, as a list of models) or the code of the refusal.", "pool", "api", "outcome")
	m.wait = histogram("decision_wait_seconds", "From a request's headers to its decision: reading the body, holds and the queue included. Requests that had no pool yet are left out.", fine, "pool")
	m.decision = histogram("decision_duration_seconds", "Time that the calls of an exchange took until it forwarded or refused, without waiting for bytes or capacity.", fine).WithLabelValues().(prometheus.Histogram)
	m.ttft = histogram("ttft_seconds", "From a request's headers to the headers of its answer.", coarse, "pool")
	m.duration = histogram("request_duration_seconds", "From a request's headers to the end of its answer.", coarse, "pool", "ending")
	m.tokens = counter("tokens_total", "Tokens that engines reported of answers we saw; kind is prompt, cached or completion.", "pool", "kind")
	m.messages = counter("ext_proc_messages_total", "Messages that gateways sent, by kind.", "kind")
	m.reloads = counter("config_reloads_total", "Attempts to put a changed configuration in force; result is applied, unchanged (nothing was to do) or refused.", "result")
	for _, r := range []Reload{Applied, Unchanged, Refused} {
		m.reloads.WithLabelValues(string(r))
	}
	m.reloaded = prometheus.NewGauge(prometheus.GaugeOpts{Name: "fairlead_config_last_reload_success", Help: "1 if what was last read of the configuration is in force, 0 if it was refused and an older one is."})
	m.reloaded.Set(1)
	m.registry.MustRegister(m.reloaded)
	m.scrapes = counter("scrapes_total", "Metrics pages asked for, by outcome: ok, or why there is no sample.", "outcome")
	m.scrape = histogram("scrape_duration_seconds", "Time of a metrics page.", coarse).WithLabelValues().(prometheus.Histogram)
	m.bytes = counter("scrape_bytes_total", "Bytes of metrics pages that were read.").WithLabelValues()
	m.rejected = counter("scrape_rejected_series_total", "Series of metrics pages that were out of their range and taken as unknown.").WithLabelValues()
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// poolSeries are the series of a pool that each request adds to, looked up once.
type poolSeries struct {
	wait, ttft, clean          prometheus.Observer
	prompt, cached, completion prometheus.Counter
}

// of returns the series of a pool. Their number is bounded by that of the pools, whose names come from configurations.
func (m *Metrics) of(poolName string) poolSeries {
	known := *m.series.Load()
	if s, ok := known[poolName]; ok {
		return s
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := poolSeries{
		wait: m.wait.WithLabelValues(poolName), ttft: m.ttft.WithLabelValues(poolName), clean: m.duration.WithLabelValues(poolName, "clean"),
		prompt: m.tokens.WithLabelValues(poolName, "prompt"), cached: m.tokens.WithLabelValues(poolName, "cached"),
		completion: m.tokens.WithLabelValues(poolName, "completion"),
	}
	next := maps.Clone(*m.series.Load())
	next[poolName] = s
	m.series.Store(&next)
	return s
}

// Decided counts a decision.
func (m *Metrics) Decided(of exchange.Metered, refused reason.ID, wait pool.Instant) {
	poolName, outcome := of.Target.Pool, ""
	switch {
	case refused != 0:
		outcome = refused.String()
	case poolName == "":
		outcome = "answered"
	default:
		outcome = "forwarded"
	}
	m.requests.WithLabelValues(poolName, of.API.String(), outcome).Inc()
	if poolName != "" { // refused or answered before it had a pool
		m.of(poolName).wait.Observe(time.Duration(wait).Seconds())
	}
}

// Settled counts an end.
func (m *Metrics) Settled(of exchange.Metered, o plugins.Outcome) {
	poolName := of.Target.Pool
	s := m.of(poolName)
	if o.TTFT >= 0 {
		s.ttft.Observe(o.TTFT.Seconds())
	}
	if o.EndingCode == "" {
		s.clean.Observe(o.Total.Seconds())
	} else {
		m.duration.WithLabelValues(poolName, o.EndingCode).Observe(o.Total.Seconds())
	}
	add(s.prompt, o.Prompt)
	add(s.cached, o.Cached)
	add(s.completion, o.Out)
}

// add adds n tokens, if somebody said how many.
func add(to prometheus.Counter, n int64) {
	if n > 0 {
		to.Add(float64(n))
	}
}

// ObserveDecision takes the time that an adapter's calls of an exchange took until its decision.
func (m *Metrics) ObserveDecision(d time.Duration) { m.decision.Observe(d.Seconds()) }

// Received counts a message of a gateway.
func (m *Metrics) Received(kind string) { m.messages.WithLabelValues(kind).Inc() }

// Reload is what came of an attempt to put a changed configuration in force.
type Reload string

// The results.
const (
	Applied   Reload = "applied"
	Unchanged Reload = "unchanged"
	Refused   Reload = "refused"
)

// Reloaded counts an attempt.
func (m *Metrics) Reloaded(r Reload) {
	m.reloads.WithLabelValues(string(r)).Inc()
	if r == Refused {
		m.reloaded.Set(0)
	} else {
		m.reloaded.Set(1)
	}
}

// Scraped counts a metrics page.
func (m *Metrics) Scraped(s telemetry.Scrape) {
	m.scrapes.WithLabelValues(s.Outcome.String()).Inc()
	m.scrape.Observe(s.Took.Seconds())
	m.bytes.Add(float64(s.Bytes))
	m.rejected.Add(float64(s.Rejected))
}
