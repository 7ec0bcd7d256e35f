package telemetry

// series is one of those that we read of a page.
type series uint8

const (
	waiting series = iota
	running
	usage
	usageLegacy // the name of usage up to vLLM 0.9
	blocks      // of cache_config_info, like the next
	blockTokens
	adapters
	processStart
	promptTokens
	allSeries
)

// The names of vLLM's series.
const (
	nameWaiting      = "vllm:num_requests_waiting"
	nameRunning      = "vllm:num_requests_running"
	nameUsage        = "vllm:kv_cache_usage_perc"
	nameUsageLegacy  = "vllm:gpu_cache_usage_perc"
	nameCacheConfig  = "vllm:cache_config_info"
	nameAdapters     = "vllm:lora_requests_info"
	nameProcessStart = "process_start_time_seconds"
	namePromptTokens = "vllm:prompt_tokens_total"
)

func (s series) String() string {
	return [...]string{
		waiting: nameWaiting, running: nameRunning, usage: nameUsage, usageLegacy: nameUsageLegacy,
		blocks: nameCacheConfig + " num_gpu_blocks", blockTokens: nameCacheConfig + " block_size",
		adapters: nameAdapters, processStart: nameProcessStart, promptTokens: namePromptTokens,
	}[s]
}

// The ranges outside of which a value is rejected. They are far beyond what an engine can hold.
const (
	maxRequests    = 1_000_000   // of one engine
	maxBlocks      = 100_000_000 // of one engine
	maxBlockTokens = 65_536
	maxTokens      = 1e18 // that one process ever took in
	maxLabelSets   = 256  // of one series, more than any number of ranks and models behind one page
	maxAdapters    = 1_024
)

// fault says why a value was rejected.
type fault uint8

const (
	sound fault = iota
	unreadable
	notFinite
	negative
	beyond
	notWhole
	differs
	tooMany
)

func (f fault) String() string {
	return [...]string{
		sound: "sound", unreadable: "cannot be read", notFinite: "is not finite", negative: "is negative",
		beyond: "is larger than any engine's", notWhole: "is not a whole number", differs: "differs between ranks",
		tooMany: "has too many label sets",
	}[f]
}

// judge returns whether v may be a value of s.
func judge(s series, v float64) fault {
	switch {
	case v-v != 0: // NaN and the infinities
		return notFinite
	case v < 0:
		return negative
	}
	switch s {
	case waiting, running:
		return whole(v, maxRequests)
	case blocks:
		return whole(v, maxBlocks)
	case blockTokens:
		return whole(v, maxBlockTokens)
	case usage, usageLegacy:
		if v > 1 {
			return beyond
		}
	case promptTokens:
		if v > maxTokens {
			return beyond
		}
	}
	return sound
}

func whole(v, most float64) fault {
	switch {
	case v > most:
		return beyond
	case v != float64(int64(v)):
		return notWhole
	}
	return sound
}
