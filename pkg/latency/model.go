package latency

import "github.com/fairlead/fairlead/pkg/quantile"

// The constants of trust in a Model.
const (
	// Enough is how many observations make a model usable.
	Enough = 200
	// MostError is the rolling mean relative error from which on it is not.
	MostError = 0.25

	errorWeight = 0.01 // of the latest observation in the rolling error: a hundred count
	paceWeight  = 0.1  // of the latest observation in an endpoint's multiplier
	levelWeight = 0.01 // of the latest multiplier in their mean
	residuals   = 4096 // observations after which what is known of the spread counts for half

	least = 0.1 // ms: nothing is expected sooner, and errors are relative to no less
)

// An endpoint's multiplier stays within these bounds: one that is slower than that by another cause than its class is rather
// ejected than predicted. They are wider than 1/2 and 2, so that an endpoint at half its speed does not stand at the edge.
const (
	slowest = 2.5
	fastest = 1 / slowest
)

// Pace is how an endpoint differs from its class, as a multiplier of predictions. The zero Pace is 1.
type Pace struct{ offset float64 }

// Of returns the multiplier.
func (p Pace) Of() float64 { return 1 + p.offset }

// Model predicts one latency, in milliseconds, for a class of endpoints. The zero Model has learned nothing. It is not safe for
// several goroutines.
type Model struct {
	regression Regression
	level      float64 // mean multiplier of its endpoints, less 1
	missed     float64 // rolling mean of |actual − predicted| / actual
	spread     quantile.Sketch
	high       float64 // the 90th percentile of actual / predicted; 0 before there is one

	own, closed typical // of the regression, and of what is thought without it
}

// typical is by what an estimate of the mean is multiplied so that it is nearest to what comes, as a share of that. Latencies have long
// tails, so that most are below the mean; it is never above 1, since answers tell too late that all take longer. The zero typical is 1.
type typical struct{ offset float64 }

func (t *typical) of() float64 { return 1 + t.offset }

// learn takes a step down the slope of |actual − factor·estimate| / actual.
func (t *typical) learn(estimate, actual float64) {
	slope := min(estimate/actual, typicalMost)
	if t.of()*estimate < actual {
		slope = -slope
	}
	t.offset = min(max(t.offset-typicalStep*slope, fastest-1), 0)
}

// A step moves the factor by a hundredth, and one answer by no more than four.
const (
	typicalStep = 0.01
	typicalMost = 4.0
)

// Closed returns what is most typical where a latency is thought to be otherwise on average without the model.
func (m *Model) Closed(otherwise float64) float64 { return otherwise * m.closed.of() }

// Predict returns the most typical latency of an endpoint of this pace, in milliseconds: within a tenth and ten times of otherwise, which is
// what is thought without the model.
func (m *Model) Predict(x *Features, p Pace, otherwise float64) float64 {
	return m.estimate(x, p, otherwise) * m.own.of()
}

// estimate is the mean that the regression expects.
func (m *Model) estimate(x *Features, p Pace, otherwise float64) float64 {
	return min(max(m.regression.At(x)*p.Of(), otherwise/10, least), max(otherwise*10, least))
}

// Learn takes in what came of a prediction: actual, in milliseconds. otherwise is as it was with Predict. It returns the
// endpoint's pace from here on. Actual latencies far off what is thought are taken as less far off: one that hung says little of
// those to come.
func (m *Model) Learn(x *Features, p Pace, otherwise, actual float64) Pace {
	if !finite(actual) || actual < 0 || !finite(otherwise) {
		return p
	}
	actual = max(actual, least)
	thought := m.estimate(x, p, otherwise)
	if m.regression.Seen() > 0 {
		m.judge(m.Predict(x, p, otherwise), actual)
	}
	m.own.learn(thought, actual)
	m.closed.learn(max(otherwise, least), actual)
	if m.regression.Seen() < Enough/4 { // it has to find its way yet
		thought = max(otherwise, least)
	}
	bounded := min(max(actual, thought/8), thought*8)
	own := p.Of() / (1 + m.level) // by which the endpoint differs from the mean of its class
	scale := 1 / thought
	scaled := *x
	for i := range scaled {
		scaled[i] *= scale
	}
	m.regression.Learn(&scaled, bounded/own*scale)

	if of := m.regression.At(x); m.regression.Seen() >= Enough/4 && of > least {
		ratio := min(max(bounded/of, 1.0/4), 4)
		p.offset += paceWeight * (ratio - p.Of())
		p.offset = min(max(p.offset, fastest-1), slowest-1)
		m.level += levelWeight * (p.offset - m.level)
	}
	return p
}

// judge counts how far a prediction was off.
func (m *Model) judge(predicted, actual float64) {
	off := min(abs(actual-predicted)/actual, 10)
	if weight := 1 / float64(m.regression.Seen()); weight > errorWeight {
		m.missed += weight * (off - m.missed) // a plain mean at first
	} else {
		m.missed += errorWeight * (off - m.missed)
	}
	if m.spread.Count() >= residuals {
		m.spread.Halve(1)
	}
	m.spread.Add(1024 * actual / predicted)
	if m.regression.Seen()%16 == 0 {
		m.high = m.spread.Quantile(0.9) / 1024
	}
}

// Usable reports whether enough was seen, and predictions have been near enough of late.
func (m *Model) Usable() bool { return m.Seen() >= Enough && m.missed < MostError }

// Seen returns how many observations were taken in.
func (m *Model) Seen() int64 { return m.regression.Seen() }

// Error returns the rolling mean of |actual − predicted| / actual, whether the predictions were used or not; 0 before there was
// one.
func (m *Model) Error() float64 { return m.missed }

// High returns by what a prediction is to be multiplied so that nine of ten latencies are below it; at least 1.
func (m *Model) High() float64 { return max(m.high, 1) }

// Coefficients returns those in force.
func (m *Model) Coefficients() Features { return m.regression.coefficients }

func abs(v float64) float64 {
	if v < 0 {
		return -v
	}
	return v
}
