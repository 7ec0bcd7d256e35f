package config_test

import (
	"strings"
	"testing"

	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/config"
)

func TestProblemsOfSectionsOfOtherPickers(t *testing.T) {
	with := func(plugins, sections string) string {
		return upstreamHead + strings.Replace(rest, "plugins:\n", "plugins:\n"+plugins, 1) + sections
	}
	const noFlow = "not supported by this version: remove it"
	const oldPlace = "9:1: warning: saturationDetector is the old place of flowControl.saturationDetector; write flowControl: {saturationDetector: …}"
	runProblems(t, []problemRow{
		{"gates that change nothing", with("", "featureGates: [flowControl=false, haPopulateNonLeaderDatastore, ]\n"), nil},
		{"gates without effect", with("", "featureGates:\n- dataLayer\n- haPopulateNonLeaderDatastore=false\n"), []string{
			"10:3: warning: featureGates: dataLayer has no effect; remove it: engines are always scraped",
			"11:3: warning: featureGates: haPopulateNonLeaderDatastore=false has no effect; remove it: there is no leader election, each replica serves"}},
		{"gates that cannot be honoured", with("", "featureGates: [flowControl, enableLegacyMetrics=true, flowControll, dataLayer=on, dataLayer, dataLayer]\n"), []string{
			`9:55: featureGates: unknown gate "flowControll"; did you mean "flowControl"?`,
			`9:69: featureGates: "dataLayer=on" is neither on nor off; write dataLayer=true or dataLayer=false`,
			`9:83: warning: featureGates: dataLayer has no effect; remove it: engines are always scraped`,
			`9:94: featureGates: "dataLayer" is given twice, first in line 9; keep one of the two`}},
		{"flow control while its gate is off", with("", "flowControl:\n  maxBytes: 1Gi\n  priorityBands: [{priority: 1, maxRequests: 3}]\n  defaultPriorityBand: {priority: 0}\n"), []string{
			"9:1: warning: flowControl has no effect: the gate flowControl is off, and requests are not queued; add featureGates: [flowControl], or remove it"}},
		{"mistyped flow control", with("", "flowControl:\n  maxByte: 1Gi\n  priorityBands: [{prio: 1}]\n  saturationDetector: {pluginRef: queue-scorer}\n"), []string{
			"9:1: warning: flowControl has no effect but for its saturationDetector: the gate flowControl is off, and requests are not queued; add featureGates: [flowControl], or remove it",
			"9:1: flowControl: priorityBands[0]: priority is missing; add priority",
			`10:3: flowControl: unknown field "maxByte"; did you mean "maxBytes"?`,
			`11:20: flowControl: priorityBands[0]: unknown field "prio"; one of priority, maxBytes, maxRequests, fairnessPolicyRef, orderingPolicyRef`,
			`12:35: saturationDetector: pluginRef: "queue-scorer" (queue-scorer) is a scorer; name a saturation detector`}},
		{"a saturation detector in its old place", with("", "saturationDetector: {pluginRef: queue-scorer}\n"), []string{
			oldPlace, `9:33: saturationDetector: pluginRef: "queue-scorer" (queue-scorer) is a scorer; name a saturation detector`}},
		{"a saturation detector that is not there", with("", "saturationDetector: {pluginRef: utilisation-detector}\n"), []string{
			oldPlace, `9:33: saturationDetector: pluginRef: no plugin is named "utilisation-detector"`}},
		{"a saturation detector in both places", with("- type: utilization-detector\n", "saturationDetector: {pluginRef: utilization-detector}\nflowControl: {saturationDetector: {pluginRef: utilization-detector}}\n"), []string{
			strings.Replace(oldPlace, "9:", "10:", 1), "10:1: saturationDetector is given here and in flowControl; remove it",
			"11:1: warning: flowControl has no effect but for its saturationDetector: the gate flowControl is off, and requests are not queued; add featureGates: [flowControl], or remove it"}},
		{"a saturation detector as it was before it was a plugin", with("", "saturationDetector: {queueDepthThreshold: 5, kvCacheUtilThreshold: 0.8}\n"), []string{oldPlace}},
		{"thresholds out of bounds", with("", "saturationDetector: {queueDepthThreshold: 0}\n"), []string{
			oldPlace, `9:43: saturationDetector: queueDepthThreshold is 0; at least 1`}},
		{"thresholds beside a plugin", with("- type: utilization-detector\n", "saturationDetector: {pluginRef: utilization-detector, queueDepthThreshold: 3}\n"), []string{
			"10:1: saturationDetector has pluginRef and thresholds of its own; keep pluginRef, and give the thresholds to the plugin that it names",
			strings.Replace(oldPlace, "9:", "10:", 1)}},
		{"flow control", with("", "featureGates: [flowControl]\n"), nil},
		{"flow control with all there is", with("- {type: round-robin-fairness-policy, name: turns}\n- {type: priority-holdback-policy, parameters: {minCeiling: 0.5}}\n", `featureGates: [flowControl]
flowControl:
  maxBytes: 10Gi
  maxRequests: 1k
  defaultRequestTTL: 30s
  noEndpointRequestTTL: 2m
  enableEviction: false
  usageLimitPolicyPluginRef: priority-holdback-policy
  saturationDetector: {pluginRef: concurrency-detector}
  defaultPriorityBand: {maxRequests: 10, fairnessPolicyRef: turns}
  defaultNegativePriorityBand: {maxBytes: 1M}
  priorityBands: [{priority: 10, orderingPolicyRef: edf-ordering-policy}, {priority: -1, maxRequests: 0}]
`), nil},
		{"flow control that cannot be", with("", `featureGates: [flowControl]
flowControl:
  maxRequests: -1
  defaultRequestTTL: soon
  saturationDetector: {pluginRef: fcfs-ordering-policy}
  defaultPriorityBand: {fairnessPolicyRef: turns}
  priorityBands: [{maxRequests: 3}, {priority: 1, maxRequests: many}]
`), []string{
			"10:1: flowControl: priorityBands[0]: priority is missing; add priority",
			`11:16: flowControl: maxRequests is -1; at least 0`,
			`12:22: flowControl: defaultRequestTTL is "soon"; write a duration with its unit, such as 500ms or 2m`,
			`13:35: saturationDetector: pluginRef: "fcfs-ordering-policy" is an ordering policy; name a saturation detector`,
			`14:44: flowControl: defaultPriorityBand: fairnessPolicyRef: no plugin is named "turns"`,
			`15:64: flowControl: priorityBands[0].maxRequests is "many"; write a quantity, such as 64, 512Mi or 2G`}},
		{"flow control that cannot be, while its gate is off", with("", `flowControl:
  maxRequests: -1
  noEndpointRequestTTL: 3
  usageLimitPolicyPluginRef: [a]
  defaultPriorityBand: {priority: banana, maxBytes: many, fairnessPolicyRef: a policy that is not there}
  defaultNegativePriorityBand: {priority: -3}
  priorityBands: [{priority: 1}, {priority: one}, {priority: 1.0, orderingPolicyRef: 7}]
`), []string{
			"9:1: warning: flowControl has no effect: the gate flowControl is off, and requests are not queued; add featureGates: [flowControl], or remove it",
			"10:16: flowControl: maxRequests is -1; at least 0",
			"11:25: flowControl: noEndpointRequestTTL is 3; write a duration with its unit, such as 500ms or 2m",
			"12:30: flowControl: usageLimitPolicyPluginRef is a list; write text",
			`13:35: flowControl: defaultPriorityBand: priority is the text "banana"; write a number, without quotes`,
			`13:53: flowControl: defaultPriorityBand.maxBytes is "many"; write a quantity, such as 64, 512Mi or 2G`,
			"14:43: warning: flowControl: defaultNegativePriorityBand: priority -3 has no effect: bands are made like it for all priorities that are not listed; remove it, or list the band under priorityBands",
			`15:45: flowControl: priorityBands[1]: priority is the text "one"; write a number, without quotes`,
			"15:62: flowControl: priorityBands[2]: priority 1 is that of priorityBands[0]; keep one of the two",
			`15:86: flowControl: priorityBands[2]: orderingPolicyRef is the number 7, not text; write it in quotes: "7"`}},
		{"flow control with a priority in a template", with("", "featureGates: [flowControl]\nflowControl:\n  defaultPriorityBand: {priority: 3}\n  defaultNegativePriorityBand: {priority: 0}\n  priorityBands: [{priority: 2}, {priority: 2}]\n"), []string{
			"11:35: warning: flowControl: defaultPriorityBand: priority 3 has no effect: bands are made like it for all priorities that are not listed; remove it, or list the band under priorityBands",
			"13:45: flowControl: priorityBands[1]: priority 2 is that of priorityBands[0]; keep one of the two"}},
		{"flow control that revokes what runs", with("- type: sheddable-eviction-filter\n- type: priority-then-time-eviction-order-policy\n", "featureGates: [flowControl]\nflowControl: {enableEviction: true}\n"), nil},
		{"flow control beside a queue", with("- type: flow-control\n", "featureGates: [flowControl]\n"), []string{
			"10:16: llm-d's flow control is asked for beside a queue that is declared as a plugin; remove one of the two"}},
		{"a mistyped saturation detector", with("", "saturationDetector: {queueDepth: 5}\n"), []string{
			oldPlace,
			`9:22: saturationDetector: unknown field "queueDepth"; one of pluginRef, queueDepthThreshold, kvCacheUtilThreshold, metricsStalenessThreshold`}},
		{"gates that are gone", with("", "featureGates: [prepareDataPlugins]\n"), []string{
			"9:16: warning: featureGates: prepareDataPlugins has no effect; remove it: what plugins need is always made before they run"}},
		{"sections without value", with("", "dataLayer:\nflowControl:\nrequestHandler:\nparser:\n"), []string{
			"9:1: warning: dataLayer has no value and counts as left out; remove it", "10:1: warning: flowControl has no value and counts as left out; remove it",
			"11:1: warning: requestHandler has no value and counts as left out; remove it", "12:1: warning: parser has no value and counts as left out; remove it"}},

		{"the data layer's defaults written out", with("- {type: metrics-data-source, parameters: {scheme: http, path: /metrics, insecureSkipVerify: true}}\n- {type: core-metrics-extractor, parameters: {defaultEngine: vllm, engineConfigs: []}}\n",
			"dataLayer:\n  injectDefaults: false\n  sources: [{pluginRef: metrics-data-source, extractors: [{pluginRef: core-metrics-extractor}]}]\n"), nil},
		{"a data layer that reads nothing", with("", "dataLayer: {injectDefaults: false}\n"), []string{
			"9:29: dataLayer: injectDefaults is false; remove it: engines are always scraped"}},
		{"a data layer beyond ours", with("- type: metrics-data-source\n", "dataLayer:\n  sources: [{pluginRef: metrics-data-source}, {pluginRef: queue-scorer, extractors: [{pluginRef: metrics-data-source}]}, {extractors: []}]\n  peerDiscovery: {pluginRef: x}\n  crossReplicaSyncInterval: 1s\n"), []string{
			"11:25: dataLayer: sources[0]: a source that nobody reads is not supported; add an extractor of type core-metrics-extractor, or remove the source",
			`11:59: dataLayer: sources[1]: plugin "queue-scorer" is of type queue-scorer; one of type metrics-data-source`,
			`11:98: dataLayer: sources[1]: extractors[0]: plugin "metrics-data-source" is of type metrics-data-source; one of type core-metrics-extractor`,
			"11:122: dataLayer: sources[2]: pluginRef is missing; add pluginRef with the name of a plugin",
			"12:3: dataLayer: peerDiscovery; " + noFlow, "13:3: dataLayer: crossReplicaSyncInterval; " + noFlow}},
		{"a file discovery", with("- {type: file-discovery, parameters: {path: /etc/endpoints.yaml}}\n", "dataLayer: {discovery: {pluginRef: file-discovery}}\n"), nil},
		{"a file discovery without path", with("- {type: file-discovery, name: d}\n", "dataLayer: {discovery: {pluginRef: d}}\n"), []string{
			`4:32: plugin "d": parameter "path" is missing; add it under parameters: text`}},
		{"a file discovery that nothing refers to", with("- {type: file-discovery, parameters: {path: a}}\n", ""), []string{
			`4:10: plugin "file-discovery": nothing refers to it; add dataLayer: {discovery: {pluginRef: file-discovery}}, or remove it and use --endpoints`}},
		{"a discovery that is none", with("", "dataLayer: {discovery: {pluginRef: queue-scorer}}\n"), []string{
			`9:36: dataLayer: discovery: plugin "queue-scorer" is of type queue-scorer; one of type file-discovery`}},
		{"a discovery that is not there", with("", "dataLayer: {discovery: {pluginRef: file}}\n"), []string{`9:36: dataLayer: discovery: no plugin is named "file"`}},

		{"estimated tokens", with("- {type: token-producer, parameters: {modelName: m, estimate: {}}}\n", ""), nil},
		{"exact tokens", with("- {type: token-producer, parameters: {modelName: m, vllm: {url: 'http://x'}}}\n", ""), []string{
			`4:53: plugin "token-producer": parameter "vllm" of token-producer is not supported; remove it: in this version prompts are counted at 4 bytes per token, unless the client sends token ids`}},

		{"all default parsers", with("- type: openai-parser\n- type: anthropic-parser\n- type: vllmhttp-parser\n- type: passthrough-parser\n",
			"requestHandler: {parsers: [{pluginRef: openai-parser}, {pluginRef: anthropic-parser}, {pluginRef: vllmhttp-parser}, {pluginRef: passthrough-parser}]}\n"), nil},
		{"only OpenAI's parser", with("- type: openai-parser\n", "parser: {pluginRef: openai-parser}\n"), []string{
			"10:1: warning: parser is the old place of requestHandler.parsers; write requestHandler: {parsers: [{pluginRef: …}]}",
			"10:1: warning: parsers have no effect: the format of a request is known by its path, and all known ones are read; remove it"}},
		{"nothing parsed", with("- type: passthrough-parser\n", "requestHandler: {parsers: [{pluginRef: passthrough-parser}]}\n"), []string{
			"10:18: parsers without openai-parser: OpenAI's requests are always read; remove it, or list openai-parser"}},
		{"a parser that is none", with("- type: passthrough-parser\n", "parser: {pluginRef: passthru-parser}\n"), []string{
			"10:1: warning: parser is the old place of requestHandler.parsers; write requestHandler: {parsers: [{pluginRef: …}]}",
			`10:21: parsers[0]: no plugin is named "passthru-parser"; did you mean "passthrough-parser"?`}},
	})
}

// The shapes of configuration files that users of llm-d's endpoint picker have, and what becomes of each.
func TestShapesOfExistingFiles(t *testing.T) {
	refused := func(text string, codes ...string) {
		t.Helper()
		_, problems := config.Load([]byte(text), "f", catalog.Builtin())
		for _, p := range problems {
			if p.Severity == config.Error && p.Code != config.CodeNotAvailable && p.Code != config.CodeUnsupported {
				t.Errorf("refused for another reason than what is not available: %v", p)
			}
		}
		var all strings.Builder
		for _, p := range problems {
			all.WriteString(p.Error() + "\n")
		}
		for _, c := range codes {
			if !strings.Contains(all.String(), c) {
				t.Errorf("nothing is said of %s:\n%s", c, all.String())
			}
		}
		if len(codes) == 0 && len(problems) > 0 {
			t.Errorf("does not load plainly:\n%s", all.String())
		}
	}
	refused(`apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
- type: kv-cache-utilization-scorer
- type: prefix-cache-scorer
- type: approx-prefix-cache-producer
  parameters: {maxPrefixTokensToMatch: 100000, blockSizeTokens: 64}
- type: metrics-data-source
- type: core-metrics-extractor
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: queue-scorer, weight: 2}
  - {pluginRef: kv-cache-utilization-scorer, weight: 2}
  - {pluginRef: prefix-cache-scorer, weight: 3}
`)
	refused(`apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: prefill-filter
- type: decode-filter
- type: prefix-cache-scorer
- type: queue-scorer
- type: max-score-picker
- type: prefix-based-pd-decider
  parameters: {nonCachedTokens: 16}
- type: disagg-profile-handler
  parameters: {deciders: {prefill: prefix-based-pd-decider}}
schedulingProfiles:
- name: prefill
  plugins: [{pluginRef: prefill-filter}, {pluginRef: prefix-cache-scorer, weight: 2}, {pluginRef: queue-scorer}, {pluginRef: max-score-picker}]
- name: decode
  plugins: [{pluginRef: decode-filter}, {pluginRef: prefix-cache-scorer, weight: 2}, {pluginRef: queue-scorer}, {pluginRef: max-score-picker}]
`, `"disagg-profile-handler"`, `"prefix-based-pd-decider"`, "prefill and decode are not split")
	refused(`apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
featureGates: [flowControl]
plugins:
- type: queue-scorer
- type: program-aware-fairness
schedulingProfiles:
- name: default
  plugins: [{pluginRef: queue-scorer}]
flowControl:
  defaultPriorityBand: {fairnessPolicyRef: program-aware-fairness}
`)
	refused(`apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- {type: token-producer, parameters: {modelName: m, vllm: {url: "http://localhost:8000"}}}
- type: endpoint-notification-source
- {type: precise-prefix-cache-producer, parameters: {speculativeIndexing: true}}
- {type: prefix-cache-scorer, parameters: {prefixMatchInfoProducerName: precise-prefix-cache-producer}}
- type: active-request-scorer
- type: no-hit-lru-scorer
schedulingProfiles:
- name: default
  plugins: [{pluginRef: prefix-cache-scorer, weight: 2}, {pluginRef: active-request-scorer, weight: 4}, {pluginRef: no-hit-lru-scorer, weight: 2}]
`, `parameter "vllm"`, `"precise-prefix-cache-producer"`, "approx-prefix-cache-producer")
}

// The section means here what it means in llm-d's endpoint picker.
func TestFlowControlOfLlmd(t *testing.T) {
	text := func(sections string) string {
		return upstreamHead + rest + sections
	}
	effective := func(t *testing.T, sections string) string {
		file, problems := config.Load([]byte(text(sections)), "f", catalog.Builtin())
		if file == nil {
			t.Fatal(problems)
		}
		if built, problems := file.Build(); built == nil {
			t.Fatal(problems)
		}
		again, problems := config.Load(file.Effective(), "effective", catalog.Builtin())
		if again == nil || again.Digest() != file.Digest() {
			t.Errorf("what is printed does not load as the same: %v\n%s", problems, file.Effective())
		}
		return string(file.Effective())
	}
	for _, r := range []struct {
		name, sections string
		wants          []string
	}{
		{"the gate alone", "featureGates: [flowControl]\n", []string{"type: flow-control", `maxRequests: "0"`, `maxBytes: "0"`, "defaultRequestTTL: 1m",
			"lateBinding: false", "dropLate: false", "saturationDetectorRef: utilization-detector", "usageLimitPolicyRef: static-usage-limit-policy",
			"fairnessPolicyRef: global-strict-fairness-policy", "orderingPolicyRef: fcfs-ordering-policy", "maxRequests: 5k", "maxBytes: 1G"}},
		{"a time to wait of its own", "featureGates: [flowControl]\nflowControl: {defaultRequestTTL: 0s, noEndpointRequestTTL: 5s}\n",
			[]string{"defaultRequestTTL: 0s", "noEndpointRequestTTL: 5s"}},
		{"a template of bands below 0", "featureGates: [flowControl]\nflowControl: {defaultNegativePriorityBand: {maxRequests: 7, fairnessPolicyRef: round-robin-fairness-policy}}\n",
			[]string{"defaultNegativePriorityBand:", `maxRequests: "7"`, "fairnessPolicyRef: round-robin-fairness-policy"}},
		{"bounds of 0 are the defaults", "featureGates: [flowControl]\nflowControl: {priorityBands: [{priority: 3, maxRequests: 0, maxBytes: 0, fairnessPolicyRef: round-robin-fairness-policy}]}\n",
			[]string{"priority: 3\n          maxRequests: 5k\n          maxBytes: 1G\n          fairnessPolicyRef: round-robin"}},
		{"no gate, a section alone", "flowControl: {maxRequests: 3}\n", []string{"type: priority-shedding", "saturationDetectorRef: utilization-detector"}},
		{"no gate, a detector", "saturationDetector: {queueDepthThreshold: 7}\n", []string{"type: priority-shedding", "queueDepthThreshold: 7"}},
	} {
		t.Run(r.name, func(t *testing.T) {
			got := effective(t, r.sections)
			for _, want := range r.wants {
				if !strings.Contains(got, want) {
					t.Errorf("%q is not in\n%s", want, got)
				}
			}
		})
	}
}
