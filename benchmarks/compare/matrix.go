package compare

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync"

	"github.com/fairlead/fairlead/benchmarks/bench"
	"github.com/fairlead/fairlead/benchmarks/policy"
)

// Plan is what to compare.
type Plan struct {
	Scenarios []*bench.Setup
	Policies  []policy.Policy // the first is what the others are compared with

	// Seeds is how many runs each policy and scenario has, with the seeds Seed, Seed+1, …
	Seeds int
	Seed  uint64

	// Least is the relative effect below which a difference does not matter; 0 is 0.02.
	Least float64

	// Capacity is the share of good answers up to which a scenario's rate is raised to find the capacity of those policies that
	// are saturated, or all with Capacities; 0 is 0.95.
	Capacity   float64
	Capacities bool

	// NoCapacities leaves them all out.
	NoCapacities bool

	// Parallel is how many runs go on at a time; 0 is one per processor. It changes nothing but the time.
	Parallel int

	// Progress hears how many of all runs are done; nil is nobody. It is called by one goroutine at a time.
	Progress func(done, of int)
}

// Report is what came out.
type Report struct {
	Seeds    int      `json:"seeds"`
	Seed     uint64   `json:"firstSeed"`
	Least    float64  `json:"leastEffect"`
	Policies []string `json:"policies"`
	Cells    []Cell   `json:"scenarios"`
}

// Cell is one scenario.
type Cell struct {
	Scenario string `json:"scenario"`
	Title    string `json:"title"`
	Shows    string `json:"shows,omitempty"`
	Needs    string `json:"needs,omitempty"`
	Rate     string `json:"rate,omitempty"`
	Arms     []Arm  `json:"policies"`
}

// Arm is one policy in one scenario.
type Arm struct {
	Policy string `json:"policy"`

	// Runs are by seed.
	Runs []*bench.Figures `json:"runs"`

	// Saturated: most of the runs are.
	Saturated bool `json:"saturated"`

	// Capacity is the rate, as a multiple of the scenario's own, up to which the share of good answers stays; unknown where it
	// was not looked for.
	Capacity bench.Number `json:"capacity"`
	// CapacityRate is the same in requests per second.
	CapacityRate bench.Number `json:"capacityPerSecond"`

	// Differences are those to the first policy, by metric; none for itself.
	Differences []Difference `json:"differences,omitempty"`
	Verdict     Verdict      `json:"verdict,omitempty"`
	Why         string       `json:"why,omitempty"`
}

// Difference is one metric's.
type Difference struct {
	Metric string       `json:"metric"`
	Unit   string       `json:"unit,omitempty"`
	A      bench.Number `json:"a"` // mean over the seeds
	B      bench.Number `json:"b"`

	// Relative is (b - a)/mean(a) with its 95 % interval by Student's t, Resampled the same by bootstrap; nil where it makes
	// no sense.
	Relative  *Interval    `json:"relative,omitempty"`
	Resampled *Interval    `json:"resampled,omitempty"`
	WinRate   bench.Number `json:"winRate"`
	Verdict   Verdict      `json:"verdict"`
}

// Run runs everything and compares. The outcome is a function of the plan, whatever runs beside what.
func Run(ctx context.Context, p Plan) (*Report, error) {
	if p.Least == 0 {
		p.Least = 0.02
	}
	if p.Capacity == 0 {
		p.Capacity = 0.95
	}
	switch {
	case p.Seeds < 1:
		return nil, fmt.Errorf("compare: %d seeds; at least 1", p.Seeds)
	case len(p.Policies) < 1 || len(p.Scenarios) < 1:
		return nil, fmt.Errorf("compare: %d policies on %d scenarios; at least 1 each", len(p.Policies), len(p.Scenarios))
	}
	r := &Report{Seeds: p.Seeds, Seed: p.Seed, Least: p.Least}
	for _, pol := range p.Policies {
		r.Policies = append(r.Policies, pol.Name)
	}
	for _, s := range p.Scenarios {
		c := Cell{Scenario: s.Name, Title: s.Title, Shows: s.Shows, Needs: s.Needs}
		for _, pol := range p.Policies {
			c.Arms = append(c.Arms, Arm{Policy: pol.Name, Runs: make([]*bench.Figures, p.Seeds), Capacity: bench.Unknown, CapacityRate: bench.Unknown})
		}
		r.Cells = append(r.Cells, c)
	}
	pool := newWorkers(p.Parallel, p.Progress)
	pool.expect(len(p.Scenarios) * len(p.Policies) * p.Seeds)
	for i, s := range p.Scenarios {
		for seed := range p.Seeds {
			for k, pol := range p.Policies {
				pool.run(ctx, func() error {
					f, err := measure(s, pol, p.Seed+uint64(seed), p.salt(k))
					r.Cells[i].Arms[k].Runs[seed] = f
					return err
				})
			}
		}
	}
	if err := pool.wait(); err != nil {
		return nil, err
	}
	for i := range r.Cells {
		for k := range r.Cells[i].Arms {
			r.Cells[i].Arms[k].Saturated = mostSaturated(r.Cells[i].Arms[k].Runs)
		}
	}
	if err := capacities(ctx, &p, r, pool); err != nil {
		return nil, err
	}
	for i := range r.Cells {
		r.Cells[i].compare(p.Least)
	}
	return r, nil
}

// salt is that of the k-th policy's own draws: how many before it have its name, so that a policy beside itself draws anew, and
// comes out the same beside whatever else.
func (p *Plan) salt(k int) uint64 {
	n := uint64(0)
	for _, pol := range p.Policies[:k] {
		if pol.Name == p.Policies[k].Name {
			n++
		}
	}
	return n
}

// measure is one run.
func measure(s *bench.Setup, pol policy.Policy, seed, salt uint64) (*bench.Figures, error) {
	result, err := s.Run(pol, seed, salt)
	if err != nil {
		return nil, err
	}
	return s.Figures(result), nil
}

func mostSaturated(runs []*bench.Figures) bool {
	n := 0
	for _, f := range runs {
		if f.Saturated {
			n++
		}
	}
	return 2*n > len(runs)
}

// capacities finds, where somebody is saturated, how far each policy's rate can be raised or must be lowered.
func capacities(ctx context.Context, p *Plan, r *Report, pool *workers) error {
	if p.NoCapacities {
		return nil
	}
	for i, s := range p.Scenarios {
		if !p.Capacities && !anySaturated(r.Cells[i].Arms) || s.Closed() {
			continue
		}
		for k, pol := range p.Policies {
			pool.expect(1)
			pool.run(ctx, func() error {
				arm := &r.Cells[i].Arms[k]
				var err error
				arm.Capacity, arm.CapacityRate, err = capacity(ctx, s, pol, p.Seed, p.salt(k), p.Capacity)
				return err
			})
		}
	}
	return pool.wait()
}

func anySaturated(arms []Arm) bool {
	for i := range arms {
		if arms[i].Saturated {
			return true
		}
	}
	return false
}

// capacity is the largest multiple of the scenario's rates, within 1/32 and 8 and to 4 %, at which so large a share of the
// answers is good; 0 if there is none. It is found by halving on one seed.
func capacity(ctx context.Context, s *bench.Setup, pol policy.Policy, seed, salt uint64, good float64) (multiple, rate bench.Number, err error) {
	try := func(scale float64) (bool, bench.Number, error) {
		if err := ctx.Err(); err != nil {
			return false, 0, err
		}
		f, err := measure(s.Scaled(scale), pol, seed, salt)
		if err != nil {
			return false, 0, err
		}
		return float64(f.Goodput) >= good && !f.Saturated, f.OfferedRate, nil
	}
	low, high := 0.0, 0.0
	for scale := 1.0; ; {
		ok, at, err := try(scale)
		switch {
		case err != nil:
			return bench.Unknown, bench.Unknown, err
		case ok:
			low, rate = scale, at
		default:
			high = scale
		}
		if low > 0 && high > 0 || low >= 8 || high > 0 && high <= 1.0/32 {
			break
		}
		if ok {
			scale *= 2
		} else {
			scale /= 2
		}
	}
	if low == 0 {
		return 0, 0, nil
	}
	for high/low > 1.04 {
		mid := math.Sqrt(low * high)
		ok, at, err := try(mid)
		if err != nil {
			return bench.Unknown, bench.Unknown, err
		}
		if ok {
			low, rate = mid, at
		} else {
			high = mid
		}
	}
	return bench.Number(low), rate, nil
}

// compare sets each arm beside the first.
func (c *Cell) compare(least float64) {
	for k := 1; k < len(c.Arms); k++ {
		c.Arms[k].against(&c.Arms[0], least)
	}
}

func values(runs []*bench.Figures, m Metric) []float64 {
	out := make([]float64, len(runs))
	for i, f := range runs {
		out[i] = float64(m.Of(f))
	}
	return out
}

func (b *Arm) against(a *Arm, least float64) {
	for _, m := range Metrics() {
		va, vb := values(a.Runs, m), values(b.Runs, m)
		d := Difference{Metric: m.Name, Unit: m.Unit, A: bench.Number(Mean(va)), B: bench.Number(Mean(vb)), WinRate: bench.Number(WinRate(va, vb, m.More)), Verdict: Equal}
		switch relative := Relative(va, vb); {
		case m.Latency && (a.Saturated || b.Saturated):
			d.Verdict, d.WinRate = Saturated, bench.Unknown
		case relative != nil:
			i := MeanInterval(relative, 0.95)
			if len(relative) > 1 {
				d.Relative = &i
				next := uint64(1)
				r := Bootstrap(relative, 0.95, 2000, func(n int) int {
					next = next*6364136223846793005 + 1442695040888963407
					return int((next >> 33) % uint64(n))
				})
				d.Resampled = &r
			}
			d.Verdict = Judge(relative, least, m.More)
		}
		b.Differences = append(b.Differences, d)
	}
	b.Verdict, b.Why = verdict(a, b)
}

// verdict is that of goodput; of p99 TTFT where goodput is equal. Where both are saturated, the capacities tell.
func verdict(a, b *Arm) (Verdict, string) {
	by := map[string]Verdict{}
	for _, d := range b.Differences {
		by[d.Metric] = d.Verdict
	}
	switch {
	case a.Saturated && b.Saturated:
		return Saturated, "both are past their capacity here; compare those"
	case by[Primary] != Equal:
		return by[Primary], "by goodput"
	case a.Saturated:
		return Better, "the other is past its capacity"
	case b.Saturated:
		return Worse, "past its capacity, where the other is not"
	case by["TTFT p99"] != Equal:
		return by["TTFT p99"], "by p99 TTFT; goodput is equal"
	}
	return Equal, ""
}

// workers run jobs beside each other.
type workers struct {
	slots    chan struct{}
	all      sync.WaitGroup
	mu       sync.Mutex
	err      error
	done, of int
	progress func(done, of int)
}

func newWorkers(n int, progress func(int, int)) *workers {
	if n <= 0 {
		n = runtime.GOMAXPROCS(0)
	}
	return &workers{slots: make(chan struct{}, n), progress: progress}
}

func (w *workers) expect(n int) { w.of += n }

// run waits for a free slot and starts the job; after a failure it does nothing.
func (w *workers) run(ctx context.Context, job func() error) {
	w.slots <- struct{}{}
	w.mu.Lock()
	failed := w.err != nil
	w.mu.Unlock()
	if failed {
		<-w.slots
		return
	}
	w.all.Go(func() {
		defer func() { <-w.slots }()
		err := ctx.Err()
		if err == nil {
			err = job()
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if err != nil && w.err == nil {
			w.err = err
		}
		w.done++
		if w.progress != nil {
			w.progress(w.done, w.of)
		}
	})
}

func (w *workers) wait() error {
	w.all.Wait()
	return w.err
}

// Whole says what a report that was read from elsewhere lacks; nil if every policy has a run of each seed in every scenario.
func (r *Report) Whole() error {
	if len(r.Policies) == 0 || len(r.Cells) == 0 {
		return fmt.Errorf("it has %d policies and %d scenarios", len(r.Policies), len(r.Cells))
	}
	for i := range r.Cells {
		c := &r.Cells[i]
		if len(c.Arms) != len(r.Policies) {
			return fmt.Errorf("scenario %q has %d policies, want %d", c.Scenario, len(c.Arms), len(r.Policies))
		}
		for k := range c.Arms {
			if len(c.Arms[k].Runs) == 0 {
				return fmt.Errorf("scenario %q: policy %q has no runs", c.Scenario, c.Arms[k].Policy)
			}
			for _, f := range c.Arms[k].Runs {
				if f == nil {
					return fmt.Errorf("scenario %q: policy %q lacks a run", c.Scenario, c.Arms[k].Policy)
				}
			}
		}
	}
	return nil
}
