package producers

import (
	"errors"
	"fmt"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
)

// InFlightLoad says what counts as tokens in flight. The books count own requests and tokens always, from the decision until
// the end and whatever the configuration names: this plugin only chooses among what they know.
type InFlightLoad struct {
	// AddEstimatedOutputTokens adds the tokens of answers, from the decision to the end of each: as many as the request may
	// generate at most, up to the number that a request without a bound is expected to generate.
	AddEstimatedOutputTokens bool `json:"addEstimatedOutputTokens"`

	// OutputRatio is refused: an answer's length is expected by the request's own bound, not by its prompt's length.
	OutputRatio *float64 `json:"outputRatio,omitempty" schema:"min=0"`

	// MaxEstimatedOutputTokens is refused: how much a request without a bound generates is not a parameter of this plugin.
	MaxEstimatedOutputTokens *int64 `json:"maxEstimatedOutputTokens,omitempty" schema:"min=0"`

	// PrefixMatchInfoProducerName names the plugin whose match is taken off prompts. Empty: the one that the configuration has.
	PrefixMatchInfoProducerName string `json:"prefixMatchInfoProducerName,omitempty"`

	// SyncCrossReplicaState has no effect: replicas tell each other of their bookings where --replicas is given, whatever this says.
	SyncCrossReplicaState bool `json:"syncCrossReplicaState"`

	tokens plugins.EndpointValues[int64]
}

var (
	_ plugins.Producer = (*InFlightLoad)(nil)
	_ plugins.Observer = (*InFlightLoad)(nil)
)

// NewInFlightLoad returns an InFlightLoad with its defaults.
func NewInFlightLoad() *InFlightLoad { return &InFlightLoad{SyncCrossReplicaState: true} }

// Provision says what is made, and refuses what the books do not know.
func (l *InFlightLoad) Provision(b *plugins.Builder) error {
	l.tokens = plugins.Provides(b, plugins.InFlightTokens)
	if l.SyncCrossReplicaState {
		b.Warn("syncCrossReplicaState", "syncCrossReplicaState has no effect: replicas tell each other of their bookings where --replicas is given; remove it")
	}
	var errs []error
	refuse := func(given bool, name, why string) {
		switch {
		case given && l.AddEstimatedOutputTokens:
			errs = append(errs, fmt.Errorf("%s: %s; remove it", name, why))
		case given:
			b.Warn(name, "%s has no effect without addEstimatedOutputTokens; remove it", name)
		}
	}
	refuse(l.OutputRatio != nil, "outputRatio", "the length of an answer is not estimated by that of its prompt, but by max_tokens")
	refuse(l.MaxEstimatedOutputTokens != nil, "maxEstimatedOutputTokens", "the bound on an answer's estimate is the same for all plugins")
	return errors.Join(append(errs, plugins.CheckProducer(b, plugins.CachedBlocks, "prefixMatchInfoProducerName", l.PrefixMatchInfoProducerName))...)
}

// Produce has nothing to add before the books are open.
func (*InFlightLoad) Produce(*plugins.Cycle) {}

// Observe takes the tokens from the books.
func (l *InFlightLoad) Observe(c *plugins.Cycle, books *pool.Books) {
	tokens := l.tokens.Of(c)
	for _, id := range c.Candidates {
		tokens[id] = books.PrefillTokens[id]
		if l.AddEstimatedOutputTokens {
			tokens[id] += books.DecodeTokens[id]
		}
	}
}
