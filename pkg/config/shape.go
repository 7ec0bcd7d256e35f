package config

import (
	"reflect"
	"time"

	"github.com/fairlead/fairlead/pkg/plugins"
)

// The shape of a document: what [Schema] prints, with the comments of these types as descriptions. The reader walks nodes
// and knows the same fields; a test holds the two together.
type (
	// documentShape is an EndpointPickerConfig: which plugins there are, and which of them decide for which requests.
	documentShape struct {
		// APIVersion is the version of the schema. All mean the same, but that pools, stages and objectives stand under
		// fairlead.dev/v1alpha1 alone.
		APIVersion string `json:"apiVersion" schema:"required"`
		// Kind is EndpointPickerConfig.
		Kind string `json:"kind" schema:"required,enum=EndpointPickerConfig"`
		// Plugins are the instances that profiles, pools and stages refer to by name. Without plugins and profiles the default
		// profile applies.
		Plugins []pluginShape `json:"plugins"`
		// SchedulingProfiles say which plugins filter, score and pick. Without any, one profile named default has every filter,
		// scorer and picker of plugins.
		SchedulingProfiles []profileShape `json:"schedulingProfiles"`
		// Pools are groups of endpoints with the models that they serve. Without any, one pool takes every model.
		Pools []poolShape `json:"pools"`
		// Stages are the plugins that run before scheduling, in this order, as names or as references. Without the list, all
		// plugins that are stages run, in the order of plugins.
		Stages []refShape `json:"stages"`
		// Objectives give priorities to the requests that name them, in the header x-llm-d-inference-objective.
		Objectives []objectiveShape `json:"objectives"`
		// FeatureGates are switches of other pickers, as name, name=true or name=false.
		FeatureGates []string `json:"featureGates"`
		// DataLayer says where endpoints and their metrics come from, in the terms of llm-d.
		DataLayer dataLayerShape `json:"dataLayer"`
		// FlowControl is llm-d's section on queueing.
		FlowControl flowControlShape `json:"flowControl"`
		// RequestHandler is llm-d's section on request formats.
		RequestHandler requestHandlerShape `json:"requestHandler"`
		// SaturationDetector is the deprecated place of flowControl.saturationDetector.
		SaturationDetector detectorShape `json:"saturationDetector"`
		// Parser is the deprecated place of requestHandler.parsers, for one parser.
		Parser refShape `json:"parser"`
	}

	// pluginShape is one instance of a plugin type.
	pluginShape struct {
		// Name is what profiles, pools and stages call it; without it, the type.
		Name string `json:"name"`
		// Type is the plugin's type: fairlead plugins lists them.
		Type string `json:"type" schema:"required"`
		// Parameters are those of the type: fairlead plugins TYPE lists them.
		Parameters map[string]string `json:"parameters"`
	}

	// profileShape names the plugins that decide together: filters in their order, scorers with weights, one picker.
	profileShape struct {
		// Name is what pools and profile handlers call it.
		Name string `json:"name" schema:"required"`
		// Plugins are its filters, scorers and picker.
		Plugins []weightedShape `json:"plugins"`
	}

	// weightedShape refers to a plugin, with the weight that a scorer has in this profile.
	weightedShape struct {
		refShape
		// Weight is what the scorer's score is multiplied by; 1 without it. Only the ratios of a profile's weights count.
		Weight *float64 `json:"weight" schema:"min=0,max=1000000"`
	}

	// refShape refers to a plugin by name.
	refShape struct {
		// PluginRef is the name of a plugin.
		PluginRef string `json:"pluginRef" schema:"required"`
	}

	// poolShape is a group of endpoints that serve the same models.
	poolShape struct {
		// Name is what endpoint files call it.
		Name string `json:"name" schema:"required"`
		// Models are those that it serves. Without any it takes every model, if it is the only pool.
		Models []modelShape `json:"models"`
		// Profiles are the names of those that decide for it; without them all, if it is the only pool or there is one profile.
		Profiles []string `json:"profiles"`
		// Handler is the name of the profile handler that runs them; without it, the only one of plugins.
		Handler string `json:"handler"`
	}

	// modelShape is a model that a pool serves.
	modelShape struct {
		// Name is what clients ask for and what the engine is asked for.
		Name string `json:"name" schema:"required"`
		// Aliases are further names that clients may ask for; the engine is asked for the name.
		Aliases []string `json:"aliases"`
	}

	// objectiveShape gives a priority to the requests that name it.
	objectiveShape struct {
		// Name is what requests call it.
		Name string `json:"name" schema:"required"`
		// Priority orders requests: larger goes first, and below 0 may be dropped when endpoints are short; 0 without it.
		Priority int32 `json:"priority"`
		// Pool is the only pool where the name has this meaning; without it, every pool.
		Pool string `json:"pool"`
	}

	// dataLayerShape is llm-d's section on where endpoints and metrics come from.
	dataLayerShape struct {
		// InjectDefaults is whether engines are scraped without being listed here; only true is supported, unless they are listed.
		InjectDefaults *bool `json:"injectDefaults"`
		// Sources bind sources of metrics to what reads them.
		Sources []sourceShape `json:"sources"`
		// Discovery names the plugin of type file-discovery that endpoints come from.
		Discovery refShape `json:"discovery"`
	}

	// sourceShape binds a source of metrics to what reads them.
	sourceShape struct {
		refShape
		// Extractors are the plugins that read what the source brings.
		Extractors []refShape `json:"extractors"`
	}

	// flowControlShape is llm-d's section on queueing.
	flowControlShape struct {
		// MaxBytes bounds the bytes of all queues.
		MaxBytes plugins.Quantity `json:"maxBytes"`
		// MaxRequests bounds the requests of all queues.
		MaxRequests plugins.Quantity `json:"maxRequests"`
		// DefaultRequestTTL bounds how long a request waits; 0s for no bound.
		DefaultRequestTTL time.Duration `json:"defaultRequestTTL"`
		// NoEndpointRequestTTL bounds how long a request waits while a pool has no endpoint.
		NoEndpointRequestTTL time.Duration `json:"noEndpointRequestTTL"`
		// DefaultPriorityBand is the template of bands that are not listed.
		DefaultPriorityBand bandShape `json:"defaultPriorityBand"`
		// DefaultNegativePriorityBand is the template of bands of negative priority that are not listed.
		DefaultNegativePriorityBand bandShape `json:"defaultNegativePriorityBand"`
		// PriorityBands are the bands.
		PriorityBands []bandShape `json:"priorityBands"`
		// UsageLimitPolicyPluginRef names the policy of ceilings per band.
		UsageLimitPolicyPluginRef string `json:"usageLimitPolicyPluginRef"`
		// SaturationDetector names the plugin that says when a pool is full.
		SaturationDetector detectorShape `json:"saturationDetector"`
		// EnableEviction revokes running requests of negative priority; it is not supported.
		EnableEviction bool `json:"enableEviction"`
	}

	// bandShape is one band of priority.
	bandShape struct {
		// Priority is the band's; larger goes first.
		Priority *int64 `json:"priority"`
		// MaxBytes bounds the band's bytes.
		MaxBytes plugins.Quantity `json:"maxBytes"`
		// MaxRequests bounds the band's requests.
		MaxRequests plugins.Quantity `json:"maxRequests"`
		// FairnessPolicyRef names the policy between flows.
		FairnessPolicyRef string `json:"fairnessPolicyRef"`
		// OrderingPolicyRef names the policy within a flow.
		OrderingPolicyRef string `json:"orderingPolicyRef"`
	}

	// detectorShape refers to a saturation detector, or has the thresholds of older configurations.
	detectorShape struct {
		// PluginRef is the name of a plugin.
		PluginRef string `json:"pluginRef"`
		// QueueDepthThreshold is the number of waiting requests at which an endpoint is full.
		QueueDepthThreshold *float64 `json:"queueDepthThreshold"`
		// KVCacheUtilThreshold is the used share of the KV cache at which an endpoint is full.
		KVCacheUtilThreshold *float64 `json:"kvCacheUtilThreshold"`
		// MetricsStalenessThreshold is the age at which metrics do not count.
		MetricsStalenessThreshold *time.Duration `json:"metricsStalenessThreshold"`
	}

	// byLabelShape has the parameters of the old type by-label.
	byLabelShape struct {
		// Label is the name of the label.
		Label string `json:"label" schema:"required,min=1"`
		// ValidValues are the values that pass; without any, every value does.
		ValidValues []string `json:"validValues"`
		// AllowsNoLabel lets endpoints without the label pass.
		AllowsNoLabel bool `json:"allowsNoLabel"`
	}

	// requestHandlerShape is llm-d's section on request formats.
	requestHandlerShape struct {
		// Parsers are those that read requests; the format of a request is known by its path in any case.
		Parsers []refShape `json:"parsers"`
	}
)

// DocumentTypes returns the types whose comments describe the configuration itself, for the generator of descriptions.
func DocumentTypes() []reflect.Type {
	return []reflect.Type{reflect.TypeFor[documentShape](), reflect.TypeFor[byLabelShape]()}
}
