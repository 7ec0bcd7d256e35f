package flow

import (
	"time"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
)

// Ordering says who of a flow goes first: the request with the smallest key, of equals the one that came first. Key is
// asked once, when a request gets its place; at is the instant, ttl how long it may wait, 0 without a bound.
type Ordering interface {
	Key(r *plugins.Request, at pool.Instant, ttl time.Duration) pool.Instant
}

// FCFS lets requests go in the order in which they came.
type FCFS struct{}

// NewFCFS returns an FCFS; it has no parameters.
func NewFCFS() *FCFS { return &FCFS{} }

// Key is the instant at which the request came.
func (*FCFS) Key(_ *plugins.Request, at pool.Instant, _ time.Duration) pool.Instant { return at }

// EDF lets the request go first whose time to wait ends first. Within one band it differs from the order of arrival only
// for requests that came under different bounds.
type EDF struct{}

// NewEDF returns an EDF; it has no parameters.
func NewEDF() *EDF { return &EDF{} }

// Key is the instant at which the request is refused if it has not gone.
func (*EDF) Key(_ *plugins.Request, at pool.Instant, ttl time.Duration) pool.Instant {
	if ttl <= 0 {
		return plugins.Forever
	}
	return after(at, ttl)
}

// SLODeadline lets the request go first whose time to first token, as its header x-llm-d-slo-ttft-ms asks for it, ends first.
// Requests without the header go last, and so do those with one that is no number of milliseconds above 0 and up to a day, which is
// noted as target_ignored.
type SLODeadline struct{}

// NewSLODeadline returns an SLODeadline; it has no parameters.
func NewSLODeadline() *SLODeadline { return &SLODeadline{} }

// Key is the instant by which the first token is due.
func (*SLODeadline) Key(r *plugins.Request, at pool.Instant, _ time.Duration) pool.Instant {
	if slo, ok := ttftSLO(r); ok {
		return at + pool.Instant(slo)
	}
	return plugins.Forever
}

// ttftSLO returns what the headers ask for.
func ttftSLO(r *plugins.Request) (time.Duration, bool) {
	ms := plugins.TargetTTFT(r)
	if ms == plugins.Unknown {
		return 0, false
	}
	return time.Duration(ms * float64(time.Millisecond)), true
}
