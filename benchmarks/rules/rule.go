package rules

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/simulator/fleet"
)

// Rule is one rule's name and what it needs.
type Rule struct {
	Name string

	// Reads is the period at which its project reads the engines; 0: as the scenario says.
	Reads time.Duration

	// Hears says that it hears the engines' cache events.
	Hears bool

	make func() rule
}

// rule is what makes one differ from another. It knows the members by their number.
type rule interface {
	// choose returns one of b.members, of which there is at least one.
	choose(b *books, q *query) int32

	// sent notes that q went there, right after choose or, if that one could not be reached, after the next.
	sent(b *books, q *query, to int32)

	// left says that a member is listed no more.
	left(member int32)
}

// ender is a rule that also notes the ends of requests.
type ender interface {
	ended(b *books, k *booking)
}

// All returns the rules by name.
func All() []Rule {
	return []Rule{
		{Name: "rule-aibrix-preble", make: func() rule { return newPreble() }},
		{Name: "rule-aibrix-prefix", make: func() rule { return newAIBrix() }},
		{Name: "rule-dynamo", make: func() rule { return newDynamo(linear) }},
		{Name: "rule-dynamo-events", Hears: true, make: func() rule { return newDynamoEvents() }},
		{Name: "rule-dynamo-lmetric", make: func() rule { return newDynamo(product) }},
		{Name: "rule-llm-d-2-2-3", Reads: llmdReads, make: func() rule { return newWeights(2) }},
		{Name: "rule-llm-d-2-3", Reads: llmdReads, make: func() rule { return newWeights(0) }},
		{Name: "rule-llm-d-precise", Reads: llmdReads, Hears: true, make: func() rule { return newPrecise() }},
		{Name: "rule-llm-d-precise-sticky", Hears: true, make: func() rule { return newPreciseSticky() }},
		{Name: "rule-llm-d-sticky", make: func() rule { return newSticky() }},
		{Name: "rule-lmetric", make: func() rule { return newLMetric() }},
		{Name: "rule-production-stack-prefix", make: func() rule { return newTrie() }},
		{Name: "rule-production-stack-session", make: func() rule { return newRing() }},
		{Name: "rule-sglang", make: func() rule { return newSGLang() }},
	}
}

// New returns a decider by the rule. Its random choices are functions of seed.
func (r Rule) New(seed uint64) fleet.Decider {
	d := &decider{rule: r.make(), books: books{random: rand.New(rand.NewPCG(seed, 'r'))}, open: map[uint64]*booking{}}
	if h, ok := d.rule.(hearer); ok {
		return &hearing{d, h.hear()}
	}
	return d
}

// query is what a rule sees of a request.
type query struct {
	now     pool.Instant
	number  uint64
	tokens  int64    // of the prompt
	hashes  []uint64 // of its full blocks
	block   int64    // tokens of a block
	session int32    // -1: none
}

// matched are the tokens of so many blocks, at most the prompt's.
func (q *query) matched(blocks int) int64 { return min(int64(blocks)*q.block, q.tokens) }

// booking is a request that went somewhere and has not ended.
type booking struct {
	query
	to       int32
	uncached int64 // prompt tokens to compute there, as the rule's index has it; 0 once the first token came
	tries    int
}

// member is what the own requests come to at one member, and what was last read of it.
type member struct {
	requests int
	prefill  int64 // uncached tokens of those without a first token
	sample   pool.Sample
}

// books are a rule's own requests.
type books struct {
	random  *rand.Rand
	now     pool.Instant
	members []int32 // listed, reachable and not draining, by number
	at      []member
}

// requests are the own ones at a member.
func (b *books) requests(m int32) int { return b.at[m].requests }

// waiting and usage are as last read, 0 if never.
func (b *books) waiting(m int32) float64 { return float64(max(b.at[m].sample.Waiting, 0)) }
func (b *books) usage(m int32) float64   { return max(b.at[m].sample.KVUsage, 0) }

// least returns the member with the smallest value, within a share of it, at random among several.
func (b *books) least(among []int32, within float64, of func(m int32) float64) int32 {
	lowest := of(among[0])
	for _, m := range among[1:] {
		lowest = min(lowest, of(m))
	}
	best, ties := among[0], 0
	for _, m := range among {
		if v := of(m); v <= lowest+within*max(lowest, -lowest) {
			ties++
			if b.random.IntN(ties) == 0 {
				best = m
			}
		}
	}
	return best
}

// first returns the member with the smallest value, the first of several.
func first(among []int32, of func(m int32) float64) int32 {
	best := among[0]
	for _, m := range among[1:] {
		if of(m) < of(best) {
			best = m
		}
	}
	return best
}

// tries is how many members a request is sent to at most.
const tries = 3

// decider runs a rule.
type decider struct {
	rule rule
	books
	open   map[uint64]*booking
	listed []int32
}

var _ fleet.Decider = (*decider)(nil)

// Members tells the membership.
func (d *decider) Members(now pool.Instant, m []pool.Endpoint) {
	d.now = now
	before := slices.Clone(d.listed)
	d.listed, d.members = d.listed[:0], d.members[:0]
	for i := range m {
		n := fleet.Member(m[i].Addr)
		for int(n) >= len(d.at) {
			d.at = append(d.at, member{sample: pool.NoSample()})
		}
		d.listed = append(d.listed, n)
		if !m[i].Draining {
			d.members = append(d.members, n)
		}
	}
	slices.Sort(d.members)
	for _, n := range before {
		if !slices.Contains(d.listed, n) {
			d.rule.left(n)
			d.at[n].sample = pool.NoSample()
		}
	}
}

// Observe brings a reading.
func (d *decider) Observe(_ pool.Instant, member int32, s pool.Sample) { d.at[member].sample = s }

// Arrive decides.
func (d *decider) Arrive(now pool.Instant, number uint64, r *fleet.Request, s *openai.Summary) fleet.Answer {
	d.now = now
	k := &booking{query: query{now, number, s.PromptTokens, s.BlockHashes, int64(s.BlockTokens), r.Session}}
	return d.decide(k)
}

func (d *decider) decide(k *booking) fleet.Answer {
	if len(d.members) == 0 {
		return fleet.Answer{Number: k.number, Refused: "no_endpoint"}
	}
	k.to = d.rule.choose(&d.books, &k.query)
	if !slices.Contains(d.members, k.to) {
		panic(fmt.Sprintf("rules: %T chose member %d of %v", d.rule, k.to, d.members))
	}
	k.tries++
	k.uncached = k.tokens
	if u, ok := d.rule.(interface {
		uncached(q *query, to int32) int64
	}); ok {
		k.uncached = u.uncached(&k.query, k.to)
	}
	d.at[k.to].requests++
	d.at[k.to].prefill += k.uncached
	d.open[k.number] = k
	d.rule.sent(&d.books, &k.query, k.to)
	return fleet.Answer{Number: k.number, To: k.to}
}

// Unreachable chooses again, among the others.
func (d *decider) Unreachable(now pool.Instant, number uint64, at int32) fleet.Answer {
	d.now = now
	k := d.open[number]
	d.release(k)
	if k.tries >= tries {
		return fleet.Answer{Number: number, Refused: "upstream_unreachable"}
	}
	all := d.members
	d.members = slices.DeleteFunc(slices.Clone(all), func(m int32) bool { return m == at })
	defer func() { d.members = all }()
	return d.decide(k)
}

func (d *decider) release(k *booking) {
	delete(d.open, k.number)
	d.at[k.to].requests--
	d.at[k.to].prefill -= k.uncached
	k.uncached = 0
	if e, ok := d.rule.(ender); ok {
		e.ended(&d.books, k)
	}
}

// FirstToken tells that a prompt was computed.
func (d *decider) FirstToken(_ pool.Instant, number uint64) {
	k := d.open[number]
	d.at[k.to].prefill -= k.uncached
	k.uncached = 0
}

// Finish tells that an answer ended.
func (d *decider) Finish(now pool.Instant, number uint64, _ openai.Usage, _ bool) {
	d.now = now
	d.release(d.open[number])
}

// Due has nothing to do: nothing is held.
func (d *decider) Due(_ pool.Instant, released []fleet.Answer) ([]fleet.Answer, pool.Instant) {
	return released, 0
}
