package flow

import (
	"time"

	"github.com/fairlead/fairlead/pkg/pool"
)

// View is what a detector may look at, inside the pool's lock: it must be quick, and keep nothing.
type View struct {
	Now        pool.Instant
	Books      *pool.Books
	StaleAfter time.Duration // of samples

	Members []pool.ID // the endpoints that take requests: without those that drain
	Stages  []Stage   // by pool.ID, of all slots
}

// Stage says which part of serving an endpoint takes, by its label llm-d.ai/role.
type Stage uint8

// The stages, which are bits: an endpoint may take both parts. One without the label decodes.
const (
	StagePrefill Stage = 1 << iota
	StageDecode
)

// roleLabel is the label of endpoints that says their part.
const roleLabel = "llm-d.ai/role"

// stageOf returns the stages of an endpoint.
func stageOf(e *pool.Endpoint) Stage {
	switch e.Labels[roleLabel] {
	case "prefill", "encode-prefill":
		return StagePrefill
	case "prefill-decode", "both", "encode-prefill-decode":
		return StagePrefill | StageDecode
	case "encode":
		return 0
	}
	return StageDecode
}

// Saturation is how full a pool is.
type Saturation struct {
	// Value is 0 where nothing is used and 1 where nothing is free; detectors that compare with a threshold go beyond. Of a
	// pool that prefills and decodes at different endpoints it is that of the fuller stage.
	Value float64

	// Prefill and Decode are the stages, 0 for one that no endpoint takes.
	Prefill, Decode float64

	// Stale is how many endpoints have no fresh sample.
	Stale int

	// Unread is how many of them count as full for want of one.
	Unread int

	// Short is how many have no room for want of memory, as their engines' gauges say.
	Short int

	// Until is when Value may fall though nothing happens but time; 0 for never.
	Until pool.Instant
}

// Detector says how full a pool is. It is a pure function of the view. A pool without members is 1 for everybody and need not
// be asked about.
type Detector interface {
	Saturation(v *View) Saturation
}

// Rooms is implemented by a detector that knows of each endpoint whether it has room. A request then goes to one that has,
// and waits if none of those that it may go to has, or for a while if the one of its choice has none. HasRoom reads nothing but the endpoint's columns of the books and its sample,
// and where these stay as they are, one that has room keeps it: time alone makes room and never takes it.
type Rooms interface {
	HasRoom(v *View, id pool.ID) bool
}

// Memories is implemented by a detector that goes by how full the caches of engines are.
type Memories interface {
	// Short reports whether an endpoint has no room for want of memory, by its gauge; and whether it would have none, but that its gauge
	// is not believed. It reads what Rooms.HasRoom reads.
	Short(v *View, id pool.ID) (short, doubted bool)
}

// mean is the mean of a quantity over the endpoints of each stage, and the fuller stage of the two.
type mean struct {
	sum   [2]float64
	count [2]float64
}

func (m *mean) add(s Stage, v float64) {
	if s&StagePrefill != 0 {
		m.sum[0] += v
		m.count[0]++
	}
	if s&StageDecode != 0 {
		m.sum[1] += v
		m.count[1]++
	}
}

// of returns the saturation; per is what one endpoint can take, in units of what was added.
func (m *mean) of(per float64) (s Saturation) {
	if m.count[0] == 0 && m.count[1] == 0 {
		return Saturation{Value: 1}
	}
	if m.count[0] > 0 {
		s.Prefill = m.sum[0] / float64(m.count[0]*per)
	}
	if m.count[1] > 0 {
		s.Decode = m.sum[1] / float64(m.count[1]*per)
	}
	s.Value = max(s.Prefill, s.Decode)
	return s
}
