package cli

import (
	"log/slog"
	"runtime/debug"

	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/gateway/admin"
	"github.com/fairlead/fairlead/pkg/plugins"
)

// newMetrics returns the metrics of a process that starts with this configuration.
func newMetrics(f *serveFlags, file *config.File, built *plugins.Built, log *slog.Logger) *admin.Metrics {
	return admin.NewMetrics(admin.MetricsOptions{
		Log: log, Models: poolsOfModels(built), LabelSets: f.labelSets, Legacy: f.legacyMetrics || file.LegacyMetrics,
		Version: version, Commit: commit(),
	})
}

// poolsOfModels lists the models and aliases of a configuration, each with its pool.
func poolsOfModels(built *plugins.Built) map[string]string {
	pools := map[string]string{}
	for _, plan := range built.Plans {
		for _, m := range plan.Pool.Models {
			for _, name := range append([]string{m.Name}, m.Aliases...) {
				pools[name] = plan.Pool.Name
			}
		}
	}
	return pools
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
