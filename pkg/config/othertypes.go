package config

import (
	"fmt"
	"slices"

	"github.com/fairlead/fairlead/pkg/plugins"
)

// otherType is a plugin type of llm-d's endpoint picker that the catalogue may not have. A catalogue that has it wins.
type otherType struct {
	typ string
	use string // types to use instead, the first that the catalogue has is suggested
	do  string // what to do where nothing takes its place; empty: remove it
}

// advice says what to write instead of a type.
func (o otherType) advice(entries []plugins.Entry) string {
	do := "remove it"
	if o.do != "" {
		do = o.do
	}
	if o.use != "" && slices.ContainsFunc(entries, func(e plugins.Entry) bool { return e.Type == o.use }) {
		return fmt.Sprintf("use %q, or %s", o.use, do)
	}
	return do
}

// The advice that several types share.
const (
	doFlow     = "remove it with the flowControl section"
	doPrefix   = "remove it: the approximate prefix producer is added by itself"
	doLatency  = "remove it: latencies are not predicted here"
	doDisagg   = "remove it and use one profile: prefill and decode are not split here"
	doSession  = "remove it: sessions are not tracked here; prefix-cache-scorer keeps a conversation where its prefix is cached"
	doAttrs    = "remove it: attributes come from metrics pages, by customMetrics of core-metrics-extractor, from annotations and from labels"
	doClusters = "remove it: there is one cluster here"
	doFiles    = "remove it and name the endpoint file with --endpoints"
)

// otherTypes lists the types of llm-d's registry, in the order of its documentation.
var otherTypes = [...]otherType{
	// Scorers.
	{typ: "queue-scorer"}, {typ: "running-requests-size-scorer", use: "queue-scorer"}, {typ: "kv-cache-utilization-scorer", use: "queue-scorer"},
	{typ: "lora-affinity-scorer", use: "queue-scorer"}, {typ: "load-aware-scorer", use: "queue-scorer"},
	{typ: "token-load-scorer", use: "queue-scorer"}, {typ: "active-request-scorer", use: "queue-scorer"},
	{typ: "prefix-cache-scorer", use: "queue-scorer"}, {typ: "precise-prefix-cache-scorer", use: "prefix-cache-scorer"},
	{typ: "context-length-aware"}, {typ: "endpoint-attribute-scorer", do: doAttrs}, {typ: "header-label-affinity-scorer"},
	{typ: "latency-scorer", use: "queue-scorer", do: doLatency}, {typ: "mm-embeddings-cache-scorer"},
	{typ: "no-hit-lru-scorer", use: "queue-scorer"}, {typ: "session-affinity-scorer", do: doSession},
	{typ: "topology-affinity-scorer"}, {typ: "multicluster-queue-scorer", use: "queue-scorer", do: doClusters},
	{typ: "multicluster-kv-cache-utilization-scorer", use: "kv-cache-utilization-scorer", do: doClusters},
	{typ: "multicluster-prefix-cache-scorer", use: "prefix-cache-scorer", do: doClusters},

	// Filters.
	{typ: "label-selector-filter"}, {typ: "by-label", use: "label-selector-filter"}, {typ: "by-label-selector", use: "label-selector-filter"},
	{typ: "decode-filter", use: "label-selector-filter", do: doDisagg}, {typ: "prefill-filter", use: "label-selector-filter", do: doDisagg},
	{typ: "encode-filter", use: "label-selector-filter", do: doDisagg},
	{typ: "session-affinity-filter", do: doSession}, {typ: "multicluster-session-affinity-filter", do: doClusters},
	{typ: "endpoint-attribute-filter", do: doAttrs}, {typ: "topology-affinity-filter"}, {typ: "utilization-filter", use: "queue-scorer"},
	{typ: "active-request-filter", use: "queue-scorer"}, {typ: "prefix-cache-affinity-filter", use: "prefix-cache-scorer"},
	{typ: "slo-headroom-tier-filter", do: doLatency}, {typ: "header-based-testing-filter"},

	// Pickers.
	{typ: "max-score-picker"}, {typ: "random-picker", use: "max-score-picker"}, {typ: "weighted-random-picker", use: "max-score-picker"},

	// Profile handlers and deciders.
	{typ: "single-profile-handler"}, {typ: "header-profile-handler", use: "single-profile-handler"},
	{typ: "disagg-profile-handler", use: "single-profile-handler", do: doDisagg},
	{typ: "data-parallel-profile-handler", use: "single-profile-handler", do: "list each rank as an endpoint with its own port"},
	{typ: "pd-profile-handler", use: "single-profile-handler", do: doDisagg}, {typ: "prefix-based-pd-decider", do: doDisagg},
	{typ: "always-disagg-pd-decider", do: doDisagg}, {typ: "always-disagg-multimodal-decider", do: doDisagg},
	{typ: "prefill-header-handler", do: doDisagg}, {typ: "disagg-headers-handler", do: doDisagg},

	// Producers.
	{typ: "token-producer"}, {typ: "tokenizer", do: "remove it: prompts are counted at 4 bytes per token"},
	{typ: "approx-prefix-cache-producer", do: doPrefix}, {typ: "burst-prefix-cache-producer", use: "approx-prefix-cache-producer", do: doPrefix},
	{typ: "precise-prefix-cache-producer", use: "approx-prefix-cache-producer", do: doPrefix},
	{typ: "p2p-source-producer"}, {typ: "inflight-load-producer", do: "remove it: requests in flight are always booked"},
	{typ: "predicted-latency-producer", do: doLatency}, {typ: "mm-embeddings-cache-producer"},
	{typ: "session-id-producer", do: doSession}, {typ: "multicluster-approx-prefix-cache-producer", use: "approx-prefix-cache-producer", do: doClusters},

	// Request control.
	{typ: "disaggregatedset-rollout-screener", do: doDisagg}, {typ: "latency-slo-admitter"},
	{typ: "probabilistic-admitter"},
	{typ: "agent-identity", do: doSession}, {typ: "request-attribute-reporter"}, {typ: "destination-endpoint-served-verifier"},

	// Parsers.
	{typ: "openai-parser"}, {typ: "anthropic-parser"}, {typ: "vllmhttp-parser"}, {typ: "passthrough-parser"},
	{typ: "sglanghttp-parser"}, {typ: "vllmgrpc-parser"}, {typ: "vertexai-parser"},

	// Flow control.
	{typ: "global-strict-fairness-policy", do: doFlow}, {typ: "round-robin-fairness-policy", do: doFlow}, {typ: "program-aware-fairness", do: doFlow},
	{typ: "fcfs-ordering-policy", do: doFlow}, {typ: "edf-ordering-policy", do: doFlow}, {typ: "slo-deadline-ordering-policy", do: doFlow},
	{typ: "static-usage-limit-policy", do: doFlow}, {typ: "priority-holdback-policy", do: doFlow}, {typ: "soft-reflective-ceiling-policy", do: doFlow},
	{typ: "utilization-detector", do: doFlow}, {typ: "concurrency-detector", do: doFlow},
	{typ: "sheddable-eviction-filter"}, {typ: "priority-then-time-eviction-order-policy"},

	// Data layer.
	{typ: "metrics-data-source"}, {typ: "core-metrics-extractor"},
	{typ: "models-data-source", do: doAttrs}, {typ: "models-data-extractor", do: doAttrs},
	{typ: "dcgm-data-source", do: doAttrs}, {typ: "dcgm-extractor", do: doAttrs}, {typ: "topology-extractor", do: doAttrs},
	{typ: "k8s-notification-source", do: doAttrs}, {typ: "endpoint-notification-source", do: doAttrs},
	{typ: "file-discovery", do: doFiles}, {typ: "multicluster-file-discovery", do: doFiles},
	{typ: "multicluster-metrics-data-source", do: doClusters}, {typ: "multicluster-metrics-extractor", do: doClusters},
}
