package plugins

import (
	"time"

	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// The functions of this file fill the facts that come from the pool itself. They run inside its lock, once per cycle, for
// the facts that somebody of the pool's profiles reads.

func fillPromptTokens(r *Request, h RequestValue[int64]) {
	switch {
	case r.Body == nil:
		h.Set(r, 0)
	case r.Body.PromptTokens >= 0:
		h.Set(r, r.Body.PromptTokens)
	default:
		h.Set(r, (r.Body.PromptBytes+3)/4)
	}
}

func fillRequestedModel(r *Request, h RequestValue[string]) {
	switch {
	case r.Target.Adapter != "":
		h.Set(r, r.Target.Adapter)
	case r.Target.Model != "":
		h.Set(r, r.Target.Model)
	default:
		h.Set(r, r.Model())
	}
}

func fillSteeredTo(r *Request, h RequestValue[[]string]) { h.Set(r, r.Steered) }

// sampled copies one quantity of each candidate's sample into out; never sampled and stale ones stay Unknown. Either is
// noted once per decision, however many candidates and facts it concerns.
func sampled[T any](c *Cycle, out []T, get func(*pool.Sample) T) {
	samples := c.freshSamples()
	for _, id := range c.fresh {
		out[id] = get(&samples[id])
	}
}

// freshSamples returns the samples, of which those of the endpoints in c.fresh can be trusted. The facts that most pools read are
// copied in loops of their own, without a call for each.
func (c *Cycle) freshSamples() []pool.Sample {
	if !c.sorted {
		c.sortSamples()
	}
	return c.books.Samples
}

// sortSamples finds the candidates whose samples can be trusted.
func (c *Cycle) sortSamples() {
	c.sorted, c.adapters, c.fresh = true, false, c.fresh[:0]
	stale, never := false, false
	for _, id := range c.Candidates {
		s := &c.books.Samples[id]
		switch s.State(c.Now, c.staleAfter) {
		case pool.Fresh:
			c.fresh = append(c.fresh, id)
			c.adapters = c.adapters || s.Adapters != nil || s.AdaptersWaiting != nil
		case pool.Stale:
			stale = true
		default:
			never = true
		}
	}
	if stale {
		c.sink.Note(reason.StaleSample, "")
	}
	if never {
		c.sink.Note(reason.NeverScraped, "")
	}
}

func fillWaiting(c *Cycle, h EndpointValues[int32]) {
	out, samples := h.Of(c), c.freshSamples()
	for _, id := range c.fresh {
		out[id] = samples[id].Waiting
	}
}

func fillRunning(c *Cycle, h EndpointValues[int32]) {
	out, samples := h.Of(c), c.freshSamples()
	for _, id := range c.fresh {
		out[id] = samples[id].Running
	}
}

func fillKVUsage(c *Cycle, h EndpointValues[float64]) {
	out, samples := h.Of(c), c.freshSamples()
	for _, id := range c.fresh {
		out[id] = samples[id].KVUsage
	}
}

func fillQueued(c *Cycle, h EndpointValues[int32]) {
	out := h.Of(c)
	sampled(c, out, func(s *pool.Sample) int32 { return s.Waiting })
	for _, id := range c.Candidates {
		if out[id] != Unknown {
			out[id] += c.books.AfterSample[id]
		}
	}
}

func fillAfterSample(c *Cycle, h EndpointValues[int32]) {
	out := h.Of(c)
	for _, id := range c.Candidates {
		out[id] = c.books.AfterSample[id]
	}
}

func fillInFlight(c *Cycle, h EndpointValues[int32]) {
	out := h.Of(c)
	for _, id := range c.Candidates {
		out[id] = c.books.Requests[id]
	}
}

func fillInFlightTokens(c *Cycle, h EndpointValues[int64]) {
	out := h.Of(c)
	for _, id := range c.Candidates {
		out[id] = c.books.PrefillTokens[id]
	}
}

// adapters reports whether any sample names adapters: in most pools none does, and their columns stay as they are.
func adapters(c *Cycle) bool {
	_ = c.freshSamples()
	return c.adapters
}

func fillRunningAdapters(c *Cycle, h EndpointValues[[]string]) {
	if !adapters(c) {
		return
	}
	sampled(c, h.Of(c), func(s *pool.Sample) []string { return s.Adapters })
}

func fillWaitingAdapters(c *Cycle, h EndpointValues[[]string]) {
	if !adapters(c) {
		return
	}
	sampled(c, h.Of(c), func(s *pool.Sample) []string { return s.AdaptersWaiting })
}

func fillMaxAdapters(c *Cycle, h EndpointValues[int32]) {
	sampled(c, h.Of(c), func(s *pool.Sample) int32 { return s.AdaptersMax })
}

func fillAttribute(c *Cycle, name string, out []Scalar) {
	sampled(c, out, func(s *pool.Sample) Scalar {
		for i := range s.Custom {
			if s.Custom[i].Name == name {
				return Scalar{s.Custom[i].Value, true}
			}
		}
		return Scalar{}
	})
	for _, id := range c.Candidates {
		if out[id].Known {
			continue
		}
		e := &c.Snapshot.Slots[id]
		text, said := e.Annotations[name]
		if !said {
			text = e.Labels[name]
		}
		out[id] = scalar(text)
	}
}

func fillSampleAge(c *Cycle, h EndpointValues[int64]) {
	out := h.Of(c)
	for _, id := range c.Candidates {
		if at := c.books.Samples[id].At; at > 0 {
			out[id] = max(int64(c.Now-at)/int64(time.Millisecond), 0)
		}
	}
}

// The cache's size does not age with the sample: an engine keeps it for its life.
func fillBlocks(c *Cycle, h EndpointValues[int32]) {
	out := h.Of(c)
	for _, id := range c.Candidates {
		if s := &c.books.Samples[id]; s.Blocks > 0 {
			out[id] = s.Blocks
		}
	}
}

func fillBlockTokens(c *Cycle, h EndpointValues[int32]) {
	out := h.Of(c)
	for _, id := range c.Candidates {
		if s := &c.books.Samples[id]; s.BlockTokens > 0 {
			out[id] = s.BlockTokens
		}
	}
}

func fillLabels(c *Cycle, h EndpointValues[map[string]string]) {
	out := h.Of(c)
	for _, id := range c.Candidates {
		out[id] = c.Snapshot.Slots[id].Labels
	}
}
