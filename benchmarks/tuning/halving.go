package tuning

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/fairlead/fairlead/benchmarks/bench"
	"github.com/fairlead/fairlead/benchmarks/compare"
)

// Plan is a search.
type Plan struct {
	Setup      *bench.Setup
	Candidates []Candidate

	// Seed is the first one. Each candidate runs with one at first, and the better third with twice as many in each round, up to
	// MostSeeds; 0 is 8. Last is how many candidates are left at the end; 0 is 6.
	Seed      uint64
	MostSeeds int
	Last      int

	// Parallel is how many runs go on at a time; 0 is one per processor. It changes nothing but the time.
	Parallel int
}

// Standing is how a candidate did.
type Standing struct {
	Number    int          `json:"candidate"` // in the list
	Candidate Candidate    `json:"plugins"`
	Seeds     int          `json:"seeds"`
	Goodput   bench.Number `json:"goodput"`   // mean share
	TTFTP99   bench.Number `json:"ttftP99"`   // mean, in seconds
	Saturated bool         `json:"saturated"` // most of its runs

	goodput, tail []float64
	saturated     int
}

// Round is how many candidates ran with how many seeds each.
type Round struct {
	Candidates int `json:"candidates"`
	Seeds      int `json:"seeds"`
}

// Search is what came of a plan: the last candidates, the best first.
type Search struct {
	Scenario string     `json:"scenario"`
	Seed     uint64     `json:"firstSeed"`
	Rounds   []Round    `json:"rounds"`
	Best     []Standing `json:"best"`
}

// step is by how much goodput must differ, as a share of the best, to come before the first token.
const step = 0.01

// Run searches. Candidates are ordered by goodput, in steps of a hundredth of the best, and within a step by p99 TTFT.
func Run(ctx context.Context, p Plan) (*Search, error) {
	if len(p.Candidates) == 0 {
		return nil, fmt.Errorf("tuning %s: no candidates", p.Setup.Name)
	}
	seeds, most, last := 1, p.MostSeeds, p.Last
	if most <= 0 {
		most = 8
	}
	if last <= 0 {
		last = 6
	}
	left := make([]*Standing, len(p.Candidates))
	for i, c := range p.Candidates {
		left[i] = &Standing{Number: i, Candidate: c}
	}
	out := &Search{Scenario: p.Setup.Name, Seed: p.Seed}
	for {
		if err := p.measure(ctx, left, seeds); err != nil {
			return nil, err
		}
		out.Rounds = append(out.Rounds, Round{len(left), seeds})
		order(left)
		if len(left) <= last {
			break
		}
		left = left[:max((len(left)+2)/3, last)]
		seeds = min(2*seeds, most)
	}
	for _, s := range left {
		out.Best = append(out.Best, *s)
	}
	return out, nil
}

// measure runs each of them until it has so many seeds.
func (p *Plan) measure(ctx context.Context, left []*Standing, seeds int) error {
	parallel := p.Parallel
	if parallel <= 0 {
		parallel = runtime.GOMAXPROCS(0)
	}
	slots := make(chan struct{}, parallel)
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for _, s := range left {
		pol, err := s.Candidate.Policy()
		if err != nil {
			return fmt.Errorf("candidate %d: %w", s.Number, err)
		}
		from := len(s.goodput)
		s.goodput = append(s.goodput, make([]float64, seeds-from)...)
		s.tail = append(s.tail, make([]float64, seeds-from)...)
		for k := from; k < seeds; k++ {
			slots <- struct{}{}
			all.Go(func() {
				defer func() { <-slots }()
				err := ctx.Err()
				if err == nil {
					var f *bench.Figures
					if f, err = figures(p.Setup, pol, p.Seed+uint64(k)); err == nil {
						s.goodput[k], s.tail[k] = float64(f.Goodput), float64(f.TTFT.P99)
						if f.Saturated {
							mu.Lock()
							s.saturated++
							mu.Unlock()
						}
					}
				}
				if err != nil {
					mu.Lock()
					failed = cmp.Or(failed, err)
					mu.Unlock()
				}
			})
		}
	}
	all.Wait()
	for _, s := range left {
		s.Seeds = seeds
		s.Goodput, s.TTFTP99, s.Saturated = rounded(compare.Mean(s.goodput)), rounded(compare.Mean(s.tail)), 2*s.saturated > seeds
	}
	return failed
}

// rounded keeps four digits behind the point, which is more than a run tells.
func rounded(v float64) bench.Number { return bench.Number(math.Round(v*1e4) / 1e4) }

// order sorts candidates, the best first.
func order(s []*Standing) {
	top := 0.0
	for _, x := range s {
		if g := float64(x.Goodput); g > top {
			top = g
		}
	}
	behind := func(x *Standing) int {
		if !x.Goodput.Known() || top == 0 {
			return math.MaxInt
		}
		return int((top - float64(x.Goodput)) / top / step)
	}
	tail := func(x *Standing) float64 {
		if !x.TTFTP99.Known() {
			return math.Inf(1)
		}
		return float64(x.TTFTP99)
	}
	slices.SortStableFunc(s, func(a, b *Standing) int {
		return cmp.Or(cmp.Compare(behind(a), behind(b)), cmp.Compare(tail(a), tail(b)), cmp.Compare(a.Number, b.Number))
	})
}
