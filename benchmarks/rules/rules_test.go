package rules

import (
	"slices"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/simulator/engine"
	"github.com/fairlead/fairlead/simulator/fleet"
)

const size = 64 // tokens of a block

// text returns the hashes of a text's blocks.
func text(name uint64, blocks int) []uint64 {
	out := make([]uint64, blocks)
	for i := range out {
		out[i] = spread(name<<32 | uint64(i))
	}
	return out
}

// state is one member as a rule finds it.
type state struct {
	requests int
	prefill  int64
	waiting  int32
	usage    float64
	has      int // blocks of text 1
}

// ask is a request for text 1 of so many blocks, of session 0 upwards; -1 is none.
type ask struct {
	blocks  int
	session int32
}

// world puts a rule before members in these states.
func world(r rule, states []state) *decider {
	d := deciderOf(Rule{make: func() rule { return r }}.New(1))
	d.now = 1e9
	for i, s := range states {
		sample := pool.NoSample()
		sample.Waiting, sample.KVUsage = s.waiting, s.usage
		d.at = append(d.at, member{requests: s.requests, prefill: s.prefill, sample: sample})
		d.listed, d.members = append(d.listed, int32(i)), append(d.members, int32(i))
		if h, ok := r.(hearer); ok {
			b := fleet.Batch{Sequence: 0}
			for _, hash := range text(1, s.has) {
				b.Events = append(b.Events, engine.BlockEvent{Kind: engine.Stored, Hash: hash})
			}
			h.hear().Hear(int32(i), &b)
		} else if s.has > 0 {
			r.sent(&d.books, &query{now: d.now, number: uint64(1000 + i), tokens: int64(s.has * size), hashes: text(1, s.has), block: size, session: -1}, int32(i))
		}
	}
	return d
}

// deciderOf returns what decides, whether it hears events or not.
func deciderOf(d fleet.Decider) *decider {
	if h, ok := d.(*hearing); ok {
		return h.decider
	}
	return d.(*decider)
}

func (a ask) query(now pool.Instant) *query {
	return &query{now: now, number: 1, tokens: int64(a.blocks * size), hashes: text(1, a.blocks), block: size, session: a.session}
}

// chosen returns the members that a rule chooses over many draws.
func chosen(d *decider, a ask) []int32 {
	var out []int32
	for range 200 {
		m := d.rule.choose(&d.books, a.query(d.now))
		if !slices.Contains(out, m) {
			out = append(out, m)
		}
	}
	slices.Sort(out)
	return out
}

// Each row is a situation in which the formula can be done by hand.
func TestChoices(t *testing.T) {
	ten := ask{10, -1}
	for _, tt := range []struct {
		name   string
		rule   func() rule
		states []state
		ask    ask
		want   []int32
	}{
		// 2·queue + 2·(1-kv) + 3·prefix
		{"weights: one waiting request is the whole of the queue's score: 0+2+3·0.6=3.8 against 2+2+0=4", func() rule { return newWeights(2) }, []state{{waiting: 1, has: 6}, {}}, ten, []int32{1}},
		{"weights: equal queues are 1 for all: 2+2+1.8=5.8 against 4", func() rule { return newWeights(2) }, []state{{waiting: 7, has: 6}, {waiting: 7}}, ten, []int32{0}},
		{"weights: the middle of three: 0.5·2+2+3=6 beats 2+2=4 and 0+2+3=5", func() rule { return newWeights(2) }, []state{{waiting: 4, has: 10}, {waiting: 2, has: 10}, {}}, ten, []int32{1}},
		{"weights: a full cache costs 2: 2+0.2+3·0.5=3.7 against 4", func() rule { return newWeights(2) }, []state{{usage: 0.9, has: 5}, {}}, ten, []int32{1}},
		{"weights: without the kv term 2+1.5=3.5 against 2", func() rule { return newWeights(0) }, []state{{usage: 0.9, has: 5}, {}}, ten, []int32{0}},
		{"weights: what was just sent does not count", func() rule { return newWeights(2) }, []state{{requests: 500, prefill: 1e6, has: 1}, {}}, ten, []int32{0}},
		{"weights: all alike is a draw", func() rule { return newWeights(2) }, []state{{}, {}, {}}, ten, []int32{0, 1, 2}},

		// sticky at 0.8 of the blocks, until 18 s·15,928 tokens/s = 286,704 tokens more are before it
		{"sticky: 8 of 10 blocks hold it against 286,704 tokens", newStickyRule, []state{{prefill: 286_704, has: 8}, {}}, ten, []int32{0}},
		{"sticky: one token more lets go, and tokens count", newStickyRule, []state{{prefill: 286_705, has: 8}, {}}, ten, []int32{1}},
		{"sticky: 7 of 10 do not hold it: 640-448+449=641 against 640", newStickyRule, []state{{prefill: 449, has: 7}, {}}, ten, []int32{1}},
		{"sticky: of several that have it the one with fewest tokens", newStickyRule, []state{{prefill: 200, has: 10}, {prefill: 100, has: 9}, {}}, ten, []int32{1}},

		// (F+u)·(R+1)
		{"lmetric: 64·11=704 against 640·1=640", newLMetricRule, []state{{requests: 10, has: 9}, {}}, ten, []int32{1}},
		{"lmetric: 64·9=576 against 640", newLMetricRule, []state{{requests: 8, has: 9}, {}}, ten, []int32{0}},
		{"lmetric: within 2 % is a draw: 640 and 650", newLMetricRule, []state{{}, {prefill: 10}, {prefill: 14}}, ten, []int32{0, 1}},
		{"lmetric: a whole hit is one token, and not nothing: 1·700 against 640", newLMetricRule, []state{{requests: 699, has: 10}, {}}, ten, []int32{1}},

		// blocks of 16: a request of 10 blocks is 40
		{"dynamo: what is active in common costs no decode: 31+8 and 32+8 against 40 and 40", newDynamoLinear, []state{{prefill: 31 * 16, has: 8}, {}}, ten, []int32{0}},
		{"dynamo: a backlog of the 32 blocks saved is a draw", newDynamoLinear, []state{{prefill: 32 * 16, has: 8}, {}}, ten, []int32{0, 1}},
		{"dynamo: a backlog of 33 blocks is more than that: 33+8+40=81 against 80", newDynamoLinear, []state{{prefill: 33 * 16, has: 8}, {}}, ten, []int32{1}},
		{"dynamo lmetric: (31+8)·41 against 40·41", newDynamoProduct, []state{{prefill: 31 * 16, has: 8}, {}}, ten, []int32{0}},

		// the same cost over what engines tell; nothing of it is active, so decode is 40 everywhere
		{"dynamo, events: 8+0+40 against 40+40", newDynamoHearing, []state{{has: 8}, {}}, ten, []int32{0}},
		{"dynamo, events: a backlog of the 32 blocks saved is a draw", newDynamoHearing, []state{{prefill: 32 * 16, has: 8}, {}}, ten, []int32{0, 1}},

		// 2·queue + 2·(1-kv) + 3·prefix + 2·no-hit
		{"precise: as the weights, where somebody has some: 0+2+3·0.6=3.8 against 4", newPreciseRule, []state{{waiting: 1, has: 6}, {}}, ten, []int32{1}},
		{"precise: 2+2+1.8 against 4", newPreciseRule, []state{{has: 6}, {}}, ten, []int32{0}},
		{"precise: a cold prompt goes to the first that never had one: +2, +1, +0", newPreciseRule, []state{{}, {}, {}}, ten, []int32{0}},
		{"precise: unless its memory is full by more than half: 2+0.8+2=4.8 against 2+2+1=5", newPreciseRule, []state{{usage: 0.6}, {}, {}}, ten, []int32{1}},
		{"precise, sticky: 8 of 10 blocks hold it", newPreciseStickyRule, []state{{prefill: 286_704, has: 8}, {}}, ten, []int32{0}},
		{"precise, sticky: 7 of 10 do not: 640-448+449=641 against 640", newPreciseStickyRule, []state{{prefill: 449, has: 7}, {}}, ten, []int32{1}},

		// 64 and 1.5
		{"sglang: a gap of 64 is still balanced, and 4 of 10 matched is enough", newSGLangRule, []state{{requests: 64, has: 4}, {}}, ten, []int32{0}},
		{"sglang: a gap of 65 is not", newSGLangRule, []state{{requests: 65, has: 4}, {}}, ten, []int32{1}},
		{"sglang: a gap of 65 is balanced while it is not 1.5 times", newSGLangRule, []state{{requests: 195, has: 4}, {requests: 130}}, ten, []int32{0}},
		{"sglang: 3 of 10 matched is not enough", newSGLangRule, []state{{requests: 1, has: 3}, {}}, ten, []int32{1}},
		{"sglang: the first of several idle ones", newSGLangRule, []state{{requests: 1}, {}, {}}, ten, []int32{1}},

		// 8, and mean + deviation
		{"aibrix: a gap of 8 still follows the match: mean 4, bound 8", newAIBrixRule, []state{{requests: 8, has: 1}, {}}, ten, []int32{0}},
		{"aibrix: a gap of 9 leaves the least loaded", newAIBrixRule, []state{{requests: 9, has: 10}, {}, {requests: 1}}, ten, []int32{1}},
		{"aibrix: above mean and deviation is left out: 6, 0, 0 has 2 and 2.83", newAIBrixRule, []state{{requests: 6, has: 10}, {has: 2}, {}}, ten, []int32{1}},
		{"aibrix: of equal matches the one with fewer requests", newAIBrixRule, []state{{requests: 2, has: 5}, {requests: 1, has: 5}, {}}, ten, []int32{1}},
		{"aibrix: no match is least request, at random", newAIBrixRule, []state{{requests: 1}, {}, {}}, ten, []int32{1, 2}},

		{"preble: more than half is followed, whatever the cost", newPrebleRule, []state{{has: 6}, {}}, ten, []int32{0}},
		{"preble: half is not, and who was asked costs", newPrebleRule, []state{{has: 5}, {}}, ten, []int32{1}},

		{"production stack, prefix: any match is followed, whatever the load", func() rule { return newTrie() }, []state{{requests: 1000, waiting: 1000, has: 1}, {}}, ten, []int32{0}},
		{"production stack, prefix: at random among the deepest", func() rule { return newTrie() }, []state{{has: 3}, {has: 2}, {has: 3}}, ten, []int32{0, 2}},
		{"production stack, prefix: at random without a match", func() rule { return newTrie() }, []state{{}, {}}, ten, []int32{0, 1}},
		{"production stack, session: without one the engine with the fewest requests lately", func() rule { return newRing() }, []state{{has: 1}, {}, {}}, ten, []int32{1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := chosen(world(tt.rule(), tt.states), tt.ask); !slices.Equal(got, tt.want) {
				t.Errorf("chose %v, want %v", got, tt.want)
			}
		})
	}
}

func newDynamoHearing() rule     { return newDynamoEvents() }
func newPreciseRule() rule       { return newPrecise() }
func newPreciseStickyRule() rule { return newPreciseSticky() }

func newStickyRule() rule    { return newSticky() }
func newLMetricRule() rule   { return newLMetric() }
func newDynamoLinear() rule  { return newDynamo(linear) }
func newDynamoProduct() rule { return newDynamo(product) }
func newSGLangRule() rule    { return newSGLang() }
func newAIBrixRule() rule    { return newAIBrix() }
func newPrebleRule() rule    { return newPreble() }

// A session stays where it is while that one is there, sessions spread, and few move when one goes.
func TestSessionsStay(t *testing.T) {
	r := newRing()
	d := world(r, make([]state, 8))
	at, counts := map[int32]int32{}, map[int32]int{}
	for s := range int32(800) {
		m := r.choose(&d.books, ask{1, s}.query(d.now))
		at[s], counts[m] = m, counts[m]+1
	}
	if len(counts) != 8 || counts[0] < 60 || counts[0] > 160 {
		t.Errorf("sessions by member: %v; want about 100 each", counts)
	}
	d.members = d.members[:7]
	for s := range int32(800) {
		if m := r.choose(&d.books, ask{1, s}.query(d.now)); at[s] != 7 && m != at[s] {
			t.Fatalf("session %d moved from %d to %d, though 7 went", s, at[s], m)
		}
	}
}

// What an index believes ends: by time, by its bound, and with the member.
func TestIndexesForget(t *testing.T) {
	members := []int32{0, 1}
	depths := func(x *table, now pool.Instant) []int {
		d, _ := x.depths(now, members, text(1, 4))
		return slices.Clone(d)
	}
	x := newTable(0, pool.Instant(120*time.Second))
	x.put(1e9, 0, text(1, 4))
	x.put(61e9, 1, text(1, 2))
	for _, tt := range []struct {
		now  pool.Instant
		want []int
	}{{62e9, []int{4, 2}}, {121e9, []int{0, 2}}, {181e9, []int{0, 0}}} {
		if got := depths(x, tt.now); !slices.Equal(got, tt.want) {
			t.Errorf("at %v s: %v, want %v", tt.now/1e9, got, tt.want)
		}
	}
	x = newTable(5, 0)
	x.put(1, 0, text(1, 4))
	x.put(2, 1, text(2, 3))
	if got := depths(x, 3); !slices.Equal(got, []int{2, 0}) {
		t.Errorf("%v; a bound of 5 leaves the first two blocks of the older prompt", got)
	}
	x.forget(0)
	if got := depths(x, 3); !slices.Equal(got, []int{0, 0}) {
		t.Errorf("%v after the member went", got)
	}
	c := &caches{}
	b := &books{at: []member{{sample: pool.Sample{Blocks: 3, BlockTokens: size}}}}
	c.put(b, &query{now: 1, tokens: 10 * size, hashes: text(1, 10), block: size}, 0)
	if got := c.depth(ask{10, -1}.query(2), 0); got != 3 {
		t.Errorf("%d blocks are believed in an engine that has 3", got)
	}
}

// Books follow a request: its uncached tokens to the first token, itself to its end; Dynamo's decode blocks too, those in
// common once.
func TestBooks(t *testing.T) {
	r := newDynamo(linear)
	d := world(r, []state{{}})
	s := openai.NewSummary()
	s.PromptTokens, s.BlockTokens, s.BlockHashes = 10*size+20, size, text(1, 10)
	for n := range uint64(2) {
		d.Arrive(2e9, n, &fleet.Request{Session: -1}, s)
	}
	// 660 tokens, and 20 of the second; 40 blocks of 16 in common, and two tails of 2.
	if m := d.at[0]; m.requests != 2 || m.prefill != 680 || r.decode[0] != 44 {
		t.Errorf("%d requests, %d tokens, %v blocks; want 2, 680, 44", m.requests, m.prefill, r.decode[0])
	}
	d.FirstToken(3e9, 0)
	d.Finish(4e9, 0, openai.NoUsage, true)
	if m := d.at[0]; m.requests != 1 || m.prefill != 20 || r.decode[0] != 42 {
		t.Errorf("%d requests, %d tokens, %v blocks after the first; want 1, 20, 42", m.requests, m.prefill, r.decode[0])
	}
	d.Finish(4e9, 1, openai.NoUsage, false)
	if m := d.at[0]; m.requests != 0 || m.prefill != 0 || r.decode[0] != 0 || len(r.active[0]) != 0 || len(d.open) != 0 {
		t.Errorf("left in the books: %+v, %v blocks, %d open", m, r.decode[0], len(d.open))
	}
}

// Where nobody listens the others are tried, each once, three in all.
func TestUnreachable(t *testing.T) {
	for _, r := range All() {
		d := deciderOf(r.New(1))
		var m []pool.Endpoint
		for i := range int32(5) {
			m = append(m, pool.Endpoint{Addr: fleet.Addr(i)})
		}
		d.Members(1, m)
		s := openai.NewSummary()
		s.PromptTokens, s.BlockTokens, s.BlockHashes = 10*size, size, text(1, 10)
		a := d.Arrive(2, 1, &fleet.Request{Session: 3}, s)
		for try := 1; ; try++ {
			last := a.To
			if a = d.Unreachable(3, 1, last); a.Refused != "" {
				if try != tries || a.Refused != "upstream_unreachable" {
					t.Errorf("%s: %q after %d tries", r.Name, a.Refused, try)
				}
				break
			}
			if a.To == last {
				t.Errorf("%s: asked %d again", r.Name, last)
			}
		}
		for i := range d.at {
			if d.at[i].requests != 0 || d.at[i].prefill != 0 {
				t.Errorf("%s: member %d has %+v", r.Name, i, d.at[i])
			}
		}
		d.Members(4, nil)
		if a := d.Arrive(5, 2, &fleet.Request{Session: -1}, s); a.Refused != "no_endpoint" {
			t.Errorf("%s: %+v without members", r.Name, a)
		}
	}
}
