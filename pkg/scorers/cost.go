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

// Cost prefers the endpoint where a request costs least: its own time to the first token and its own gaps between tokens, and
// what it takes from others. A millisecond of either counts the more the longer the wait or the gap is already: what nobody
// notices is nearly free, what comes too late is dear.
//
// With p the uncached prefill of the request there, n the sequences in the batch, s(n) a decode step, out the tokens that the
// answer is expected to have, ρ the share of recent time that went into prompts, λ requests a second over N candidates:
//
//	first  = backlog + p + 1.5·s(n), and the wait for room, if the promised tokens exceed 95 % of the cache
//	own    = wait(first) + out · gap(s(n+1)/(1-ρ))
//	others = n · out/2 · (gap(s(n+1)/(1-ρ)) - gap(s(n)/(1-ρ)))      tokens that come later to those who run there
//	       + n · short · (broken(s(n+1)/(1-ρ) + (b+p)/short) - broken(s(n+1)/(1-ρ) + b/short))  and that come after this prompt
//	       + λ/N · first · wait'(first) · p/(1-ρ)    first tokens that come later to those who will be sent there meanwhile
//	       + 0.3 · reuse · p · (n + 1)           what this prompt displaces from the cache, where as much of it is asked again
//	places = 2 · decode, where an engine runs as many other LoRA adapters as it can, or 0.15 of it for one that it still can
//
// with broken what gap is, but dearer beyond the target; short a twentieth of out: a prompt between two tokens is one long gap, felt most in answers that are far shorter than the
// mean; b half of the backlog: prompts that come between the tokens of the same answer add up; and decode the time of the own answer. Of candidates within 2 % or half a millisecond of the least, that with the smallest
// product of uncached work and requests leads. The score is 1000/(1000 + cost).
//
// Prompts that are long for the traffic, more than a second and four times its mean, leave some candidates to the others, so that
// these need not wait behind them everywhere.
type Cost struct {
	// TTFTPrice multiplies what waits for a first token cost, the request's own or another's.
	TTFTPrice float64 `json:"ttftPrice" schema:"min=0,max=1000"`

	// ITLPrice multiplies what gaps between tokens cost, the request's own or another's.
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
func NewCost() *Cost { return &Cost{TTFTPrice: 1, ITLPrice: 1} }

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

// What waits and gaps cost (docs/design/0046-rising-cost.md has how these were found).
const (
	// A wait of t milliseconds costs t + t²/waitRises, so that at half of it a millisecond costs twice as much as at first. From
	// waitMost on a millisecond costs no more than there, and others' from othersMost on.
	waitRises  = 100.0
	waitMost   = 2000.0
	othersMost = 500.0

	// A millisecond costs gapLeast in short gaps and gapMost more in those of gapTarget, between them by the fourth power of the gap.
	// Beyond it prompts cost gapBreaks more: they break answers that were in time, where longer steps find them late already.
	gapTarget = 50.0
	gapLeast  = 0.1
	gapMost   = 9.0
	gapBreaks = 13.5

	// How long a short answer is, as a part of the mean one.
	shortAnswer = 0.05

	// Of what a prompt displaces from the cache so much is missed, where all of it would be asked for again.
	missed = 0.3

	// Of the backlog those who run there feel so much, on average: some of them wait in it themselves.
	feltBacklog = 0.5
)

// wait is what it costs to wait so many milliseconds for the first token.
func wait(ms float64) float64 {
	upTo := min(ms, waitMost)
	return ms + float64(upTo*upTo*(1/waitRises)) + float64(2*waitMost/waitRises*(ms-upTo))
}

// marginalWait is what one millisecond more costs others who wait so many: the derivative of wait up to othersMost.
func marginalWait(ms float64) float64 { return 1 + float64(min(ms, othersMost)*(2/waitRises)) }

// gap is what it costs if a token comes so many milliseconds after the one before: the integral of what each of them does, with beyond for
// those past the target.
func gap(ms, beyond float64) float64 {
	x := min(ms*(1/gapTarget), 1)
	square := float64(x * x)
	return float64(gapLeast*ms) + float64(gapMost*gapTarget/5*float64(square*square)*x) + float64(beyond*max(ms-gapTarget, 0))
}

// expense is what a request takes on one endpoint, in milliseconds, and what that costs before prices.
type expense struct {
	prompt, first, itl, decode float64 // times: of the prompt, to the first token, between tokens, and of the answer

	wait, gaps                 float64 // costs of its own first token, and of its own later ones
	running, coming, displaced float64 // of others: see Cost
	place                      float64 // of waiting for a LoRA adapter's place
}

// asked is what is known of the request, and of the traffic that it is part of.
type asked struct {
	prompt, out float64 // tokens
	short       float64 // tokens of a short answer
	arrivals    float64 // per millisecond and candidate
	mean        float64 // Traffic.PrefillMS
	longPods    float64 // as in Traffic
	reuse       float64 // likewise
}

func (s *Cost) asked(c *plugins.Cycle) asked {
	t := s.traffic.Of(c.Request)
	a := asked{prompt: float64(max(s.prompt.Of(c.Request), 0)), out: max(t.OutputTokens, 1), mean: t.PrefillMS, longPods: t.LongPods, reuse: t.Reuse}
	a.arrivals = t.PerSecond / 1000 / float64(len(c.Candidates))
	if s.foretells {
		if out := s.expected.Of(c.Request); out != plugins.Unknown {
			a.out = float64(max(out, 1))
		} else {
			c.Note(reason.FactMissing, plugins.ExpectedOutput.Name)
		}
	}
	a.short = max(shortAnswer*a.out, 1)
	return a
}

// parts returns how many tokens of the prompt an endpoint computes, and how many it has.
func (a *asked) parts(cached int64) (uncached, known float64) {
	known = min(float64(max(cached, 0)), a.prompt)
	return a.prompt - known, known
}

// prefill is how many milliseconds the prompt takes on an endpoint.
func (a *asked) prefill(l *plugins.EngineLoad, cached int64) float64 {
	return l.Prefill(a.parts(cached))
}

// of works out what a request costs on one endpoint. Products are rounded one by one, so that sums are the same everywhere.
func (a *asked) of(l *plugins.EngineLoad, cached int64) expense {
	uncached, known := a.parts(cached)
	p := l.Prefill(uncached, known)
	step := l.Step(l.Running, l.ResidentTokens)
	longer := 1 / (1 - l.Busy) // for the prompts between steps
	e := expense{prompt: p, first: l.BacklogMS + p + float64(1.5*step)}
	e.itl = l.Step(l.Running+1, l.ResidentTokens+a.prompt+a.out/2) * longer
	e.decode = a.out * e.itl
	if l.CapacityTokens > 0 && l.PromisedTokens > 0 {
		if over := l.PromisedTokens + uncached + a.out - float64(0.95*l.CapacityTokens); over > 0 {
			e.first += over / l.CapacityTokens * e.decode
		}
	}
	e.wait = wait(e.first)
	with := gap(e.itl, gapMost)
	e.gaps = a.out * with
	after := e.itl // the gaps of a short answer with the prompts before this one
	if l.BacklogMS > 0 {
		after += feltBacklog * l.BacklogMS / a.short
	}
	e.running = float64(l.Running*a.out/2*(with-gap(step*longer, gapMost))) + float64(l.Running*a.short*(gap(after+p/a.short, gapBreaks)-gap(after, gapBreaks)))
	e.coming = a.arrivals * e.first * marginalWait(e.first) * p * longer
	e.displaced = missed * a.reuse * p * (l.Running + 1)
	return e
}

// priced is what all of that costs at the prices that were set.
func (s *Cost) priced(e *expense) float64 {
	return float64(s.TTFTPrice*(e.wait+e.coming+e.displaced+e.place)) + float64(s.ITLPrice*(e.gaps+e.running))
}

// Score writes a score for each candidate.
func (s *Cost) Score(c *plugins.Cycle, out []float64) {
	loads, cached := s.loads.Of(c), s.cached.Of(c)
	a := s.asked(c)
	soonest := -1.0
	for i, id := range c.Candidates {
		e := a.of(&loads[id], cached[id])
		e.place = float64(s.places.wait(c, id) * e.decode)
		out[i] = s.priced(&e)
		if soonest < 0 || e.prompt < soonest {
			soonest = e.prompt
		}
	}
	if plugins.LongPrompt(soonest, a.mean) {
		s.leave(c, &a, out)
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
func (s *Cost) expense(c *plugins.Cycle, a *asked, id pool.ID) expense {
	e := a.of(&s.loads.Of(c)[id], s.cached.Of(c)[id])
	e.place = float64(s.places.wait(c, id) * e.decode)
	return e
}

// Explain says what the request would take there in milliseconds, what that costs, and on what it is founded.
func (s *Cost) Explain(c *plugins.Cycle, i int) string {
	a := s.asked(c)
	id := c.Candidates[i]
	e := s.expense(c, &a, id)
	l := &s.loads.Of(c)[id]
	return fmt.Sprintf("TTFT %.0f ms, ITL %.1f ms; costs wait %.0f + gaps %.0f + others %.0f + place %.0f; at prices %.0f (backlog %.0f ms, %.4f ms a token, step %.1f ms, %s)",
		e.first, e.itl, e.wait, e.gaps, e.running+e.coming+e.displaced, e.place, s.priced(&e), l.BacklogMS, l.PrefillMSPerToken, l.Step(l.Running, l.ResidentTokens), l.Learned)
}

// How many candidates are left to the prompts that are not long: one in leftOneIn, or as many as those keep busy for leftBusy of the
// time, whichever is more. A long prompt takes one of these only where all others cost worthwhile times as much, and more by the
// square the fewer are left.
const (
	leftOneIn  = 3
	leftBusy   = 0.8
	worthwhile = 1.2
	elsewhere  = 1e12 // what a candidate costs that is left to others
)

// leave makes a long prompt dear on candidates that have no long work before them, if they are few. One that has most of it cached
// is never dear.
func (s *Cost) leave(c *plugins.Cycle, a *asked, costs []float64) {
	loads, cached := s.loads.Of(c), s.cached.Of(c)
	free := func(id pool.ID) bool {
		return loads[id].BacklogMS <= a.mean && plugins.LongPrompt(a.prefill(&loads[id], cached[id]), a.mean)
	}
	n, left := float64(len(c.Candidates)), 0.0
	least, here := slices.Min(costs), -1.0
	for i, id := range c.Candidates {
		switch {
		case free(id):
			left++
		case here < 0 || costs[i] < here:
			here = costs[i]
		}
	}
	others := float64(a.arrivals*n*a.mean) - a.longPods // how many endpoints the other prompts keep busy
	keep := math.Ceil(max(others/leftBusy, n/leftOneIn))
	if left == 0 || left > keep || here < 0 || here > worthwhile*float64(keep/left)*(keep/left)*least {
		return
	}
	for i, id := range c.Candidates {
		if free(id) {
			costs[i] += elsewhere
		}
	}
}

// product is (F+u)·(R+1): the prefill until this prompt is computed, times the requests among which it will be.
func (a *asked) product(l *plugins.EngineLoad, cached int64) float64 {
	return (l.BacklogMS + a.prefill(l, cached)) * (l.Running + 1)
}
