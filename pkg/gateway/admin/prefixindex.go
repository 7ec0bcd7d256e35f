package admin

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	pluginLabels = []string{"plugin_name", "plugin_type"}
	ratioBuckets = []float64{0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1}
	hitBuckets   = []float64{0, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536}
)

// bytesOfToken is what llm-d takes a token for.
const bytesOfToken = 4

// prefixIndex are llm-d's metrics of the index of prefixes, as long as a plugin keeps one.
type prefixIndex struct {
	size         *prometheus.Desc
	ratio, bytes func(values, oldValues []string) pair[prometheus.Observer]
	series       atomic.Pointer[prefixSeries] // nil without such a plugin
}

type prefixSeries struct {
	of           PrefixProducer
	ratio, bytes pair[prometheus.Observer]
}

func (p *prefixIndex) configured(by PrefixProducer) {
	if by.Size == nil {
		p.series.Store(nil)
		return
	}
	values := []string{by.Name, by.Type}
	p.series.Store(&prefixSeries{of: by, ratio: p.ratio(values, nil), bytes: p.bytes(values, nil)})
}

// matched takes how much of a prompt was believed to be cached, in tokens.
func (p *prefixIndex) matched(tokens, prompt int64) {
	if s := p.series.Load(); s != nil && prompt > 0 {
		observe(&s.ratio, float64(tokens)/float64(prompt))
		observe(&s.bytes, float64(tokens*bytesOfToken))
	}
}

// Describe sends the description of the size.
func (p *prefixIndex) Describe(out chan<- *prometheus.Desc) { out <- p.size }

// Collect asks the plugin for its size.
func (p *prefixIndex) Collect(out chan<- prometheus.Metric) {
	if s := p.series.Load(); s != nil {
		out <- prometheus.MustNewConstMetric(p.size, prometheus.GaugeValue, float64(s.of.Size()), s.of.Name, s.of.Type)
	}
}
