package scorers

import (
	"slices"

	"github.com/fairlead/fairlead/pkg/plugins"
)

// LoRAAffinity prefers endpoints whose engine has the requested LoRA adapter at hand:
//
//	1    requests of the adapter run there
//	0.8  else, adapters that run and wait are fewer than fit: it is loaded at once
//	0.6  else, requests of the adapter wait there
//	0    else
//
// An endpoint whose engine has not said which adapters it has scores the mean of those that have; if there are none, all
// score 0.5. A request that names no model scores 0 everywhere.
type LoRAAffinity struct {
	model   plugins.RequestValue[string]
	running plugins.EndpointValues[[]string]
	waiting plugins.EndpointValues[[]string]
	most    plugins.EndpointValues[int32]
}

var _ plugins.Scorer = (*LoRAAffinity)(nil)

// NewLoRAAffinity returns a LoRAAffinity; it has no parameters.
func NewLoRAAffinity() *LoRAAffinity { return &LoRAAffinity{} }

// Provision says what Score reads.
func (l *LoRAAffinity) Provision(b *plugins.Builder) error {
	l.model = plugins.Needs(b, plugins.RequestedModel)
	l.running = plugins.Needs(b, plugins.RunningAdapters)
	l.waiting = plugins.Needs(b, plugins.WaitingAdapters)
	l.most = plugins.Needs(b, plugins.MaxAdapters)
	return nil
}

// Score writes one score per candidate into out.
func (l *LoRAAffinity) Score(c *plugins.Cycle, out []float64) {
	model := l.model.Of(c.Request)
	if model == "" {
		return
	}
	running, waiting, most := l.running.Of(c), l.waiting.Of(c), l.most.Of(c)
	for i, id := range c.Candidates {
		run, wait := running[id], waiting[id]
		switch {
		case run == nil:
			out[i] = unknown
		case has(run, model):
			out[i] = 1
		case len(run)+len(wait) < int(most[id]):
			out[i] = 0.8
		case has(wait, model):
			out[i] = 0.6
		}
	}
	neutral(out)
}

// has looks in a sorted list.
func has(sorted []string, name string) bool {
	_, found := slices.BinarySearch(sorted, name)
	return found
}
