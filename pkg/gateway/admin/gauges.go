package admin

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairlead/fairlead/pkg/plugins"
)

// endpointsMax bounds the endpoints that get series of their own, over all pools and in the order of pools and ids; what
// is booked at the others is summed under "other".
const endpointsMax = 512

// gauges makes series of the books when a page is asked for.
type gauges struct {
	books     func() Books
	digest    func() string
	endpoints *prometheus.Desc
	health    *prometheus.Desc
	booked    []column
	sampled   []column
	age       *prometheus.Desc
	open      *prometheus.Desc
	bookings  *prometheus.Desc
	config    *prometheus.Desc
	heard     func() int
	replicas  *prometheus.Desc
}

// column is a gauge per endpoint.
type column struct {
	desc *prometheus.Desc
	of   func(*Line) float64
}

func newGauges(books func() Books, digest func() string, heard func() int) *gauges {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("fairlead_"+name, help, labels, nil)
	}
	col := func(name, help string, of func(*Line) float64) column {
		return column{desc(name, help, "pool", "endpoint"), of}
	}
	return &gauges{
		books: books, digest: digest, heard: heard,
		endpoints: desc("endpoints", "Endpoints of a pool, by the state of their telemetry: never, stale or fresh.", "pool", "sample"),
		health:    desc("endpoint_health", "Endpoints of a pool that somebody watches over, by the state of their circuit: closed, ejected, half-open or slow-start.", "pool", "state"),
		booked: []column{
			col("in_flight_requests", "Requests that are booked at an endpoint, by this replica and by those that it hears.", func(l *Line) float64 { return float64(l.Requests) }),
			col("in_flight_requests_heard", "Those of them that other replicas booked.", func(l *Line) float64 { return float64(l.Heard) }),
			col("in_flight_requests_without_first_byte", "Those of them that have no first byte yet.", func(l *Line) float64 { return float64(l.NoFirstByte) }),
			col("booked_prefill_tokens", "Uncached prompt tokens that are booked at an endpoint and not prefilled yet.", func(l *Line) float64 { return float64(l.PrefillTokens) }),
			col("booked_decode_tokens", "Tokens that the requests booked at an endpoint are expected to generate, or have.", func(l *Line) float64 { return float64(l.DecodeTokens) }),
		},
		sampled: []column{
			col("engine_waiting_requests", "Waiting requests as the engine last said.", func(l *Line) float64 { return float64(l.Waiting) }),
			col("engine_running_requests", "Running requests as the engine last said.", func(l *Line) float64 { return float64(l.Running) }),
			col("engine_kv_usage_ratio", "Share of the KV cache in use as the engine last said.", func(l *Line) float64 { return l.KVUsage }),
		},
		age:      desc("sample_age_seconds_max", "Age of the oldest last sample of a pool; endpoints never scraped are left out.", "pool"),
		open:     desc("open_exchanges", "Exchanges that were forwarded and have not ended."),
		bookings: desc("open_bookings", "Bookings that have not ended, over all pools."),
		replicas: desc("replica_streams", "Streams of other replicas that are heard, one per replica and pool."),
		config:   desc("config_info", "1; the digest is that of the effective configuration.", "digest"),
	}
}

// Describe sends the descriptions.
func (g *gauges) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{g.endpoints, g.health, g.age, g.open, g.bookings, g.config, g.replicas} {
		out <- d
	}
	for _, columns := range [][]column{g.booked, g.sampled} {
		for _, c := range columns {
			out <- c.desc
		}
	}
}

// Collect sends the values as they stand. A value that an engine did not say has no series.
func (g *gauges) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	b := g.books()
	type group struct{ pool, state string }
	states, circuits := map[group]int{}, map[group]int{}
	others := map[string][]float64{} // by pool, sums aligned with booked
	ages := map[string]float64{}
	for i := range b.Endpoints {
		l := &b.Endpoints[i]
		states[group{l.Pool, l.Sample}]++
		if l.Health != nil {
			for _, s := range [...]plugins.HealthState{plugins.Closed, plugins.Ejected, plugins.HalfOpen, plugins.SlowStart} {
				circuits[group{l.Pool, string(s)}] += 0 // a state without endpoints has a series, too
			}
			circuits[group{l.Pool, string(l.Health.State)}]++
		}
		if l.SampleAgeSeconds >= 0 {
			ages[l.Pool] = max(ages[l.Pool], l.SampleAgeSeconds)
		}
		if i >= endpointsMax {
			if others[l.Pool] == nil {
				others[l.Pool] = make([]float64, len(g.booked))
			}
			for j, c := range g.booked {
				others[l.Pool][j] += c.of(l)
			}
			continue
		}
		for _, c := range g.booked {
			gauge(c.desc, c.of(l), l.Pool, l.Endpoint)
		}
		for _, c := range g.sampled {
			if v := c.of(l); v != plugins.Unknown {
				gauge(c.desc, v, l.Pool, l.Endpoint)
			}
		}
	}
	for k, n := range states {
		gauge(g.endpoints, float64(n), k.pool, k.state)
	}
	for k, n := range circuits {
		gauge(g.health, float64(n), k.pool, k.state)
	}
	for name, sums := range others {
		for j, c := range g.booked {
			gauge(c.desc, sums[j], name, "other")
		}
	}
	for name, age := range ages {
		gauge(g.age, age, name)
	}
	gauge(g.open, float64(b.Open))
	gauge(g.bookings, float64(b.Bookings))
	if g.heard != nil {
		gauge(g.replicas, float64(g.heard()))
	}
	gauge(g.config, 1, g.digest())
}
