package cli

import (
	"time"

	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/pool/telemetry"
)

// scrapeOptions completes the flags of scraping by what the configuration says of engines.
func scrapeOptions(o telemetry.Options, file *config.File, built *plugins.Built) (telemetry.Options, error) {
	source := &file.Metrics.Source
	o.Scheme, o.Path, o.Port, o.Engines = source.Scheme, source.Path, source.Port, file.Metrics.Engines
	if source.Interval != nil {
		o.Interval = *source.Interval
		o.Timeout = min(o.Timeout, o.Interval*8/10)
	}
	if source.Scheme == "https" {
		tls, err := telemetry.TLS{
			SkipVerify: source.SkipVerify, CAFile: source.CACert, CertFile: source.ClientCert, KeyFile: source.ClientKey,
		}.Config()
		if err != nil {
			return o, err
		}
		o.TLS = tls
	}
	o.Models = map[string][]string{}
	for _, plan := range built.Plans {
		for _, m := range plan.Pool.Models {
			o.Models[plan.Pool.Name] = append(append(o.Models[plan.Pool.Name], m.Name), m.Aliases...)
		}
	}
	return o, nil
}

// wallInterval returns how long lies on the wall between two pages that are interval apart by the scheduler's clock, by which
// samples age.
func (f *serveFlags) wallInterval(interval time.Duration) time.Duration {
	if f.clockSpeed <= 1 {
		return interval
	}
	return max(time.Duration(float64(interval)/f.clockSpeed), telemetry.MinInterval)
}

// poolOptions returns those of the flags. Where pages cannot come as often as the scheduler's clock would have them, their samples
// are fresh for five of those that can.
func (f *serveFlags) poolOptions() pool.Options {
	o := f.pool
	if f.clockSpeed <= 1 {
		return o
	}
	o.StaleAfter = max(o.StaleAfter, time.Duration(5*float64(telemetry.MinInterval)*f.clockSpeed))
	return o
}
