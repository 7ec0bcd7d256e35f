package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/pool/engines"
)

func TestProblemsOfMetrics(t *testing.T) {
	with := func(plugins string) string {
		return upstreamHead + strings.Replace(rest, "plugins:\n", "plugins:\n"+plugins, 1)
	}
	source := func(parameters string) string {
		return with("- {type: metrics-data-source, parameters: {" + parameters + "}}\n")
	}
	extractor := func(parameters string) string {
		return with("- {type: core-metrics-extractor, parameters: {" + parameters + "}}\n")
	}
	runProblems(t, []problemRow{
		{"a source by all its parameters", source("scheme: https, path: /m, port: 9090, insecureSkipVerify: false, caCertPath: /ca, clientCertPath: /c, clientKeyPath: /k, interval: 5s"), nil},
		{"another scheme", source("scheme: gopher"), []string{`4:52: plugin "metrics-data-source": scheme is "gopher"; one of http, https`}},
		{"a path that is none", source("path: metrics"), []string{`4:50: plugin "metrics-data-source": path is "metrics"; begin it with /`}},
		{"a port beyond ports", source("port: 70000"), []string{`4:50: plugin "metrics-data-source": port is 70000; at most 65535`}},
		{"an interval that would ask too often", source("interval: 1ms"), []string{`4:54: plugin "metrics-data-source": interval is 1ms; at least 50ms`}},
		{"half of a certificate", source("scheme: https, clientKeyPath: /k"), []string{
			`4:74: plugin "metrics-data-source": of clientCertPath and clientKeyPath one is given; give both`}},
		{"a CA that nobody looks at", source("scheme: https, caCertPath: /ca"), []string{
			`4:71: warning: plugin "metrics-data-source": caCertPath has no effect while any certificate is taken; set insecureSkipVerify: false`}},
		{"certificates over http", source("caCertPath: /ca"), []string{
			`4:56: warning: plugin "metrics-data-source": certificates have no effect over http; set scheme: https`}},
		{"two sources", with("- {type: metrics-data-source}\n- {type: metrics-data-source, name: b}\n"), []string{
			`5:37: plugin "b" is the second of type metrics-data-source, after "metrics-data-source" in line 4; keep one of the two`}},
		{"an engine of its own", extractor(`defaultEngine: atom, engineConfigs: [{name: atom, queuedRequestsSpec: "atom:waiting{kind=llm}", kvUsageSpec: "", customMetrics: [{attributeKey: k, metricSpec: x}]}]`), nil},
		{"a default engine that is none", extractor("defaultEngine: vlm"), []string{
			`4:62: plugin "core-metrics-extractor": no engine is named "vlm"; did you mean "vllm"?`}},
		{"a specification that cannot be read", extractor(`engineConfigs: [{name: a, runningRequestsSpec: "a{b"}]`), []string{
			`4:62: plugin "core-metrics-extractor": engineConfigs[0]: runningRequestsSpec: "a{b": "b" is no label with its value; write label=value; write name or name{label=value}`}},
		{"an engine twice", extractor(`engineConfigs: [{name: a}, {name: a}]`), []string{
			`4:62: plugin "core-metrics-extractor": engineConfigs[1]: engine "a" is given twice; keep one of the two`}},
		{"an attribute twice", extractor(`engineConfigs: [{name: a, customMetrics: [{attributeKey: k, metricSpec: x}, {attributeKey: k, metricSpec: y}]}]`), []string{
			`4:62: plugin "core-metrics-extractor": engineConfigs[0]: customMetrics: attributeKey "k" is given twice; keep one of the two`}},
		{"a counter for a level", extractor(`engineConfigs: [{name: triton, runningRequestsSpec: nv_inference_exec_count}]`), []string{
			`4:62: warning: plugin "core-metrics-extractor": engineConfigs[0]: runningRequestsSpec: nv_inference_exec_count is a counter, whose value grows for ever; name a gauge, or leave it empty`}},
		{"a field that is none", extractor(`engineConfigs: [{name: a, queueSpec: x}]`), []string{
			`4:73: plugin "core-metrics-extractor": engineConfigs[0]: unknown parameter "queueSpec"; one of name, queuedRequestsSpec, runningRequestsSpec, kvUsageSpec, loraSpec, cacheInfoSpec, cacheBlockSizeLabelName, cacheNumBlocksLabelName, cacheBlockSizeSpec, cacheNumBlocksSpec, customMetrics`}},
	})
}

func TestMetricsAsConfigured(t *testing.T) {
	load := func(text string) *config.File {
		t.Helper()
		f, problems := config.Load([]byte(text), "f", catalog.Builtin())
		if f == nil {
			t.Fatal(problems)
		}
		return f
	}
	plain := load(upstreamHead + rest)
	if want := (config.Metrics{Source: config.MetricsSource{Scheme: "http", SkipVerify: true}}); !cmp.Equal(want, plain.Metrics) || plain.LegacyMetrics {
		t.Errorf("by default: %+v", plain.Metrics)
	}
	if d := load(upstreamHead + "plugins:\n- type: metrics-data-source\n- type: core-metrics-extractor\n" + strings.TrimPrefix(rest, "plugins:\n")).Digest(); d != plain.Digest() {
		t.Errorf("the default written out has another digest:\n%s", plain.Effective())
	}
	f := load(upstreamHead + `featureGates: [enableLegacyMetrics]
plugins:
- {type: metrics-data-source, name: src, parameters: {port: 9090, interval: 5s}}
- type: core-metrics-extractor
  parameters:
    engineLabelKey: engine
    defaultEngine: atom
    engineConfigs:
    - name: atom
      queuedRequestsSpec: atom:waiting
      kvUsageSpec: 'atom:usage{pool="kv"}'
      cacheInfoSpec: atom:cache
      cacheNumBlocksLabelName: pages
      customMetrics: [{attributeKey: heat, metricSpec: atom:heat}]
` + strings.TrimPrefix(rest, "plugins:\n"))
	five := 5 * time.Second
	if f.Metrics.Source.Port != 9090 || *f.Metrics.Source.Interval != five || !f.LegacyMetrics {
		t.Errorf("source %+v, legacy metrics %v", f.Metrics.Source, f.LegacyMetrics)
	}
	c := f.Metrics.Engines
	if c.LabelKey != "engine" || c.Default != "atom" || len(c.Engines) != 1 {
		t.Fatalf("engines %+v", c)
	}
	var reads []string
	for signal, sources := range c.Engines[0].Reads {
		for _, s := range sources {
			reads = append(reads, engines.Signal(signal).String()+" "+s.String())
		}
	}
	if diff := cmp.Diff([]string{"waiting atom:waiting", "kv-usage atom:usage{pool=kv}", "blocks atom:cache pages", "block-tokens atom:cache block_size", "process-start process_start_time_seconds"}, reads); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	again := load(string(f.Effective()))
	if diff := cmp.Diff(f.Metrics, again.Metrics); diff != "" || again.Digest() != f.Digest() || !again.LegacyMetrics {
		t.Errorf("the effective configuration means something else (-want +got):\n%s\n%s", diff, f.Effective())
	}
}
