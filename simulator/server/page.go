package server

import (
	"strconv"
	"time"

	"github.com/fairlead/fairlead/simulator/engine"
)

// append appends the metrics page of e in the text format, with the families, types, labels, buckets and number format of
// vLLM 0.32.0 and in its order. What a simulated engine has none of (images, external caches, sleep) is zero as on an engine
// that does not use it.
func (s *stats) append(dst []byte, e *engine.Engine, wall time.Time) []byte {
	c, g := e.Counters(), e.Gauges()
	p := page{dst, s}

	p.counter("estimated_flops_per_gpu", "Estimated floating point operations; not estimated here.", 0)
	p.counter("estimated_read_bytes_per_gpu", "Estimated bytes read from memory; not estimated here.", 0)
	p.counter("estimated_write_bytes_per_gpu", "Estimated bytes written to memory; not estimated here.", 0)
	p.gauge("num_requests_running", "Requests in the running batch.", float64(g.Running))
	p.gauge("num_requests_waiting", "Requests that wait to be processed.", float64(g.Waiting))
	p.head("num_requests_waiting_by_reason", "Waiting requests by reason.", "gauge")
	p.sample("num_requests_waiting_by_reason", s.labels+`,reason="capacity"`, float64(g.Waiting-g.Deferred))
	p.sample("num_requests_waiting_by_reason", s.labels+`,reason="deferred"`, float64(g.Deferred))
	p.head("engine_sleep_state", "Whether the engine sleeps.", "gauge")
	p.sample("engine_sleep_state", s.labels+`,sleep_state="awake"`, 1)
	p.sample("engine_sleep_state", s.labels+`,sleep_state="weights_offloaded"`, 0)
	p.sample("engine_sleep_state", s.labels+`,sleep_state="discard_all"`, 0)
	p.gauge("kv_cache_usage_perc", "Share of KV blocks in use; 1 is all.", g.KVUsage())

	p.counter("prefix_cache_queries", "Tokens looked up in the prefix cache.", c.PrefixQueries)
	p.counter("prefix_cache_hits", "Tokens found in the prefix cache.", c.PrefixHits)
	p.counter("external_prefix_cache_queries", "Tokens looked up in external caches.", 0)
	p.counter("external_prefix_cache_hits", "Tokens found in external caches.", 0)
	p.counter("mm_cache_queries", "Items looked up in the multimodal cache.", 0)
	p.counter("mm_cache_hits", "Items found in the multimodal cache.", 0)
	p.counter("num_preemptions", "Preemptions so far.", c.Preemptions)
	p.counter("prompt_tokens", "Prompt tokens processed.", c.PromptTokens)
	p.counters("prompt_tokens_by_source", "Prompt tokens by source.", "source",
		labelled{"local_compute", c.PromptTokens - c.CachedPromptTokens - c.RemotePromptTokens}, labelled{"local_cache_hit", c.CachedPromptTokens}, labelled{"external_kv_transfer", c.RemotePromptTokens})
	p.counter("prompt_tokens_cached", "Prompt tokens that were cached.", c.CachedPromptTokens)
	p.counters("prompt_tokens_cached_by_source", "Cached prompt tokens by cache tier.", "source",
		labelled{"device", c.PrefixHits}, labelled{"host", 0}, labelled{"p2p", 0}, labelled{"disk", 0}, labelled{"external_unspecified", 0})
	p.counter("generation_tokens", "Tokens generated.", c.GenerationTokens)
	p.counters("request_success", "Requests that ended, by reason.", "finished_reason",
		labelled{"stop", s.stopped}, labelled{"length", s.limited}, labelled{"abort", c.Aborted}, labelled{"error", 0}, labelled{"repetition", 0})

	p.head("admission_rejections_total", "Requests turned away, by reason.", "counter")
	p.sample("admission_rejections_total", `model_name="`+s.model+`",reason="max_num_queued_reqs"`, float64(s.rejections))
	p.sample("admission_rejections_total", `model_name="`+s.model+`",reason="max_num_queued_tokens"`, 0)
	p.head("admission_rejections_created", "Requests turned away, by reason.", "gauge")
	p.sample("admission_rejections_created", `model_name="`+s.model+`",reason="max_num_queued_reqs"`, s.created)
	p.sample("admission_rejections_created", `model_name="`+s.model+`",reason="max_num_queued_tokens"`, s.created)

	p.histogram("request_prompt_tokens", "Prompt tokens per request.", s.promptTokens)
	p.histogram("request_generation_tokens", "Generated tokens per request.", s.generationTokens)
	p.histogram("iteration_tokens_total", "Tokens per engine step.", s.iterationTokens)
	p.histogram("request_max_num_generation_tokens", "Most generated tokens per request.", s.maxGenerationTokens)
	p.histogram("request_params_n", "The request parameter n.", s.paramsN)
	p.histogram("request_params_max_tokens", "The request parameter max_tokens.", s.paramsMaxTokens)
	p.histogram("time_to_first_token_seconds", "Time from arrival to the first token.", s.ttft)
	p.histogram("inter_token_latency_seconds", "Time between two tokens.", s.interToken)
	p.histogram("request_time_per_output_token_seconds", "Mean time per token of a request.", s.perOutputToken)
	p.histogram("e2e_request_latency_seconds", "Time from arrival to the last token.", s.e2e)
	p.histogram("request_queue_time_seconds", "Time spent waiting.", s.queueTime)
	p.histogram("request_inference_time_seconds", "Time spent running.", s.inferenceTime)
	p.histogram("request_prefill_time_seconds", "Time from running to the first token.", s.prefillTime)
	p.histogram("request_decode_time_seconds", "Time from the first token to the last.", s.decoding)
	p.histogram("request_num_preemptions", "Preemptions per request.", s.preemptions)
	p.histogram("request_prefill_kv_computed_tokens", "Prompt tokens computed per request, cached ones excluded.", s.computedTokens)

	if s.options.Adapters > 0 {
		s.noteLoras(e, wall)
		p.head("lora_requests_info", "Adapters that run and wait; the latest value holds.", "gauge")
		for _, l := range s.loras {
			p.sample("lora_requests_info", `max_lora="`+strconv.Itoa(int(s.options.MaxLoras))+`",running_lora_adapters="`+escapeLabel(l.running)+
				`",waiting_lora_adapters="`+escapeLabel(l.waiting)+`"`, l.at)
		}
	}
	p.head("cache_config_info", "The configuration of the KV cache.", "gauge")
	p.sample("cache_config_info", s.cacheLabels(), 1)
	return p.buf
}

func (s *stats) cacheLabels() string {
	caching := "True"
	if s.options.NoPrefixCache {
		caching = "False"
	}
	blocks, tokens := int(s.profile.Blocks), int(s.profile.BlockTokens)
	return `block_size="` + strconv.Itoa(tokens) + `",cache_dtype="auto",enable_prefix_caching="` + caching +
		`",engine="0",gpu_memory_utilization="0.9",kv_cache_size_tokens="` + strconv.Itoa(blocks*tokens) +
		`",num_cpu_blocks="None",num_gpu_blocks="` + strconv.Itoa(blocks) +
		`",num_gpu_blocks_override="None",prefix_caching_hash_algo="xxhash",sliding_window="None",user_specified_block_size="False"`
}

// page is a metrics page as far as it is written.
type page struct {
	buf []byte
	*stats
}

type labelled struct {
	label string
	value int64
}

func (p *page) head(name, help, kind string) {
	p.buf = append(p.buf, "# HELP vllm:"...)
	p.buf = append(p.buf, name...)
	p.buf = append(p.buf, ' ')
	p.buf = append(p.buf, help...)
	p.buf = append(p.buf, "\n# TYPE vllm:"...)
	p.buf = append(p.buf, name...)
	p.buf = append(p.buf, ' ')
	p.buf = append(p.buf, kind...)
	p.buf = append(p.buf, '\n')
}

func (p *page) sample(name, labels string, v float64) {
	p.buf = append(p.buf, "vllm:"...)
	p.buf = append(p.buf, name...)
	p.buf = append(p.buf, '{')
	p.buf = append(p.buf, labels...)
	p.buf = append(p.buf, "} "...)
	p.buf = appendNumber(p.buf, v)
	p.buf = append(p.buf, '\n')
}

func (p *page) gauge(name, help string, v float64) {
	p.head(name, help, "gauge")
	p.sample(name, p.labels, v)
}

func (p *page) counter(name, help string, v int64) {
	p.head(name+"_total", help, "counter")
	p.sample(name+"_total", p.labels, float64(v))
	p.head(name+"_created", help, "gauge")
	p.sample(name+"_created", p.labels, p.created)
}

// counters writes a counter with one more label. Labels stand in the order of their names.
func (p *page) counters(name, help, label string, values ...labelled) {
	with := func(v string) string {
		if label < "model_name" {
			return `engine="0",` + label + `="` + v + `",model_name="` + p.model + `"`
		}
		return p.labels + `,` + label + `="` + v + `"`
	}
	p.head(name+"_total", help, "counter")
	for _, v := range values {
		p.sample(name+"_total", with(v.label), float64(v.value))
	}
	p.head(name+"_created", help, "gauge")
	for _, v := range values {
		p.sample(name+"_created", with(v.label), p.created)
	}
}

func (p *page) histogram(name, help string, h *histogram) {
	p.head(name, help, "histogram")
	var total uint64
	for i, n := range h.counts {
		total += n
		p.buf = append(p.buf, "vllm:"...)
		p.buf = append(p.buf, name...)
		p.buf = append(p.buf, `_bucket{engine="0",le="`...)
		if i < len(h.bounds) {
			p.buf = appendNumber(p.buf, h.bounds[i])
		} else {
			p.buf = append(p.buf, "+Inf"...)
		}
		p.buf = append(p.buf, `",model_name="`...)
		p.buf = append(p.buf, p.model...)
		p.buf = append(p.buf, `"} `...)
		p.buf = appendNumber(p.buf, float64(total))
		p.buf = append(p.buf, '\n')
	}
	p.sample(name+"_count", p.labels, float64(total))
	p.sample(name+"_sum", p.labels, h.sum)
	p.head(name+"_created", help, "gauge")
	p.sample(name+"_created", p.labels, p.created)
}
