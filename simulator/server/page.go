package server

import (
	"strconv"
	"time"

	"github.com/fairlead/fairlead/simulator/engine"
)

// append appends the metrics page of e in the dialect asked for.
func (s *stats) append(dst []byte, e *engine.Engine, wall time.Time) []byte {
	c, g, use := e.Counters(), e.Gauges(), e.Gauges().KVUsage()
	if s.options.Adapters > 0 {
		s.noteLoras(e, wall)
	}
	g, use = s.fake.put(g, use)
	switch s.dialect {
	case DialectSGLang:
		return s.appendSGLang(dst, c, g, use)
	case DialectVLLM08:
		return s.appendVLLM08(dst, c, g, use)
	}
	return s.appendVLLM(dst, c, g, use)
}

// appendVLLM appends a page with the families, types, labels, buckets and number format of vLLM 0.32.0 and in its order, or
// of 0.26.0, which has three families less. What a simulated engine has none of (images, sleep) is zero as on an engine that
// does not use it.
func (s *stats) appendVLLM(dst []byte, c engine.Counters, g engine.Gauges, use float64) []byte {
	p := page{dst, "vllm:", s}
	recent := s.dialect != DialectVLLM026

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
	p.gauge("kv_cache_usage_perc", "Share of KV blocks in use; 1 is all.", use)

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
	if recent {
		p.counters("prompt_tokens_cached_by_source", "Cached prompt tokens by cache tier.", "source",
			labelled{"device", c.PrefixHits}, labelled{"host", 0}, labelled{"p2p", 0}, labelled{"disk", 0}, labelled{"external_unspecified", 0})
	}
	p.counter("generation_tokens", "Tokens generated.", c.GenerationTokens)
	p.counters("request_success", "Requests that ended, by reason.", "finished_reason",
		labelled{"stop", s.stopped}, labelled{"length", s.limited}, labelled{"abort", c.Aborted}, labelled{"error", 0}, labelled{"repetition", 0})

	if recent {
		p.rejections()
	}
	p.vllmHistograms(recent)

	if s.options.Adapters > 0 {
		p.loraInfo()
	}
	p.head("cache_config_info", "The configuration of the KV cache.", "gauge")
	p.sample("cache_config_info", s.cacheLabels(), 1)
	return p.buf
}

func (p *page) rejections() {
	s := p.stats
	p.head("admission_rejections_total", "Requests turned away, by reason.", "counter")
	p.sample("admission_rejections_total", `model_name="`+s.model+`",reason="max_num_queued_reqs"`, float64(s.rejections))
	p.sample("admission_rejections_total", `model_name="`+s.model+`",reason="max_num_queued_tokens"`, 0)
	p.head("admission_rejections_created", "Requests turned away, by reason.", "gauge")
	p.sample("admission_rejections_created", `model_name="`+s.model+`",reason="max_num_queued_reqs"`, s.created)
	p.sample("admission_rejections_created", `model_name="`+s.model+`",reason="max_num_queued_tokens"`, s.created)
}

func (p *page) vllmHistograms(recent bool) {
	s := p.stats
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
	if recent {
		p.histogram("request_num_preemptions", "Preemptions per request.", s.preemptions)
	}
	p.histogram("request_prefill_kv_computed_tokens", "Prompt tokens computed per request, cached ones excluded.", s.computedTokens)
}

func (p *page) loraInfo() {
	s := p.stats
	p.head("lora_requests_info", "Adapters that run and wait; the latest value holds.", "gauge")
	for _, l := range s.loras {
		p.sample("lora_requests_info", `max_lora="`+strconv.Itoa(int(s.options.MaxLoras))+`",running_lora_adapters="`+escapeLabel(l.running)+
			`",waiting_lora_adapters="`+escapeLabel(l.waiting)+`"`, l.at)
	}
}

func (s *stats) cacheLabels() string {
	caching := "True"
	if s.options.NoPrefixCache {
		caching = "False"
	}
	blocks, tokens := int(s.profile.Blocks), int(s.profile.BlockTokens)
	size := strconv.Itoa(tokens)
	if s.dialect == DialectVLLM026 {
		return `block_size="` + size + `",cache_dtype="auto",enable_prefix_caching="` + caching +
			`",engine="0",gpu_memory_utilization="0.9",kv_cache_size_tokens="` + strconv.Itoa(blocks*tokens) +
			`",num_cpu_blocks="None",num_gpu_blocks="` + strconv.Itoa(blocks) + `"`
	}
	return `_block_size_resolved="True",block_size="` + size + `",cache_dtype="auto",cache_hit_alignment_tokens="None",effective_attention_block_size="` + size +
		`",enable_mamba_shared_prefix_checkpoint="False",enable_prefix_caching="` + caching + `",engine="0",gpu_memory_utilization="0.9",hash_block_size="None"` +
		`,is_attention_free="False",kv_cache_dtype_skip_layers="[]",kv_cache_layout="None",kv_cache_max_concurrency="` + strconv.Itoa(int(s.profile.MaxSeqs)) +
		`",kv_cache_memory_bytes="None",kv_cache_size_tokens="` + strconv.Itoa(blocks*tokens) +
		`",kv_offloading_backend="native",kv_offloading_size="None",kv_sharing_fast_prefill="False",mamba_block_size="None",mamba_cache_dtype="auto"` +
		`,mamba_cache_mode="none",mamba_page_size_padded="None",mamba_ssm_cache_dtype="auto",num_cpu_blocks="None",num_gpu_blocks="` + strconv.Itoa(blocks) +
		`",num_gpu_blocks_override="None",prefix_cache_retention_interval="0",prefix_caching_hash_algo="xxhash",prefix_match_unit="None"` +
		`,replayssm_buffer_len="16",skip_page_size_padded="None",sliding_window="None",swa_bounded_replay="True",use_kda_recoverssm="False"` +
		`,use_replayssm="False",user_specified_block_size="False"`
}

// page is a metrics page as far as it is written.
type page struct {
	buf    []byte
	prefix string
	*stats
}

type labelled struct {
	label string
	value int64
}

func (p *page) head(name, help, kind string) {
	p.buf = append(p.buf, "# HELP "...)
	p.buf = append(p.buf, p.prefix...)
	p.buf = append(p.buf, name...)
	p.buf = append(p.buf, ' ')
	p.buf = append(p.buf, help...)
	p.buf = append(p.buf, "\n# TYPE "...)
	p.buf = append(p.buf, p.prefix...)
	p.buf = append(p.buf, name...)
	p.buf = append(p.buf, ' ')
	p.buf = append(p.buf, kind...)
	p.buf = append(p.buf, '\n')
}

func (p *page) sample(name, labels string, v float64) {
	p.buf = append(p.buf, p.prefix...)
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
		if label < "model_name" && !p.dialect.engineLabel() {
			return label + `="` + v + `",model_name="` + p.model + `"`
		}
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
		p.buf = append(p.buf, p.prefix...)
		p.buf = append(p.buf, name...)
		p.buf = append(p.buf, `_bucket{`...)
		if s := p.stats; s.dialect.engineLabel() {
			p.buf = append(p.buf, `engine="0",`...)
		}
		p.buf = append(p.buf, `le="`...)
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
