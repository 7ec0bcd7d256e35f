package policy

import (
	"math/rand/v2"
	"slices"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/simulator/fleet"
)

// comparison are the policies that stand for what operators have without an endpoint picker. They know the membership and
// their own requests, no more, and try the next member where one cannot be reached.
var comparison = map[string]func(seed uint64) (fleet.Decider, error){
	"round-robin":   func(seed uint64) (fleet.Decider, error) { return newPlain(seed, (*plain).inTurn), nil },
	"random":        func(seed uint64) (fleet.Decider, error) { return newPlain(seed, (*plain).drawn), nil },
	"least-request": func(seed uint64) (fleet.Decider, error) { return newPlain(seed, (*plain).leastRequests), nil },
	"service":       func(seed uint64) (fleet.Decider, error) { return newPlain(seed, (*plain).byConnection), nil },
}

// roleLabel tells what an endpoint does in prefill/decode disaggregation.
const roleLabel = "llm-d.ai/role"

// connections is how many connections the clients of a Kubernetes service keep open. The service spreads connections, and a
// request goes where its connection leads.
const connections = 64

// plain is a policy without knowledge of prompts or engines.
type plain struct {
	choose     func(*plain, *fleet.Request) int32
	random     *rand.Rand
	members    []int32
	prefillers []int32 // members that compute prompts for others; then every request is split
	prefilling map[uint64]int32
	load       []int32 // requests by member
	where      map[uint64]int32
	tries      map[uint64]int
	turn       int
	pinned     [connections]int32
}

func newPlain(seed uint64, choose func(*plain, *fleet.Request) int32) *plain {
	return &plain{choose: choose, random: rand.New(rand.NewPCG(seed, 'p')), where: map[uint64]int32{}, tries: map[uint64]int{}, prefilling: map[uint64]int32{}}
}

func (p *plain) Members(_ pool.Instant, m []pool.Endpoint) {
	p.members, p.prefillers = p.members[:0], p.prefillers[:0]
	for i := range m {
		if m[i].Draining {
			continue
		}
		n := fleet.Member(m[i].Addr)
		for int(n) >= len(p.load) {
			p.load = append(p.load, 0)
		}
		if m[i].Labels[roleLabel] == "prefill" {
			p.prefillers = append(p.prefillers, n)
			continue
		}
		p.members = append(p.members, n)
	}
	for i, at := range p.pinned { // a connection lasts as long as its member is listed
		if !slices.Contains(p.members, at) {
			p.pinned[i] = -1
		}
	}
}

func (p *plain) Observe(pool.Instant, int32, pool.Sample) {}

func (p *plain) Arrive(_ pool.Instant, number uint64, r *fleet.Request, _ *openai.Summary) fleet.Answer {
	if len(p.members) == 0 {
		return fleet.Answer{Refused: "no_endpoint"}
	}
	return p.send(number, p.choose(p, r))
}

func (p *plain) send(number uint64, to int32) fleet.Answer {
	p.where[number] = to
	p.load[to]++
	a := fleet.Answer{Number: number, To: to}
	if len(p.prefillers) > 0 {
		a.Split, a.Prefill = true, p.least(p.prefillers)
		p.prefilling[number] = a.Prefill
		p.load[a.Prefill]++
	}
	return a
}

func (p *plain) Unreachable(_ pool.Instant, number uint64, member int32) fleet.Answer {
	p.leave(number)
	p.tries[number]++
	if p.tries[number] >= 3 || len(p.members) == 0 {
		delete(p.tries, number)
		return fleet.Answer{Number: number, Refused: "upstream_unreachable"}
	}
	for i, m := range p.members {
		if m == member {
			return p.send(number, p.members[(i+1)%len(p.members)])
		}
	}
	return p.send(number, p.members[0])
}

func (p *plain) leave(number uint64) {
	if to, ok := p.where[number]; ok {
		p.load[to]--
		delete(p.where, number)
	}
	p.promptDone(number)
}

// promptDone takes a request off the member that computed its prompt.
func (p *plain) promptDone(number uint64) {
	if at, ok := p.prefilling[number]; ok {
		p.load[at]--
		delete(p.prefilling, number)
	}
}

// FirstToken tells that a prompt was computed.
func (p *plain) FirstToken(_ pool.Instant, number uint64) { p.promptDone(number) }

func (p *plain) Finish(_ pool.Instant, number uint64, _ openai.Usage, _ bool) {
	p.leave(number)
	delete(p.tries, number)
}

func (p *plain) Due(_ pool.Instant, released []fleet.Answer) ([]fleet.Answer, pool.Instant) {
	return released, 0
}

// inTurn is round robin over the membership.
func (p *plain) inTurn(*fleet.Request) int32 {
	p.turn++
	return p.members[(p.turn-1)%len(p.members)]
}

// drawn is a member at random.
func (p *plain) drawn(*fleet.Request) int32 { return p.members[p.random.IntN(len(p.members))] }

// leastRequests is a member with the fewest own requests, at random among several.
func (p *plain) leastRequests(*fleet.Request) int32 { return p.least(p.members) }

func (p *plain) least(among []int32) int32 {
	best, ties := among[0], 0
	for _, m := range among {
		switch {
		case p.load[m] < p.load[best]:
			best, ties = m, 1
		case p.load[m] == p.load[best]:
			ties++
			if p.random.IntN(ties) == 0 {
				best = m
			}
		}
	}
	return best
}

// byConnection is a Kubernetes service: each connection was given a member at random, and requests take a connection at
// random.
func (p *plain) byConnection(*fleet.Request) int32 {
	at := &p.pinned[p.random.IntN(connections)]
	if *at < 0 {
		*at = p.members[p.random.IntN(len(p.members))]
	}
	return *at
}
