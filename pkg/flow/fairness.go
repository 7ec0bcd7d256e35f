package flow

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
)

// Fairness says whose turn it is among the tenants of a band. It keeps what it knows in the flows, so that one instance serves
// any number of bands. Its methods are called under the lock of the control.
type Fairness interface {
	// Next returns the flow whose first request goes next, nil if none of those that wait may be asked. It charges nothing: the
	// request may find no room yet.
	Next(b *Band, now pool.Instant, changes uint64) *Flow

	// Came says that somebody waits in a flow where nobody did.
	Came(f *Flow, now pool.Instant)

	// Booked says that a request of the flow was booked for this load.
	Booked(f *Flow, to pool.Ref, load pool.Load, now pool.Instant)

	// Settled says that a request of the flow has ended.
	Settled(f *Flow, s Served, now pool.Instant)
}

// Served is what a request has come to, in tokens.
type Served struct {
	Prompt, Output int64 // as far as is known; Output is Booked where nobody said
	Booked         int64 // what its answer was booked for; 0 of a request that did not wait
}

// Spreader is implemented by a fairness that keeps a flow from an endpoint.
type Spreader interface {
	// Barred reports whether the flow's next request must go to another endpoint than to; members is how many there are.
	Barred(f *Flow, to pool.Ref, members int) bool
	// Relent forgets what keeps the flow away from endpoints, since there is no other for it.
	Relent(f *Flow)
}

// AllCounted is implemented by a fairness that is told of all requests of a tenant, also of those that did not wait.
type AllCounted interface{ CountsAll() }

// Tenantless is implemented by a fairness that knows no tenants: those of its band have no shares of its places either.
type Tenantless interface{ Tenantless() }

// uncounted is the part of a fairness that looks at nothing but who waits.
type uncounted struct{}

func (uncounted) Came(*Flow, pool.Instant)                        {}
func (uncounted) Booked(*Flow, pool.Ref, pool.Load, pool.Instant) {}
func (uncounted) Settled(*Flow, Served, pool.Instant)             {}

// GlobalStrict knows no tenants: the request goes first that the ordering of the band puts first, whoever sent it, and places in a full
// band are not shared between them.
type GlobalStrict struct{ uncounted }

// NewGlobalStrict returns a GlobalStrict; it has no parameters.
func NewGlobalStrict() *GlobalStrict { return &GlobalStrict{} }

// Tenantless says that it knows none.
func (*GlobalStrict) Tenantless() {}

// Next returns the flow with the first of all first requests.
func (*GlobalStrict) Next(b *Band, _ pool.Instant, changes uint64) (best *Flow) {
	for _, f := range b.waiting {
		if f.may(changes) && (best == nil || f.head().before(&best.head().turn)) {
			best = f
		}
	}
	return best
}

// RoundRobin lets one request of each tenant go in turn, by the order of their names. Between two requests of a tenant each
// other that waits has one turn.
type RoundRobin struct{ uncounted }

// NewRoundRobin returns a RoundRobin; it has no parameters.
func NewRoundRobin() *RoundRobin { return &RoundRobin{} }

// Next returns the flow after the one that went last.
func (*RoundRobin) Next(b *Band, _ pool.Instant, changes uint64) (next *Flow) {
	b.after(changes, func(f *Flow) bool { next = f; return false })
	return next
}

// TokenDeficit shares tokens, not requests, between the tenants that wait (deficit round robin). Each tenant has a credit. One
// with credit may let a request go, in turn with the others; it pays the uncached tokens of the prompt, and twice those of the
// answer, since a generated token takes about as much of an engine as two of a prompt. It pays when the request is booked, for the
// answer as long as it is booked for, and the difference when the answer has ended. When all that wait have used their credit up,
// each gets the quantum times its weight. Who does not wait collects no credit, and a debt halves with each minute without waiting.
//
// Between two tenants of equal weight that both wait, what they were charged differs by no more than one quantum and the largest
// request of each, and what they were served besides by how much their running answers are other than booked. A tenant that
// waits is served again before the others were served more than n·(quantum + largest request) tokens, n being their number:
// nobody starves.
type TokenDeficit struct {
	// QuantumTokens is the credit that a tenant of weight 1 gets at a time.
	QuantumTokens int64 `json:"quantumTokens" schema:"min=1,max=1048576"`

	// OutputWeight is what a generated token costs, in tokens of a prompt.
	OutputWeight float64 `json:"outputWeight" schema:"min=0,max=100"`

	// EndpointQuantumTokens is how much more than its even share of an endpoint a tenant may be served there while others wait.
	// Then its next request must go to another endpoint; so a tenant whose prompts are cached at one endpoint stays there until
	// others miss it. 0 lets it stay.
	EndpointQuantumTokens int64 `json:"endpointQuantumTokens" schema:"min=0"`

	// Weights are the weights of tenants that have another than 1, from 0.001 to 1000.
	Weights map[string]float64 `json:"weights,omitempty"`
}

// NewTokenDeficit returns a TokenDeficit with its defaults.
func NewTokenDeficit() *TokenDeficit {
	return &TokenDeficit{QuantumTokens: 4096, OutputWeight: 2, EndpointQuantumTokens: 65_536}
}

// The bounds of a tenant's weight. Who may not be served at all is to be refused where tenants are known.
const (
	leastWeight = 0.001
	mostWeight  = 1000
)

// Provision refuses weights out of their bounds.
func (p *TokenDeficit) Provision(*plugins.Builder) error {
	for _, id := range slices.Sorted(maps.Keys(p.Weights)) {
		if w := p.Weights[id]; !(w >= leastWeight && w <= mostWeight) {
			return fmt.Errorf("weights: that of %q is %v; from %v to %v", id, w, leastWeight, mostWeight)
		}
	}
	return nil
}

// quantum is the credit of a flow; at least 1.
func (p *TokenDeficit) quantum(f *Flow) int64 {
	if w, ok := p.Weights[f.ID]; ok {
		return max(int64(w*float64(p.QuantumTokens)), 1)
	}
	return p.QuantumTokens
}

// Next returns the next flow with credit. If none has any, all that wait get as many quanta as the first of them needs.
func (p *TokenDeficit) Next(b *Band, _ pool.Instant, changes uint64) (next *Flow) {
	rounds := int64(math.MaxInt64)
	b.after(changes, func(f *Flow) bool {
		if f.deficit > 0 {
			next = f
			return false
		}
		rounds = min(rounds, -f.deficit/p.quantum(f)+1)
		return true
	})
	if next != nil || rounds == math.MaxInt64 {
		return next
	}
	for _, f := range b.waiting {
		credit := min(rounds, math.MaxInt64/2/p.quantum(f)) * p.quantum(f)
		f.deficit = min(f.deficit+credit, p.quantum(f))
		p.forget(f, credit)
	}
	b.after(changes, func(f *Flow) bool {
		if f.deficit > 0 {
			next = f
		}
		return next == nil
	})
	return next
}

// forget lowers what a flow was served at endpoints, by its even share of a credit at each.
func (p *TokenDeficit) forget(f *Flow, credit int64) {
	left := f.at[:0]
	for _, s := range f.at {
		if s.tokens -= max(credit/int64(len(f.at)), 1); s.tokens > 0 {
			left = append(left, s)
		}
	}
	f.at = left
}

// Came takes what is left of a credit, and forgives a debt by its age.
func (p *TokenDeficit) Came(f *Flow, now pool.Instant) {
	f.deficit = min(f.deficit, 0)
	if minutes := time.Duration(now-f.emptied) / time.Minute; minutes > 0 {
		f.deficit = -(-f.deficit >> min(minutes, 63))
		f.at = f.at[:0]
	}
}

// Booked charges the prompt and the answer that is expected.
func (p *TokenDeficit) Booked(f *Flow, to pool.Ref, load pool.Load, _ pool.Instant) {
	tokens := max(load.UncachedPrefill, 1)
	f.deficit -= tokens + p.answer(load.Decode)
	if p.EndpointQuantumTokens == 0 {
		return
	}
	for i := range f.at {
		if f.at[i].to == to {
			f.at[i].tokens += tokens
			return
		}
	}
	f.at = append(f.at, spent{to, tokens})
}

// Settled charges what the answer was more than expected, or gives back what it was less.
func (p *TokenDeficit) Settled(f *Flow, s Served, _ pool.Instant) {
	f.deficit += p.answer(s.Booked) - p.answer(s.Output)
}

// answer is what the tokens of an answer cost.
func (p *TokenDeficit) answer(tokens int64) int64 {
	return int64(float64(max(tokens, 0)) * p.OutputWeight)
}

// Barred reports whether the flow had more than its share of an endpoint.
func (p *TokenDeficit) Barred(f *Flow, to pool.Ref, members int) bool {
	if p.EndpointQuantumTokens == 0 || members < 2 {
		return false
	}
	for _, s := range f.at {
		if s.to == to {
			return s.tokens > p.EndpointQuantumTokens
		}
	}
	return false
}

// Relent forgets what the flow was served at endpoints.
func (p *TokenDeficit) Relent(f *Flow) { f.at = f.at[:0] }

// ProgramAware lets the tenant go first, commonly a program that calls again and again, that was served least lately (least
// attained service), and gives some weight to how long its first request has waited:
//
//	service = prompt tokens + 2 · completion tokens of its requests, halved every half-life
//	score   = LASWeightService · (1 - service / greatest service) + LASWeightHeadWait · (wait / longest wait)
//
// The greatest and the longest are those of the tenants that wait. All requests of a tenant count, also those that did not wait.
type ProgramAware struct {
	// Strategy is how tenants are compared; las is the only one.
	Strategy string `json:"strategy" schema:"enum=las"`

	// EvictionTTLSeconds is how long a tenant is remembered after its last request.
	EvictionTTLSeconds int64 `json:"evictionTtlSeconds" schema:"min=1,max=31536000"`

	// EvictionSweepSeconds is how often tenants are forgotten. They are when their time is over, so that it changes nothing.
	EvictionSweepSeconds int64 `json:"evictionSweepSeconds" schema:"min=1"`

	// LASWeightService is the weight of attained service.
	LASWeightService float64 `json:"lasWeightService" schema:"min=0,max=1000000"`

	// LASWeightHeadWait is the weight of waiting. One of the two must be above 0.
	LASWeightHeadWait float64 `json:"lasWeightHeadWait" schema:"min=0,max=1000000"`

	// LASHalfLifeSeconds is the half-life of attained service; 0 has it last.
	LASHalfLifeSeconds float64 `json:"lasHalfLifeSeconds" schema:"min=0"`
}

// NewProgramAware returns a ProgramAware with its defaults.
func NewProgramAware() *ProgramAware {
	return &ProgramAware{Strategy: "las", EvictionTTLSeconds: 3600, EvictionSweepSeconds: 300, LASWeightService: 0.8, LASWeightHeadWait: 0.2, LASHalfLifeSeconds: 60}
}

// Provision refuses weights by which all tenants are equal.
func (p *ProgramAware) Provision(*plugins.Builder) error {
	if p.LASWeightService == 0 && p.LASWeightHeadWait == 0 {
		return errors.New("lasWeightService and lasWeightHeadWait are both 0, so that nothing is compared; give one of them, or use round-robin-fairness-policy")
	}
	return nil
}

// CountsAll has it told of all requests.
func (*ProgramAware) CountsAll() {}

// serviceAt returns what a flow was served, as of now.
func (p *ProgramAware) serviceAt(f *Flow, now pool.Instant) float64 {
	age := time.Duration(now - f.serviced)
	if age <= 0 {
		return f.service
	}
	if age > time.Duration(p.EvictionTTLSeconds)*time.Second {
		return 0
	}
	if p.LASHalfLifeSeconds <= 0 {
		return f.service
	}
	return f.service * math.Exp2(-age.Seconds()/p.LASHalfLifeSeconds)
}

// Next returns the flow with the greatest score, of equals the one after the one that went last.
func (p *ProgramAware) Next(b *Band, now pool.Instant, changes uint64) (next *Flow) {
	most, longest := 0.0, 0.0
	for _, f := range b.waiting {
		most = max(most, p.serviceAt(f, now))
		longest = max(longest, float64(now-f.head().at))
	}
	best := -1.0
	b.after(changes, func(f *Flow) bool {
		score := p.LASWeightService
		if most > 0 {
			score = float64(p.LASWeightService * (1 - p.serviceAt(f, now)/most))
		}
		if longest > 0 {
			score += float64(p.LASWeightHeadWait * (float64(now-f.head().at) / longest))
		}
		if score > best {
			best, next = score, f
		}
		return true
	})
	return next
}

// Came changes nothing: what was served is remembered.
func (*ProgramAware) Came(*Flow, pool.Instant) {}

// Booked changes nothing: what is served is known at the end.
func (*ProgramAware) Booked(*Flow, pool.Ref, pool.Load, pool.Instant) {}

// Settled adds what was served.
func (p *ProgramAware) Settled(f *Flow, s Served, now pool.Instant) {
	f.service = p.serviceAt(f, now) + float64(max(s.Prompt, 0)+2*max(s.Output, 0))
	f.serviced = now
}
