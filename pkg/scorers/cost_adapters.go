package scorers

import (
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
)

// placeWait is how long a request waits for a place, in times of its own decode: for the answers of one adapter to end, and as
// long again for those who want that adapter back. placeTaken is what a free place is worth to others.
const (
	placeWait  = 2.0
	placeTaken = 0.5
)

// places says where requests of a LoRA adapter find a place in the batch. An engine runs a few adapters at a time (vLLM:
// max_loras); a request of another waits until the last of one of theirs has ended.
type places struct {
	model   plugins.RequestValue[string]
	running plugins.EndpointValues[[]string]
	waiting plugins.EndpointValues[[]string]
	most    plugins.EndpointValues[int32]
}

func (p *places) provision(b *plugins.Builder) {
	p.model = plugins.Needs(b, plugins.RequestedModel)
	p.running, p.waiting = plugins.Needs(b, plugins.RunningAdapters), plugins.Needs(b, plugins.WaitingAdapters)
	p.most = plugins.Needs(b, plugins.MaxAdapters)
}

// wanted returns the adapter that the request asks for, empty for none: engines list no adapter of the name. A base model is
// in no list, and an adapter that no engine has now finds the same everywhere but for the number of free places.
func (p *places) wanted(c *plugins.Cycle) string {
	name := p.model.Of(c.Request)
	if name == "" {
		return ""
	}
	running, waiting := p.running.Of(c), p.waiting.Of(c)
	for _, id := range c.Candidates {
		if has(running[id], name) || has(waiting[id], name) {
			return name
		}
	}
	return ""
}

// wait returns how long the request waits for a place there, and others for the one that it takes, in times of its decode.
func (p *places) wait(c *plugins.Cycle, id pool.ID, adapter string) float64 {
	run, wait, most := p.running.Of(c)[id], p.waiting.Of(c)[id], p.most.Of(c)[id]
	switch {
	case run == nil || most <= 0 || has(run, adapter):
		return 0
	case len(run)+len(wait) < int(most):
		return placeTaken
	}
	return placeWait
}
