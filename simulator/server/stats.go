package server

import (
	"slices"
	"strings"
	"time"

	"github.com/fairlead/fairlead/simulator/engine"
)

// stats is what an engine's metrics page says beyond the engine's own counters and gauges. Times are engine time.
type stats struct {
	labels  string // engine and model_name, on most series
	model   string
	profile engine.Profile
	options engine.Options
	dialect Dialect
	fake    *Fake
	created float64 // wall time, seconds since 1970

	rejections int64
	stopped    int64 // finished by themselves, and at their limit
	limited    int64

	promptTokens, generationTokens, maxGenerationTokens  *histogram
	paramsN, paramsMaxTokens, iterationTokens            *histogram
	ttft, interToken, perOutputToken                     *histogram
	e2e, queueTime, inferenceTime, prefillTime, decoding *histogram
	preemptions, computedTokens                          *histogram

	models  *modelTable
	running []int32 // scratch, by adapter
	waiting []int32
	loras   []loraSeries
}

// loraSeries is one label set that lora_requests_info had, with the wall time when it last held. vLLM leaves old ones on
// its page; here the last maxLoraSeries stay.
type loraSeries struct {
	running, waiting string
	at               float64
}

const maxLoraSeries = 64

func newStats(p engine.Profile, o Options, models *modelTable) *stats {
	tokens := bucketsTokens(p.MaxModelLen)
	labels := `model_name="` + escapeLabel(models.base) + `"`
	if o.Dialect.engineLabel() {
		labels = `engine="0",` + labels
	}
	return &stats{
		labels:              labels,
		dialect:             o.Dialect,
		fake:                o.Fake,
		model:               escapeLabel(models.base),
		profile:             p,
		options:             o.Engine,
		created:             unixSeconds(time.Now()),
		promptTokens:        newHistogram(tokens),
		generationTokens:    newHistogram(tokens),
		maxGenerationTokens: newHistogram(tokens),
		paramsMaxTokens:     newHistogram(tokens),
		computedTokens:      newHistogram(tokens),
		paramsN:             newHistogram(bucketsN()),
		iterationTokens:     newHistogram(bucketsIteration()),
		ttft:                newHistogram(bucketsTTFT()),
		interToken:          newHistogram(bucketsTokenTime()),
		perOutputToken:      newHistogram(bucketsTokenTime()),
		e2e:                 newHistogram(bucketsRequestTime()),
		queueTime:           newHistogram(bucketsRequestTime()),
		inferenceTime:       newHistogram(bucketsRequestTime()),
		prefillTime:         newHistogram(bucketsRequestTime()),
		decoding:            newHistogram(bucketsRequestTime()),
		preemptions:         newHistogram(bucketsPreemptions()),
		models:              models,
	}
}

// observe takes in a step that ended.
func (s *stats) observe(r engine.Result) {
	if r.Ended != nil {
		s.iterationTokens.observe(float64(r.Ended.PrefillTokens + r.Ended.Decodes))
	}
	for _, t := range r.Tokens {
		if t.Count == 1 {
			s.ttft.observe(t.Gap.Seconds())
		} else {
			s.interToken.observe(t.Gap.Seconds())
		}
	}
}

// finish takes in a request that generated all its tokens; stopped says that it did not end for its limit.
func (s *stats) finish(t engine.Timeline, maxTokens int32, stopped bool) {
	if stopped {
		s.stopped++
	} else {
		s.limited++
	}
	s.promptTokens.observe(float64(t.Prompt))
	s.generationTokens.observe(float64(t.Output))
	s.maxGenerationTokens.observe(float64(t.Output))
	s.paramsMaxTokens.observe(float64(maxTokens))
	s.paramsN.observe(1)
	s.computedTokens.observe(float64(t.Prompt - t.Cached))
	s.preemptions.observe(float64(t.Preemptions))
	s.e2e.observe((t.LastToken - t.Arrived).Seconds())
	s.queueTime.observe((t.Admitted - t.Arrived).Seconds())
	s.inferenceTime.observe((t.LastToken - t.Admitted).Seconds())
	s.prefillTime.observe((t.FirstToken - t.Admitted).Seconds())
	s.decoding.observe((t.LastToken - t.FirstToken).Seconds())
	if t.Output > 1 {
		s.perOutputToken.observe(((t.LastToken - t.FirstToken) / time.Duration(t.Output-1)).Seconds())
	}
}

// rejected takes in a request that found the queue full.
func (s *stats) rejected() { s.rejections++ }

// noteLoras brings the label sets of lora_requests_info up to date.
func (s *stats) noteLoras(e *engine.Engine, wall time.Time) {
	s.running = append(s.running, make([]int32, int(s.options.Adapters)+1-len(s.running))...)
	s.waiting = append(s.waiting, make([]int32, int(s.options.Adapters)+1-len(s.waiting))...)
	e.AdapterLoads(s.running, s.waiting)
	running, waiting := s.names(s.running), s.names(s.waiting)
	at := unixSeconds(wall)
	i := slices.IndexFunc(s.loras, func(l loraSeries) bool { return l.running == running && l.waiting == waiting })
	if i >= 0 {
		s.loras[i].at = at
		return
	}
	if len(s.loras) == maxLoraSeries {
		oldest := 0
		for i := range s.loras {
			if s.loras[i].at < s.loras[oldest].at {
				oldest = i
			}
		}
		s.loras = slices.Delete(s.loras, oldest, oldest+1)
	}
	s.loras = append(s.loras, loraSeries{running, waiting, at})
}

// names joins the names of the adapters with a count.
func (s *stats) names(counts []int32) string {
	var names []string
	for i, n := range counts[1:] {
		if n > 0 {
			names = append(names, s.models.name(i+1))
		}
	}
	return strings.Join(names, ",")
}

func unixSeconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

// escapeLabel escapes what the text format demands in a label's value.
func escapeLabel(v string) string {
	return strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`).Replace(v)
}
