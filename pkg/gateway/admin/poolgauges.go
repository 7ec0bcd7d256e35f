package admin

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairlead/fairlead/pkg/plugins"
)

// poolGauges makes llm-d's series of pools and endpoints from the books when a page is asked for. A quantity that no fresh
// sample of a pool has gets no series: an autoscaler must not take unknown for idle.
type poolGauges struct {
	books    func() Books
	pools    []poolGauge
	ready    []*prometheus.Desc
	queue    []*prometheus.Desc // per endpoint
	requests *prometheus.Desc
	tokens   *prometheus.Desc
}

// poolGauge is a figure of the fresh samples of a pool.
type poolGauge struct {
	descs  []*prometheus.Desc
	of     func(*Line) float64
	figure func([]float64) float64
}

func newPoolGauges(books func() Books, legacy bool) *poolGauges {
	g := &poolGauges{books: books}
	descs := func(name, old, help string, labels, oldLabels []string) []*prometheus.Desc {
		name = "llm_d_epp_" + name
		all := []*prometheus.Desc{prometheus.NewDesc(name, help, labels, nil)}
		if legacy && old != "" {
			all = append(all, prometheus.NewDesc(old, oldHelp(name), oldLabels, nil))
		}
		return all
	}
	pool := []string{"name"}
	for _, q := range []struct {
		mean, old, deviation, what string
		of                         func(*Line) float64
	}{
		{"average_kv_cache_utilization", "inference_pool_average_kv_cache_utilization", "std_dev_kv_cache_utilization", "used share of the KV cache", func(l *Line) float64 { return l.KVUsage }},
		{"average_queue_size", "inference_pool_average_queue_size", "std_dev_queue_size", "waiting requests", func(l *Line) float64 { return float64(l.Waiting) }},
		{"average_running_requests", "inference_pool_average_running_requests", "std_dev_running_requests", "running requests", func(l *Line) float64 { return float64(l.Running) }},
	} {
		g.pools = append(g.pools,
			poolGauge{descs(q.mean, q.old, "Mean of the "+q.what+" of a pool's engines, over fresh samples.", pool, pool), q.of, mean},
			poolGauge{descs(q.deviation, "", "Standard deviation of the "+q.what+" of a pool's engines, over fresh samples.", pool, nil), q.of, deviation})
	}
	g.ready = descs("ready_endpoints", "inference_pool_ready_pods", "Endpoints of a pool.", pool, pool)
	g.queue = descs("per_endpoint_queue_size", "inference_pool_per_pod_queue_size", "Waiting requests as an engine last said.",
		[]string{"name", "model_server_endpoint"}, []string{"name", "model_server_pod"})
	inFlight := []string{"endpoint_name", "namespace", "producer_name", "fairness_id", "priority"}
	g.requests = descs("inflight_requests", "", "Requests that are booked at an endpoint, of all tenants and priorities.", inFlight, nil)[0]
	g.tokens = descs("inflight_tokens", "", "Tokens that are booked at an endpoint, of all tenants and priorities.", inFlight, nil)[0]
	return g
}

// Describe sends the descriptions.
func (g *poolGauges) Describe(out chan<- *prometheus.Desc) {
	all := slices.Concat(g.ready, g.queue, []*prometheus.Desc{g.requests, g.tokens})
	for _, p := range g.pools {
		all = append(all, p.descs...)
	}
	for _, d := range all {
		out <- d
	}
}

// Collect sends the values as they stand.
func (g *poolGauges) Collect(out chan<- prometheus.Metric) {
	gauge := func(descs []*prometheus.Desc, v float64, labels ...string) {
		for _, d := range descs {
			out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
		}
	}
	b := g.books()
	byPool := map[string][]*Line{}
	type booked struct{ requests, tokens float64 }
	inFlight := map[string]booked{} // by endpoint; pools may share one
	for i := range b.Endpoints {
		l := &b.Endpoints[i]
		byPool[l.Pool] = append(byPool[l.Pool], l)
		name := l.Endpoint
		if _, known := inFlight[name]; !known && len(inFlight) >= endpointsMax {
			name = "/" + otherLabel
		}
		sum := inFlight[name]
		inFlight[name] = booked{sum.requests + float64(l.Requests), sum.tokens + float64(l.PrefillTokens) + float64(l.DecodeTokens)}
	}
	endpoints := 0
	for _, name := range slices.Sorted(maps.Keys(byPool)) {
		lines := byPool[name]
		gauge(g.ready, float64(len(lines)), name)
		for _, p := range g.pools {
			var values []float64
			for _, l := range lines {
				if v := p.of(l); l.Sample == "fresh" && v != plugins.Unknown {
					values = append(values, v)
				}
			}
			if len(values) > 0 {
				gauge(p.descs, p.figure(values), name)
			}
		}
		seen := map[string]bool{}
		for _, l := range lines {
			if endpoints++; endpoints > endpointsMax || l.Waiting == plugins.Unknown {
				continue
			}
			_, short, _ := strings.Cut(l.Endpoint, "/")
			if seen[short] { // of another namespace
				short = l.Endpoint
			}
			seen[short] = true
			gauge(g.queue, float64(l.Waiting), name, short)
		}
	}
	for _, endpoint := range slices.Sorted(maps.Keys(inFlight)) {
		namespace, name, _ := strings.Cut(endpoint, "/")
		gauge([]*prometheus.Desc{g.requests}, inFlight[endpoint].requests, name, namespace, "inflight-load-producer", "", "")
		gauge([]*prometheus.Desc{g.tokens}, inFlight[endpoint].tokens, name, namespace, "inflight-load-producer", "", "")
	}
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// deviation is that of the whole pool, not of a sample of it.
func deviation(values []float64) float64 {
	m, sum := mean(values), 0.0
	for _, v := range values {
		sum += float64((v - m) * (v - m))
	}
	return math.Sqrt(sum / float64(len(values)))
}
