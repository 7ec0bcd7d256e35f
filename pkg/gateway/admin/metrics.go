package admin

import (
	"log/slog"
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

// Metrics counts what happens in a process. It is the sink of reasons and the meter of exchanges; everything on it may be
// called from any goroutine and never blocks on anything outside. Labels that a client chooses are bounded.
type Metrics struct {
	registry *prometheus.Registry
	log      *slog.Logger
	began    time.Time // a second before the start, so that no instant is 0
	legacy   bool

	reasons []occurrences // by reason.ID

	upstream *upstream
	stays    *stays
	outcomes table[decided, prometheus.Counter]
	pools    table[string, poolSeries]
	endings  table[ended, prometheus.Observer]
	messages table[string, prometheus.Counter]

	decision prometheus.Histogram
	scrapes  [telemetry.NumOutcomes]prometheus.Counter
	scrape   prometheus.Histogram
	bytes    prometheus.Counter
	rejected prometheus.Counter
	stands   prometheus.Counter // decisions at their second look
	anew     prometheus.Counter
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

// MetricsOptions are the parameters of Metrics. Zero takes the default.
type MetricsOptions struct {
	// Log hears the first of each kind of reason, and further ones once a minute with their number; nil discards.
	Log *slog.Logger
	// Configuration is that of the start; a reload tells the next one with Configured.
	Configuration Configuration
	// LabelSets bounds the series of labels that clients choose: models and tenants; DefaultLabelSets.
	LabelSets int
	// Legacy prints llm-d's metrics under their older names too.
	Legacy bool
	// Version and Commit are what was built.
	Version, Commit string
}

// Configuration is what metrics take from the configuration in force.
type Configuration struct {
	// Models are the models and aliases of the pools, each with its pool: they keep their labels in any flood.
	Models map[string]string
	// Prefix is the producer that says what of a prompt is cached where; the zero PrefixProducer is none.
	Prefix PrefixProducer
	// Latency is the plugin that predicts latencies; the zero LatencyPredictor is none.
	Latency LatencyPredictor
}

// PrefixProducer is a plugin that keeps an index of prefixes. Size returns the blocks in it.
type PrefixProducer struct {
	Name, Type string
	Size       func() int
}

// NewMetrics returns metrics on a registry of their own, with those of process and runtime.
func NewMetrics(o MetricsOptions) *Metrics {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.LabelSets == 0 {
		o.LabelSets = DefaultLabelSets
	}
	m := &Metrics{registry: prometheus.NewRegistry(), log: o.Log, began: time.Now().Add(-time.Second), legacy: o.Legacy}
	m.upstream = newUpstream(m.registry, &o)
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
	requests := counter("requests_total", "Requests that were decided; outcome is forwarded, answered (by us, as a list of models) or the code of the refusal.", "pool", "api", "outcome")
	wait := histogram("decision_wait_seconds", "From a request's headers to its decision: reading the body, holds and the queue included. Requests that had no pool yet are left out.", fine, "pool")
	m.decision = histogram("decision_duration_seconds", "Time that the calls of an exchange took until it forwarded or refused, without waiting for bytes or capacity.", fine).WithLabelValues().(prometheus.Histogram)
	ttft := histogram("ttft_seconds", "From a request's headers to the headers of its answer.", coarse, "pool")
	duration := histogram("request_duration_seconds", "From a request's headers to the end of its answer.", coarse, "pool", "ending")
	tokens := counter("tokens_total", "Tokens that engines reported of answers we saw; kind is prompt, cached or completion.", "pool", "kind")
	looks := counter("second_looks_total", "Decisions that were held for what other replicas choose at the same time; outcome is stands, or anew where another endpoint was looked for.", "outcome")
	m.stands, m.anew = looks.WithLabelValues("stands"), looks.WithLabelValues("anew")
	messages := counter("ext_proc_messages_total", "Messages that gateways sent, by kind.", "kind")
	m.reloads = counter("config_reloads_total", "Attempts to put a changed configuration in force; result is applied, unchanged (nothing was to do) or refused.", "result")
	for _, r := range []Reload{Applied, Unchanged, Refused} {
		m.reloads.WithLabelValues(string(r))
	}
	m.reloaded = prometheus.NewGauge(prometheus.GaugeOpts{Name: "fairlead_config_last_reload_success", Help: "1 if what was last read of the configuration is in force, 0 if it was refused and an older one is."})
	m.reloaded.Set(1)
	m.registry.MustRegister(m.reloaded)
	scrapes := counter("scrapes_total", "Metrics pages asked for, by outcome: ok, or why there is no sample.", "outcome")
	m.scrape = histogram("scrape_duration_seconds", "Time of a metrics page.", coarse).WithLabelValues().(prometheus.Histogram)
	m.bytes = counter("scrape_bytes_total", "Bytes of metrics pages that were read.").WithLabelValues()
	m.rejected = counter("scrape_rejected_series_total", "Series of metrics pages that were out of their range and taken as unknown.").WithLabelValues()
	for o := range telemetry.NumOutcomes {
		m.scrapes[o] = scrapes.WithLabelValues(o.String())
	}
	m.outcomes.make = func(d decided) *prometheus.Counter {
		c := requests.WithLabelValues(d.pool, d.api.String(), d.outcome)
		return &c
	}
	m.pools.make = func(name string) *poolSeries {
		return &poolSeries{
			wait: wait.WithLabelValues(name), ttft: ttft.WithLabelValues(name),
			prompt: tokens.WithLabelValues(name, "prompt"), cached: tokens.WithLabelValues(name, "cached"), completion: tokens.WithLabelValues(name, "completion"),
		}
	}
	m.endings.make = func(e ended) *prometheus.Observer {
		o := duration.WithLabelValues(e.pool, e.ending)
		return &o
	}
	m.messages.make = func(kind string) *prometheus.Counter {
		c := messages.WithLabelValues(kind)
		return &c
	}
	m.stays = newStays(&families{m.registry, o.Legacy}, counter, histogram, m.upstream, o.LabelSets)
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Configured tells of a configuration that was put in force. Its models keep their labels, unless the bound of label sets
// was reached before.
func (m *Metrics) Configured(c Configuration) { m.upstream.configured(c) }

// poolSeries are the series of a pool that each request adds to. Their number is bounded by that of the pools, whose names
// come from configurations.
type poolSeries struct {
	wait, ttft                 prometheus.Observer
	prompt, cached, completion prometheus.Counter
}

// decided are the labels of a decision, and ended those of an end.
type (
	decided struct {
		pool    string
		api     openai.API
		outcome string
	}
	ended struct{ pool, ending string }
)

// Decided counts a decision.
func (m *Metrics) Decided(of exchange.Metered, refused reason.ID, wait pool.Instant) {
	d := decided{of.Target.Pool, of.API, "forwarded"}
	switch {
	case refused != 0:
		d.outcome = refused.String()
	case d.pool == "":
		d.outcome = "answered"
	}
	(*m.outcomes.of(d)).Inc()
	if d.pool != "" { // refused or answered before it had a pool
		m.pools.of(d.pool).wait.Observe(time.Duration(wait).Seconds())
	}
	switch {
	case of.Anew:
		m.anew.Inc()
	case of.Looked:
		m.stands.Inc()
	}
	m.upstream.decided(&of, refused, wait)
}

// Settled counts an end.
func (m *Metrics) Settled(of exchange.Metered, o plugins.Outcome) {
	s := m.pools.of(of.Target.Pool)
	if o.TTFT >= 0 {
		s.ttft.Observe(o.TTFT.Seconds())
	}
	ending := o.EndingCode
	if ending == "" {
		ending = "clean"
	}
	(*m.endings.of(ended{of.Target.Pool, ending})).Observe(o.Total.Seconds())
	add(s.prompt, o.Prompt)
	add(s.cached, o.Cached)
	add(s.completion, o.Out)
	m.upstream.settled(&of, &o)
}

// add adds n tokens, if somebody said how many.
func add(to prometheus.Counter, n int64) {
	if n > 0 {
		to.Add(float64(n))
	}
}

// ObserveDecision takes the time that an adapter's calls of an exchange took until its decision.
func (m *Metrics) ObserveDecision(d time.Duration) {
	m.decision.Observe(d.Seconds())
	observe(&m.upstream.decision, d.Seconds())
}

// Received counts a message of a gateway.
func (m *Metrics) Received(kind string) { (*m.messages.of(kind)).Inc() }

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
	m.upstream.scraped(&s)
	m.scrapes[s.Outcome].Inc()
	m.scrape.Observe(s.Took.Seconds())
	m.bytes.Add(float64(s.Bytes))
	m.rejected.Add(float64(s.Rejected))
}
