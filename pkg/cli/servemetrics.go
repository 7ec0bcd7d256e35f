package cli

import (
	"log/slog"
	"runtime/debug"

	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/gateway/admin"
	"github.com/fairlead/fairlead/pkg/kvindex"
	"github.com/fairlead/fairlead/pkg/plugins"
)

// newMetrics returns the metrics of a process that starts with this configuration.
func newMetrics(f *serveFlags, file *config.File, built *plugins.Built, log *slog.Logger) *admin.Metrics {
	return admin.NewMetrics(admin.MetricsOptions{
		Log: log, Configuration: metered(built), LabelSets: f.labelSets, Legacy: f.legacyMetrics || file.LegacyMetrics,
		Version: version, Commit: commit(),
	})
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
		if index, ok := p.Plugin.(*kvindex.Producer); ok {
			c.Prefix = admin.PrefixProducer{Name: p.Name, Type: p.Type, Size: index.Blocks}
			break
		}
	}
	return c
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
