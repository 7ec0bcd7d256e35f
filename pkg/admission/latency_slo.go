package admission

import (
	"fmt"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/reason"
)

// LatencySLO refuses a request of a priority below 0 with 429 where no endpoint is predicted to keep the targets that its headers
// name, so that it takes no room for an answer that comes too late. A request without targets, or of another priority, passes.
//
// It passes, too, where an endpoint that may take it runs nothing, or uses less than 2 % of its KV cache: of those a prediction is worth
// little. Where one is not predicted it passes for that, which is noted as latency_unpredicted. With flow-control it is asked when a request's turn comes, about the endpoints that have room.
type LatencySLO struct {
	ttft, itl             plugins.EndpointValues[float64]
	ttftTarget, itlTarget plugins.RequestValue[float64]
	inFlight, running     plugins.EndpointValues[int32]
	usage                 plugins.EndpointValues[float64]
}

var _ plugins.Admitter = (*LatencySLO)(nil)

// coldUsage is the share of its KV cache below which an endpoint is cold.
const coldUsage = 0.02

// NewLatencySLO returns a LatencySLO; it has no parameters.
func NewLatencySLO() *LatencySLO { return &LatencySLO{} }

// Provision says what Admit reads.
func (s *LatencySLO) Provision(b *plugins.Builder) error {
	s.ttft, s.itl = plugins.Needs(b, plugins.PredictedTTFT), plugins.Needs(b, plugins.PredictedITL)
	s.ttftTarget, s.itlTarget = plugins.Needs(b, plugins.TTFTTarget), plugins.Needs(b, plugins.ITLTarget)
	s.inFlight, s.running = plugins.Needs(b, plugins.InFlightRequests), plugins.Needs(b, plugins.RunningRequests)
	s.usage = plugins.Needs(b, plugins.KVUsage)
	return nil
}

// Admit looks for one endpoint that may keep the targets.
func (s *LatencySLO) Admit(c *plugins.Cycle) *reason.Refusal {
	ttftTarget, itlTarget := s.ttftTarget.Of(c.Request), s.itlTarget.Of(c.Request)
	if c.Request.Target.Priority >= 0 || ttftTarget <= 0 && itlTarget <= 0 || len(c.Candidates) == 0 {
		return nil
	}
	ttft, itl := s.ttft.Of(c), s.itl.Of(c)
	inFlight, running, usage := s.inFlight.Of(c), s.running.Of(c), s.usage.Of(c)
	best, unpredicted := c.Candidates[0], false
	for _, id := range c.Candidates {
		idle := inFlight[id] == 0 && running[id] == 0
		cold := usage[id] >= 0 && usage[id] < coldUsage
		late := ttftTarget > 0 && ttft[id] > ttftTarget || itlTarget > 0 && itl[id] > itlTarget
		unknown := ttft[id] == plugins.Unknown || !late && itlTarget > 0 && itl[id] == plugins.Unknown
		if idle || cold || !late && !unknown {
			return nil
		}
		unpredicted = unpredicted || unknown
		if ttft[id] < ttft[best] {
			best = id
		}
	}
	if unpredicted {
		c.Note(reason.LatencyUnpredicted, "latency-slo-admitter")
		return nil
	}
	return reason.Refuse(reason.TargetOutOfReach, "its priority is %d, it wants %s, and the best of %d endpoints is predicted to take %s",
		c.Request.Target.Priority, latencies(ttftTarget, itlTarget), len(c.Candidates), latencies(ttft[best], itl[best]))
}

// latencies says a time to first token and one between tokens, in words; what is not above 0 is left out.
func latencies(ttft, itl float64) string {
	first, between := fmt.Sprintf("%.0f ms to its first token", ttft), fmt.Sprintf("%.0f ms between tokens", itl)
	switch {
	case itl <= 0:
		return first
	case ttft <= 0:
		return between
	}
	return first + " and " + between
}
