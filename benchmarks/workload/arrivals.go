package workload

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Arrivals say when the requests of a stream come, or its sessions begin.
type Arrivals struct {
	// Type is poisson, gamma, weibull, constant, mmpp, diurnal or closed.
	Type string `yaml:"type"`

	// Rate is the mean number of arrivals per second. Stages, if any, say it by time, and Rate multiplies them (0 counts as 1).
	Rate   float64 `yaml:"rate"`
	Stages []Stage `yaml:"stages"`

	// CV is the coefficient of variation of the gaps of gamma and weibull; 1 is Poisson, more is burstier.
	CV float64 `yaml:"cv"`

	// High is how many times the mean rate an mmpp has in its bursts, Share what share of the time it is in one, Dwell the mean
	// length of a burst. Outside of bursts the rate is such that the mean is Rate.
	High  float64       `yaml:"high"`
	Share float64       `yaml:"share"`
	Dwell time.Duration `yaml:"dwell"`

	// Period and Amplitude are those of a diurnal rate: Rate·(1 + Amplitude·sin(2πt/Period)).
	Period    time.Duration `yaml:"period"`
	Amplitude float64       `yaml:"amplitude"`

	// Users is how many requests or sessions a closed loop keeps running; each next one begins when one ends. They begin one
	// after the other within Ramp.
	Users int           `yaml:"users"`
	Ramp  time.Duration `yaml:"ramp"`
}

// Stage is a time with a rate of its own.
type Stage struct {
	Rate     float64       `yaml:"rate"`
	Duration time.Duration `yaml:"duration"`
}

func (a *Arrivals) check() error {
	switch a.Type {
	case "poisson", "constant":
	case "gamma", "weibull":
		if !(a.CV > 0 && a.CV <= 50) {
			return fmt.Errorf("arrivals: %s with cv %v; above 0 and at most 50", a.Type, a.CV)
		}
	case "mmpp":
		if !(a.High >= 1 && a.Share > 0 && a.Share < 1 && a.High*a.Share <= 1 && a.Dwell > 0) {
			return fmt.Errorf("arrivals: mmpp with high %v, share %v, dwell %v; high at least 1, share between 0 and 1, high times share at most 1, dwell above 0", a.High, a.Share, a.Dwell)
		}
	case "diurnal":
		if !(a.Period > 0 && a.Amplitude >= 0 && a.Amplitude <= 1) {
			return fmt.Errorf("arrivals: diurnal with period %v, amplitude %v; period above 0, amplitude 0 to 1", a.Period, a.Amplitude)
		}
	case "closed":
		if a.Users < 1 {
			return fmt.Errorf("arrivals: closed with %d users; at least 1", a.Users)
		}
		return nil
	case "":
		return fmt.Errorf("arrivals: no type; poisson, gamma, weibull, constant, mmpp, diurnal or closed")
	default:
		return fmt.Errorf("arrivals: no type %q; there are poisson, gamma, weibull, constant, mmpp, diurnal and closed", a.Type)
	}
	if !(a.Rate > 0) && len(a.Stages) == 0 || a.Rate < 0 {
		return fmt.Errorf("arrivals: rate is %v; above 0", a.Rate)
	}
	for i, s := range a.Stages {
		if s.Rate < 0 || s.Duration <= 0 {
			return fmt.Errorf("arrivals: stage %d has rate %v for %v; not negative, and for some time", i, s.Rate, s.Duration)
		}
	}
	return nil
}

// process yields arrival times of an open stream: gaps of mean 1 are drawn, and the time is found at which so much of the
// rate has passed. So any kind of gap goes with any course of the rate.
type process struct {
	gaps   *rand.Rand
	kind   string
	cv     float64
	k, inv float64 // weibull: shape, and 1/mean of scale 1
	rate   intensity
	now    float64 // seconds
}

// newProcess returns the arrivals of a stream, with its share of the rate.
func newProcess(a Arrivals, share float64, gaps, states *rand.Rand) *process {
	p := &process{gaps: gaps, kind: a.Type, cv: a.CV}
	rate := a.Rate * share
	switch {
	case len(a.Stages) > 0:
		if a.Rate == 0 {
			rate = share
		}
		p.rate = &stages{stages: a.Stages, factor: rate}
	case a.Type == "mmpp":
		p.rate = newBursts(a, rate, states)
	case a.Type == "diurnal":
		p.rate = wave{rate, a.Amplitude, a.Period.Seconds()}
	default:
		p.rate = steady(rate)
	}
	if a.Type == "weibull" {
		p.k = weibullShape(a.CV)
		p.inv = 1 / math.Gamma(1+1/p.k)
	}
	return p
}

// next returns the next arrival, in seconds; false when there is none any more.
func (p *process) next() (float64, bool) {
	gap := 0.0
	switch p.kind {
	case "constant":
		gap = 1
	case "gamma":
		shape := 1 / (p.cv * p.cv)
		gap = gamma(p.gaps, shape) / shape
	case "weibull":
		gap = p.inv * math.Pow(p.gaps.ExpFloat64(), 1/p.k)
	default:
		gap = p.gaps.ExpFloat64()
	}
	t := p.rate.after(p.now, gap)
	if math.IsInf(t, 1) {
		return 0, false
	}
	p.now = t
	return t, true
}

// intensity is a course of the rate. after returns the time at which mass arrivals are expected since from; +Inf for never.
type intensity interface {
	after(from, mass float64) float64
}

type steady float64

func (s steady) after(from, mass float64) float64 { return from + mass/float64(s) }

type stages struct {
	stages []Stage
	factor float64
}

func (s *stages) after(from, mass float64) float64 {
	begin := 0.0
	for _, st := range s.stages {
		end := begin + st.Duration.Seconds()
		if from < end {
			rate := st.Rate * s.factor
			if at := from + mass/rate; rate > 0 && at <= end {
				return at
			}
			mass -= rate * (end - from)
			from = end
		}
		begin = end
	}
	return math.Inf(1)
}

// bursts is a rate that jumps between two values, after times that are drawn.
type bursts struct {
	states    *rand.Rand
	high, low float64
	dwell     [2]float64 // mean seconds in the low and the high state
	inBurst   bool
	until     float64
}

func newBursts(a Arrivals, rate float64, states *rand.Rand) *bursts {
	b := &bursts{states: states, high: rate * a.High}
	b.low = rate * (1 - a.High*a.Share) / (1 - a.Share)
	b.dwell = [2]float64{a.Dwell.Seconds() * (1 - a.Share) / a.Share, a.Dwell.Seconds()}
	b.inBurst = states.Float64() < a.Share
	b.until = b.length()
	return b
}

func (b *bursts) length() float64 {
	if b.inBurst {
		return b.states.ExpFloat64() * b.dwell[1]
	}
	return b.states.ExpFloat64() * b.dwell[0]
}

func (b *bursts) after(from, mass float64) float64 {
	for {
		rate := b.low
		if b.inBurst {
			rate = b.high
		}
		if at := from + mass/rate; rate > 0 && at <= b.until {
			return at
		}
		mass -= rate * (b.until - from)
		from = b.until
		b.inBurst = !b.inBurst
		b.until += b.length()
	}
}

// wave is rate·(1 + amplitude·sin(2πt/period)).
type wave struct{ rate, amplitude, period float64 }

func (w wave) total(t float64) float64 {
	return w.rate * (t - w.amplitude*w.period/(2*math.Pi)*(math.Cos(2*math.Pi*t/w.period)-1))
}

func (w wave) after(from, mass float64) float64 {
	want := w.total(from) + mass
	low, high := from, from+mass/w.rate+w.period
	for range 60 {
		mid := (low + high) / 2
		if w.total(mid) < want {
			low = mid
		} else {
			high = mid
		}
	}
	return high
}

// gamma draws from a gamma distribution of scale 1 (Marsaglia and Tsang 2000; below shape 1 by a power of a uniform).
func gamma(r *rand.Rand, shape float64) float64 {
	if shape < 1 {
		return gamma(r, shape+1) * math.Pow(1-r.Float64(), 1/shape)
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := r.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v = v * v * v
		if math.Log(1-r.Float64()) < 0.5*x*x+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}

// weibullShape returns the shape at which a Weibull distribution has this coefficient of variation.
func weibullShape(cv float64) float64 {
	low, high := 0.05, 50.0
	for range 100 {
		k := math.Sqrt(low * high)
		m := math.Gamma(1 + 1/k)
		if math.Sqrt(math.Gamma(1+2/k)/(m*m)-1) > cv {
			low = k
		} else {
			high = k
		}
	}
	return low
}
