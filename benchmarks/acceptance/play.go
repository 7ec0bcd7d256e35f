package acceptance

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/benchmarks/bench"
	"github.com/fairlead/fairlead/benchmarks/compare"
	"github.com/fairlead/fairlead/benchmarks/policy"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/simulator/fleet"
	"github.com/fairlead/fairlead/simulator/scenarios"
)

// Scenario returns the scenario of this name, or the one whose YAML the text is.
func Scenario(t testing.TB, text string) *bench.Setup {
	t.Helper()
	if !strings.Contains(text, "\n") {
		s, err := bench.Load(text)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s, err := scenarios.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	out, err := bench.Prepare(s)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Policies returns the policies of these names, each a built-in one, a file, or the text of a configuration.
func Policies(t testing.TB, names ...string) []policy.Policy {
	t.Helper()
	var out []policy.Policy
	for _, name := range names {
		var p policy.Policy
		var err error
		if strings.Contains(name, "\n") {
			p, err = policy.FromText("configuration", []byte(name))
		} else {
			p, err = policy.Named(name)
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

// Played are the runs of one scenario under one policy, by seed.
type Played struct {
	Setup  *bench.Setup
	Policy string
	Runs   []*fleet.Result
}

// Play runs the scenario under each policy with the seeds first, first+1, …, so that all policies see the same requests. The
// outcome is by policy.
func Play(t testing.TB, s *bench.Setup, first uint64, seeds int, policies ...policy.Policy) []Played {
	t.Helper()
	out := make([]Played, len(policies))
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	var all sync.WaitGroup
	for k, p := range policies {
		out[k] = Played{s, p.Name, make([]*fleet.Result, seeds)}
		for i := range seeds {
			slots <- struct{}{}
			all.Go(func() {
				defer func() { <-slots }()
				r, err := s.Run(p, first+uint64(i), 0)
				if err != nil {
					t.Error(err)
					return
				}
				out[k].Runs[i] = r
			})
		}
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return out
}

// Figures are those of the runs, by seed, without the warm-up.
func (p *Played) Figures() []*bench.Figures {
	return p.Between(p.Setup.Warmup, 0)
}

// Between are the figures of the requests that came in the window [from, to) of each run; to 0 is its end.
func (p *Played) Between(from, to time.Duration) []*bench.Figures {
	var out []*bench.Figures
	for _, r := range p.Runs {
		out = append(out, p.Setup.FiguresBetween(r, pool.Instant(from), pool.Instant(to)))
	}
	return out
}

// Of are one figure's values by seed.
func Of(figures []*bench.Figures, value func(*bench.Figures) bench.Number) []float64 {
	var out []float64
	for _, f := range figures {
		out = append(out, float64(value(f)))
	}
	return out
}

// Figures that many claims are about.
var (
	Goodput  = func(f *bench.Figures) bench.Number { return f.Goodput }
	TailTTFT = func(f *bench.Figures) bench.Number { return f.TTFT.P99 }
	HitRate  = func(f *bench.Figures) bench.Number { return f.HitRate }
)

// Class returns a figure of the class of this name, unknown where there is none.
func Class(name string, value func(*bench.Group) bench.Number) func(*bench.Figures) bench.Number {
	return func(f *bench.Figures) bench.Number {
		i := slices.IndexFunc(f.Classes, func(g bench.Group) bool { return g.Name == name })
		if i < 0 {
			return bench.Unknown
		}
		return value(&f.Classes[i])
	}
}

// Paired is the relative difference of b to a, seed by seed, with its 95 % interval.
func Paired(a, b []float64) compare.Interval {
	return compare.MeanInterval(compare.Relative(a, b), 0.95)
}

// Share is the part of the requests that came in [from, to) and were sent to somebody that one pod got, averaged over the runs.
func (p *Played) Share(pod int32, from, to time.Duration) float64 {
	var shares []float64
	for _, r := range p.Runs {
		got, sent := 0.0, 0.0
		for i := range r.Outcomes {
			o := &r.Outcomes[i]
			if o.Pod < 0 || o.Arrived < pool.Instant(from) || to > 0 && o.Arrived >= pool.Instant(to) {
				continue
			}
			sent++
			if o.Pod == pod {
				got++
			}
		}
		shares = append(shares, got/max(sent, 1))
	}
	return compare.Mean(shares)
}

// Mean is the mean of what is known.
func Mean(values []float64) float64 { return compare.Mean(values) }
