package calibration

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/fairlead/fairlead/simulator/engine"
)

// stageSeconds is how long a stage is played.
const stageSeconds = 60

// Play plays a stage on an engine in virtual time, as inference-perf does: 60 seconds, exponential gaps stretched so that the
// requests fill them exactly, from an idle engine to the last answer, every request counted. All requests have the mean
// sizes, and the cached part of each prompt is in the cache. It returns the mean milliseconds between two tokens and the
// requests served per second.
func Play(p engine.Profile, s Stage, seed uint64) (itl, served float64, err error) {
	prompt, output := int32(math.Round(s.Prompt)), int32(math.Round(s.Output))
	if s.MaxSeqs > 0 {
		p.MaxSeqs = s.MaxSeqs
	}
	n := int(math.Round(s.Offered * stageSeconds))
	if n < 1 || output < 2 {
		return 0, 0, fmt.Errorf("%s: %d requests of %d output tokens cannot be played; at least 1 and 2", s.Name, n, output)
	}
	cached := int32(math.Round(s.Prompt-s.Uncached)) / p.BlockTokens
	e, err := engine.New(p, engine.Options{NoPrefixCache: cached == 0})
	if err != nil {
		return 0, 0, err
	}
	shared := make([]uint64, cached)
	for i := range shared {
		shared[i] = uint64(i+1) * 0x9E3779B97F4A7C15
	}
	rng := rand.New(rand.NewPCG(seed, uint64(n)))
	arrivals := make([]float64, n)
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
				gaps += (f.LastToken - f.FirstToken).Seconds() * 1e3 / float64(f.Output-1)
				last = f.LastToken
			}
		}
	}
	for _, at := range arrivals {
		now := time.Duration(at / sum * stageSeconds * 1e9)
		until(now)
		if _, err := e.Add(now, engine.Request{Prompt: prompt, Output: output, Hashes: shared}); err != nil {
			return 0, 0, fmt.Errorf("%s: %w", s.Name, err)
		}
		if _, busy := e.Next(); !busy {
			e.Step(now)
		}
	}
	until(math.MaxInt64)
	return gaps / float64(n), float64(n) / last.Seconds(), nil
}
