package workload

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"go.yaml.in/yaml/v3"
)

// Distribution is how a length, a count or a wait is drawn. In YAML a bare number is one that is always the same.
type Distribution struct {
	// Type is fixed, uniform (from Min to Max), normal, lognormal, skew-normal, exponential or poisson.
	Type string `yaml:"type"`

	// Mean and StdDev are those of the values before they are held within Min and Max.
	Mean   float64 `yaml:"mean"`
	StdDev float64 `yaml:"stdDev"`

	// Min and Max bound what is drawn. Max 0 is no bound.
	Min float64 `yaml:"min"`
	Max float64 `yaml:"max"`

	// Skew is the shape parameter of skew-normal.
	Skew float64 `yaml:"skew"`
}

// Fixed is the distribution of one value.
func Fixed(v float64) Distribution { return Distribution{Type: "fixed", Mean: v} }

// UnmarshalYAML reads a number or a table.
func (d *Distribution) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*d = Distribution{Type: "fixed"}
		return n.Decode(&d.Mean)
	}
	type table Distribution
	if err := strict(n, (*table)(d)); err != nil {
		return err
	}
	return d.check()
}

// given reports whether the distribution was said at all.
func (d Distribution) given() bool { return d.Type != "" }

func (d Distribution) check() error {
	switch d.Type {
	case "fixed", "normal", "lognormal", "skew-normal", "exponential", "poisson":
	case "uniform":
		if d.Max < d.Min {
			return fmt.Errorf("distribution: uniform from %v to %v; max must not be below min", d.Min, d.Max)
		}
	case "":
		return errors.New("distribution: no type; fixed, uniform, normal, lognormal, skew-normal, exponential or poisson")
	default:
		return fmt.Errorf("distribution: no type %q; there are fixed, uniform, normal, lognormal, skew-normal, exponential and poisson", d.Type)
	}
	if d.Type == "lognormal" && !(d.Mean > 0) {
		return fmt.Errorf("distribution: lognormal with mean %v; above 0", d.Mean)
	}
	if d.StdDev < 0 || d.Max != 0 && d.Max < d.Min {
		return fmt.Errorf("distribution: stdDev %v, min %v, max %v; the first not negative, the last not below min", d.StdDev, d.Min, d.Max)
	}
	return nil
}

// draw returns one value.
func (d Distribution) draw(r *rand.Rand) float64 {
	v := d.Mean
	switch d.Type {
	case "uniform":
		v = d.Min + r.Float64()*(d.Max-d.Min)
	case "normal":
		v += d.StdDev * r.NormFloat64()
	case "lognormal":
		ratio := d.StdDev / d.Mean
		sigma2 := math.Log1p(ratio * ratio)
		v = d.Mean * math.Exp(math.Sqrt(sigma2)*r.NormFloat64()-sigma2/2)
	case "skew-normal":
		// Azzalini: with delta = skew/sqrt(1+skew²), delta|Z0| + sqrt(1-delta²) Z1 is skew normal; shifted and scaled to mean and
		// standard deviation.
		delta := d.Skew / math.Sqrt(1+d.Skew*d.Skew)
		x := delta*math.Abs(r.NormFloat64()) + math.Sqrt(1-delta*delta)*r.NormFloat64()
		mean := delta * math.Sqrt(2/math.Pi)
		v += d.StdDev * (x - mean) / math.Sqrt(1-mean*mean)
	case "exponential":
		v = d.Mean * r.ExpFloat64()
	case "poisson":
		v = poisson(r, d.Mean)
	}
	v = max(v, d.Min)
	if d.Max > 0 {
		v = min(v, d.Max)
	}
	return v
}

// tokens draws a whole number of at least least.
func (d Distribution) tokens(r *rand.Rand, least int32) int32 {
	return int32(min(max(math.Round(d.draw(r)), float64(least)), math.MaxInt32/4))
}

// poisson draws a Poisson number: by gaps for small means, by the normal approximation beyond 500.
func poisson(r *rand.Rand, mean float64) float64 {
	if mean > 500 {
		return math.Round(mean + math.Sqrt(mean)*r.NormFloat64())
	}
	n := 0.0
	for sum := r.ExpFloat64(); sum < mean; sum += r.ExpFloat64() {
		n++
	}
	return n
}
