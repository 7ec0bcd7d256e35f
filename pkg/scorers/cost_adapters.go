package scorers

import (
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
)

// placeWait is how long a request waits for a place, in times of its own decode: for the answers of one adapter to end, and as
// long again for those who want that adapter back. placeTaken is what a free place is worth to others.
const (
	placeWait  = 2.0
	placeTaken = 0.15
)

// places says where requests of a LoRA adapter find a place in the batch. An engine runs a few adapters at a time (vLLM:
// max_loras); a request of another waits until the last of one of theirs has ended.
type places struct {
	here plugins.EndpointValues[bool]
	free plugins.EndpointValues[int32]
}

func (p *places) provision(b *plugins.Builder) {
	p.here, p.free = plugins.Needs(b, plugins.AdapterHere), plugins.Needs(b, plugins.AdapterPlaces)
}

// wait returns how long the request waits for a place there, and others for the one that it takes, in times of its decode; 0 where it asks
// for no adapter.
func (p *places) wait(c *plugins.Cycle, id pool.ID) float64 {
	free := p.free.Of(c)[id]
	switch {
	case p.here.Of(c)[id] || free == plugins.Unknown:
		return 0
	case free > 0:
		return placeTaken
	}
	return placeWait
}
