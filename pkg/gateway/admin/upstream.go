package admin

import (
	"maps"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/pool/telemetry"
	"github.com/fairlead/fairlead/pkg/reason"
)

// upstream are the metrics of llm-d's endpoint picker, under its names, for the dashboards and autoscalers that read them.
// A family may have a twin under an older name, which has fewer labels.
type upstream struct {
	requests table[labelSet, requestSeries]
	attempts table[string, attemptSeries] // by target

	models atomic.Pointer[map[string]string] // configured names, each with its pool
	index  prefixIndex

	latency latencies

	decision, processing pair[prometheus.Observer]
	pollErrors           pair[prometheus.Counter]
	extractErrors        pair[prometheus.Counter]
}

// The buckets are those of llm-d-router's pkg/epp/metrics, 32778 among them.
var (
	latencyBuckets = []float64{0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60, 120,
		180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600}
	ttftBuckets       = latencyBuckets[:24]
	ntpotBuckets      = []float64{0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10}
	tpotBuckets       = []float64{0.0005, 0.00205, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.125, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1, 2}
	requestBuckets    = prometheus.ExponentialBuckets(64, 2, 25)
	answerBuckets     = []float64{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32778, 65536}
	inputBuckets      = append(append([]float64{}, answerBuckets...), 131072, 262144, 524288, 1048576)
	outputBuckets     = answerBuckets[:12]
	scheduleBuckets   = []float64{0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1}
	processingBuckets = []float64{0.0005, 0.001, 0.002, 0.005, 0.01, 0.015, 0.025, 0.04, 0.06, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}
)

// The labels of requests, and those of the older names.
var (
	requestLabels       = []string{"model_name", "target_model_name", "fairness_id", "priority"}
	legacyRequestLabels = requestLabels[:2]
)

// families makes the metric families of upstream.
type families struct {
	registry *prometheus.Registry
	legacy   bool
}

// pair is a series and its twin under an older name, if there is one.
type pair[T any] struct {
	now, old T
	twin     bool
}

func observe(p *pair[prometheus.Observer], v float64) {
	p.now.Observe(v)
	if p.twin {
		p.old.Observe(v)
	}
}

func count(p *pair[prometheus.Counter], n float64) {
	p.now.Add(n)
	if p.twin {
		p.old.Add(n)
	}
}

// name returns the full name of a family.
func (f *families) name(name string) string { return "llm_d_epp_" + name }

// counter makes a family of counters, and its twin if old is not empty.
func (f *families) counter(name, old, help string, labels, oldLabels []string) func(values, oldValues []string) pair[prometheus.Counter] {
	make := func(name, help string, labels []string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
		f.registry.MustRegister(v)
		return v
	}
	now := make(f.name(name), help, labels)
	if old == "" || !f.legacy {
		return func(values, _ []string) pair[prometheus.Counter] {
			return pair[prometheus.Counter]{now: now.WithLabelValues(values...)}
		}
	}
	twin := make(old, oldHelp(f.name(name)), oldLabels)
	return func(values, oldValues []string) pair[prometheus.Counter] {
		return pair[prometheus.Counter]{now.WithLabelValues(values...), twin.WithLabelValues(oldValues...), true}
	}
}

// histogram does the same for histograms.
func (f *families) histogram(name, old, help string, buckets []float64, labels, oldLabels []string) func(values, oldValues []string) pair[prometheus.Observer] {
	make := func(name, help string, labels []string) *prometheus.HistogramVec {
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
		f.registry.MustRegister(v)
		return v
	}
	now := make(f.name(name), help, labels)
	if old == "" || !f.legacy {
		return func(values, _ []string) pair[prometheus.Observer] {
			return pair[prometheus.Observer]{now: now.WithLabelValues(values...)}
		}
	}
	twin := make(old, oldHelp(f.name(name)), oldLabels)
	return func(values, oldValues []string) pair[prometheus.Observer] {
		return pair[prometheus.Observer]{now.WithLabelValues(values...), twin.WithLabelValues(oldValues...), true}
	}
}

// gauge does the same for gauges.
func (f *families) gauge(name, old, help string, labels, oldLabels []string) func(values, oldValues []string) pair[prometheus.Gauge] {
	make := func(name, help string, labels []string) *prometheus.GaugeVec {
		v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
		f.registry.MustRegister(v)
		return v
	}
	now := make(f.name(name), help, labels)
	if old == "" || !f.legacy {
		return func(values, _ []string) pair[prometheus.Gauge] {
			return pair[prometheus.Gauge]{now: now.WithLabelValues(values...)}
		}
	}
	twin := make(old, oldHelp(f.name(name)), oldLabels)
	return func(values, oldValues []string) pair[prometheus.Gauge] {
		return pair[prometheus.Gauge]{now.WithLabelValues(values...), twin.WithLabelValues(oldValues...), true}
	}
}

func oldHelp(name string) string {
	return "The same as " + name + ", under the name of older releases."
}

// requestSeries are the series of one label set. Those of forwarded requests are made when the first is forwarded, so that
// refusals alone cost a counter each.
type requestSeries struct {
	errors    [len(errorCodes)]atomic.Pointer[pair[prometheus.Counter]]
	newError  func(code int) *pair[prometheus.Counter]
	forwarded atomic.Pointer[forwardedSeries]
	newSeries func() *forwardedSeries
}

type forwardedSeries struct {
	total                                            pair[prometheus.Counter]
	running                                          pair[prometheus.Gauge]
	rewrites                                         prometheus.Counter // nil where the name is not replaced
	duration, request, answer, input, output, cached pair[prometheus.Observer]
	ntpot, tpot, ttft, ttftStream                    pair[prometheus.Observer]
}

// errorCodes are llm-d's names of what a status means; the last is that of an engine that broke off.
var errorCodes = [...]string{"BadRequest", "Unauthorized", "Forbidden", "NotFound", "PreconditionFailed", "ResourceExhausted", "Internal",
	"ServiceUnavailable", "ModelServerError"}

// errorCode returns the index of the name of a reason's status.
func errorCode(id reason.ID) int {
	switch status := id.Row().Status; {
	case status == 401:
		return 1
	case status == 403:
		return 2
	case status == 404:
		return 3
	case status == 412:
		return 4
	case status == 429:
		return 5
	case status == 502:
		return 8
	case status == 503:
		return 7
	case status >= 500:
		return 6
	}
	return 0
}

// error returns the counter of an error code.
func (r *requestSeries) error(code int) *pair[prometheus.Counter] {
	if p := r.errors[code].Load(); p != nil {
		return p
	}
	p := r.newError(code) // twice makes the same series
	r.errors[code].Store(p)
	return p
}

// sent returns the series of forwarded requests.
func (r *requestSeries) sent() *forwardedSeries {
	if s := r.forwarded.Load(); s != nil {
		return s
	}
	s := r.newSeries()
	r.forwarded.Store(s)
	return s
}

// attemptSeries are those of the attempts to schedule a model.
type attemptSeries struct {
	failed pair[prometheus.Counter]
	to     table[place, pair[prometheus.Counter]]
}

// place is an endpoint, as namespace/name, with its port. No client names one, and the bound is there for those that have
// long gone.
type place struct {
	name string
	port uint16
}

func newUpstream(registry *prometheus.Registry, o *MetricsOptions) *upstream {
	f := &families{registry, o.Legacy}
	u := &upstream{}
	u.models.Store(&map[string]string{})
	u.index.size = prometheus.NewDesc(f.name("prefix_indexer_size"), "Blocks in the index of prefixes, of all endpoints together.", pluginLabels, nil)
	u.index.ratio = f.histogram("prefix_indexer_hit_ratio", "inference_extension_prefix_indexer_hit_ratio", "Share of a prompt that was believed to be cached where the request went.", ratioBuckets, pluginLabels, nil)
	u.index.bytes = f.histogram("prefix_indexer_hit_bytes", "inference_extension_prefix_indexer_hit_bytes", "Bytes of a prompt that were believed to be cached where the request went, at 4 a token.", hitBuckets, pluginLabels, nil)
	u.latency.register(f, o, func(l labelSet) labelSet { return l.folded(*u.models.Load()) })
	registry.MustRegister(&u.index, &u.latency)
	u.configured(o.Configuration)

	total := f.counter("request_total", "inference_objective_request_total", "Requests that were forwarded.", requestLabels, []string{"model_name", "target_model_name", "priority"})
	errors := f.counter("request_error_total", "inference_objective_request_error_total", "Requests that were refused, or whose engine broke off.",
		append(append([]string{}, requestLabels...), "error_code"), append(append([]string{}, legacyRequestLabels...), "error_code"))
	running := f.gauge("request_running", "inference_objective_running_requests", "Requests that were forwarded and have not ended.", requestLabels, requestLabels[:1])
	perRequest := func(name, old, help string, buckets []float64) func(values, oldValues []string) pair[prometheus.Observer] {
		return f.histogram(name, old, help, buckets, requestLabels, legacyRequestLabels)
	}
	duration := perRequest("request_duration_seconds", "inference_objective_request_duration_seconds", "From a request's headers to the end of its answer.", latencyBuckets)
	request := perRequest("request_size_bytes", "inference_objective_request_sizes", "Bytes of a request's body.", requestBuckets)
	answer := perRequest("response_size_bytes", "inference_objective_response_sizes", "Bytes of an answer's body, where it comes by us.", answerBuckets)
	input := perRequest("request_input_tokens", "inference_objective_input_tokens", "Prompt tokens, as the engine reported them.", inputBuckets)
	output := perRequest("request_output_tokens", "inference_objective_output_tokens", "Generated tokens, as the engine reported them.", outputBuckets)
	cached := perRequest("request_cached_tokens", "inference_objective_prompt_cached_tokens", "Prompt tokens that the engine had cached, as it reported them.", inputBuckets)
	ntpot := perRequest("request_ntpot_seconds", "inference_objective_normalized_time_per_output_token_seconds", "Duration of a request divided by its generated tokens.", ntpotBuckets)
	tpot := f.histogram("request_streaming_tpot_seconds", "", "Time per generated token after the first, of streams.", tpotBuckets, requestLabels, nil)
	ttft := f.histogram("request_ttft_seconds", "", "From a request's headers to the headers of its answer.", ttftBuckets, append(append([]string{}, requestLabels...), "streaming"), nil)
	rewrites := prometheus.NewCounterVec(prometheus.CounterOpts{Name: f.name("model_rewrite_decisions_total"), Help: "Requests whose model's name was replaced by that of the pool's model."},
		[]string{"model_rewrite_name", "model_name", "target_model"})
	registry.MustRegister(rewrites)

	u.requests.most, u.requests.own = o.LabelSets, labelSet.own
	u.requests.fold = func(l labelSet) labelSet { return l.folded(*u.models.Load()) }
	u.requests.make = func(l labelSet) *requestSeries {
		priority := strconv.Itoa(int(l.priority))
		values, old := []string{l.model, l.target, l.tenant, priority}, []string{l.model, l.target}
		with := func(more string) []string { return append(values[:4:4], more) }
		return &requestSeries{
			newError: func(code int) *pair[prometheus.Counter] {
				p := errors(with(errorCodes[code]), append(old[:2:2], errorCodes[code]))
				return &p
			},
			newSeries: func() *forwardedSeries {
				s := &forwardedSeries{
					total: total(values, append(old[:2:2], priority)), running: running(values, old[:1]),
					duration: duration(values, old), request: request(values, old), answer: answer(values, old),
					input: input(values, old), output: output(values, old), cached: cached(values, old), ntpot: ntpot(values, old),
					tpot: tpot(values, nil), ttft: ttft(with("false"), nil), ttftStream: ttft(with("true"), nil),
				}
				if l.model != "" && l.target != "" && l.model != l.target {
					s.rewrites = rewrites.WithLabelValues((*u.models.Load())[l.target], l.model, l.target)
				}
				return s
			},
		}
	}

	attempts := f.counter("scheduler_attempts_total", "inference_extension_scheduler_attempts_total", "Decisions, by the endpoint that was picked; status is success or failure.",
		[]string{"status", "target_model_name", "endpoint_name", "namespace", "port"}, []string{"status", "target_model_name", "pod_name", "namespace", "port"})
	u.attempts = table[string, attemptSeries]{
		most: o.LabelSets, own: strings.Clone, fold: func(target string) string { return foldedModel(target, *u.models.Load()) },
		make: func(target string) *attemptSeries {
			values := []string{"failure", target, "", "", ""}
			a := &attemptSeries{failed: attempts(values, values)}
			a.to = table[place, pair[prometheus.Counter]]{
				most: endpointsMax, fold: func(place) place { return place{name: "/" + otherLabel} },
				make: func(at place) *pair[prometheus.Counter] {
					namespace, name, _ := strings.Cut(at.name, "/")
					port := ""
					if at.port != 0 {
						port = strconv.Itoa(int(at.port))
					}
					values := []string{"success", target, name, namespace, port}
					p := attempts(values, values)
					return &p
				},
			}
			return a
		},
	}

	u.decision = f.histogram("scheduler_e2e_duration_seconds", "inference_extension_scheduler_e2e_duration_seconds",
		"Time that the calls of an exchange took until its decision, without waiting for bytes or capacity.", scheduleBuckets, nil, nil)(nil, nil)
	u.processing = f.histogram("request_processing_duration_seconds", "", "From a request's headers to its decision, waits included.", processingBuckets, nil, nil)(nil, nil)
	source, both := []string{"source_type"}, []string{"source_type", "extractor_type"}
	u.pollErrors = f.counter("datalayer_poll_errors_total", "llm_d_inference_scheduler_datalayer_poll_errors_total", "Metrics pages that could not be read.", source, source)([]string{"metrics-data-source"}, []string{"metrics-data-source"})
	extractor := []string{"metrics-data-source", "core-metrics-extractor"}
	u.extractErrors = f.counter("datalayer_extract_errors_total", "llm_d_inference_scheduler_datalayer_extract_errors_total", "Series of metrics pages that were taken as unknown.", both, both)(extractor, extractor)
	build := []string{o.Commit, o.Version}
	info := f.gauge("info", "inference_extension_info", "1; what was built.", []string{"commit", "build_ref"}, []string{"commit", "build_ref"})(build, build)
	info.now.Set(1)
	if info.twin {
		info.old.Set(1)
	}
	return u
}

// configured adds names that keep their labels. Once the bound has been reached it adds none: a request that was counted
// under "other" must end there too, or the running ones of both would never again be right.
func (u *upstream) configured(c Configuration) {
	u.index.configured(c.Prefix)
	u.latency.configured(c.Latency)
	if u.requests.full(u.requests.known()) {
		return
	}
	all := maps.Clone(*u.models.Load())
	maps.Copy(all, c.Models)
	u.models.Store(&all)
}

func labelsOf(m *exchange.Metered) labelSet {
	l := labelSet{model: m.Model, target: m.Target.Model, tenant: m.Flow, priority: m.Target.Priority}
	if l.tenant == "" {
		l.tenant = defaultFlow
	}
	return l
}

func (u *upstream) decided(m *exchange.Metered, refused reason.ID, wait pool.Instant) {
	l := labelsOf(m)
	switch {
	case refused == reason.ClientAborted:
		return
	case refused != 0:
		count(u.requests.of(l).error(errorCode(refused)), 1)
		if refused == reason.NoEndpoint || refused == reason.AllFiltered {
			count(&u.attempts.of(l.target).failed, 1)
		}
		return
	case m.Target.Pool == "": // answered by us
		return
	}
	s := u.requests.of(l).sent()
	count(&s.total, 1)
	s.running.now.Inc()
	if s.running.twin {
		s.running.old.Inc()
	}
	if s.rewrites != nil {
		s.rewrites.Inc()
	}
	count(u.attempts.of(l.target).to.of(place{m.To, m.Addr.Port()}), 1)
	observe(&u.processing, time.Duration(wait).Seconds())
	u.index.matched(m.Matched, m.Prompt)
}

func (u *upstream) settled(m *exchange.Metered, o *plugins.Outcome) {
	u.latency.settled(m, o)
	r := u.requests.of(labelsOf(m))
	s := r.sent()
	s.running.now.Dec()
	if s.running.twin {
		s.running.old.Dec()
	}
	if o.Ending != 0 && o.Ending != reason.ClientAborted {
		count(r.error(errorCode(o.Ending)), 1)
	}
	observe(&s.duration, o.Total.Seconds())
	known := func(p *pair[prometheus.Observer], n int64) {
		if n >= 0 {
			observe(p, float64(n))
		}
	}
	known(&s.request, m.Request)
	known(&s.answer, m.Answer)
	known(&s.input, o.Prompt)
	known(&s.output, o.Out)
	known(&s.cached, o.Cached)
	if o.Out > 0 {
		observe(&s.ntpot, o.Total.Seconds()/float64(o.Out))
	}
	switch {
	case o.TTFT < 0:
	case m.Stream:
		observe(&s.ttftStream, o.TTFT.Seconds())
		if o.Out > 1 {
			observe(&s.tpot, (o.Total-o.TTFT).Seconds()/float64(o.Out-1))
		}
	default:
		observe(&s.ttft, o.TTFT.Seconds())
	}
}

func (u *upstream) scraped(s *telemetry.Scrape) {
	if s.Outcome != telemetry.OK {
		count(&u.pollErrors, 1)
	}
	if s.Rejected > 0 {
		count(&u.extractErrors, float64(s.Rejected))
	}
}
