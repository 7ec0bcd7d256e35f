package server

import (
	"fmt"

	"github.com/fairlead/fairlead/simulator/engine"
)

// Dialect is the form of the metrics page.
type Dialect string

const (
	// DialectVLLM is vLLM 0.32's; so is the empty one.
	DialectVLLM Dialect = "vllm"

	// DialectVLLM026 is vLLM 0.26's: without admission_rejections, prompt_tokens_cached_by_source and request_num_preemptions.
	DialectVLLM026 Dialect = "vllm-0.26"

	// DialectVLLM08 is vLLM 0.8's, with the names that older dashboards and configurations still have: no engine label,
	// gpu_cache_usage_perc, gpu_prefix_cache_*, num_requests_swapped, time_per_output_token_seconds.
	DialectVLLM08 Dialect = "vllm-0.8"

	// DialectSGLang is SGLang's with --enable-metrics.
	DialectSGLang Dialect = "sglang"
)

func (d Dialect) check() error {
	switch d {
	case "", DialectVLLM, DialectVLLM026, DialectVLLM08, DialectSGLang:
		return nil
	}
	return fmt.Errorf("metrics dialect is %q; vllm, vllm-0.26, vllm-0.8 or sglang", string(d))
}

// engineLabel reports whether series have the label engine.
func (d Dialect) engineLabel() bool { return d != DialectVLLM08 && d != DialectSGLang }

// appendVLLM08 appends a page as vLLM 0.8 made it.
func (s *stats) appendVLLM08(dst []byte, c engine.Counters, g engine.Gauges, use float64) []byte {
	p := page{dst, "vllm:", s}
	p.gauge("num_requests_running", "Requests in the running batch.", float64(g.Running))
	p.gauge("num_requests_swapped", "Requests swapped to the host; none ever.", 0)
	p.gauge("num_requests_waiting", "Requests that wait to be processed.", float64(g.Waiting))
	p.gauge("gpu_cache_usage_perc", "Share of KV blocks in use; 1 is all.", use)
	p.gauge("cpu_cache_usage_perc", "Share of blocks in use on the host; none are.", 0)
	p.counter("gpu_prefix_cache_queries", "Tokens looked up in the prefix cache.", c.PrefixQueries)
	p.counter("gpu_prefix_cache_hits", "Tokens found in the prefix cache.", c.PrefixHits)
	p.counter("num_preemptions", "Preemptions so far.", c.Preemptions)
	p.counter("prompt_tokens", "Prompt tokens processed.", c.PromptTokens)
	p.counter("generation_tokens", "Tokens generated.", c.GenerationTokens)
	p.counters("request_success", "Requests that ended, by reason.", "finished_reason",
		labelled{"stop", s.stopped}, labelled{"length", s.limited}, labelled{"abort", c.Aborted})
	p.histogram("request_prompt_tokens", "Prompt tokens per request.", s.promptTokens)
	p.histogram("request_generation_tokens", "Generated tokens per request.", s.generationTokens)
	p.histogram("iteration_tokens_total", "Tokens per engine step.", s.iterationTokens)
	p.histogram("request_max_num_generation_tokens", "Most generated tokens per request.", s.maxGenerationTokens)
	p.histogram("request_params_n", "The request parameter n.", s.paramsN)
	p.histogram("request_params_best_of", "The request parameter best_of.", s.paramsN)
	p.histogram("request_params_max_tokens", "The request parameter max_tokens.", s.paramsMaxTokens)
	p.histogram("time_to_first_token_seconds", "Time from arrival to the first token.", s.ttft)
	p.histogram("time_per_output_token_seconds", "Time between two tokens.", s.interToken)
	p.histogram("e2e_request_latency_seconds", "Time from arrival to the last token.", s.e2e)
	p.histogram("request_queue_time_seconds", "Time spent waiting.", s.queueTime)
	p.histogram("request_inference_time_seconds", "Time spent running.", s.inferenceTime)
	p.histogram("request_prefill_time_seconds", "Time from running to the first token.", s.prefillTime)
	p.histogram("request_decode_time_seconds", "Time from the first token to the last.", s.decoding)
	if s.options.Adapters > 0 {
		p.loraInfo()
	}
	p.head("cache_config_info", "The configuration of the KV cache.", "gauge")
	p.sample("cache_config_info", s.blocksLabels("block_size", "num_gpu_blocks"), 1)
	return p.buf
}

// appendSGLang appends a page as SGLang makes it.
func (s *stats) appendSGLang(dst []byte, c engine.Counters, g engine.Gauges, use float64) []byte {
	p := page{dst, "sglang:", s}
	p.gauge("num_running_reqs", "Requests in the running batch.", float64(g.Running))
	p.gauge("num_queue_reqs", "Requests that wait to be processed.", float64(g.Waiting))
	p.gauge("token_usage", "Share of the KV cache in use; 1 is all.", use)
	p.gauge("num_used_tokens", "Tokens of the KV cache in use.", float64(int64(g.UsedBlocks)*int64(s.profile.BlockTokens)))
	rate := 0.0
	if c.PrefixQueries > 0 {
		rate = float64(c.PrefixHits) / float64(c.PrefixQueries)
	}
	p.gauge("cache_hit_rate", "Share of prompt tokens found in the cache.", rate)
	p.counter("prompt_tokens", "Prompt tokens processed.", c.PromptTokens)
	p.counter("generation_tokens", "Tokens generated.", c.GenerationTokens)
	p.counter("cached_tokens", "Prompt tokens that were cached.", c.CachedPromptTokens)
	p.counter("num_requests", "Requests that ended.", c.Finished)
	p.histogram("time_to_first_token_seconds", "Time from arrival to the first token.", s.ttft)
	p.histogram("inter_token_latency_seconds", "Time between two tokens.", s.interToken)
	p.histogram("time_per_output_token_seconds", "Mean time per token of a request.", s.perOutputToken)
	p.histogram("e2e_request_latency_seconds", "Time from arrival to the last token.", s.e2e)
	p.head("cache_config_info", "The configuration of the KV cache.", "gauge")
	p.sample("cache_config_info", s.labels+","+s.blocksLabels("page_size", "num_pages"), 1)
	return p.buf
}

func (s *stats) blocksLabels(size, count string) string {
	return fmt.Sprintf(`%s="%d",%s="%d"`, size, s.profile.BlockTokens, count, s.profile.Blocks)
}

// Fake replaces gauges of the metrics page by figures of choice; the engine goes on as it is. Absent ones stay true.
type Fake struct {
	Running *int32   `json:"running-requests"`
	Waiting *int32   `json:"waiting-requests"`
	KVUsage *float64 `json:"kv-cache-usage"`
}

func (f *Fake) check() error {
	switch {
	case f == nil:
	case f.Running != nil && *f.Running < 0, f.Waiting != nil && *f.Waiting < 0:
		return fmt.Errorf("fake metrics: running-requests and waiting-requests must not be negative")
	case f.KVUsage != nil && !(*f.KVUsage >= 0 && *f.KVUsage <= 1):
		return fmt.Errorf("fake metrics: kv-cache-usage is %v; 0 to 1", *f.KVUsage)
	}
	return nil
}

func (f *Fake) put(g engine.Gauges, use float64) (engine.Gauges, float64) {
	if f == nil {
		return g, use
	}
	if f.Running != nil {
		g.Running = *f.Running
	}
	if f.Waiting != nil {
		g.Waiting = *f.Waiting
	}
	if f.KVUsage != nil {
		use = *f.KVUsage
	}
	return g, use
}
