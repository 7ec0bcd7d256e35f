package compare

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/fairlead/fairlead/benchmarks/bench"
	"github.com/fairlead/fairlead/benchmarks/policy"
)

// Axis is one thing that a sweep varies: rate (multiples of the scenario's), pods, how late cache events are and which share of
// them is lost, or the weight of a scorer by its name.
type Axis struct {
	Name   string
	Values []float64
}

// ParseAxis reads NAME=A,B,C or NAME=FROM..TO/N, which is N values from FROM to TO, evenly spaced.
func ParseAxis(text string) (Axis, error) {
	name, list, ok := strings.Cut(text, "=")
	a := Axis{Name: strings.TrimSpace(name)}
	if !ok || a.Name == "" || list == "" {
		return a, fmt.Errorf("axis %q: want NAME=A,B,C or NAME=FROM..TO/N, with rate, pods, event-delay-ms, event-loss or a scorer for NAME", text)
	}
	if from, rest, ok := strings.Cut(list, ".."); ok {
		to, count, ok := strings.Cut(rest, "/")
		low, err1 := strconv.ParseFloat(from, 64)
		high, err2 := strconv.ParseFloat(to, 64)
		n, err3 := strconv.Atoi(count)
		if !ok || errors.Join(err1, err2, err3) != nil || n < 2 || high <= low {
			return a, fmt.Errorf("axis %q: want FROM..TO/N with two rising numbers and at least 2 values", text)
		}
		for i := range n {
			a.Values = append(a.Values, low+float64((high-low)*float64(i)/float64(n-1)))
		}
	} else {
		for one := range strings.SplitSeq(list, ",") {
			v, err := strconv.ParseFloat(strings.TrimSpace(one), 64)
			if err != nil {
				return a, fmt.Errorf("axis %q: %q is no number", text, one)
			}
			a.Values = append(a.Values, v)
		}
	}
	for _, v := range a.Values {
		switch {
		case v < 0, a.Name == "rate" && v == 0:
			return a, fmt.Errorf("axis %q: %v; above 0, or a weight of at least 0", text, v)
		case a.Name == "pods" && (v < 1 || v != float64(int(v))):
			return a, fmt.Errorf("axis %q: %v pods; a whole number of at least 1", text, v)
		case a.Name == "event-loss" && v > 1:
			return a, fmt.Errorf("axis %q: %v; a share from 0 to 1", text, v)
		}
	}
	return a, nil
}

// Point is one place of a sweep.
type Point struct {
	At  []float64 `json:"at"` // by axis
	Arm Arm       `json:"figures"`
}

// Sweep is a grid of runs of one scenario and configuration.
type Sweep struct {
	Scenario string  `json:"scenario"`
	Policy   string  `json:"policy"`
	Seeds    int     `json:"seeds"`
	Axes     []Axis  `json:"axes"`
	Points   []Point `json:"points"` // the last axis varies fastest
}

// RunSweep runs the scenario at every point of one axis or two.
func RunSweep(ctx context.Context, s *bench.Setup, p policy.Policy, axes []Axis, seeds int, seed uint64, parallel int, progress func(int, int)) (*Sweep, error) {
	if len(axes) < 1 || len(axes) > 2 {
		return nil, fmt.Errorf("sweep: %d axes; one or two", len(axes))
	}
	out := &Sweep{Scenario: s.Name, Policy: p.Name, Seeds: seeds, Axes: axes}
	w := newWorkers(parallel, progress)
	n := 1
	for _, a := range axes {
		n *= len(a.Values)
	}
	out.Points = make([]Point, n)
	w.expect(n * seeds)
	for i := range out.Points {
		setup, pol, at := s, p, make([]float64, len(axes))
		place := i
		for k := len(axes) - 1; k >= 0; k-- {
			at[k] = axes[k].Values[place%len(axes[k].Values)]
			place /= len(axes[k].Values)
		}
		for k, a := range axes {
			var err error
			if setup, pol, err = a.set(setup, pol, at[k]); err != nil {
				return nil, err
			}
		}
		out.Points[i] = Point{at, Arm{Policy: p.Name, Runs: make([]*bench.Figures, seeds), Capacity: bench.Unknown, CapacityRate: bench.Unknown}}
		for k := range seeds {
			w.run(ctx, func() error {
				f, err := measure(setup, pol, seed+uint64(k), 0)
				out.Points[i].Arm.Runs[k] = f
				return err
			})
		}
	}
	if err := w.wait(); err != nil {
		return nil, err
	}
	for i := range out.Points {
		out.Points[i].Arm.Saturated = mostSaturated(out.Points[i].Arm.Runs)
	}
	return out, nil
}

// set returns the scenario and the configuration with another value of what the axis varies.
func (a Axis) set(s *bench.Setup, p policy.Policy, value float64) (*bench.Setup, policy.Policy, error) {
	switch a.Name {
	case "rate":
		return s.Scaled(value), p, nil
	case "pods":
		return s.WithPods(int(value)), p, nil
	case "event-delay-ms", "event-loss":
		delay, loss := time.Duration(value*float64(time.Millisecond)), value
		if a.Name == "event-loss" {
			delay = s.Signals.EventDelay
		} else {
			loss = s.Signals.EventLoss
		}
		if !p.Hears {
			return s, p, fmt.Errorf("sweep: %q hears no cache events, so that %s changes nothing", p.Name, a.Name)
		}
		return s.WithEvents(delay, loss), p, nil
	}
	p, err := weighted(p, a.Name, value)
	return s, p, err
}

// weighted returns a configuration with another weight of one scorer, wherever its profiles name it.
func weighted(p policy.Policy, scorer string, weight float64) (policy.Policy, error) {
	if p.Text == "" {
		return p, fmt.Errorf("sweep: %q has no weights: it is a comparison policy", p.Name)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(p.Text), &doc); err != nil {
		return p, err
	}
	changed := 0
	var names []string
	each(child(doc.Content[0], "schedulingProfiles"), func(profile *yaml.Node) {
		each(child(profile, "plugins"), func(ref *yaml.Node) {
			name := child(ref, "pluginRef")
			if name == nil {
				return
			}
			names = append(names, name.Value)
			if name.Value != scorer {
				return
			}
			changed++
			value := strconv.FormatFloat(weight, 'g', -1, 64)
			if w := child(ref, "weight"); w != nil {
				w.Value, w.Tag = value, ""
				return
			}
			ref.Content = append(ref.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: "weight"}, &yaml.Node{Kind: yaml.ScalarNode, Value: value})
		})
	})
	if changed == 0 {
		return p, fmt.Errorf("sweep: no profile of %q names a scorer %q; they name %s. An axis is rate, pods, event-delay-ms, event-loss or a scorer", p.Name, scorer, strings.Join(names, ", "))
	}
	text, err := yaml.Marshal(&doc)
	if err != nil {
		return p, err
	}
	return policy.FromText(p.Name, text)
}

// child returns the value of a key of a table, nil if there is none.
func child(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}

// each calls f with every item of a list.
func each(n *yaml.Node, f func(*yaml.Node)) {
	if n != nil && n.Kind == yaml.SequenceNode {
		for _, item := range n.Content {
			f(item)
		}
	}
}

// Best returns the index of the point with the highest goodput, and of those the one with the shortest p99 TTFT.
func (s *Sweep) Best() int {
	best, score, tail := 0, -1.0, 0.0
	for i := range s.Points {
		var good, p99 []float64
		for _, f := range s.Points[i].Arm.Runs {
			good, p99 = append(good, float64(f.Goodput)), append(p99, float64(f.TTFT.P99))
		}
		g, t := Mean(good), Mean(p99)
		if g > score || g == score && t < tail {
			best, score, tail = i, g, t
		}
	}
	return best
}
