package producers

import (
	"sync"
	"time"

	"github.com/fairlead/fairlead/pkg/latency"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
)

// predictions are the latency models of one pool: one per class of hardware, and how each endpoint differs from its class.
type predictions struct {
	pool string

	mu      sync.Mutex
	classes []*classModel
	pods    []podPace    // by slot
	headers bool         // first bytes are no tokens
	last    pool.Instant // of the decisions
}

// classModel are the models of one class.
type classModel struct {
	name      string
	ttft, itl latency.Model
}

// podPace is how one endpoint differs from its class.
type podPace struct {
	incarnation uint32
	name        string // namespace/name
	class       string
	of          *classModel
	ttft, itl   latency.Pace
	seen        pool.Instant // of the last decision in which it was a candidate
}

// mostModels bounds the classes of a pool; those that come later share the last one.
const mostModels = 32

// pod returns what is known of an endpoint of this class.
func (p *predictions) pod(e *pool.Endpoint, class string) *podPace {
	of := e.Ref
	for int(of.ID) >= len(p.pods) {
		p.pods = append(p.pods, podPace{})
	}
	d := &p.pods[of.ID]
	if d.incarnation != of.Incarnation || d.class != class {
		*d = podPace{incarnation: of.Incarnation, name: plugins.EndpointName(e), class: class, of: p.class(class)}
	}
	return d
}

func (p *predictions) class(name string) *classModel {
	for _, m := range p.classes {
		if m.name == name {
			return m
		}
	}
	if len(p.classes) == mostModels {
		return p.classes[mostModels-1]
	}
	m := &classModel{name: name}
	p.classes = append(p.classes, m)
	return m
}

// leastTokens is how many tokens an answer must have for their distance to mean something, and manyTokens how many where the
// first token's time is not known.
const (
	leastTokens = 4
	manyTokens  = 64
)

// learn takes in what came of a guess, for an answer of so many completions.
func (p *predictions) learn(g *plugins.LatencyGuess, o plugins.Outcome, completions int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if int(g.To.ID) >= len(p.pods) {
		return // nobody was predicted yet
	}
	pod := &p.pods[g.To.ID]
	if pod.incarnation != g.To.Incarnation || pod.class != g.Class {
		return // its engine is another by now
	}
	ttft := milliseconds(o.TTFT - o.Held)
	tokens, least := o.Out/completions, int64(leastTokens)
	if p.headers {
		ttft, least = g.ClosedTTFT, manyTokens
	} else {
		pod.ttft = pod.of.ttft.Learn((*latency.Features)(&g.TTFTFeatures), pod.ttft, g.ClosedTTFT, ttft)
	}
	if decoded := milliseconds(o.Total-o.Held) - ttft; tokens >= least && decoded > 0 {
		pod.itl = pod.of.itl.Learn((*latency.Features)(&g.ITLFeatures), pod.itl, g.ClosedITL, decoded/float64(tokens-1))
	}
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }

// Accuracy is how well a latency of one class was predicted of late.
type Accuracy struct {
	Pool, Class string
	Kind        string  // ttft or itl
	Answers     int64   // that were learned from
	Error       float64 // rolling mean of |actual − predicted| / actual of the model, whether it was used or not
	Used        bool    // else the closed form stands in
	High        float64 // the factor from prediction to what nine of ten stay below
	Features    []string
	Weights     []float64 // ms for each feature
	Paces       map[string]float64
}

// The names of the features, in their order.
var (
	ttftFeatures = []string{"1", "backlog, 100 ms", "uncached, 1k tokens", "attention, 10M token pairs", "running, 10", "cache above 0.9", "waiting, 10"}
	itlFeatures  = []string{"1", "running, 10", "resident, 100k tokens", "cache above 0.9", "backlog, 100 ms", "not begun, 10", "prefill per decode time"}
)

// Accuracy tells how well each class of each pool was predicted of late, in the order in which classes were met, with the
// multipliers of the endpoints that were candidates of the last decision.
func (p *PredictedLatency) Accuracy() (all []Accuracy) {
	for _, in := range p.pools {
		in.mu.Lock()
		for _, c := range in.classes {
			t := in.accuracy(c, "ttft", &c.ttft, ttftFeatures, func(d *podPace) latency.Pace { return d.ttft })
			t.Used = t.Used && !in.headers
			all = append(all, t, in.accuracy(c, "itl", &c.itl, itlFeatures, func(d *podPace) latency.Pace { return d.itl }))
		}
		in.mu.Unlock()
	}
	return all
}

func (p *predictions) accuracy(c *classModel, kind string, m *latency.Model, features []string, pace func(*podPace) latency.Pace) Accuracy {
	weights := m.Coefficients()
	a := Accuracy{Pool: p.pool, Class: c.name, Kind: kind, Answers: m.Seen(), Error: m.Error(), Used: m.Usable(), High: m.High(),
		Features: features, Weights: weights[:], Paces: map[string]float64{}}
	for i := range p.pods {
		if d := &p.pods[i]; d.of == c && d.seen == p.last {
			a.Paces[d.name] = pace(d).Of()
		}
	}
	return a
}
