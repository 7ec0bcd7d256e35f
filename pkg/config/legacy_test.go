package config_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/plugins"
)

// upstreamTypes are all types that llm-d's endpoint picker registers, and its old names of them.
const upstreamTypes = `
queue-scorer running-requests-size-scorer kv-cache-utilization-scorer lora-affinity-scorer load-aware-scorer token-load-scorer
active-request-scorer prefix-cache-scorer precise-prefix-cache-scorer context-length-aware endpoint-attribute-scorer
header-label-affinity-scorer latency-scorer mm-embeddings-cache-scorer no-hit-lru-scorer session-affinity-scorer
topology-affinity-scorer multicluster-queue-scorer multicluster-kv-cache-utilization-scorer multicluster-prefix-cache-scorer

label-selector-filter by-label by-label-selector decode-filter prefill-filter encode-filter session-affinity-filter
multicluster-session-affinity-filter endpoint-attribute-filter topology-affinity-filter utilization-filter active-request-filter
prefix-cache-affinity-filter slo-headroom-tier-filter header-based-testing-filter

max-score-picker random-picker weighted-random-picker

single-profile-handler header-profile-handler disagg-profile-handler data-parallel-profile-handler pd-profile-handler
prefix-based-pd-decider always-disagg-pd-decider always-disagg-multimodal-decider prefill-header-handler disagg-headers-handler

token-producer tokenizer approx-prefix-cache-producer burst-prefix-cache-producer precise-prefix-cache-producer
p2p-source-producer inflight-load-producer predicted-latency-producer mm-embeddings-cache-producer session-id-producer
multicluster-approx-prefix-cache-producer

disaggregatedset-rollout-screener latency-slo-admitter probabilistic-admitter agent-identity request-attribute-reporter
destination-endpoint-served-verifier

openai-parser anthropic-parser vllmhttp-parser sglanghttp-parser vllmgrpc-parser vertexai-parser passthrough-parser

global-strict-fairness-policy round-robin-fairness-policy program-aware-fairness fcfs-ordering-policy edf-ordering-policy
slo-deadline-ordering-policy static-usage-limit-policy priority-holdback-policy soft-reflective-ceiling-policy
utilization-detector concurrency-detector sheddable-eviction-filter priority-then-time-eviction-order-policy

metrics-data-source core-metrics-extractor models-data-source models-data-extractor dcgm-data-source dcgm-extractor
topology-extractor k8s-notification-source endpoint-notification-source file-discovery multicluster-file-discovery
multicluster-metrics-data-source multicluster-metrics-extractor`

// TestEveryTypeOfOtherPickersIsKnown: each loads, or is refused by name with what to do; none is unknown.
func TestEveryTypeOfOtherPickersIsKnown(t *testing.T) {
	types := strings.Fields(upstreamTypes)
	if len(types) != 98 {
		t.Errorf("%d types are listed, and there are 98", len(types))
	}
	for _, typ := range types {
		for _, version := range config.Versions() {
			_, problems := config.Load([]byte("apiVersion: "+version+"\nkind: EndpointPickerConfig\nplugins: [{type: "+typ+"}]\n"), typ, catalog.Builtin())
			for _, p := range problems {
				if p.Code == config.CodeUnknownType || p.Severity == config.Error && p.Suggestion == "" {
					t.Errorf("%s under %s: %v", typ, version, p)
				}
			}
		}
		if said := config.NoSuchType(typ, nil); strings.HasPrefix(said, "there is no type") {
			t.Errorf("%s: %s", typ, said)
		}
	}
}

// Types of other pickers with the parameters that their old names turn into.
type (
	fakeHandler struct {
		both
		Profiles struct {
			Decode  string `json:"decode"`
			Prefill string `json:"prefill"`
		} `json:"profiles"`
		Deciders struct {
			Prefill string `json:"prefill"`
		} `json:"deciders"`
	}
	fakePrecise struct {
		Tokens struct {
			Size int `json:"blockSizeTokens"`
		} `json:"tokenProcessorConfig"`
		Speculative bool `json:"speculativeIndexing"`
	}
	fakeScorer struct {
		knobs
		Producer string `json:"prefixMatchInfoProducerName"`
	}
)

func (*fakePrecise) Produce(*plugins.Cycle) {}
func (*fakePrecise) Provision(b *plugins.Builder) error {
	plugins.Provides(b, plugins.CachedTokens)
	plugins.Provides(b, plugins.CachedBlocks)
	plugins.Provides(b, plugins.PromptBlocks)
	return nil
}

// moreEntries is the catalogue with types that old names turn into.
func moreEntries() []plugins.Entry {
	fakes := []plugins.Entry{
		plugins.Plugin("disagg-profile-handler", func() *fakeHandler { return &fakeHandler{} }),
		plugins.Plugin("precise-prefix-cache-producer", func() *fakePrecise { return &fakePrecise{} }),
		plugins.Plugin("no-hit-lru-scorer", func() *fakeScorer { return &fakeScorer{knobs: *newKnobs()} }),
		plugins.Plugin("active-request-scorer", func() *fakeScorer { return &fakeScorer{knobs: *newKnobs()} }),
		plugins.Plugin("program-aware-fairness", func() *fakeScorer { return &fakeScorer{knobs: *newKnobs()} }),
	}
	return append(slices.DeleteFunc(catalog.Builtin(), func(e plugins.Entry) bool {
		return slices.ContainsFunc(fakes, func(f plugins.Entry) bool { return f.Type == e.Type })
	}), fakes...)
}

func TestOldTypesAndParameters(t *testing.T) {
	schema, err := compile(moreEntries())
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name, text string
		said       []string
		effective  []string // lines of the effective text, without indentation
	}{
		{"by-label", "- {type: by-label, name: pods, parameters: {label: tier, validValues: [gold, silver]}}\n- type: queue-scorer\n", []string{
			`f:4:10: warning: plugin "pods": type "by-label" is an old one; write type: label-selector-filter`},
			[]string{"type: label-selector-filter", "- key: tier", "operator: In", "- gold", "- silver"}},
		{"by-label for any value", "- {type: by-label, parameters: {label: tier}}\n- type: queue-scorer\n", []string{
			`f:4:10: warning: plugin "by-label": type "by-label" is an old one; write type: label-selector-filter`},
			[]string{"- name: by-label", "type: label-selector-filter", "operator: Exists", "- pluginRef: by-label"}},
		{"by-label with what no selector can say", "- {type: by-label, parameters: {label: tier, validValues: [a], allowsNoLabel: true}}\n- type: queue-scorer\n", []string{
			`f:4:10: warning: plugin "by-label": type "by-label" is an old one; write type: label-selector-filter`,
			`f:4:79: plugin "by-label": allowsNoLabel beside validValues has no counterpart in label-selector-filter; give those endpoints the label, or list what is not wanted with operator NotIn`}, nil},
		{"by-label without its label", "- {type: by-label, parameters: {lable: tier}}\n- type: queue-scorer\n", []string{
			`f:4:10: plugin "by-label": parameter "label" is missing; add it under parameters: text`,
			`f:4:10: warning: plugin "by-label": type "by-label" is an old one; write type: label-selector-filter`,
			`f:4:33: plugin "by-label": unknown parameter "lable"; did you mean "label"?`}, nil},
		{"by-label-selector", "- {type: by-label-selector, parameters: {matchLabels: {a: b}}}\n- type: queue-scorer\n", []string{
			`f:4:10: warning: plugin "by-label-selector": type "by-label-selector" is an old name; write type: label-selector-filter`},
			[]string{"type: label-selector-filter"}},
		{"tokenizer", "- {type: tokenizer, parameters: {modelName: m}}\n- type: queue-scorer\n", []string{
			`f:4:10: warning: plugin "tokenizer": type "tokenizer" is an old one; write type: token-producer`}, nil},
		{"handlers of headers", "- type: prefill-header-handler\n- {type: disagg-headers-handler, name: h}\n- type: queue-scorer\nschedulingProfiles:\n- {name: p, plugins: [{pluginRef: h}, {pluginRef: queue-scorer}]}\n", []string{
			`f:4:9: warning: plugin "prefill-header-handler": type "prefill-header-handler" has no effect: the profile handler writes the headers of prefill and decode; remove it`,
			`f:5:10: warning: plugin "h": type "disagg-headers-handler" has no effect: the profile handler writes the headers of prefill and decode; remove it`},
			[]string{"- pluginRef: queue-scorer"}},
		{"pd-profile-handler with flat names", "- {type: pd-profile-handler, parameters: {decodeProfile: d, prefillProfile: p, deciderPluginName: x}}\n- type: queue-scorer\n", []string{
			`f:4:10: warning: plugin "pd-profile-handler": type "pd-profile-handler" is an old one; write type: disagg-profile-handler`,
			`f:4:43: warning: plugin "pd-profile-handler": parameter "decodeProfile" is an old name; write profiles.decode`,
			`f:4:61: warning: plugin "pd-profile-handler": parameter "prefillProfile" is an old name; write profiles.prefill`,
			`f:4:80: warning: plugin "pd-profile-handler": parameter "deciderPluginName" is an old name; write deciders.prefill`},
			[]string{"type: disagg-profile-handler", "decode: d", "prefill: p", "prefill: x"}},
		{"an old name beside the new one", "- {type: disagg-profile-handler, parameters: {profiles: {decode: a}, decodeProfile: d}}\n- type: queue-scorer\n", []string{
			`f:4:70: warning: plugin "disagg-profile-handler": parameter "decodeProfile" is an old name; write profiles.decode`,
			`f:4:85: plugin "disagg-profile-handler": profiles: parameter "decode" is given twice, first in line 4; keep one of the two`}, nil},
		{"precise-prefix-cache-scorer", "- {type: precise-prefix-cache-scorer, parameters: {tokenProcessorConfig: {blockSize: 64}, speculativeIndexing: true}}\n", []string{
			`f:4:10: warning: plugin "precise-prefix-cache-scorer": type "precise-prefix-cache-scorer" is an old one; write type: prefix-cache-scorer and declare precise-prefix-cache-producer`,
			`f:4:75: warning: plugin "precise-prefix-cache-producer": parameter "tokenProcessorConfig.blockSize" is an old name; write tokenProcessorConfig.blockSizeTokens`},
			[]string{"type: precise-prefix-cache-producer", "blockSizeTokens: 64", "speculativeIndexing: true", "- name: precise-prefix-cache-scorer", "type: prefix-cache-scorer",
				"prefixMatchInfoProducerName: precise-prefix-cache-producer", "- pluginRef: precise-prefix-cache-scorer"}},
		{"no-hit-lru-scorer", "- {type: no-hit-lru-scorer, parameters: {prefixPluginType: prefix-cache-scorer, prefixPluginName: p}}\n", []string{
			`f:4:42: warning: plugin "no-hit-lru-scorer": parameter "prefixPluginType" has no effect: the producer is found by its name; remove it`,
			`f:4:81: warning: plugin "no-hit-lru-scorer": parameter "prefixPluginName" is an old name; write prefixMatchInfoProducerName`},
			[]string{"prefixMatchInfoProducerName: p"}},
		{"active-request-scorer", "- {type: active-request-scorer, parameters: {requestTimeout: 2m}}\n", []string{
			`f:4:46: warning: plugin "active-request-scorer": parameter "requestTimeout" has no effect: requests count until they end; remove it`}, nil},
		{"a parameter that is gone", "- {type: program-aware-fairness, parameters: {lasDecayFactor: 1}}\n", []string{
			`f:4:47: plugin "program-aware-fairness": parameter "lasDecayFactor" is gone; write lasHalfLifeSeconds, the time in which attained service halves`}, nil},
		{"the prefix scorer that kept an index", "- {type: prefix-cache-scorer, parameters: {hashBlockSize: 64, maxPrefixBlocksToMatch: 256, lruCapacityPerServer: 31250}}\n", []string{
			`f:4:44: warning: plugin "prefix-cache-scorer": parameter "hashBlockSize" has no effect: a prompt is cut into blocks of tokens; remove it`,
			`f:4:63: warning: plugin "prefix-cache-scorer": parameter "maxPrefixBlocksToMatch" is one of approx-prefix-cache-producer today; declare approx-prefix-cache-producer and write maxPrefixBlocksToMatch there`,
			`f:4:92: warning: plugin "prefix-cache-scorer": parameter "lruCapacityPerServer" is one of approx-prefix-cache-producer today; declare approx-prefix-cache-producer and write lruCapacityPerServer there`},
			[]string{"type: approx-prefix-cache-producer", "maxPrefixBlocksToMatch: 256", "maxPrefixTokensToMatch: 0", "lruCapacityPerServer: 31250", "type: prefix-cache-scorer"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			file, problems := config.Load([]byte(head+"plugins:\n"+row.text), "f", moreEntries())
			var said []string
			for _, p := range problems {
				said = append(said, p.Error())
			}
			if diff := cmp.Diff(row.said, said); diff != "" {
				t.Error(diff)
			}
			if file == nil {
				if row.effective != nil {
					t.Error("it does not load")
				}
				return
			}
			if verdict, _ := validate(t, schema, head+"plugins:\n"+row.text); verdict != nil {
				t.Errorf("it loads, and the schema refuses it: %v", verdict)
			}
			var lines []string
			for line := range strings.Lines(string(file.Effective())) {
				lines = append(lines, strings.TrimSpace(line))
			}
			for _, want := range row.effective {
				if !slices.Contains(lines, want) {
					t.Errorf("the effective text has no line %q:\n%s", want, file.Effective())
				}
			}
			built, problems := file.Build()
			if built == nil {
				t.Errorf("it does not build: %v", problems)
			}
			again, problems := config.Load(file.Effective(), "again", moreEntries())
			if again == nil || again.Digest() != file.Digest() {
				t.Errorf("the effective text does not load to the same: %v", problems)
			}
		})
	}
}

// A catalogue without what an old type turns into refuses it by name.
func TestOldTypesWithoutCounterpartAreRefused(t *testing.T) {
	few := slices.DeleteFunc(catalog.Builtin(), func(e plugins.Entry) bool {
		return !slices.Contains([]string{"queue-scorer", "max-score-picker", "single-profile-handler", "prefix-cache-scorer", "approx-prefix-cache-producer"}, e.Type)
	})
	for _, typ := range []string{"by-label", "by-label-selector", "active-request-filter", "pd-profile-handler", "precise-prefix-cache-scorer"} {
		_, problems := config.Load(fmt.Appendf(nil, "%splugins: [{type: %s}, {type: queue-scorer}]\n", head, typ), "f", few)
		if len(problems) != 1 || problems[0].Code != config.CodeNotAvailable || problems[0].Suggestion == "" {
			t.Errorf("%s: %v", typ, problems)
		}
	}
}
