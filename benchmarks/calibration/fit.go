package calibration

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/fairlead/fairlead/simulator/engine"
)

// coefficients are those of a step that are fitted, in milliseconds: the base, one prefill token, one sequence, and reading all
// experts.
type coefficients [4]float64

func of(p engine.Profile) coefficients {
	return coefficients{millis(p.Step.Base), millis(p.Step.PerPrefillToken), millis(p.Step.PerSequence), millis(p.Step.AllExperts)}
}

// Fit returns start with the step-time coefficients that the stages determine: one stage the base, two the time per prefill
// token too, three the time per sequence, and of a model with experts four the time of reading them all. Others stay as they
// are, and so does one that would come out negative.
func Fit(start engine.Profile, stages []Stage, source string) (engine.Profile, error) {
	if len(stages) == 0 {
		return start, errNoStage
	}
	x := of(start)
	most := 3
	if start.Step.AllExperts > 0 {
		most = 4
	}
	rows := make([]coefficients, len(stages))
	for i, s := range stages {
		rows[i] = terms(start, s)
	}
	x, free := best(stages, rows, x, min(len(stages), most))
	if free == nil {
		return start, fmt.Errorf("the %d stages determine nothing: even a base alone would not be positive", len(stages))
	}
	p := start
	p.Step.Base, p.Step.PerPrefillToken, p.Step.PerSequence, p.Step.AllExperts = duration(x[0]), duration(x[1]), duration(x[2]), duration(x[3])
	fitted := engine.Source{Kind: engine.Fitted, Text: source}
	for _, k := range free {
		*[...]*engine.Source{&p.Sources.Base, &p.Sources.PerPrefillToken, &p.Sources.PerSequence, &p.Sources.Experts}[k] = fitted
	}
	var context float64
	for _, s := range stages {
		context += (s.Prompt + s.Output/2) / float64(len(stages))
	}
	// The reading of that much context is in what was measured.
	p.Step.ReferenceContext = int64(math.Round(context))
	return p, nil
}

// best returns the coefficients of the least error of which none is negative, and which of the first n they are; nil where not
// even the base alone can be positive. All choices of what is fitted beside the base are tried, the largest first.
func best(stages []Stage, rows []coefficients, x coefficients, n int) (coefficients, []int) {
	y, chosen, least := x, []int(nil), math.Inf(1)
	for size := n; size > 0; size-- {
		for with := range 1 << (n - 1) {
			if bits.OnesCount(uint(with)) != size-1 {
				continue
			}
			free := []int{0}
			for k := 1; k < n; k++ {
				if with&(1<<(k-1)) != 0 {
					free = append(free, k)
				}
			}
			z, ok := solve(stages, rows, x, free)
			if !ok || slices.ContainsFunc(free, func(k int) bool { return z[k] <= 0 }) {
				continue
			}
			// A choice that fits as well with less is none the better.
			if e := squares(stages, rows, z); e < least-1e-12 {
				y, chosen, least = z, free, e
			}
		}
	}
	return y, chosen
}

// squares is the sum of the squares of relative errors.
func squares(stages []Stage, rows []coefficients, x coefficients) float64 {
	sum := 0.0
	for i := range stages {
		off := -1.0
		for k, t := range rows[i] {
			off += float64(x[k]*t) / stages[i].ITL
		}
		sum += float64(off * off)
	}
	return sum
}

// solve minimises the squares of relative errors over the free coefficients, the others as in x; false where the stages do
// not tell them apart.
func solve(stages []Stage, rows []coefficients, x coefficients, free []int) (coefficients, bool) {
	n := len(free)
	var m [4][5]float64
	for at, s := range stages {
		row := rows[at]
		rest := 1.0
		for k := range row {
			row[k] /= s.ITL
			rest -= row[k] * x[k]
		}
		for _, k := range free {
			rest += row[k] * x[k]
		}
		for i, k := range free {
			for j, l := range free {
				m[i][j] += row[k] * row[l]
			}
			m[i][n] += row[k] * rest
		}
	}
	for i := range n {
		pivot := i
		for r := i + 1; r < n; r++ {
			if math.Abs(m[r][i]) > math.Abs(m[pivot][i]) {
				pivot = r
			}
		}
		m[i], m[pivot] = m[pivot], m[i]
		if math.Abs(m[i][i]) < 1e-9 {
			return x, false
		}
		for r := range n {
			if r == i {
				continue
			}
			f := m[r][i] / m[i][i]
			for c := i; c <= n; c++ {
				m[r][c] -= float64(f * m[i][c])
			}
		}
	}
	for i, k := range free {
		x[k] = m[i][n] / m[i][i]
	}
	return x, true
}

// terms are what the coefficients are multiplied with.
func terms(p engine.Profile, s Stage) coefficients {
	prefill, sequences := s.load()
	return coefficients{1, prefill, sequences, touched(p, s)}
}

// touched is the mean share of the experts that a step reads, as a request that decodes sees it: its own token and those of
// the others, whose number is Poisson's, unless the step has a prompt too. Prompts come whole, most of them in one step, and touch
// what they touch at once.
func touched(p engine.Profile, s Stage) float64 {
	if p.Step.AllExperts == 0 {
		return 0
	}
	prefill, sequences := s.load()
	missed := float64(p.Step.Experts-p.Step.ExpertsPerToken) / float64(p.Step.Experts)
	decoding := missed * math.Exp(-sequences*(1-missed)) // the share that none of the sequences touches
	if s.Uncached <= 0 {
		return 1 - decoding*math.Pow(missed, prefill)
	}
	with := min(prefill/s.Uncached, 1)
	return 1 - decoding*(float64(with*math.Pow(missed, max(s.Uncached, prefill)))+1-with)
}

// Formula returns the mean time between two tokens that p's formula gives for the load of s, in milliseconds.
func Formula(p engine.Profile, s Stage) float64 {
	sum := 0.0
	x := of(p)
	for k, t := range terms(p, s) {
		sum += float64(x[k] * t)
	}
	return sum
}

func millis(d time.Duration) float64 { return d.Seconds() * 1e3 }

func duration(ms float64) time.Duration { return time.Duration(math.Round(ms * 1e6)) }
