package flow_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/flow"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/plugins/pluginstest"
)

// Detectors keep the endpoints of a profile that are below what they measure, and the headroom above it.
func TestDetectorsAreFilters(t *testing.T) {
	utilization := func(headroom float64) plugins.Filter {
		d := flow.NewUtilizationDetector() // 5 requests, 0.8 of the cache
		d.Headroom = headroom
		return d
	}
	concurrency := func(mode string, headroom float64) plugins.Filter {
		return &flow.ConcurrencyDetector{MaxConcurrency: 4, MaxTokenConcurrency: 1000, ConcurrencyMode: mode, Headroom: headroom}
	}
	for _, r := range []struct {
		name   string
		filter plugins.Filter
		world  string
		wants  string
	}{
		{"by the queue", utilization(0), "a queued=4 kv-usage=0.1; b queued=5 kv-usage=0.1; c queued=6 kv-usage=0.1", "a"},
		{"by the cache", utilization(0), "a queued=0 kv-usage=0.79; b queued=0 kv-usage=0.8", "a"},
		{"with headroom", utilization(0.5), "a queued=7 kv-usage=1; b queued=8 kv-usage=0.1", "a"},
		{"one that nobody knows of", utilization(0), "a; b queued=0 kv-usage=0.1", "b"},
		{"all are full", utilization(0), "a queued=9 kv-usage=0.1; b queued=0 kv-usage=0.9", "a b"},
		{"nobody is known of", utilization(0), "a; b", "a b"},
		{"a cache that is not told of", utilization(0), "a queued=2; b queued=5", "a"},

		{"by requests", concurrency("requests", 0), "a in-flight=3 in-flight-tokens=5000; b in-flight=4 in-flight-tokens=0", "a"},
		{"by tokens", concurrency("tokens", 0), "a in-flight=9 in-flight-tokens=999; b in-flight=0 in-flight-tokens=1000", "a"},
		{"by both", concurrency("hybrid", 0), "a in-flight=3 in-flight-tokens=999; b in-flight=4 in-flight-tokens=0; c in-flight=0 in-flight-tokens=1000", "a"},
		{"requests with headroom", concurrency("requests", 0.25), "a in-flight=4; b in-flight=5", "a"},
		{"tokens with headroom", concurrency("tokens", 0.25), "a in-flight-tokens=1249; b in-flight-tokens=1250", "a"},
		{"all have as many as may", concurrency("requests", 0), "a in-flight=4; b in-flight=5", ""},
	} {
		t.Run(r.name, func(t *testing.T) {
			if got := strings.Join(pluginstest.Filter(t, r.filter, r.world), " "); got != r.wants {
				t.Errorf("left are %q, want %q", got, r.wants)
			}
		})
	}
}

// Where a file says which filters a profile has, detectors are among them as any other; where it does not, they are in texts of llm-d's.
func TestDetectorsInProfiles(t *testing.T) {
	const own, theirs = "fairlead.dev/v1alpha1", "llm-d.ai/v1alpha1"
	const profile = "schedulingProfiles: [{name: default, plugins: [{pluginRef: concurrency-detector}, {pluginRef: queue-scorer}]}]\n"
	for _, r := range []struct {
		version, rest string
		filters       []string
	}{
		{theirs, profile, []string{"concurrency-detector"}},
		{own, profile, []string{"concurrency-detector"}},
		{theirs, "", []string{"concurrency-detector"}},
		{theirs, "featureGates: [flowControl]\n", []string{"concurrency-detector"}}, // and not the utilization-detector that is added
		{theirs, "flowControl: {saturationDetector: {pluginRef: concurrency-detector}}\n", []string{"concurrency-detector"}},
		{own, "featureGates: [flowControl]\nobjectives: [{name: batch, priority: -1}]\n", []string{"concurrency-detector"}}, // ours for its objectives alone
		{own, "flowControl: {saturationDetector: {pluginRef: concurrency-detector}}\n", []string{"concurrency-detector"}},
		{own, "saturationDetector: {pluginRef: concurrency-detector}\n", []string{"concurrency-detector"}},
		{own, "- {type: flow-control, parameters: {saturationDetectorRef: concurrency-detector}}\n", nil},
		{own, "", nil},
	} {
		text := fmt.Sprintf("apiVersion: %s\nkind: EndpointPickerConfig\nplugins:\n- type: queue-scorer\n- type: concurrency-detector\n%s", r.version, r.rest)
		file, problems := config.Load([]byte(text), "f", catalog.Builtin())
		if file == nil {
			t.Errorf("%s: %v", text, problems)
			continue
		}
		built, problems := file.Build()
		if built == nil {
			t.Errorf("%s: %v", text, problems)
			continue
		}
		if got := built.Layout().Pools[0].Profiles[0].Filters; !slices.Equal(got, r.filters) {
			t.Errorf("%s: filters %v, want %v", text, got, r.filters)
		}
	}
}
