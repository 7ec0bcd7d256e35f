package calibration

import (
	"fmt"
	"math"
	"time"

	"github.com/fairlead/fairlead/simulator/engine"
)

// Fit returns start with the step-time coefficients that the stages determine: one stage the base, two the time per prefill
// token too, more the time per sequence. Others stay as they are, and so does one that would come out negative.
func Fit(start engine.Profile, stages []Stage, source string) (engine.Profile, error) {
	if len(stages) == 0 {
		return start, errNoStage
	}
	x := [3]float64{millis(start.Step.Base), millis(start.Step.PerPrefillToken), millis(start.Step.PerSequence)}
	free := []int{0, 1, 2}[:min(len(stages), 3)]
	for len(free) > 0 {
		y, ok := solve(stages, x, free)
		least := 0
		for i, k := range free {
			if ok && y[k] < y[free[least]] {
				least = i
			}
		}
		if ok && y[free[least]] > 0 {
			x = y
			break
		}
		// Without the last coefficient, or the one that made no sense, the others may.
		drop := len(free) - 1
		if ok && free[least] != 0 {
			drop = least
		}
		free = append(free[:drop:drop], free[drop+1:]...)
	}
	if len(free) == 0 {
		return start, fmt.Errorf("the %d stages determine nothing: even a base alone would not be positive", len(stages))
	}
	p := start
	p.Step.Base, p.Step.PerPrefillToken, p.Step.PerSequence = duration(x[0]), duration(x[1]), duration(x[2])
	if p.Step.AllExperts > 0 {
		return start, fmt.Errorf("%s has experts, whose weights are read as far as tokens use them; only dense models are fitted", start.ModelFlag)
	}
	fitted := engine.Source{Kind: engine.Fitted, Text: source}
	for _, k := range free {
		*[...]*engine.Source{&p.Sources.Base, &p.Sources.PerPrefillToken, &p.Sources.PerSequence}[k] = fitted
	}
	var context float64
	for _, s := range stages {
		context += (s.Prompt + s.Output/2) / float64(len(stages))
	}
	// The reading of that much context is in what was measured.
	p.Step.ReferenceContext = int64(math.Round(context))
	return p, nil
}

// solve minimises the squares of relative errors over the free coefficients, the others as in x; false where the stages do
// not tell them apart.
func solve(stages []Stage, x [3]float64, free []int) ([3]float64, bool) {
	n := len(free)
	var m [3][4]float64
	for _, s := range stages {
		row := terms(s)
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

func terms(s Stage) [3]float64 {
	prefill, sequences := s.load()
	return [3]float64{1, prefill, sequences}
}

// Formula returns the mean time between two tokens that p's formula gives for the load of s, in milliseconds.
func Formula(p engine.Profile, s Stage) float64 {
	t := terms(s)
	return millis(p.Step.Base) + millis(p.Step.PerPrefillToken)*t[1] + millis(p.Step.PerSequence)*t[2]
}

func millis(d time.Duration) float64 { return d.Seconds() * 1e3 }

func duration(ms float64) time.Duration { return time.Duration(math.Round(ms * 1e6)) }
