// Package engines says what each kind of model server calls the quantities that scheduling reads of its metrics page.
package engines

import (
	"slices"
	"strings"
)

// Signal is a quantity that scheduling reads of an engine.
type Signal uint8

// The signals, in the order in which documentation lists them.
const (
	Waiting           Signal = iota // requests that wait in the engine
	Running                         // requests in the engine's batch
	KVUsage                         // used share of the KV cache, 0..1
	Blocks                          // of the KV cache
	BlockTokens                     // tokens per block
	Adapters                        // LoRA adapters with requests; the value is the time of the change
	ProcessStart                    // seconds since the Unix epoch
	PromptTokens                    // taken in since the process began
	FirstTokens                     // of requests since then: how many, and
	FirstTokenSeconds               // how long they took together, from arrival
	Gaps                            // between tokens since then: how many, and
	GapSeconds                      // how long they were together
	Preemptions                     // of requests that were sent back from the batch, since then
	NumSignals
)

// String returns what the documentation calls the signal.
func (s Signal) String() string {
	return [...]string{"waiting", "running", "kv-usage", "blocks", "block-tokens", "adapters", "process-start", "prompt-tokens",
		"first-tokens", "first-token-seconds", "gaps", "gap-seconds", "preemptions"}[s]
}

// Source is where a signal stands: in the value of a series, or in one of its labels.
type Source struct {
	Spec
	Label string // empty: the value
}

// String returns the specification, with the label behind a blank where the signal stands in one.
func (s Source) String() string {
	if s.Label == "" {
		return s.Spec.String()
	}
	return s.Spec.String() + " " + s.Label
}

// Custom is a further quantity that a configuration asks for.
type Custom struct {
	Key string // of the attribute that it becomes
	Spec
}

// Engine is what one kind of model server calls its quantities.
type Engine struct {
	Name string
	// Path is where its page is, if not at /metrics.
	Path string
	// Reads lists by signal where it stands: of several places the first counts that the page has. A signal without a place
	// is unknown of this engine.
	Reads  [NumSignals][]Source
	Custom []Custom
	// Note says what is peculiar, for the documentation.
	Note string
}

// The labels of an endpoint that name its engine.
const (
	LabelKey       = "llm-d.ai/engine-type"
	LegacyLabelKey = "inference.networking.k8s.io/engine-type"
)

// Default is the engine of an endpoint that does not say what it runs.
const Default = "vllm"

// Builtin returns the engines that need no configuration. The names are those of vLLM's, SGLang's, TensorRT-LLM's and
// Triton's metrics pages.
func Builtin() []Engine {
	at := func(text string) Source {
		name, label, _ := strings.Cut(text, " ")
		spec, err := ParseSpec(name)
		if err != nil {
			panic("engines: " + err.Error())
		}
		return Source{spec, label}
	}
	of := func(texts ...string) (all []Source) {
		for _, text := range texts {
			all = append(all, at(text))
		}
		return all
	}
	start := of("process_start_time_seconds")
	return []Engine{
		{Name: Default, Reads: [NumSignals][]Source{
			Waiting:      of("vllm:num_requests_waiting"),
			Running:      of("vllm:num_requests_running"),
			KVUsage:      of("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"), // the name up to 0.9
			Blocks:       of("vllm:cache_config_info num_gpu_blocks"),
			BlockTokens:  of("vllm:cache_config_info block_size"),
			Adapters:     of("vllm:lora_requests_info"),
			ProcessStart: start,
			PromptTokens: of("vllm:prompt_tokens_total"),

			FirstTokens:       of("vllm:time_to_first_token_seconds_count"),
			FirstTokenSeconds: of("vllm:time_to_first_token_seconds_sum"),
			Gaps:              of("vllm:inter_token_latency_seconds_count", "vllm:time_per_output_token_seconds_count"), // the name up to 0.10
			GapSeconds:        of("vllm:inter_token_latency_seconds_sum", "vllm:time_per_output_token_seconds_sum"),
			Preemptions:       of("vllm:num_preemptions_total"),
		}, Note: "Up to 0.9 the KV usage is `vllm:gpu_cache_usage_perc`; where a page has both names the new one counts."},
		{Name: "sglang", Reads: [NumSignals][]Source{
			Waiting:      of("sglang:num_queue_reqs"),
			Running:      of("sglang:num_running_reqs"),
			KVUsage:      of("sglang:token_usage"),
			Blocks:       of("sglang:cache_config_info num_pages", "sglang:num_pages"),
			BlockTokens:  of("sglang:cache_config_info page_size", "sglang:page_size"),
			ProcessStart: start,
			PromptTokens: of("sglang:prompt_tokens_total"),

			FirstTokens:       of("sglang:time_to_first_token_seconds_count"),
			FirstTokenSeconds: of("sglang:time_to_first_token_seconds_sum"),
			Gaps:              of("sglang:inter_token_latency_seconds_count"),
			GapSeconds:        of("sglang:inter_token_latency_seconds_sum"),
		}, Note: "`sglang:token_usage` is a gauge: the share of the KV pool's tokens in use, 0 to 1. Ranks of tensor and " +
			"pipeline parallelism report the same requests each, and count once. The server needs `--enable-metrics`."},
		{Name: "trtllm-serve", Path: "/prometheus/metrics", Reads: [NumSignals][]Source{
			Waiting:      of("trtllm_num_requests_waiting"),
			Running:      of("trtllm_num_requests_running"),
			KVUsage:      of("trtllm_kv_cache_utilization"),
			Blocks:       of("trtllm_kv_cache_max_blocks"),
			BlockTokens:  of("trtllm_kv_cache_tokens_per_block"),
			ProcessStart: start,
		}, Note: "The page is at `/prometheus/metrics`, which is asked for unless the configuration gives a path: `/metrics` of this server is JSON."},
		{Name: "triton-tensorrt-llm", Reads: [NumSignals][]Source{
			Waiting:      of("nv_trt_llm_request_metrics{request_type=waiting}"),
			Running:      of("nv_trt_llm_request_metrics{request_type=scheduled}"),
			KVUsage:      of("nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=fraction}"),
			Blocks:       of("nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=max}"),
			BlockTokens:  of("nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=tokens_per}"),
			ProcessStart: start,
		}, Note: "Triton's metrics port is 8002 by default: give `metricsPort` or `port`."},
		{Name: "triton", Reads: [NumSignals][]Source{
			Waiting:      of("nv_inference_pending_request_count"),
			ProcessStart: start,
		}, Note: "`nv_inference_exec_count`, which llm-d reads as running requests, is a counter: executions since the start. The " +
			"endpoint with the longest past would seem the busiest, so running requests are unknown here."},
	}
}

// counters are series of the built-in engines' pages that rise for ever and have no suffix that says so.
var counters = []string{"nv_inference_exec_count", "nv_inference_count", "nv_inference_request_success"}

// IsCounter reports whether a series of this name rises for ever, so that its value says nothing of the present.
func IsCounter(name string) bool {
	return strings.HasSuffix(name, "_total") || slices.Contains(counters, name)
}

// Choice says which engine an endpoint runs. The zero Choice has the built-in engines and Default.
type Choice struct {
	// LabelKey is the endpoint's label that names its engine; empty is LabelKey, beside which LegacyLabelKey is looked at.
	LabelKey string
	// Default is the engine without such a label; empty is Default.
	Default string
	// Engines stand beside the built-in ones, and in place of those with their name.
	Engines []Engine
}

// All returns the engines to choose from: those of the configuration, then the built-in ones that they do not replace.
func (c *Choice) All() []Engine {
	all := slices.Clone(c.Engines)
	for _, e := range Builtin() {
		if !slices.ContainsFunc(c.Engines, func(own Engine) bool { return own.Name == e.Name }) {
			all = append(all, e)
		}
	}
	return all
}

// Key returns the label that names an endpoint's engine.
func (c *Choice) Key() string {
	if c.LabelKey == "" {
		return LabelKey
	}
	return c.LabelKey
}

// Named returns the name of the engine that labels name, or the default's.
func (c *Choice) Named(labels map[string]string) string {
	name := labels[c.Key()]
	if name == "" && c.Key() == LabelKey {
		name = labels[LegacyLabelKey]
	}
	switch {
	case name != "":
		return name
	case c.Default != "":
		return c.Default
	}
	return Default
}
