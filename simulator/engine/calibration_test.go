package engine_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fairlead/fairlead/simulator/engine"
)

// stage is one of the 21 stages that inference-perf publishes for Llama-3.1-8B in BF16 on one H100 with vLLM 0.11.0
// (demos/kubecon-na-2025): 10 groups of 10 prompts, 128 shared and 64 own tokens in, 64 out.
type stage struct {
	variant         string
	number          int
	offered, served float64 // requests per second
	ttft, e2e       float64 // ms
}

// Variants: "none" has no prefix cache and max-num-seqs 128, "none-192" the same with 192, "cache" has a prefix cache and 128.
var stages = []stage{
	{"none", 0, 1.0, 1.0, 31.1, 480},
	{"none", 1, 31.4, 31.2, 29.8, 547},
	{"none", 2, 61.8, 61.2, 34.9, 680},
	{"none", 3, 92.2, 91.4, 50.5, 1021},
	{"none", 4, 106.5, 101.2, 2616.5, 3844},
	{"none", 5, 105.6, 101.5, 2937.1, 4161},
	{"none", 6, 106.5, 103.1, 2943.2, 4143},
	{"none-192", 0, 1.0, 1.0, 33.3, 483},
	{"none-192", 1, 38.0, 37.7, 31.3, 564},
	{"none-192", 2, 74.9, 74.3, 38.6, 764},
	{"none-192", 3, 111.9, 110.8, 146.2, 1698},
	{"none-192", 4, 117.0, 112.9, 2056.4, 3700},
	{"none-192", 5, 117.7, 114.3, 2110.0, 3740},
	{"none-192", 6, 116.3, 113.7, 2200.5, 3797},
	{"cache", 0, 1.0, 1.0, 29.9, 480},
	{"cache", 1, 43.3, 42.9, 26.9, 524},
	{"cache", 2, 85.5, 84.8, 28.9, 579},
	{"cache", 3, 127.8, 126.5, 32.2, 666},
	{"cache", 4, 170.0, 167.8, 101.3, 812},
	{"cache", 5, 175.7, 170.2, 1685.1, 2421},
	{"cache", 6, 177.7, 173.0, 1734.8, 2459},
}

const (
	stageGroups, stagePrompts           = 10, 10
	stageShared, stageOwn, stageOutputs = 128, 64, 64

	plays = 5 // of each stage, with different arrivals; their mean counts
)

// saturated reports whether the stage offers more than the engine serves: its queue grows and its TTFT means nothing.
func (s stage) saturated() bool { return s.ttft > 1000 }

// itl is the measured mean time between two tokens, in ms. The reports' own figure is halved, since each token came with an
// empty chunk that was counted too.
func (s stage) itl() float64 { return (s.e2e - s.ttft) / (stageOutputs - 1) }

func (s stage) cached() bool { return s.variant == "cache" }

func (s stage) maxSeqs() int32 {
	if s.variant == "none-192" {
		return 192
	}
	return 128
}

// TestClosedFit holds the step-time formula alone against the 21 stages: with the tokens that arrive during a mean step and
// the requests that are in the engine on average, the step must last as long as the measured time between two tokens.
func TestClosedFit(t *testing.T) {
	step := profile(t, "h100-sxm").Step
	var worst float64
	for _, s := range stages {
		uncached := float64(stageShared + stageOwn)
		if s.cached() {
			uncached = stageOwn
		}
		arriving := s.served * s.itl() / 1000 * uncached
		batch := min(s.served*(s.e2e-s.ttft)/1000, float64(s.maxSeqs()))
		ms := func(d time.Duration) float64 { return d.Seconds() * 1e3 }
		want := ms(step.Base) + ms(step.PerPrefillToken)*arriving + ms(step.PerSequence)*batch
		off := want/s.itl() - 1
		worst = max(worst, math.Abs(off))
		if math.Abs(off) > 0.073 {
			t.Errorf("%s %d: the formula gives %.2f ms, measured %.2f, %+.1f %%", s.variant, s.number, want, s.itl(), off*100)
		}
	}
	t.Logf("worst of 21: %.1f %%", worst*100)
}

// TestStagesOnTheEngine plays the workload of each stage through an engine in virtual time. Below saturation the mean time
// between two tokens is held against the measured one, above it the requests served per second. The two stages furthest off
// lie closest to saturation without a cache (192 requests, 65 % and 98 % of capacity): there the time between tokens grows
// fastest with the load, and which arrivals a seed draws moves it by several per cent.
func TestStagesOnTheEngine(t *testing.T) {
	var sums, worst [2]float64
	var counts [2]int
	for _, s := range stages {
		var itl, served float64
		for seed := range uint64(plays) {
			i, r := playStage(t, s, profile(t, "h100-sxm"), seed)
			itl, served = itl+i/plays, served+r/plays
		}
		got, want, kind := itl, s.itl(), 0
		if s.saturated() {
			got, want, kind = served, s.served, 1
		}
		off := got/want - 1
		sums[kind] += math.Abs(off)
		worst[kind] = max(worst[kind], math.Abs(off))
		counts[kind]++
		t.Logf("%-8s %d: simulated %.2f, measured %.2f %s, %+.1f %%", s.variant, s.number, got, want, [2]string{"ms", "/s"}[kind], off*100)
		if math.Abs(off) > 0.10 {
			t.Errorf("%s %d: more than 10 %% off", s.variant, s.number)
		}
	}
	t.Logf("ITL of %d stages below saturation: mean %.1f %%, worst %.1f %%; capacity of %d above: mean %.1f %%, worst %.1f %%",
		counts[0], sums[0]/float64(counts[0])*100, worst[0]*100, counts[1], sums[1]/float64(counts[1])*100, worst[1]*100)
}

// playStage plays a stage as inference-perf does: 60 seconds, exponential gaps stretched so that the requests fill them
// exactly, from an idle engine to the last answer, every request counted. It returns the mean milliseconds between two tokens
// and the requests served per second.
func playStage(t testing.TB, s stage, p engine.Profile, seed uint64) (itl, served float64) {
	p.MaxSeqs = s.maxSeqs()
	p.MaxModelLen = 512
	e := newEngine(t, p, engine.Options{NoPrefixCache: !s.cached()})
	rng := rand.New(rand.NewPCG(seed, uint64(s.number)))
	var hashes [stageGroups][stagePrompts][]uint64
	for g := range stageGroups {
		for q := range stagePrompts {
			// Only the shared part is offered to the cache, so that all own tokens are computed each time.
			hashes[g][q] = contents(p, string(rune('a'+q)), string(rune('A'+g)), stageShared, stageShared+stageOwn)[:stageShared/p.BlockTokens]
		}
	}
	const length = 60.0 // seconds
	arrivals := make([]float64, int(math.Round(s.offered*length)))
	var sum float64
	for i := range arrivals {
		arrivals[i] = sum
		sum += rng.ExpFloat64()
	}
	var gaps float64
	var last time.Duration
	until := func(at time.Duration) {
		for {
			next, busy := e.Next()
			if !busy || next > at {
				return
			}
			if k := e.Skip(at); len(k.Steps) > 0 {
				continue
			}
			for _, f := range e.Step(next).Finished {
				gaps += (f.LastToken - f.FirstToken).Seconds() * 1e3 / (stageOutputs - 1)
				last = f.LastToken
			}
		}
	}
	for i, at := range arrivals {
		now := time.Duration(at / sum * length * 1e9)
		until(now)
		// Prompts come in turn, as the generator of the workload makes them.
		h := hashes[i/stagePrompts%stageGroups][i%stagePrompts]
		add(t, e, now, engine.Request{Prompt: stageShared + stageOwn, Output: stageOutputs, Hashes: h})
		if _, busy := e.Next(); !busy {
			e.Step(now)
		}
	}
	until(math.MaxInt64)
	return gaps / float64(len(arrivals)), float64(len(arrivals)) / last.Seconds()
}
