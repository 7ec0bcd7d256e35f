package filters

import (
	"errors"
	"fmt"

	"github.com/fairlead/fairlead/pkg/plugins"
)

// Utilization removes endpoints that are above any of some bounds on their load.
//
// An endpoint whose load is not known is not above a bound on it; own requests in flight are always known.
type Utilization struct {
	// Conditions are the bounds.
	Conditions []UtilizationCondition `json:"conditions,omitempty" schema:"max=100"`

	// MaxRequests is one more bound, on active-requests: the form that active-request-filter has. Write a condition instead.
	MaxRequests *int32 `json:"maxRequests,omitempty" schema:"min=1"`

	// FallbackOnEmpty keeps all where none would be left.
	FallbackOnEmpty bool `json:"fallbackOnEmpty"`

	// InFlightLoadProducerName names the plugin whose count of requests in flight is read. The books count for all, so that
	// it may be the configuration's inflight-load-producer or left out.
	InFlightLoadProducerName string `json:"inFlightLoadProducerName,omitempty"`

	caps    caps
	flying  plugins.EndpointValues[int32]
	running plugins.EndpointValues[int32]
	queued  plugins.EndpointValues[int32]
	usage   plugins.EndpointValues[float64]
}

// UtilizationCondition is a bound on one kind of load.
type UtilizationCondition struct {
	// Metric is what is bounded: active-requests (own requests in flight), running-requests (in the engine's batch),
	// waiting-queue (in the engine, and own ones that its last sample cannot know), or kv-cache-utilization (0 to 1).
	Metric string `json:"metric" schema:"required,enum=active-requests|running-requests|waiting-queue|kv-cache-utilization"`

	// MaxValue is the most that an endpoint may have.
	MaxValue float64 `json:"maxValue" schema:"required,min=0"`
}

// caps are the bounds by metric; nil is none.
type caps struct{ active, running, waiting, usage *float64 }

var _ plugins.Filter = (*Utilization)(nil)

// NewUtilization returns a Utilization; conditions must be given.
func NewUtilization() *Utilization { return &Utilization{} }

// Provision says what Filter reads, and refuses to bound nothing.
func (f *Utilization) Provision(b *plugins.Builder) error {
	f.caps = caps{}
	if f.MaxRequests != nil {
		most := float64(*f.MaxRequests)
		f.caps.active = &most
		b.Warn("maxRequests", "maxRequests is an old form; write conditions: [{metric: active-requests, maxValue: %d}]", *f.MaxRequests)
	}
	for i := range f.Conditions {
		f.caps.lower(&f.Conditions[i])
	}
	if f.caps == (caps{}) {
		return errors.New("conditions is empty, so that nothing is bounded; give at least one, such as {metric: waiting-queue, maxValue: 64}")
	}
	if u := f.caps.usage; u != nil && *u > 1 {
		return fmt.Errorf("conditions: maxValue of kv-cache-utilization is %v; at most 1", *u)
	}
	if f.caps.active != nil {
		f.flying = plugins.Needs(b, plugins.InFlightRequests)
	}
	if f.caps.running != nil {
		f.running = plugins.Needs(b, plugins.RunningRequests)
	}
	if f.caps.waiting != nil {
		f.queued = plugins.Needs(b, plugins.QueuedRequests)
	}
	if f.caps.usage != nil {
		f.usage = plugins.Needs(b, plugins.KVUsage)
	}
	return plugins.CheckInFlightProducer(b, f.InFlightLoadProducerName)
}

// lower takes a condition into account; of two on one metric the lower counts.
func (c *caps) lower(by *UtilizationCondition) {
	of := &c.usage
	switch by.Metric {
	case "active-requests":
		of = &c.active
	case "running-requests":
		of = &c.running
	case "waiting-queue":
		of = &c.waiting
	}
	if *of == nil || by.MaxValue < **of {
		*of = &by.MaxValue
	}
}

// Filter clears the bit of every candidate above a bound.
func (f *Utilization) Filter(c *plugins.Cycle, keep plugins.Bits) {
	if f.caps.active != nil {
		above(c, keep, f.flying.Of(c), *f.caps.active)
	}
	if f.caps.running != nil {
		above(c, keep, f.running.Of(c), *f.caps.running)
	}
	if f.caps.waiting != nil {
		above(c, keep, f.queued.Of(c), *f.caps.waiting)
	}
	if f.caps.usage != nil {
		above(c, keep, f.usage.Of(c), *f.caps.usage)
	}
	if !f.FallbackOnEmpty {
		return
	}
	for i := range c.Candidates {
		if keep.Has(i) {
			return
		}
	}
	keepAll(c, keep)
}

// above clears the bits of those whose load is known and above most.
func above[T int32 | float64](c *plugins.Cycle, keep plugins.Bits, load []T, most float64) {
	for i, id := range c.Candidates {
		if v := load[id]; v != plugins.Unknown && float64(v) > most {
			keep.Clear(i)
		}
	}
}
