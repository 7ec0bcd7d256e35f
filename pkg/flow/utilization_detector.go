package flow

import (
	"slices"
	"time"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
)

// UtilizationDetector measures how full a pool is by what its engines report:
//
//	saturation = mean over endpoints of max(queue / QueueDepthThreshold, KV usage / KVCacheUtilThreshold)
//
// An endpoint that was never scraped, or whose sample is stale, counts as 1. queue is the number of requests that wait in the
// engine, and those that were sent there since the sample and have no first byte, so that a burst between two samples does not
// overrun it. An endpoint that is far beyond its thresholds counts for several that are idle.
//
// In a profile it is a filter, as llm-d's is: it keeps the endpoints whose queue and KV usage are both below their threshold times
// 1 + Headroom, and all where none is. One that was never scraped, or whose sample is older than --metrics-staleness-threshold, is not
// below. A file of llm-d's that names no profiles has it in its profile where it declares it; one of our own has it not.
type UtilizationDetector struct {
	// QueueDepthThreshold is the number of waiting requests at which an endpoint is full.
	QueueDepthThreshold int32 `json:"queueDepthThreshold" schema:"min=1"`

	// KVCacheUtilThreshold is the share of its KV cache at which an endpoint is full.
	KVCacheUtilThreshold float64 `json:"kvCacheUtilThreshold" schema:"min=0.001,max=1"`

	// MetricsStalenessThreshold is the age beyond which a sample is stale, where it is more than --metrics-staleness-threshold.
	MetricsStalenessThreshold time.Duration `json:"metricsStalenessThreshold" schema:"min=1ms"`

	// Headroom is how far above the thresholds an endpoint may be as a candidate of a profile, as a share of them. It changes nothing
	// about when the pool is full.
	Headroom float64 `json:"headroom" schema:"min=0"`

	queued plugins.EndpointValues[int32]
	usage  plugins.EndpointValues[float64]
}

var (
	_ Detector       = (*UtilizationDetector)(nil)
	_ plugins.Filter = (*UtilizationDetector)(nil)
)

// NewUtilizationDetector returns a UtilizationDetector with its defaults.
func NewUtilizationDetector() *UtilizationDetector {
	return &UtilizationDetector{QueueDepthThreshold: 5, KVCacheUtilThreshold: 0.8, MetricsStalenessThreshold: 200 * time.Millisecond}
}

// Provision says what Filter reads.
func (d *UtilizationDetector) Provision(b *plugins.Builder) error {
	d.queued, d.usage = plugins.Needs(b, plugins.QueuedRequests), plugins.Needs(b, plugins.KVUsage)
	return nil
}

// Filter keeps the endpoints that are below their thresholds and the headroom above these.
func (d *UtilizationDetector) Filter(c *plugins.Cycle, keep plugins.Bits) {
	queued, usage := d.queued.Of(c), d.usage.Of(c)
	most, full := float64(float64(d.QueueDepthThreshold)*(1+d.Headroom)), float64(d.KVCacheUtilThreshold*(1+d.Headroom))
	below := func(id pool.ID) bool { return queued[id] >= 0 && float64(queued[id]) < most && usage[id] < full }
	if !slices.ContainsFunc(c.Candidates, below) {
		return
	}
	for i, id := range c.Candidates {
		if !below(id) {
			keep.Clear(i)
		}
	}
}

// Saturation returns the mean of the endpoints.
func (d *UtilizationDetector) Saturation(v *View) Saturation {
	var m mean
	stale := 0
	bound := max(d.MetricsStalenessThreshold, v.StaleAfter)
	for _, id := range v.Members {
		s := &v.Books.Samples[id]
		if s.State(v.Now, bound) != pool.Fresh {
			stale++
			m.add(v.Stages[id], 1)
			continue
		}
		queue := float64(max(s.Waiting, 0)+v.Books.AfterSample[id]) / float64(d.QueueDepthThreshold)
		m.add(v.Stages[id], max(queue, s.KVUsage/d.KVCacheUtilThreshold))
	}
	out := m.of(1)
	out.Stale, out.Unread = stale, stale
	return out
}
