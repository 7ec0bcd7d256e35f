package calibration

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Stage is what was measured at one load.
type Stage struct {
	Name string

	// Offered and Served are requests per second.
	Offered, Served float64

	// TTFT is the mean time to the first token, ITL that between two tokens, both in milliseconds.
	TTFT, ITL float64

	// Prompt and Output are mean tokens per request; Uncached those of the prompt that had to be computed.
	Prompt, Output, Uncached float64

	// MaxSeqs is the most requests that ran at a time; 0 is unknown.
	MaxSeqs int32

	// Prefill and Sequences are the mean uncached prompt tokens and requests of a step, where they were measured; 0 where they
	// follow from the rates.
	Prefill, Sequences float64
}

// load returns the mean uncached prompt tokens and requests of a step. By Little's law a step sees as many as arrive while it
// lasts, and as many requests run as arrive while one decodes.
func (s Stage) load() (prefill, sequences float64) {
	if s.Prefill > 0 || s.Sequences > 0 {
		return s.Prefill, s.Sequences
	}
	prefill = s.Served * s.ITL / 1000 * s.Uncached
	sequences = s.Served * s.ITL / 1000 * (s.Output - 1)
	if s.MaxSeqs > 0 {
		sequences = min(sequences, float64(s.MaxSeqs))
	}
	return prefill, sequences
}

// markSaturated reports for each stage whether it offered more than the engine serves: fewer than 97 % of the requests were
// served in time, or the mean TTFT is ten times the least one.
func markSaturated(stages []Stage) []bool {
	least := math.Inf(1)
	for _, s := range stages {
		if s.TTFT > 0 {
			least = min(least, s.TTFT)
		}
	}
	over := make([]bool, len(stages))
	for i, s := range stages {
		over[i] = s.Offered > 0 && s.Served < 0.97*s.Offered || s.TTFT > 10*least
	}
	return over
}

// lifecycle is what is read of an inference-perf stage file (stage_N_lifecycle_metrics.json; docs/reports.md there).
type lifecycle struct {
	Load struct {
		Requested *float64 `json:"requested_rate"`
		Achieved  float64  `json:"achieved_rate"`
	} `json:"load_summary"`
	Successes struct {
		Count   float64 `json:"count"`
		Latency struct {
			Request mean `json:"request_latency"`
			TTFT    mean `json:"time_to_first_token"`
		} `json:"latency"`
		Throughput struct {
			Requests float64 `json:"requests_per_sec"`
		} `json:"throughput"`
		PromptLen mean `json:"prompt_len"`
		OutputLen mean `json:"output_len"`
		Prompt    *struct {
			Cached   *float64 `json:"cached"`
			Uncached *float64 `json:"uncached"`
		} `json:"prompt_tokens"`
	} `json:"successes"`
}

type mean struct {
	Mean float64 `json:"mean"`
}

var stageNumber = regexp.MustCompile(`stage_(\d+)_lifecycle`)

// ReadStage reads an inference-perf stage file. Its time per output token is not used, since some versions count the empty
// chunks of a stream as tokens; the time between two tokens is (request latency - TTFT)/(output tokens - 1). Cached is the
// mean cached tokens of a prompt, for reports that do not tell.
func ReadStage(name string, data []byte, cached float64) (Stage, error) {
	var l lifecycle
	if err := json.Unmarshal(data, &l); err != nil {
		return Stage{}, fmt.Errorf("%s: %w", name, err)
	}
	s := Stage{
		Name: name, Offered: l.Load.Achieved, Served: l.Successes.Throughput.Requests,
		TTFT: l.Successes.Latency.TTFT.Mean * 1000, Prompt: l.Successes.PromptLen.Mean, Output: l.Successes.OutputLen.Mean,
	}
	if m := stageNumber.FindStringSubmatch(name); m != nil {
		s.Name = "stage " + m[1]
	}
	if l.Load.Requested != nil {
		s.Offered = *l.Load.Requested
	}
	switch {
	case l.Successes.Count < 1:
		return Stage{}, fmt.Errorf("%s: no request succeeded", name)
	case l.Successes.Latency.TTFT.Mean <= 0 || l.Successes.Latency.Request.Mean <= l.Successes.Latency.TTFT.Mean:
		return Stage{}, fmt.Errorf("%s: the mean time to first token is %v s of %v s per request; a streaming run is needed", name, l.Successes.Latency.TTFT.Mean, l.Successes.Latency.Request.Mean)
	case s.Output < 2 || s.Prompt < 1 || s.Served <= 0:
		return Stage{}, fmt.Errorf("%s: %v prompt and %v output tokens at %v requests/s; at least 1, 2 and more than 0", name, s.Prompt, s.Output, s.Served)
	}
	s.ITL = (l.Successes.Latency.Request.Mean - l.Successes.Latency.TTFT.Mean) * 1000 / (s.Output - 1)
	s.Uncached = s.Prompt - cached
	if p := l.Successes.Prompt; p != nil && p.Uncached != nil {
		s.Uncached = *p.Uncached / l.Successes.Count
	}
	if s.Uncached < 0 {
		return Stage{}, fmt.Errorf("%s: %v of %v prompt tokens cached; lower --cached", name, cached, s.Prompt)
	}
	return s, nil
}

// SortStages puts stages into the order of their numbers.
func SortStages(stages []Stage) {
	number := func(s Stage) int {
		n, _ := strconv.Atoi(strings.TrimPrefix(s.Name, "stage ")) // others, such as the summary, come first
		return n
	}
	slices.SortStableFunc(stages, func(a, b Stage) int { return number(a) - number(b) })
}

var errNoStage = errors.New("no stage to fit; give stage files of inference-perf, or at least two scrapes of one metrics page")

// String tells the stage in a few words.
func (s Stage) String() string {
	return s.Name + " at " + strconv.FormatFloat(s.Served, 'f', 1, 64) + "/s"
}
