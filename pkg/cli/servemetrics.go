package cli

import (
	"log/slog"
	"runtime/debug"

	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/flow"
	"github.com/fairlead/fairlead/pkg/gateway/admin"
	"github.com/fairlead/fairlead/pkg/kvindex"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/producers"
)

// newMetrics returns the metrics of a process that starts with this configuration.
func newMetrics(f *serveFlags, file *config.File, built *plugins.Built, log *slog.Logger) *admin.Metrics {
	return admin.NewMetrics(admin.MetricsOptions{
		Log: log, Configuration: metered(built), LabelSets: f.labelSets, Legacy: f.legacyMetrics || file.LegacyMetrics,
		Version: version, Commit: commit(),
	})
}

// watchQueue has the queue of a configuration tell the metrics of who leaves it. It is called before the first request.
func watchQueue(m *admin.Metrics, built *plugins.Built) {
	if q, ok := built.Queue().(*flow.Queue); ok {
		q.Watch(m)
	}
}

// metered returns what metrics take from a configuration.
func metered(built *plugins.Built) (c admin.Configuration) {
	c.Models = map[string]string{}
	for _, plan := range built.Plans {
		for _, m := range plan.Pool.Models {
			for _, name := range append([]string{m.Name}, m.Aliases...) {
				c.Models[name] = plan.Pool.Name
			}
		}
	}
	for p := range built.Plugins {
		switch plugin := p.Plugin.(type) {
		case *kvindex.Producer:
			if c.Prefix.Size == nil {
				c.Prefix = admin.PrefixProducer{Name: p.Name, Type: p.Type, Size: plugin.Blocks}
			}
		case *producers.PredictedLatency: // one at most provides the facts
			c.Latency = admin.LatencyPredictor{Name: p.Name, Type: p.Type, Accuracy: func() []admin.Accuracy { return accuracy(plugin) }}
		}
	}
	return c
}

// accuracy says how well a plugin predicts, as the admin port shows it.
func accuracy(of *producers.PredictedLatency) []admin.Accuracy {
	out := []admin.Accuracy{}
	for _, a := range of.Accuracy() {
		weights := map[string]float64{}
		for i, name := range a.Features {
			weights[name] = a.Weights[i]
		}
		out = append(out, admin.Accuracy{Pool: a.Pool, Class: a.Class, Latency: a.Kind, Answers: a.Answers, Error: a.Error, Used: a.Used, High: a.High, Weights: weights, Paces: a.Paces})
	}
	return out
}

// commit is the revision that the program was built from, if the build says.
func commit() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return ""
}
