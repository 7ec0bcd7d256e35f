package flow

import (
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
type UtilizationDetector struct {
	// QueueDepthThreshold is the number of waiting requests at which an endpoint is full.
	QueueDepthThreshold int32 `json:"queueDepthThreshold" schema:"min=1"`

	// KVCacheUtilThreshold is the share of its KV cache at which an endpoint is full.
	KVCacheUtilThreshold float64 `json:"kvCacheUtilThreshold" schema:"min=0.001,max=1"`

	// MetricsStalenessThreshold is the age beyond which a sample is stale, where it is more than --metrics-staleness-threshold.
	MetricsStalenessThreshold time.Duration `json:"metricsStalenessThreshold" schema:"min=1ms"`

	// Headroom is how far above the thresholds an endpoint may be as a candidate of a profile. Here the detector is no filter, so
	// that it changes nothing.
	Headroom float64 `json:"headroom" schema:"min=0"`
}

var _ Detector = (*UtilizationDetector)(nil)

// NewUtilizationDetector returns a UtilizationDetector with its defaults.
func NewUtilizationDetector() *UtilizationDetector {
	return &UtilizationDetector{QueueDepthThreshold: 5, KVCacheUtilThreshold: 0.8, MetricsStalenessThreshold: 200 * time.Millisecond}
}

// Provision warns of a parameter without effect.
func (d *UtilizationDetector) Provision(b *plugins.Builder) error {
	if d.Headroom != 0 {
		b.Warn("headroom", "headroom has no effect, since the detector is no filter; use utilization-filter in a profile")
	}
	return nil
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
