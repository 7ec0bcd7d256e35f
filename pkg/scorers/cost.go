package scorers

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// Cost prefers the endpoint where a request costs least, in milliseconds: its own time to the first token and its own decode,
// and what it takes from others.
//
// With p the uncached prefill of the request there, n the sequences in the batch, s(n) a decode step, out the tokens that the
// answer is expected to have, ρ the share of recent time that went into prompts, λ requests a second over N candidates:
//
//	TTFT   = backlog + p + 1.5·s(n)
//	decode = out · s(n+1) / (1 - ρ)
//	others = n·p + n·out/2·(s(n+1) - s(n))      in tokens that come later to those who run there, of whom half will be gone
//	       + λ/N · TTFT · p / (1 - ρ)           in first tokens that come later to those who will be sent there meanwhile
//	       + reuse · p · (n + 1)                for what this prompt displaces from the cache, where as much of it is asked again
//	KV     = the wait for room, if the promised tokens exceed 95 % of the cache
//	places = 2 · decode, where an engine runs as many other LoRA adapters as it can, or decode/2 for one that it still can
//
// and each is priced as what it delays. Of candidates within 2 % or half a millisecond of the least, that with the smallest
// product of uncached work and requests leads. The score is 1000/(1000 + cost).
//
// Prompts that are long for the traffic, more than a second and four times its mean, are kept on as many candidates as they
// keep busy, where such went before, so that others need not wait behind them everywhere.
type Cost struct {
	// TTFTPrice is what a millisecond until a first token costs, the request's own or another's.
	TTFTPrice float64 `json:"ttftPrice" schema:"min=0,max=1000"`

	// ITLPrice is what a millisecond costs by which a token comes later that is not the first, the request's own or another's.
	ITLPrice float64 `json:"itlPrice" schema:"min=0,max=1000"`

	prompt    plugins.RequestValue[int64]
	traffic   plugins.RequestValue[plugins.Traffic]
	expected  plugins.RequestValue[int64]
	loads     plugins.EndpointValues[plugins.EngineLoad]
	cached    plugins.EndpointValues[int64]
	foretells bool
	places    places
}

var (
	_ plugins.Scorer    = (*Cost)(nil)
	_ plugins.Explainer = (*Cost)(nil)
)

// NewCost returns a Cost with its defaults, by what came out of the shipped scenarios (docs/design/0040-load-model.md).
func NewCost() *Cost { return &Cost{TTFTPrice: 1, ITLPrice: 0.5} }

// Provision says what Score reads and refuses prices that are both nothing.
func (s *Cost) Provision(b *plugins.Builder) error {
	s.prompt, s.traffic, s.loads = plugins.Needs(b, plugins.PromptTokens), plugins.Needs(b, plugins.Traffics), plugins.Needs(b, plugins.EngineLoads)
	s.cached = plugins.Needs(b, plugins.CachedTokens)
	s.places.provision(b)
	s.expected, s.foretells = plugins.Uses(b, plugins.ExpectedOutput)
	if s.TTFTPrice == 0 && s.ITLPrice == 0 {
		return errors.New("ttftPrice and itlPrice are both 0, so that every endpoint costs the same; give one of them a price")
	}
	return nil
}

// expense is what a request costs on one endpoint, in milliseconds before prices.
type expense struct{ prompt, ttft, decode, running, coming, displaced, room float64 }

// asked is what is known of the request, and of the traffic that it is part of.
type asked struct {
	prompt, out   float64
	arrivals      float64 // per millisecond and candidate
	longest, mean float64 // see Traffic
	reuse         float64 // likewise
}

func (s *Cost) asked(c *plugins.Cycle) asked {
	t := s.traffic.Of(c.Request)
	a := asked{prompt: float64(max(s.prompt.Of(c.Request), 0)), out: max(t.OutputTokens, 1), mean: t.PrefillMS, longest: t.LongPods, reuse: t.Reuse}
	a.arrivals = t.PerSecond / 1000 / float64(len(c.Candidates))
	if s.foretells {
		if out := s.expected.Of(c.Request); out != plugins.Unknown {
			a.out = float64(max(out, 1))
		} else {
			c.Note(reason.FactMissing, plugins.ExpectedOutput.Name)
		}
	}
	return a
}

// uncached returns the parts of the prompt that an endpoint computes, and that it has.
func (a *asked) parts(cached int64) (uncached, known float64) {
	known = min(float64(max(cached, 0)), a.prompt)
	return a.prompt - known, known
}

// prefill is how long the prompt takes on an endpoint.
func (a *asked) prefill(l *plugins.EngineLoad, cached int64) float64 {
	return l.Prefill(a.parts(cached))
}

// of works out what a request costs on one endpoint. Products are rounded one by one, so that sums are the same everywhere.
func (a *asked) of(l *plugins.EngineLoad, cached int64) expense {
	uncached, known := a.parts(cached)
	p := l.Prefill(uncached, known)
	step := l.Step(l.Running, l.ResidentTokens)
	with := l.Step(l.Running+1, l.ResidentTokens+a.prompt+a.out/2)
	longer := 1 / (1 - l.Busy)
	e := expense{prompt: p, ttft: l.BacklogMS + p + float64(1.5*step), decode: a.out * with * longer}
	e.running = float64(l.Running*p) + float64(l.Running*a.out/2*(with-step))
	e.coming = a.arrivals * e.ttft * p * longer
	e.displaced = a.reuse * p * (l.Running + 1)
	if l.CapacityTokens > 0 && l.PromisedTokens > 0 {
		if over := l.PromisedTokens + uncached + a.out - float64(0.95*l.CapacityTokens); over > 0 {
			e.room = over / l.CapacityTokens * e.decode
		}
	}
	return e
}

func (s *Cost) priced(e *expense) float64 {
	return float64(s.TTFTPrice*(e.ttft+e.coming+e.displaced+e.room)) + float64(s.ITLPrice*(e.decode+e.running))
}

// Score writes a score for each candidate.
func (s *Cost) Score(c *plugins.Cycle, out []float64) {
	loads, cached := s.loads.Of(c), s.cached.Of(c)
	a := s.asked(c)
	adapter := s.places.wanted(c)
	soonest := -1.0
	for i, id := range c.Candidates {
		e := a.of(&loads[id], cached[id])
		if adapter != "" {
			e.room += float64(s.places.wait(c, id, adapter) * e.decode)
		}
		out[i] = s.priced(&e)
		if soonest < 0 || e.prompt < soonest {
			soonest = e.prompt
		}
	}
	if plugins.LongPrompt(soonest, a.mean) {
		s.pack(c, &a, out)
	}
	least := slices.Min(out)
	within := max(0.02*least, 0.5)
	smallest := -1.0
	for i, id := range c.Candidates {
		if out[i]-least <= within {
			if p := a.product(&loads[id], cached[id]); smallest < 0 || p < smallest {
				smallest = p
			}
		}
	}
	for i, id := range c.Candidates {
		cost := out[i]
		if cost-least <= within {
			cost = least
			if p := a.product(&loads[id], cached[id]); p > smallest {
				cost += float64(within * (1 - smallest/p))
			}
		}
		out[i] = 1000 / (1000 + cost)
	}
}

// expense is what the request costs on one candidate.
func (s *Cost) expense(c *plugins.Cycle, a *asked, id pool.ID, adapter string) expense {
	e := a.of(&s.loads.Of(c)[id], s.cached.Of(c)[id])
	if adapter != "" {
		e.room += float64(s.places.wait(c, id, adapter) * e.decode)
	}
	return e
}

// Explain says what the request would cost there, in milliseconds before prices, and on what that is founded.
func (s *Cost) Explain(c *plugins.Cycle, i int) string {
	a := s.asked(c)
	id := c.Candidates[i]
	e := s.expense(c, &a, id, s.places.wanted(c))
	l := &s.loads.Of(c)[id]
	return fmt.Sprintf("TTFT %.0f ms + decode %.0f ms + others %.0f ms + KV %.0f ms; at prices %.0f (backlog %.0f ms, %.4f ms a token, step %.1f ms, %s)",
		e.ttft, e.decode, e.running+e.coming+e.displaced, e.room, s.priced(&e), l.BacklogMS, l.PrefillMSPerToken, l.Step(l.Running, l.ResidentTokens), l.Learned)
}

// The cost of a long prompt where it is not to go, and how many times as much it may cost where it is.
const (
	elsewhere  = 1e6
	worthwhile = 3

	// How busy the candidates for long prompts may be with them.
	longBusy = 0.8
)

// pack makes a long prompt dear on all but as many candidates as such prompts keep busy, those where they went of late. One that
// has most of it cached is never dear.
func (s *Cost) pack(c *plugins.Cycle, a *asked, costs []float64) {
	loads, cached := s.loads.Of(c), s.cached.Of(c)
	k := max(int(math.Ceil(a.longest/longBusy)), 1)
	kept := func(i int, id pool.ID) bool {
		if !plugins.LongPrompt(a.prefill(&loads[id], cached[id]), a.mean) {
			return true
		}
		before := 0
		for j, other := range c.Candidates {
			if mine, its := loads[id].LongMS, loads[other].LongMS; its > mine || its == mine && j < i {
				before++
			}
		}
		return before < k
	}
	least, here := slices.Min(costs), -1.0
	for i, id := range c.Candidates {
		if kept(i, id) && (here < 0 || costs[i] < here) {
			here = costs[i]
		}
	}
	if here < 0 || here > worthwhile*least {
		return
	}
	for i, id := range c.Candidates {
		if !kept(i, id) {
			costs[i] += elsewhere
		}
	}
}

// product is (F+u)·(R+1): the prefill until this prompt is computed, times the requests among which it will be.
func (a *asked) product(l *plugins.EngineLoad, cached int64) float64 {
	return (l.BacklogMS + a.prefill(l, cached)) * (l.Running + 1)
}
