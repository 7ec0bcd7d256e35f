package calibration

import (
	"bufio"
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// scraped are the sums over all series of the families that are read of a vLLM metrics page.
type scraped map[string]float64

// The families, without buckets: steps with their tokens, tokens with the time between them, and what came of requests.
var scrapedNames = []string{
	"vllm:iteration_tokens_total_count", "vllm:iteration_tokens_total_sum",
	"vllm:inter_token_latency_seconds_count", "vllm:inter_token_latency_seconds_sum",
	"vllm:time_to_first_token_seconds_count", "vllm:time_to_first_token_seconds_sum",
	"vllm:request_prompt_tokens_count", "vllm:request_prompt_tokens_sum",
	"vllm:request_generation_tokens_count", "vllm:request_generation_tokens_sum",
	"vllm:generation_tokens_total",
}

func readScrape(name string, page []byte) (scraped, error) {
	sums := scraped{}
	lines := bufio.NewScanner(bytes.NewReader(page))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		metric := line[:strings.IndexAny(line+"{", "{ ")]
		value, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if err != nil {
			return nil, fmt.Errorf("%s: line %q has no value at its end", name, line)
		}
		sums[metric] += value
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for _, n := range scrapedNames {
		if _, ok := sums[n]; !ok {
			return nil, fmt.Errorf("%s: there is no %s; a metrics page of vLLM's V1 engine is needed", name, n)
		}
	}
	return sums, nil
}

// ReadScrapes makes a stage of each pair of pages that follow each other: of what happened in between. The engine must have
// been busy then, since the time between two tokens is taken for that of a step.
func ReadScrapes(names []string, pages [][]byte) ([]Stage, error) {
	if len(pages) < 2 {
		return nil, errNoStage
	}
	var stages []Stage
	before, err := readScrape(names[0], pages[0])
	if err != nil {
		return nil, err
	}
	for i := 1; i < len(pages); i++ {
		after, err := readScrape(names[i], pages[i])
		if err != nil {
			return nil, err
		}
		d := func(name string) float64 { return after[name] - before[name] }
		ratio := func(name string) float64 { return d(name+"_sum") / d(name+"_count") }
		steps, gaps := d("vllm:iteration_tokens_total_count"), d("vllm:inter_token_latency_seconds_count")
		if steps < 1 || gaps < 1 || d("vllm:request_prompt_tokens_count") < 1 {
			return nil, fmt.Errorf("%s to %s: %v steps, %v gaps between tokens and %v finished requests; at least one of each, and the later page second", names[i-1], names[i], steps, gaps, d("vllm:request_prompt_tokens_count"))
		}
		generated := d("vllm:generation_tokens_total")
		s := Stage{
			Name:   fmt.Sprintf("%s to %s", names[i-1], names[i]),
			TTFT:   ratio("vllm:time_to_first_token_seconds") * 1000,
			ITL:    ratio("vllm:inter_token_latency_seconds") * 1000,
			Prompt: ratio("vllm:request_prompt_tokens"),
			Output: ratio("vllm:request_generation_tokens"),
			// A generated token is fed back in a later step: what else steps computed is prompts.
			Prefill:   max(0, d("vllm:iteration_tokens_total_sum")-gaps) / steps,
			Sequences: generated / steps,
		}
		s.Uncached = s.Prompt
		stages = append(stages, s)
		before = after
	}
	return stages, nil
}
