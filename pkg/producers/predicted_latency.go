package producers

import (
	"errors"
	"time"

	"github.com/fairlead/fairlead/pkg/latency"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// PredictedLatency predicts for each endpoint how long the request's first token would take, and how long would lie between its
// tokens, and learns from what came of it. The model is linear and in this process: a few coefficients per class of hardware, a
// multiplier per endpoint (docs/design/0042-latency-model.md).
//
// Until a class has shown 200 answers, and while the mean error of its last hundred is 25 % or more, the closed form stands in:
// the backlog before the request and its own prefill, at the prefill rate that is known, and the length of a step.
//
// The first token is learned from streams whose first byte is a token's. Time between tokens is learned where an answer's usage
// is shown: it is what lies between first byte and end, over the tokens.
type PredictedLatency struct {
	// SLOBufferFactor is what a client's target for the time between tokens is multiplied by before anything is measured by it.
	SLOBufferFactor float64 `json:"sloBufferFactor" schema:"min=0.01,max=100"`

	// StreamingMode has the time between tokens predicted. Without it only that to the first token is.
	StreamingMode bool `json:"streamingMode"`

	// PredictInProduce false only learns, and predicts nothing: scorers do as if there were no predictions.
	PredictInProduce bool `json:"predictInProduce"`

	// PrefixMatchInfoProducerName names the plugin whose match is taken off prompts. Empty: the one that the configuration has.
	PrefixMatchInfoProducerName string `json:"prefixMatchInfoProducerName,omitempty"`

	// InFlightLoadProducerName names the plugin that counts requests in flight. They are always counted.
	InFlightLoadProducerName string `json:"inFlightLoadProducerName,omitempty"`

	// EndpointRoleLabel has no effect: an endpoint's class of hardware says whom it is like.
	EndpointRoleLabel string `json:"endpointRoleLabel,omitempty"`

	// UseEncoderCacheFeatures is refused: caches of encoders are not followed.
	UseEncoderCacheFeatures bool `json:"useEncoderCacheFeatures"`

	// ContextTTL has no effect: what is kept of a request is kept until it ends.
	ContextTTL time.Duration `json:"contextTTL"`

	// SamplingMean has no effect: tokens are not timed one by one.
	SamplingMean float64 `json:"samplingMean" schema:"min=0"`

	// MaxDecodeTokenSamplesForPrediction has no effect either.
	MaxDecodeTokenSamplesForPrediction int `json:"maxDecodeTokenSamplesForPrediction" schema:"min=0"`

	name  string
	pools []*predictions // by the pool's place in the configuration; shared with who inherits

	prompt  plugins.RequestValue[int64]
	cached  plugins.EndpointValues[int64]
	matches bool
	classes plugins.EndpointValues[plugins.CapacityClass]
	classed bool
	loads   plugins.EndpointValues[plugins.EngineLoad]
	traffic plugins.RequestValue[plugins.Traffic]
	waiting plugins.EndpointValues[int32]
	usage   plugins.EndpointValues[float64]

	target            plugins.RequestValue[float64]
	guess             plugins.RequestValue[plugins.LatencyGuess]
	ttft, itl         plugins.EndpointValues[float64]
	highTTFT, highITL plugins.EndpointValues[float64]
}

var (
	_ plugins.Describer = (*PredictedLatency)(nil)
	_ plugins.Producer  = (*PredictedLatency)(nil)
	_ plugins.Observer  = (*PredictedLatency)(nil)
	_ plugins.Witness   = (*PredictedLatency)(nil)
	_ plugins.Settler   = (*PredictedLatency)(nil)
	_ plugins.Heir      = (*PredictedLatency)(nil)
)

// NewPredictedLatency returns a PredictedLatency with its defaults.
func NewPredictedLatency() *PredictedLatency {
	return &PredictedLatency{SLOBufferFactor: 1, PredictInProduce: true, ContextTTL: 5 * time.Minute, SamplingMean: 1000}
}

// Provision says what is read and made, and what has no effect here.
func (p *PredictedLatency) Provision(b *plugins.Builder) error {
	p.name = b.Name
	p.prompt = plugins.Needs(b, plugins.PromptTokens)
	p.cached, p.matches = plugins.Uses(b, plugins.CachedTokens)
	p.classes, p.classed = plugins.Uses(b, plugins.CapacityClasses)
	p.loads, p.traffic = plugins.Needs(b, plugins.EngineLoads), plugins.Needs(b, plugins.Traffics)
	p.waiting, p.usage = plugins.Needs(b, plugins.WaitingRequests), plugins.Needs(b, plugins.KVUsage)
	p.target = plugins.Provides(b, plugins.ITLTarget)
	p.guess = plugins.Provides(b, plugins.LatencyGuesses)
	p.ttft, p.itl = plugins.Provides(b, plugins.PredictedTTFT), plugins.Provides(b, plugins.PredictedITL)
	p.highTTFT, p.highITL = plugins.Provides(b, plugins.HighTTFT), plugins.Provides(b, plugins.HighITL)
	p.pools = make([]*predictions, len(b.Pools))
	for i := range p.pools {
		p.pools[i] = &predictions{pool: b.Pools[i].Name}
	}
	const needless = "%s has no effect here; remove it"
	b.Warn("endpointRoleLabel", needless, "endpointRoleLabel")
	b.Warn("contextTTL", needless, "contextTTL")
	b.Warn("samplingMean", needless, "samplingMean")
	b.Warn("maxDecodeTokenSamplesForPrediction", needless, "maxDecodeTokenSamplesForPrediction")
	var err error
	if p.UseEncoderCacheFeatures {
		err = errors.New("useEncoderCacheFeatures: caches of encoders are not followed; remove it")
	}
	return errors.Join(err, plugins.CheckInFlightProducer(b, p.InFlightLoadProducerName),
		plugins.CheckProducer(b, plugins.CachedBlocks, "prefixMatchInfoProducerName", p.PrefixMatchInfoProducerName))
}

// Inherit shares what was learned of each pool that stays.
func (p *PredictedLatency) Inherit(from any, pools []int) {
	for i, was := range pools {
		if was >= 0 {
			p.pools[i] = from.(*PredictedLatency).pools[was]
		}
	}
}

// Reads asks for the headers alone: targets are there. What predictions are made of, others read.
func (*PredictedLatency) Reads() plugins.Reads { return plugins.ReadsHeaders }

// Describe applies the buffer to the client's target.
func (p *PredictedLatency) Describe(r *plugins.Request) {
	target := plugins.TargetITL(r)
	if target != plugins.Unknown {
		target *= p.SLOBufferFactor
	}
	p.target.Set(r, target)
}

// Produce notes a target that is none; predictions wait for the books.
func (*PredictedLatency) Produce(c *plugins.Cycle) {
	if plugins.OddTarget(c.Request) {
		c.Note(reason.TargetIgnored, "")
	}
}

// Observe predicts for every candidate.
func (p *PredictedLatency) Observe(c *plugins.Cycle, books *pool.Books) {
	ttft, itl, highTTFT, highITL := p.ttft.Of(c), p.itl.Of(c), p.highTTFT.Of(c), p.highITL.Of(c)
	in := p.pools[c.PoolIndex]
	in.mu.Lock()
	defer in.mu.Unlock()
	in.headers, in.last = p.traffic.Of(c.Request).HeadersFirst, c.Now
	fellBack := false
	k, f := p.known(c, books), features{}
	for _, id := range c.Candidates {
		k.gather(id, &f)
		pod := in.pod(&c.Snapshot.Slots[id], k.class(id))
		pod.seen = c.Now
		by := pod.of
		if !p.PredictInProduce {
			continue
		}
		ttft[id], highTTFT[id] = by.ttft.Closed(f.closedTTFT), f.closedTTFT
		if by.ttft.Usable() && !in.headers {
			ttft[id] = by.ttft.Predict(&f.ttft, pod.ttft, f.closedTTFT)
			highTTFT[id] = ttft[id] * by.ttft.High()
		} else {
			fellBack = true
		}
		if !p.StreamingMode {
			continue
		}
		itl[id], highITL[id] = by.itl.Closed(f.closedITL), f.closedITL
		if by.itl.Usable() {
			itl[id] = by.itl.Predict(&f.itl, pod.itl, f.closedITL)
			highITL[id] = itl[id] * by.itl.High()
		} else {
			fellBack = true
		}
	}
	if fellBack {
		c.Note(reason.LatencyUnlearned, "")
	}
}

// Chosen keeps what was known of the endpoint that serves the client.
func (p *PredictedLatency) Chosen(c *plugins.Cycle, books *pool.Books, legs []plugins.Leg) {
	id := legs[0].Endpoints[0]
	k, f := p.known(c, books), features{}
	k.gather(id, &f)
	p.guess.Set(c.Request, plugins.LatencyGuess{To: c.Snapshot.Slots[id].Ref, Class: k.class(id),
		TTFTFeatures: f.ttft, ITLFeatures: f.itl, ClosedTTFT: f.closedTTFT, ClosedITL: f.closedITL})
}

// Settle learns from an answer that came to its end where it was meant to.
func (p *PredictedLatency) Settle(r *plugins.Request, o plugins.Outcome) {
	if r.PoolIndex < 0 || o.Ending != 0 || r.Status >= 300 || !r.API.Generates() || o.TTFT < 0 || r.Body == nil || !r.Body.Stream {
		return
	}
	g := p.guess.Of(r)
	if g.To.Incarnation == 0 || o.Served != g.To {
		return
	}
	p.pools[r.PoolIndex].learn(&g, o, max(r.Body.N, 1))
}

// features are what one endpoint is predicted from, and what the closed form makes of it, in milliseconds.
type features struct {
	ttft, itl             latency.Features
	closedTTFT, closedITL float64
}

// known are the columns that features are gathered from.
type known struct {
	prompt  float64
	cached  []int64 // nil: nobody says
	classes []plugins.CapacityClass
	loads   []plugins.EngineLoad
	usage   []float64
	waiting []int32
	unbegun []int32
	of      parts
}

func (p *PredictedLatency) known(c *plugins.Cycle, books *pool.Books) known {
	k := known{prompt: float64(max(p.prompt.Of(c.Request), 0)), loads: p.loads.Of(c), usage: p.usage.Of(c), waiting: p.waiting.Of(c), unbegun: books.NoFirstByte}
	if p.matches {
		k.cached = p.cached.Of(c)
	}
	if p.classed {
		k.classes = p.classes.Of(c)
	}
	k.split(0)
	return k
}

func (k *known) class(id pool.ID) string {
	if k.classes == nil {
		return plugins.UnknownClass
	}
	return k.classes[id].Class
}

// gather fills in the features of an endpoint. The parts of the prompt are those of the endpoint before where as much is cached, as
// at most of them; fields are set one by one, since a literal would be built elsewhere and copied.
func (k *known) gather(id pool.ID, f *features) {
	if k.cached != nil {
		if cached := float64(min(max(k.cached[id], 0), int64(k.prompt))); cached != k.of.cached {
			k.split(cached)
		}
	}
	l, p := &k.loads[id], &k.of
	decodes := 1 / (1 - l.Busy)
	f.closedTTFT = l.BacklogMS + float64(l.PrefillMSPerToken*p.attended) + float64(1.5*l.Step(l.Running, l.ResidentTokens))
	f.closedITL = l.Step(l.Running+1, l.ResidentTokens+k.prompt) * decodes

	full := 0.0
	if k.usage[id] > 0.9 {
		full = 1
	}
	backlog, running := l.BacklogMS*1e-2, l.Running*0.1
	f.ttft[0], f.ttft[1], f.ttft[2], f.ttft[3] = 1, backlog, p.uncached*1e-3, p.pairs
	f.ttft[4], f.ttft[5], f.ttft[6] = running, full, float64(max(k.waiting[id], 0))*0.1
	f.itl[0], f.itl[1], f.itl[2], f.itl[3] = 1, running, l.ResidentTokens*1e-5, full
	f.itl[4], f.itl[5], f.itl[6] = backlog, float64(k.unbegun[id])*0.1, l.Busy*decodes
}

// parts are what of a prompt is computed where so much is cached. All engines count attention alike.
type parts struct{ cached, uncached, pairs, attended float64 }

func (k *known) split(cached float64) {
	uncached := k.prompt - cached
	k.of = parts{cached, uncached, uncached * (cached + uncached/2) * 1e-7, plugins.AttendedTokens(uncached, cached, attentionTokens)}
}
