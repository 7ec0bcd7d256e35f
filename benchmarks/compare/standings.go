package compare

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/fairlead/fairlead/benchmarks/bench"
	"github.com/fairlead/fairlead/simulator/scenarios"
)

// Standings are how many policies fare in many scenarios, in short: the figures by seed that comparisons need, and the means
// that tell why.
type Standings struct {
	Date   string `json:"date"`
	Commit string `json:"commit"`
	Seeds  int    `json:"seeds"`
	Seed   uint64 `json:"firstSeed"`

	// Policies are in order; the first is the one in question.
	Policies []string `json:"policies"`
	Rows     []Row    `json:"scenarios"`
}

// Row is one scenario. Scores are in the order of the policies.
type Row struct {
	Scenario string  `json:"scenario"`
	Title    string  `json:"title"`
	Scores   []Score `json:"scores"`
}

// Score is one policy in one scenario.
type Score struct {
	Policy string `json:"policy"`
	Commit string `json:"commit"` // at which it ran

	Goodput []bench.Number `json:"goodput"` // by seed, as TTFT
	TTFT    []bench.Number `json:"ttftP99Seconds"`

	// MissedTTFT and MissedITL are shares of what was offered, means over the seeds like the others.
	MissedTTFT bench.Number `json:"missedTTFT"`
	MissedITL  bench.Number `json:"missedITL"`
	HitRate    bench.Number `json:"hitRate"`
	Imbalance  bench.Number `json:"imbalance"`
	Saturated  bool         `json:"saturated,omitempty"`
}

// Peer is the beginning of the names of those policies that are the rules of other routers.
const Peer = "rule-"

// StandingsOf shortens a report.
func StandingsOf(r *Report, date, commit string) *Standings {
	s := &Standings{Date: date, Commit: commit, Seeds: r.Seeds, Seed: r.Seed, Policies: r.Policies}
	for i := range r.Cells {
		c := &r.Cells[i]
		row := Row{Scenario: c.Scenario, Title: c.Title}
		for k := range c.Arms {
			row.Scores = append(row.Scores, scoreOf(&c.Arms[k], commit))
		}
		s.Rows = append(s.Rows, row)
	}
	return s
}

func scoreOf(a *Arm, commit string) Score {
	s := Score{Policy: a.Policy, Commit: commit, Saturated: a.Saturated}
	mean := func(of func(*bench.Figures) bench.Number) bench.Number {
		var v []float64
		for _, f := range a.Runs {
			v = append(v, float64(of(f)))
		}
		return rounded(bench.Number(Mean(v)))
	}
	for _, f := range a.Runs {
		s.Goodput, s.TTFT = append(s.Goodput, rounded(f.Goodput)), append(s.TTFT, rounded(f.TTFT.P99))
	}
	share := func(n int, f *bench.Figures) bench.Number { return bench.Number(float64(n) / float64(f.Offered)) }
	s.MissedTTFT = mean(func(f *bench.Figures) bench.Number { return share(f.MissedTTFT, f) })
	s.MissedITL = mean(func(f *bench.Figures) bench.Number { return share(f.MissedITL, f) })
	s.HitRate = mean(func(f *bench.Figures) bench.Number { return f.HitRate })
	s.Imbalance = mean(func(f *bench.Figures) bench.Number { return f.Imbalance })
	return s
}

// rounded keeps five digits behind the point, so that what is kept in a file stays short.
func rounded(n bench.Number) bench.Number {
	if !n.Known() {
		return n
	}
	return bench.Number(math.Round(float64(n)*1e5) / 1e5)
}

// With returns the standings with the scores of earlier ones where s has none: of other policies, which come behind, and of
// other scenarios. The error says which seeds differ.
func (s *Standings) With(earlier *Standings) (*Standings, error) {
	if s.Seeds != earlier.Seeds || s.Seed != earlier.Seed {
		return nil, fmt.Errorf("standings of %d seeds from %d do not go with %d from %d", s.Seeds, s.Seed, earlier.Seeds, earlier.Seed)
	}
	out := *s
	out.Policies = slices.Clone(s.Policies)
	for _, p := range earlier.Policies {
		if !slices.Contains(out.Policies, p) {
			out.Policies = append(out.Policies, p)
		}
	}
	out.Rows = nil
	rows := map[string]Row{}
	var order []string
	for _, from := range [...]*Standings{earlier, s} {
		for _, r := range from.Rows {
			if _, ok := rows[r.Scenario]; !ok {
				order = append(order, r.Scenario)
			}
			kept := rows[r.Scenario].Scores
			for _, score := range r.Scores {
				kept = slices.DeleteFunc(slices.Clone(kept), func(k Score) bool { return k.Policy == score.Policy })
				kept = append(kept, score)
			}
			r.Scores = kept
			rows[r.Scenario] = r
		}
	}
	shipped := scenarios.Names()
	slices.SortStableFunc(order, func(a, b string) int { // those of files, which are not shipped, stand first
		return slices.Index(shipped, a) - slices.Index(shipped, b)
	})
	for _, name := range order {
		r := rows[name]
		slices.SortStableFunc(r.Scores, func(a, b Score) int {
			return slices.Index(out.Policies, a.Policy) - slices.Index(out.Policies, b.Policy)
		})
		out.Rows = append(out.Rows, r)
	}
	return &out, nil
}

// Score returns a policy's score, nil if the scenario has none of it.
func (r *Row) Score(policy string) *Score {
	for i := range r.Scores {
		if r.Scores[i].Policy == policy {
			return &r.Scores[i]
		}
	}
	return nil
}

// MeanGoodput is over the seeds.
func (s *Score) MeanGoodput() float64 { return mean(s.Goodput) }

// MeanTTFT is the mean over the seeds of p99 TTFT, in seconds.
func (s *Score) MeanTTFT() float64 { return mean(s.TTFT) }

func mean(v []bench.Number) float64 { return Mean(floats(v)) }

func floats(v []bench.Number) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		out[i] = float64(v[i])
	}
	return out
}

// Best returns the score of the best rule of another router, by goodput, then by p99 TTFT where goodputs are alike to a
// thousandth; nil if there is none.
func (r *Row) Best() *Score {
	var best *Score
	for i := range r.Scores {
		s := &r.Scores[i]
		if !strings.HasPrefix(s.Policy, Peer) {
			continue
		}
		switch {
		case best == nil:
			best = s
		case math.Abs(s.MeanGoodput()-best.MeanGoodput()) > 0.001:
			if s.MeanGoodput() > best.MeanGoodput() {
				best = s
			}
		case s.MeanTTFT() < best.MeanTTFT():
			best = s
		}
	}
	return best
}

// Standing is the policy in question beside the best rule of another router, in one scenario.
type Standing struct {
	Own, Best *Score

	// Goodput is (own - best)/mean(best) with its 95 % interval over the seeds; TTFT the same of p99 TTFT, nil where either is
	// past its capacity.
	Goodput Interval
	TTFT    *Interval
}

// MostLost is how much of the best rule's goodput the policy in question may lack before it counts as lost.
const MostLost = 0.02

// Lost reports whether the policy in question has more than 2 % less goodput than the best rule.
func (s *Standing) Lost() bool { return s.Goodput.Mean < -MostLost }

// Certain reports whether the difference in goodput is beyond chance: its interval excludes zero. The best of many rules is best
// by luck too, which this does not count in favour of the policy in question.
func (s *Standing) Certain() bool { return s.Goodput.Excludes(0) }

// Standing sets the policy in question beside the best rule; false where one of them is missing.
func (r *Row) Standing(own string) (Standing, bool) {
	s := Standing{Own: r.Score(own), Best: r.Best()}
	if s.Own == nil || s.Best == nil {
		return s, false
	}
	relative := func(a, b []bench.Number) Interval {
		d := Relative(floats(b), floats(a))
		if d == nil { // nothing to compare with: the best has none
			return Interval{math.NaN(), math.Inf(-1), math.Inf(1)}
		}
		return MeanInterval(d, 0.95)
	}
	s.Goodput = relative(s.Own.Goodput, s.Best.Goodput)
	if !s.Own.Saturated && !s.Best.Saturated {
		i := relative(s.Own.TTFT, s.Best.TTFT)
		s.TTFT = &i
	}
	return s, true
}
