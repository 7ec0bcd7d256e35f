// Package catalog is the one list of the plugins that are built in.
package catalog

import (
	"github.com/fairlead/fairlead/pkg/admission"
	"github.com/fairlead/fairlead/pkg/conformance"
	"github.com/fairlead/fairlead/pkg/filters"
	"github.com/fairlead/fairlead/pkg/flow"
	"github.com/fairlead/fairlead/pkg/health"
	"github.com/fairlead/fairlead/pkg/kvindex"
	"github.com/fairlead/fairlead/pkg/models"
	"github.com/fairlead/fairlead/pkg/pickers"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/producers"
	"github.com/fairlead/fairlead/pkg/profiles"
	"github.com/fairlead/fairlead/pkg/scorers"
	"github.com/fairlead/fairlead/pkg/sessions"
)

// Builtin returns the plugins that are built in, grouped by extension point in the order in which a request meets them.
func Builtin() []plugins.Entry {
	return []plugins.Entry{
		plugins.Plugin("model-resolver", models.NewResolver),
		plugins.Plugin("objective-resolver", admission.NewObjectives),
		plugins.Plugin("probabilistic-admitter", admission.NewProbabilistic),
		plugins.Plugin("latency-slo-admitter", admission.NewLatencySLO),

		plugins.Plugin("approx-prefix-cache-producer", kvindex.NewProducer).Default(
			plugins.BlockHashes.Name, plugins.PromptBlocks.Name, plugins.CachedTokens.Name, plugins.CachedBlocks.Name),

		plugins.Plugin("hot-prefix-producer", kvindex.NewHot).Default(plugins.HotPrefixes.Name, plugins.DeliberateCopies.Name),

		plugins.Plugin("session-id-producer", sessions.NewIDProducer),
		plugins.Plugin("agent-identity", sessions.NewAgent).Default(plugins.AgentID.Name),
		plugins.Plugin("inflight-load-producer", producers.NewInFlightLoad),
		plugins.Plugin("load-model-producer", producers.NewLoadModel).Default(plugins.EngineLoads.Name, plugins.Traffics.Name),
		plugins.Plugin("adapter-producer", producers.NewAdapters).Default(plugins.AdapterHere.Name, plugins.AdapterPlaces.Name),
		plugins.Plugin("output-length-producer", producers.NewOutputLength).Default(plugins.ExpectedOutput.Name),
		plugins.Plugin("predicted-latency-producer", producers.NewPredictedLatency).Default(
			plugins.PredictedTTFT.Name, plugins.PredictedITL.Name, plugins.HighTTFT.Name, plugins.HighITL.Name),
		plugins.Plugin("topology-extractor", producers.NewTopology).Default(plugins.Localities.Name),
		plugins.Plugin("capacity-class-producer", producers.NewCapacityClass).Default(plugins.CapacityClasses.Name),

		plugins.Plugin("flow-control", flow.NewQueue),
		plugins.Plugin("priority-shedding", flow.NewShed),
		plugins.Plugin("load-detector", flow.NewLoadDetector),
		plugins.Plugin("utilization-detector", flow.NewUtilizationDetector),
		plugins.Plugin("concurrency-detector", flow.NewConcurrencyDetector),
		plugins.Plugin("static-usage-limit-policy", flow.NewStaticLimit),
		plugins.Plugin("priority-holdback-policy", flow.NewHoldback),
		plugins.Plugin("soft-reflective-ceiling-policy", flow.NewSoftReflective),
		plugins.Plugin("global-strict-fairness-policy", flow.NewGlobalStrict),
		plugins.Plugin("round-robin-fairness-policy", flow.NewRoundRobin),
		plugins.Plugin("token-deficit-fairness-policy", flow.NewTokenDeficit),
		plugins.Plugin("program-aware-fairness", flow.NewProgramAware),
		plugins.Plugin("fcfs-ordering-policy", flow.NewFCFS),
		plugins.Plugin("edf-ordering-policy", flow.NewEDF),
		plugins.Plugin("slo-deadline-ordering-policy", flow.NewSLODeadline),

		plugins.Plugin("single-profile-handler", profiles.NewSingle),
		plugins.Plugin("header-profile-handler", profiles.NewHeader),

		plugins.Plugin("label-selector-filter", filters.NewLabelSelector).As("by-label-selector"),
		plugins.Plugin("decode-filter", filters.NewDecode),
		plugins.Plugin("prefill-filter", filters.NewPrefill),
		plugins.Plugin("encode-filter", filters.NewEncode),
		plugins.Plugin("health-filter", health.NewFilter),
		plugins.Plugin("concurrency-ceiling-filter", health.NewCeiling),
		plugins.Plugin("utilization-filter", filters.NewUtilization),
		plugins.Plugin("endpoint-attribute-filter", filters.NewEndpointAttribute),
		plugins.Plugin("topology-affinity-filter", filters.NewTopologyAffinity),
		plugins.Plugin("prefix-cache-affinity-filter", filters.NewPrefixCacheAffinity),
		plugins.Plugin("hot-prefix-filter", filters.NewHotPrefix),
		plugins.Plugin("two-choice-filter", filters.NewTwoChoice),
		plugins.Plugin("slo-headroom-tier-filter", filters.NewSLOHeadroomTier),
		plugins.Plugin("session-affinity-filter", sessions.NewFilter),
		plugins.Plugin("header-based-testing-filter", conformance.NewSteering),

		plugins.Plugin("cost-scorer", scorers.NewCost),
		plugins.Plugin("queue-scorer", scorers.NewQueueDepth),
		plugins.Plugin("queue-headroom-scorer", scorers.NewQueue),
		plugins.Plugin("running-requests-size-scorer", scorers.NewRunningRequests),
		plugins.Plugin("load-aware-scorer", scorers.NewLoadAware),
		plugins.Plugin("active-request-scorer", scorers.NewActiveRequest),
		plugins.Plugin("token-load-scorer", scorers.NewTokenLoad),
		plugins.Plugin("kv-cache-utilization-scorer", scorers.NewKVUtilization),
		plugins.Plugin("prefix-cache-scorer", scorers.NewPrefixCache),
		plugins.Plugin("no-hit-lru-scorer", scorers.NewNoHitLRU),
		plugins.Plugin("lora-affinity-scorer", scorers.NewLoRAAffinity),
		plugins.Plugin("context-length-aware", scorers.NewContextLength),
		plugins.Plugin("session-affinity-scorer", sessions.NewScorer),
		plugins.Plugin("topology-affinity-scorer", scorers.NewTopologyAffinity),
		plugins.Plugin("header-label-affinity-scorer", scorers.NewHeaderLabel),
		plugins.Plugin("latency-scorer", scorers.NewLatency),
		plugins.Plugin("endpoint-attribute-scorer", scorers.NewEndpointAttribute),

		plugins.Plugin("max-score-picker", pickers.NewMaxScore),
		plugins.Plugin("random-picker", pickers.NewRandom),
		plugins.Plugin("weighted-random-picker", pickers.NewWeightedRandom),

		plugins.Plugin("destination-endpoint-served-verifier", conformance.NewServed),
	}
}
