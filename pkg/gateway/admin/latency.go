package admin

import (
	"net/http"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/plugins"
)

// LatencyPredictor is a plugin that predicts latencies. Accuracy returns how well it did of late.
type LatencyPredictor struct {
	Name, Type string
	Accuracy   func() []Accuracy
}

// Accuracy is how well one latency of a class of endpoints was predicted of late.
type Accuracy struct {
	Pool    string  `json:"pool"`
	Class   string  `json:"class"`
	Latency string  `json:"latency"` // ttft or itl
	Answers int64   `json:"answers"` // that were learned from
	Error   float64 `json:"error"`   // rolling mean of |actual - predicted| / actual of the model, used or not
	Used    bool    `json:"used"`    // else the closed form stands in
	High    float64 `json:"high"`    // the factor from a prediction to what nine of ten stay below

	// Weights are milliseconds by feature, and Paces by what predictions are multiplied, by endpoint.
	Weights map[string]float64 `json:"weights"`
	Paces   map[string]float64 `json:"paces"`
}

// latencies are the metrics of predicted latencies, as long as a plugin predicts.
type latencies struct {
	missed, answers, used *prometheus.Desc

	ttft, itl func(values, oldValues []string) pair[prometheus.Observer]
	violated  func(values, oldValues []string) pair[prometheus.Counter]
	most      int
	fold      func(labelSet) labelSet

	by atomic.Pointer[predictor] // nil without such a plugin
}

// predictor are the series of one plugin, by model and target.
type predictor struct {
	LatencyPredictor
	series table[labelSet, predictedSeries]
}

type predictedSeries struct {
	ttft, itl                 pair[prometheus.Observer]
	violatedTTFT, violatedITL pair[prometheus.Counter]
}

var predictedLabels = []string{"plugin_name", "plugin_type", "model_name", "target_model_name"}

func (l *latencies) register(f *families, o *MetricsOptions, fold func(labelSet) labelSet) {
	labels := []string{"pool", "class", "latency"}
	l.missed = prometheus.NewDesc("fairlead_predicted_latency_error_ratio", "Mean error of the last hundred predictions of the model, as a share of what it was; latency is ttft or itl.", labels, nil)
	l.answers = prometheus.NewDesc("fairlead_predicted_latency_answers", "Answers that the model has learned from.", labels, nil)
	l.used = prometheus.NewDesc("fairlead_predicted_latency_in_use", "1 if the model is used, 0 if the closed form stands in.", labels, nil)
	l.ttft = f.histogram("request_predicted_ttft_seconds", "inference_objective_request_predicted_ttft_seconds", "Time to first token as it was predicted where the request went.", latencyBuckets, predictedLabels, predictedLabels[2:])
	l.itl = f.histogram("request_predicted_tpot_seconds", "inference_objective_request_predicted_tpot_seconds", "Time between tokens as it was predicted where the request went.", predictedITLBuckets, predictedLabels, predictedLabels[2:])
	l.violated = f.counter("request_slo_violation_total", "inference_objective_request_slo_violation_total", "Streams that missed a target of their client; type is ttft or tpot.",
		append(append([]string{}, predictedLabels...), "type"), append(append([]string{}, predictedLabels[2:]...), "type"))
	l.most, l.fold = o.LabelSets, fold
}

// predictedITLBuckets are llm-d's.
var predictedITLBuckets = []float64{0.0005, 0.00205, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.125, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8,
	1, 1.5, 2, 3, 4.5, 6, 12, 18, 24, 30, 36, 48, 60, 90, 120, 180, 270, 360}

func (l *latencies) configured(by LatencyPredictor) {
	if by.Accuracy == nil {
		l.by.Store(nil)
		return
	}
	p := &predictor{LatencyPredictor: by}
	p.series.most, p.series.own, p.series.fold = l.most, labelSet.own, l.fold
	p.series.make = func(s labelSet) *predictedSeries {
		values, old := []string{by.Name, by.Type, s.model, s.target}, []string{s.model, s.target}
		return &predictedSeries{
			ttft: l.ttft(values, old), itl: l.itl(values, old),
			violatedTTFT: l.violated(append(values[:4:4], "ttft"), append(old[:2:2], "ttft")),
			violatedITL:  l.violated(append(values[:4:4], "tpot"), append(old[:2:2], "tpot")),
		}
	}
	l.by.Store(p)
}

// settled takes what came of a stream's predictions and targets.
func (l *latencies) settled(m *exchange.Metered, o *plugins.Outcome) {
	p := l.by.Load()
	if p == nil || o.Ending != 0 || !m.Stream || o.TTFT < 0 {
		return
	}
	s := p.series.of(labelSet{model: m.Model, target: m.Target.Model})
	if m.Foreseen.TTFT >= 0 {
		observe(&s.ttft, m.Foreseen.TTFT/1000)
	}
	if m.Foreseen.ITL >= 0 {
		observe(&s.itl, m.Foreseen.ITL/1000)
	}
	if target := m.Foreseen.TTFTTarget; target > 0 && o.TTFT.Seconds()*1000 > target {
		count(&s.violatedTTFT, 1)
	}
	if target := m.Foreseen.ITLTarget; target > 0 && o.Out > 1 && (o.Total-o.TTFT).Seconds()*1000/float64(o.Out-1) > target {
		count(&s.violatedITL, 1)
	}
}

// accuracy returns how well latencies are predicted; empty where nobody does.
func (l *latencies) accuracy() []Accuracy {
	if p := l.by.Load(); p != nil {
		return p.Accuracy()
	}
	return []Accuracy{}
}

// Describe sends the descriptions.
func (l *latencies) Describe(out chan<- *prometheus.Desc) {
	out <- l.missed
	out <- l.answers
	out <- l.used
}

// Collect asks the plugin.
func (l *latencies) Collect(out chan<- prometheus.Metric) {
	for _, a := range l.accuracy() {
		used := 0.0
		if a.Used {
			used = 1
		}
		out <- prometheus.MustNewConstMetric(l.missed, prometheus.GaugeValue, a.Error, a.Pool, a.Class, a.Latency)
		out <- prometheus.MustNewConstMetric(l.answers, prometheus.GaugeValue, float64(a.Answers), a.Pool, a.Class, a.Latency)
		out <- prometheus.MustNewConstMetric(l.used, prometheus.GaugeValue, used, a.Pool, a.Class, a.Latency)
	}
}

// latency is /debug/latency: what is predicted, from what, and how well.
func (a *admin) latency(w http.ResponseWriter, _ *http.Request) {
	write(w, a.o.Metrics.upstream.latency.accuracy())
}
