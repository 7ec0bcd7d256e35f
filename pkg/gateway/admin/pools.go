package admin

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/pool"
)

// endpointsMax bounds the endpoints that get series of their own, over all pools; the rest is summed under "other".
const endpointsMax = 512

// Line is the books of one endpoint, with its last sample beside them. -1 is unknown.
type Line struct {
	Pool             string  `json:"pool"`
	Endpoint         string  `json:"endpoint"`
	Address          string  `json:"address"`
	Requests         int32   `json:"requests"`
	NoFirstByte      int32   `json:"noFirstByte"`
	AfterSample      int32   `json:"afterSample"`
	PrefillTokens    int64   `json:"prefillTokens"`
	DecodeTokens     int64   `json:"decodeTokens"`
	Sample           string  `json:"sample"` // never, stale or fresh
	SampleAgeSeconds float64 `json:"sampleAgeSeconds"`
	Waiting          int32   `json:"waiting"`
	Running          int32   `json:"running"`
	KVUsage          float64 `json:"kvUsage"`
}

// Books is what /debug/books says: a line per endpoint, and the number of exchanges and bookings that have not ended.
type Books struct {
	Endpoints []Line `json:"endpoints"`
	Open      int    `json:"open"`
	Bookings  int    `json:"bookings"`
}

// readBooks copies the books of all pools, each under its lock.
func readBooks(now pool.Instant, pools []*pool.Pool, s *exchange.Scheduler) Books {
	all := Books{Endpoints: []Line{}, Open: s.Open()}
	for _, p := range pools {
		all.Bookings += p.Open()
		p.Decide(func(snap *pool.Snapshot, b *pool.Books) {
			for _, id := range snap.Members {
				e, sample := &snap.Slots[id], &b.Samples[id]
				l := Line{
					Pool: p.Name, Endpoint: e.Namespace + "/" + e.Name, Address: e.Addr.String(),
					Requests: b.Requests[id], NoFirstByte: b.NoFirstByte[id], AfterSample: b.AfterSample[id],
					PrefillTokens: b.PrefillTokens[id], DecodeTokens: b.DecodeTokens[id],
					Sample: sample.State(now, p.StaleAfter()).String(), SampleAgeSeconds: -1,
					Waiting: sample.Waiting, Running: sample.Running, KVUsage: sample.KVUsage,
				}
				if sample.State(now, p.StaleAfter()) != pool.Never {
					l.SampleAgeSeconds = time.Duration(now - sample.At).Seconds()
				}
				all.Endpoints = append(all.Endpoints, l)
			}
		})
	}
	return all
}

// gauges makes series of the books when a page is asked for.
type gauges struct {
	books     func() Books
	endpoints *prometheus.Desc
	requests  *prometheus.Desc
	open      *prometheus.Desc
}

func newGauges(books func() Books) *gauges {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("fairlead_"+name, help, labels, nil)
	}
	return &gauges{
		books:     books,
		endpoints: desc("endpoints", "Endpoints of a pool, by the state of their telemetry: never, stale or fresh.", "pool", "sample"),
		requests:  desc("in_flight_requests", "Requests that are booked at an endpoint.", "pool", "endpoint"),
		open:      desc("open_exchanges", "Exchanges that were forwarded and have not ended."),
	}
}

// Describe sends the descriptions.
func (g *gauges) Describe(out chan<- *prometheus.Desc) {
	out <- g.endpoints
	out <- g.requests
	out <- g.open
}

// Collect sends the values as they stand.
func (g *gauges) Collect(out chan<- prometheus.Metric) {
	b := g.books()
	type key struct{ pool, state string }
	count := map[key]int{}
	other := map[string]int32{}
	for i, l := range b.Endpoints {
		count[key{l.Pool, l.Sample}]++
		if i < endpointsMax {
			out <- prometheus.MustNewConstMetric(g.requests, prometheus.GaugeValue, float64(l.Requests), l.Pool, l.Endpoint)
		} else {
			other[l.Pool] += l.Requests
		}
	}
	for k, n := range count {
		out <- prometheus.MustNewConstMetric(g.endpoints, prometheus.GaugeValue, float64(n), k.pool, k.state)
	}
	for name, n := range other {
		out <- prometheus.MustNewConstMetric(g.requests, prometheus.GaugeValue, float64(n), name, "other")
	}
	out <- prometheus.MustNewConstMetric(g.open, prometheus.GaugeValue, float64(b.Open))
}
