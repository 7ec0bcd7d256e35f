package admin

import (
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairlead/fairlead/pkg/flow"
	"github.com/fairlead/fairlead/pkg/plugins"
)

// stayBuckets are those of llm-d-router's pkg/epp/metrics.
var stayBuckets = []float64{0.0001, 0.0005, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}

// stays counts who leaves the queue, under our names and llm-d's.
type stays struct {
	waits table[stayLabels, pair[prometheus.Observer]]
	ended table[bandEnd, endSeries]
}

// stayLabels are those that llm-d has for the time in the queue.
type stayLabels struct {
	labelSet
	pool    string
	outcome flow.Outcome
}

type bandEnd struct {
	pool     string
	priority int32
	outcome  flow.Outcome
}

type endSeries struct {
	wait  prometheus.Observer
	total prometheus.Counter
	named pair[prometheus.Counter]
}

// prioritiesMost bounds the priorities that have series of their own, over all pools and outcomes. Configurations give them.
const prioritiesMost = 1000

func newStays(f *families, own func(name, help string, labels ...string) *prometheus.CounterVec,
	wait func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec, u *upstream, most int) *stays {
	s := &stays{}
	labels := []string{"fairness_id", "priority", "outcome", "inference_pool", "model_name", "target_model_name"}
	named := f.histogram("flow_control_request_queue_duration_seconds", "inference_extension_flow_control_request_queue_duration_seconds",
		"From a request's coming to the queue to its leaving it, by how that ended; 0 for one that need not wait.", stayBuckets, labels, labels)
	s.waits = table[stayLabels, pair[prometheus.Observer]]{
		most: most,
		fold: func(l stayLabels) stayLabels { l.labelSet = l.folded(*u.models.Load()); return l },
		own:  func(l stayLabels) stayLabels { l.labelSet, l.pool = l.labelSet.own(), strings.Clone(l.pool); return l },
		make: func(l stayLabels) *pair[prometheus.Observer] {
			values := []string{l.tenant, strconv.Itoa(int(l.priority)), l.outcome.String(), l.pool, l.model, l.target}
			p := named(values, values)
			return &p
		},
	}
	total := f.counter("flow_control_requests_total", "inference_extension_flow_control_requests_total", "Requests that left the queue, by how that ended.",
		[]string{"outcome", "priority", "inference_pool"}, []string{"outcome", "priority", "inference_pool"})
	ended := own("queue_requests_total", "Requests that left the queue; outcome is dispatched, cancelled (its client went away, or the process ends) or why it was refused.", "pool", "priority", "outcome")
	waits := wait("queue_wait_seconds", "From a request's coming to the queue to its leaving it; 0 for one that need not wait.", coarse, "pool", "priority", "outcome")
	s.ended = table[bandEnd, endSeries]{
		most: prioritiesMost, fold: func(b bandEnd) bandEnd { b.priority = 0; return b },
		make: func(b bandEnd) *endSeries {
			priority := strconv.Itoa(int(b.priority))
			e := endSeries{
				wait: waits.WithLabelValues(b.pool, priority, ownOutcome(b.outcome)), total: ended.WithLabelValues(b.pool, priority, ownOutcome(b.outcome)),
				named: total([]string{b.outcome.String(), priority, b.pool}, []string{b.outcome.String(), priority, b.pool}),
			}
			return &e
		},
	}
	return s
}

// ownOutcome says how a stay ended in the words of our own metrics: a refusal by its reason's code.
func ownOutcome(o flow.Outcome) string {
	switch o {
	case flow.Dispatched:
		return "dispatched"
	case flow.RejectedCapacity:
		return "queue_full"
	case flow.RejectedNoEndpoints, flow.EvictedNoEndpoints:
		return "no_endpoint"
	case flow.EvictedTTL:
		return "queue_timeout"
	case flow.GaveWay:
		return "gave_way"
	case flow.Cancelled:
		return "cancelled"
	}
	return "other"
}

var _ flow.Watcher = (*Metrics)(nil)

// Left counts a request that left the queue.
func (m *Metrics) Left(r *plugins.Request, s flow.Stay) {
	l := stayLabels{labelSet: labelSet{model: r.Model(), target: r.Target.Model, tenant: s.Flow, priority: s.Priority}, pool: s.Pool, outcome: s.Outcome}
	if l.tenant == "" {
		l.tenant = defaultFlow
	}
	seconds := s.Waited.Seconds()
	observe(m.stays.waits.of(l), seconds)
	e := m.stays.ended.of(bandEnd{s.Pool, s.Priority, s.Outcome})
	e.wait.Observe(seconds)
	e.total.Inc()
	count(&e.named, 1)
}

// queueGauges makes series of who waits when a page is asked for, so that an autoscaler sees a request as soon as it waits.
type queueGauges struct {
	read func() Queue

	requests, bytes, oldest, saturation *prometheus.Desc
	short                               *prometheus.Desc
	size, length, full, stale           []*prometheus.Desc
	bandRequests, bandBytes             []*prometheus.Desc
	allRequests, allBytes               []*prometheus.Desc
	evictions                           *prometheus.Desc
	revocationsIssued, revocations      []*prometheus.Desc
}

func newQueueGauges(read func() Queue, legacy bool) *queueGauges {
	own := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("fairlead_"+name, help, labels, nil)
	}
	named := func(name, help string, labels ...string) []*prometheus.Desc {
		full := "llm_d_epp_flow_control_" + name
		all := []*prometheus.Desc{prometheus.NewDesc(full, help, labels, nil)}
		if legacy {
			all = append(all, prometheus.NewDesc("inference_extension_flow_control_"+name, oldHelp(full), labels, nil))
		}
		return all
	}
	perFlow := []string{"fairness_id", "priority", "inference_pool", "model_name", "target_model_name"}
	return &queueGauges{
		read:         read,
		requests:     own("queue_requests", "Requests that wait, by priority.", "pool", "priority"),
		bytes:        own("queue_bytes", "Bytes of their bodies.", "pool", "priority"),
		oldest:       own("queue_oldest_seconds", "How long the first of them has waited.", "pool", "priority"),
		saturation:   own("queue_saturation_ratio", "How full a pool is; at 1 requests wait.", "pool"),
		short:        own("queue_short_endpoints", "Endpoints whose KV cache reads as full with requests at hand; state is short where requests wait for memory there, or doubted where the gauge is not believed.", "pool", "state"),
		evictions:    own("queue_evictions_total", "Running requests that were to be taken back for waiting ones; result is taken, or missed where the answer had begun.", "pool", "priority", "result"),
		size:         named("queue_size", "Requests that wait, of all models.", perFlow...),
		length:       named("queue_bytes", "Bytes of the bodies of requests that wait, of all models.", perFlow...),
		full:         named("pool_saturation", "How full a pool is; at 1 requests wait.", "inference_pool", "stage"),
		stale:        named("stale_endpoints", "Endpoints of a pool that have no fresh sample and count as full.", "inference_pool", "detector"),
		bandRequests: named("capacity_utilization_requests", "Share of a band's bound on requests that is used.", "priority", "inference_pool"),
		bandBytes:    named("capacity_utilization_bytes", "Share of a band's bound on bytes that is used.", "priority", "inference_pool"),
		allRequests:  named("global_capacity_utilization_requests", "Share of the bound on all requests that is used.", "inference_pool"),
		allBytes:     named("global_capacity_utilization_bytes", "Share of the bound on all bytes that is used.", "inference_pool"),

		revocationsIssued: named("revocations_issued_total", "Running requests that were to be taken back.", "priority", "inference_pool"),
		revocations:       named("revocations_total", "What became of them: confirmed, or missed where the answer had begun.", "outcome", "inference_pool"),
	}
}

// Describe sends the descriptions.
func (g *queueGauges) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{g.requests, g.bytes, g.oldest, g.saturation, g.short, g.evictions} {
		out <- d
	}
	for _, all := range [][]*prometheus.Desc{g.size, g.length, g.full, g.stale, g.bandRequests, g.bandBytes, g.allRequests, g.allBytes, g.revocationsIssued, g.revocations} {
		for _, d := range all {
			out <- d
		}
	}
}

// Collect sends the values as they stand. Without a queue there are none.
func (g *queueGauges) Collect(out chan<- prometheus.Metric) {
	send := func(kind prometheus.ValueType, descs []*prometheus.Desc, v float64, labels ...string) {
		for _, d := range descs {
			out <- prometheus.MustNewConstMetric(d, kind, v, labels...)
		}
	}
	gauge := func(descs []*prometheus.Desc, v float64, labels ...string) {
		send(prometheus.GaugeValue, descs, v, labels...)
	}
	share := func(descs []*prometheus.Desc, has, most int64, labels ...string) {
		if most > 0 {
			gauge(descs, float64(has)/float64(most), labels...)
		}
	}
	q := g.read()
	for i := range q.Pools {
		p := &q.Pools[i]
		for _, b := range p.Bands {
			priority := strconv.Itoa(int(b.Priority))
			gauge([]*prometheus.Desc{g.requests}, float64(b.Requests), p.Pool, priority)
			gauge([]*prometheus.Desc{g.bytes}, float64(b.Bytes), p.Pool, priority)
			gauge([]*prometheus.Desc{g.oldest}, b.OldestSeconds, p.Pool, priority)
			share(g.bandRequests, b.Requests, b.MaxRequests, priority, p.Pool)
			share(g.bandBytes, b.Bytes, b.MaxBytes, priority, p.Pool)
			for _, f := range b.Flows {
				gauge(g.size, float64(f.Requests), strings.ToValidUTF8(f.ID, "\uFFFD"), priority, p.Pool, "", "")
				gauge(g.length, float64(f.Bytes), strings.ToValidUTF8(f.ID, "\uFFFD"), priority, p.Pool, "", "")
			}
			if len(b.Flows) == 0 { // a band in which nobody waits has its zero, for who divides or scales by it
				gauge(g.size, 0, defaultFlow, priority, p.Pool, "", "")
				gauge(g.length, 0, defaultFlow, priority, p.Pool, "", "")
			}
		}
		gauge([]*prometheus.Desc{g.saturation}, p.Saturation, p.Pool)
		gauge([]*prometheus.Desc{g.short}, float64(len(p.Short)), p.Pool, "short")
		gauge([]*prometheus.Desc{g.short}, float64(len(p.Doubted)), p.Pool, "doubted")
		gauge(g.full, p.Saturation, p.Pool, "effective")
		gauge(g.full, p.Prefill, p.Pool, "prefill")
		gauge(g.full, p.Decode, p.Pool, "decode")
		gauge(g.stale, float64(p.Stale), p.Pool, "")
		share(g.allRequests, q.Requests, q.MaxRequests, p.Pool)
		share(g.allBytes, q.Bytes, q.MaxBytes, p.Pool)
		taken, missed := uint64(0), uint64(0)
		for _, e := range p.Evictions {
			priority := strconv.Itoa(int(e.Priority))
			send(prometheus.CounterValue, []*prometheus.Desc{g.evictions}, float64(e.Taken), p.Pool, priority, "taken")
			send(prometheus.CounterValue, []*prometheus.Desc{g.evictions}, float64(e.Issued-e.Taken), p.Pool, priority, "missed")
			send(prometheus.CounterValue, g.revocationsIssued, float64(e.Issued), priority, p.Pool)
			taken, missed = taken+e.Taken, missed+e.Issued-e.Taken
		}
		if len(p.Evictions) > 0 {
			send(prometheus.CounterValue, g.revocations, float64(taken), "confirmed", p.Pool)
			send(prometheus.CounterValue, g.revocations, float64(missed), "missed", p.Pool)
		}
	}
}
