package cli

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/pool/telemetry"
)

func built(t *testing.T, text string) (*config.File, *plugins.Built) {
	t.Helper()
	file, problems := config.Load([]byte(text), "f", catalog.Builtin())
	if file == nil {
		t.Fatal(problems)
	}
	b, problems := file.Build()
	if b == nil {
		t.Fatal(problems)
	}
	return file, b
}

const ofTwoPools = `apiVersion: fairlead.dev/v1alpha1
kind: EndpointPickerConfig
plugins:
- {type: queue-scorer}
- {type: prefix-cache-scorer}
- type: metrics-data-source
  parameters: {scheme: https, path: /m, port: 9090, interval: 500ms}
- type: core-metrics-extractor
  parameters: {defaultEngine: sglang}
pools:
- name: a
  models: [{name: m, aliases: [one, two]}]
- name: b
  models: [{name: n}]
`

func TestWhatMetricsTakeFromAConfiguration(t *testing.T) {
	_, b := built(t, ofTwoPools)
	c := metered(b)
	if diff := cmp.Diff(map[string]string{"m": "a", "one": "a", "two": "a", "n": "b"}, c.Models); diff != "" {
		t.Error(diff)
	}
	if c.Prefix.Type != "approx-prefix-cache-producer" || c.Prefix.Name == "" || c.Prefix.Size() != 0 {
		t.Errorf("prefix producer %+v", c.Prefix)
	}
	_, b = built(t, "apiVersion: fairlead.dev/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n- {type: queue-scorer}\n")
	if c := metered(b); c.Prefix.Size != nil || len(c.Models) != 0 {
		t.Errorf("nothing is configured: %+v", c)
	}
	_, b = built(t, "apiVersion: fairlead.dev/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n- {type: latency-scorer}\n")
	if c := metered(b); c.Latency.Type != "predicted-latency-producer" || len(c.Latency.Accuracy()) != 0 {
		t.Errorf("latencies are predicted: %+v", c.Latency)
	}
}

func TestHowEnginesAreScraped(t *testing.T) {
	flags := telemetry.Options{Interval: time.Second, Timeout: 800 * time.Millisecond}
	file, b := built(t, ofTwoPools)
	o, err := scrapeOptions(flags, file, b)
	if err != nil {
		t.Fatal(err)
	}
	if o.Scheme != "https" || o.Path != "/m" || o.Port != 9090 || o.TLS == nil || !o.TLS.InsecureSkipVerify || o.Engines.Default != "sglang" ||
		o.Interval != 500*time.Millisecond || o.Timeout != 400*time.Millisecond {
		t.Errorf("%+v", o)
	}
	if diff := cmp.Diff(map[string][]string{"a": {"m", "one", "two"}, "b": {"n"}}, o.Models); diff != "" {
		t.Error(diff)
	}
	file, b = built(t, "apiVersion: fairlead.dev/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n- {type: queue-scorer}\n")
	o, err = scrapeOptions(flags, file, b)
	if err != nil || o.Scheme != "http" || o.TLS != nil || o.Interval != time.Second || o.Timeout != flags.Timeout || len(o.Models) != 0 {
		t.Errorf("by default %+v, %v", o, err)
	}
	file.Metrics.Source.Scheme, file.Metrics.Source.CACert = "https", "/there/is/none"
	if _, err = scrapeOptions(flags, file, b); err == nil {
		t.Error("a CA file that is not there is taken")
	}
}

// Samples age by the scheduler's clock: where that is fast, pages that came once a second of the wall would all be stale.
func TestScrapesKeepUpWithAFastClock(t *testing.T) {
	short := serveFlags{clockSpeed: 1, pool: pool.Options{StaleAfter: 100 * time.Millisecond}}
	if got := short.poolOptions().StaleAfter; got != 100*time.Millisecond {
		t.Errorf("stale after %v by the wall's clock, want what was said", got)
	}
	for _, c := range []struct {
		speed       float64
		wall, stale time.Duration
	}{
		{0.01, time.Second, 5 * time.Second},
		{1, time.Second, 5 * time.Second},
		{8, 125 * time.Millisecond, 5 * time.Second},
		{100, telemetry.MinInterval, 25 * time.Second},
	} {
		f := serveFlags{clockSpeed: c.speed, pool: pool.Options{StaleAfter: 5 * time.Second}}
		wall, stale := f.wallInterval(time.Second), f.poolOptions().StaleAfter
		if wall != c.wall || stale != c.stale {
			t.Errorf("speed %g: a page every %v of the wall and stale after %v, want %v and %v", c.speed, wall, stale, c.wall, c.stale)
		}
		if age := time.Duration(float64(wall) * c.speed); age*4 > stale {
			t.Errorf("speed %g: four pages in a row that fail are %v of the clock, and samples stale after %v", c.speed, age*4, stale)
		}
	}
}
