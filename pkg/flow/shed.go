package flow

import (
	"fmt"
	"time"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// Shed refuses requests of a priority below 0 while their pool is full, and passes all others: what llm-d's endpoint picker does
// where its gate flowControl is off. Nobody waits.
type Shed struct {
	// SaturationDetectorRef names the plugin that says when a pool is full; without one it is a utilization-detector with its
	// defaults.
	SaturationDetectorRef string `json:"saturationDetectorRef,omitempty" schema:"max=253"`

	control *Control
}

var _ plugins.Queue = (*Shed)(nil)

// NewShed returns a Shed with its defaults.
func NewShed() *Shed { return &Shed{} }

// Provision finds the detector.
func (q *Shed) Provision(b *plugins.Builder) (err error) {
	detector := Detector(NewUtilizationDetector())
	if q.SaturationDetectorRef != "" {
		if detector, err = plugins.Refer[Detector](b, q.SaturationDetectorRef); err != nil {
			return fmt.Errorf("saturationDetectorRef: %w", err)
		}
	}
	q.control = NewControl(Settings{Detector: detector, Ceilings: NewStaticLimit(), RetryMin: time.Second, RetryMax: time.Second})
	return nil
}

// Phase says that it runs when the priority is known.
func (q *Shed) Phase() plugins.Phase { return plugins.AtAdmit }

// Reads says that it looks at nothing of the body.
func (q *Shed) Reads() plugins.Reads { return plugins.ReadsHeaders }

// Attach tells it the pools.
func (q *Shed) Attach(pools []*pool.Pool, sink reason.Sink) { q.control.Attach(pools, sink) }

// Enter passes.
func (q *Shed) Enter(*plugins.Request) plugins.Verdict { return plugins.Verdict{} }

// Fits refuses a request that may be shed while the pool is full.
func (q *Shed) Fits(c *plugins.Cycle, books *pool.Books) (bool, *reason.Refusal) {
	r := c.Request
	if r.Target.Priority >= 0 {
		return true, nil
	}
	l := q.control.mine[r.PoolIndex]
	s := q.control.saturation(l, c.Now, c.Snapshot, books)
	if s.Value < 1 || len(l.view.members) == 0 { // without endpoints there is another reason
		return true, nil
	}
	no := reason.Refuse(reason.Shed, "its priority is %d, and the saturation %.2f", r.Target.Priority, s.Value)
	if s.Unread > 0 {
		why := unread(s.Unread, len(l.view.members))
		c.Note(reason.FullUnread, why)
		no.Detail += "; " + why
	}
	return false, no
}

// Next has nobody.
func (q *Shed) Next(pool.Instant) (*plugins.Request, *reason.Refusal, bool) { return nil, nil, false }

// Admitted changes nothing.
func (q *Shed) Admitted(*plugins.Request, pool.Ref, pool.Load) {}

// Suits lets a request go anywhere.
func (q *Shed) Suits(*plugins.Cycle, []plugins.Leg) bool { return true }

// Nobody reports that nobody waits.
func (q *Shed) Nobody(*plugins.Request, *reason.Refusal) bool { return false }

// Leave changes nothing.
func (q *Shed) Leave(*plugins.Request) {}

// Deadline returns that there is none.
func (q *Shed) Deadline() pool.Instant { return 0 }

// Drain changes nothing.
func (q *Shed) Drain() {}
