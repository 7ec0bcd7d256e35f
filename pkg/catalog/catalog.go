// Package catalog is the one list of the plugins that are built in.
package catalog

import (
	"github.com/fairlead/fairlead/pkg/filters"
	"github.com/fairlead/fairlead/pkg/kvindex"
	"github.com/fairlead/fairlead/pkg/models"
	"github.com/fairlead/fairlead/pkg/pickers"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/profiles"
	"github.com/fairlead/fairlead/pkg/scorers"
)

// Builtin returns the plugins that are built in, grouped by extension point in the order in which a request meets them.
func Builtin() []plugins.Entry {
	return []plugins.Entry{
		plugins.Plugin("model-resolver", models.NewResolver),

		plugins.Plugin("approx-prefix-cache-producer", kvindex.NewProducer).Default(
			plugins.BlockHashes.Name, plugins.PromptBlocks.Name, plugins.CachedTokens.Name, plugins.CachedBlocks.Name),

		plugins.Plugin("single-profile-handler", profiles.NewSingle),

		plugins.Plugin("label-selector-filter", filters.NewLabelSelector).As("by-label-selector"),

		plugins.Plugin("queue-scorer", scorers.NewQueueDepth),
		plugins.Plugin("queue-headroom-scorer", scorers.NewQueue),
		plugins.Plugin("kv-cache-utilization-scorer", scorers.NewKVUtilization),
		plugins.Plugin("prefix-cache-scorer", scorers.NewPrefixCache),

		plugins.Plugin("max-score-picker", pickers.NewMaxScore),
		plugins.Plugin("random-picker", pickers.NewRandom),
	}
}
