package fleet

import (
	"time"

	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/simulator/engine"
)

// Status is how a request ended.
type Status uint8

// The ways to end.
const (
	Unfinished Status = iota // the run was cut off
	Completed
	Refused // by the scheduler
	Failed  // by its engine: crashed, or too full to take it
	Aborted // by its client, which went away
)

// String returns the name of s.
func (s Status) String() string {
	return [...]string{"unfinished", "completed", "refused", "failed", "aborted"}[s]
}

// Outcome is what a request came to. Instants that did not come are 0; a run does not begin before instant 1.
type Outcome struct {
	Arrived    pool.Instant
	Sent       pool.Instant // to the engine that served it
	Admitted   pool.Instant // by that engine, into its batch, for the first time
	FirstToken pool.Instant
	End        pool.Instant

	Prompt, Cached int32 // tokens; Cached as the engine had them at the first admission
	Output         int32 // tokens wanted
	Generated      int32 // tokens that came

	Pod                    int32 // that served it, -1 for none
	Session, Tenant, Class int32
	Priority               int32
	Preemptions            int32
	Tries                  uint8 // members that were asked, the unreachable ones included
	Status                 Status
	Reason                 string // code of a refusal or failure

	// LongestGap is the longest time between two of its tokens.
	LongestGap time.Duration
}

// TTFT is the time from the arrival to the first token; false where none came.
func (o *Outcome) TTFT() (time.Duration, bool) {
	return time.Duration(o.FirstToken - o.Arrived), o.FirstToken != 0
}

// ITL is the mean time between tokens, (end - first token)/(tokens - 1); false with fewer than two tokens or without an
// end.
func (o *Outcome) ITL() (time.Duration, bool) {
	if o.Status != Completed || o.Generated < 2 {
		return 0, false
	}
	return time.Duration(o.End-o.FirstToken) / time.Duration(o.Generated-1), true
}

// PodResult is what one pod did.
type PodResult struct {
	Name     string
	Hardware string
	Requests int64 // sent to it
	Busy     time.Duration
	Counters engine.Counters // of all its incarnations
}

// Result is a run. Outcomes are in the order of arrival.
type Result struct {
	Outcomes []Outcome
	Pods     []PodResult
	End      pool.Instant // of the last event
	Steps    int64
	Scrapes  int64
	Lost     int64 // readings that did not arrive

	// Batches are those of cache events that engines published to a listener, BatchesLost those of them that did not arrive.
	Batches, BatchesLost int64
}
