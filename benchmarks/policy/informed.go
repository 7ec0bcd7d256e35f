package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fairlead/fairlead/benchmarks/rules"
	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/kvindex"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/simulator/fleet"
)

// approximate is the plugin whose belief is replaced where a configuration is told what engines cache.
const approximate = "approx-prefix-cache-producer"

// informed reads events=NAME and oracle=NAME: the production scheduler under the configuration NAME, in which the prefix producer
// says what the engines' cache events tell, or what their caches hold at the very instant, in place of what it believes. Both are
// no part of the product: they say what such knowledge would be worth to the configuration.
func informed(name string) (Policy, bool, error) {
	how, of, ok := strings.Cut(name, "=")
	if !ok || how != "events" && how != "oracle" {
		return Policy{}, false, nil
	}
	p, err := Named(of)
	if err != nil {
		return Policy{}, true, err
	}
	if p.Text == "" {
		return Policy{}, true, fmt.Errorf("policy %q: %q is no configuration; want default, classic or a file", name, of)
	}
	text := []byte(p.Text)
	make := func(seed uint64, set func(*exchange.Options)) (fleet.Decider, error) {
		k := &knowledge{open: map[uint64]sending{}}
		file, problems := config.Load(text, of, informedCatalog(k))
		if file == nil {
			return nil, fmt.Errorf("policy %q: %s", name, joined(problems))
		}
		d, err := newProduction(file, seed, set)
		switch {
		case err != nil:
			return nil, err
		case !k.asked:
			return nil, fmt.Errorf("policy %q: nothing in %q asks what is cached", name, of)
		case how == "events":
			k.heard = &rules.Heard{Asks: true}
			return &byEvents{d, k}, nil
		}
		return &bySight{d, k}, nil
	}
	if _, err := make(0, nil); err != nil {
		return Policy{}, true, err
	}
	return Policy{Name: name, Hears: how == "events", make: make}, true, nil
}

// informedCatalog is the catalogue with the prefix producer replaced.
func informedCatalog(k *knowledge) []plugins.Entry {
	entries := catalog.Builtin()
	i := slices.IndexFunc(entries, func(e plugins.Entry) bool { return e.Type == approximate })
	entries[i].New = func() any { return &informedProducer{Producer: *kvindex.NewProducer(), known: k} }
	return entries
}

// byEvents is the production scheduler that hears cache events.
type byEvents struct {
	*Production
	known *knowledge
}

var _ fleet.Listener = (*byEvents)(nil)

// Blocks brings a batch.
func (l *byEvents) Blocks(_ pool.Instant, member int32, b *fleet.Batch) bool {
	return l.known.heard.Hear(member, b)
}

// Members tells the membership.
func (l *byEvents) Members(now pool.Instant, m []pool.Endpoint) {
	for n := range l.known.listed {
		if !slices.ContainsFunc(m, func(e pool.Endpoint) bool { return fleet.Member(e.Addr) == int32(n) }) {
			l.known.heard.Forget(int32(n))
		}
	}
	for i := range m {
		l.known.listed = max(l.known.listed, int(fleet.Member(m[i].Addr))+1)
	}
	l.Production.Members(now, m)
}

// Left says what is still booked or under way, and which prompts still count as sent.
func (l *byEvents) Left() string { return l.known.left(l.Production.Left()) }

// bySight is the production scheduler that looks into the caches.
type bySight struct {
	*Production
	known *knowledge
}

var _ fleet.Onlooker = (*bySight)(nil)

// Look gives it the way to look.
func (l *bySight) Look(cached func(member int32, hashes []uint64) int) { l.known.cached = cached }

// Left says what is still booked or under way, and which prompts still count as sent.
func (l *bySight) Left() string { return l.known.left(l.Production.Left()) }

// knowledge is what one decider knows of caches: what is told or seen, and that the prompts of requests that run are, or will
// be, where they were sent.
type knowledge struct {
	asked  bool // a plugin of the configuration reads it
	heard  *rules.Heard
	listed int // one more than the highest member ever
	cached func(member int32, hashes []uint64) int
	open   map[uint64]sending // by the request's number
	sent   []map[uint64]int   // by member: blocks of open requests
}

// sending is where a request's prompt went.
type sending struct {
	member int32
	hashes []uint64
}

// depth returns how many of a chain's first blocks a member has.
func (k *knowledge) depth(now pool.Instant, member int32, hashes []uint64) int {
	var n int
	if k.heard != nil {
		n = k.heard.Depth(now, member, hashes)
	} else if k.cached != nil {
		n = k.cached(member, hashes)
	}
	if int(member) < len(k.sent) {
		promised := 0
		for promised < len(hashes) && k.sent[member][hashes[promised]] > 0 {
			promised++
		}
		n = max(n, promised)
	}
	return n
}

func (k *knowledge) begin(number uint64, s sending) {
	k.end(number)
	for int(s.member) >= len(k.sent) {
		k.sent = append(k.sent, map[uint64]int{})
	}
	k.open[number] = s
	for _, h := range s.hashes {
		k.sent[s.member][h]++
	}
}

func (k *knowledge) end(number uint64) {
	s, ok := k.open[number]
	if !ok {
		return
	}
	delete(k.open, number)
	at := k.sent[s.member]
	for _, h := range s.hashes {
		if at[h]--; at[h] == 0 {
			delete(at, h)
		}
	}
}

// left adds to what is left the prompts that still count as sent.
func (k *knowledge) left(otherwise string) string {
	n := len(k.open)
	for _, at := range k.sent {
		n += len(at)
	}
	switch {
	case n == 0:
		return otherwise
	case otherwise != "":
		otherwise += ", "
	}
	return fmt.Sprintf("%sprompts and blocks sent %d", otherwise, n)
}

// informedProducer is the prefix producer, but that its facts of endpoints are known in place of believed.
type informedProducer struct {
	kvindex.Producer
	known *knowledge

	total  plugins.RequestValue[int32]
	tokens plugins.EndpointValues[int64]
	blocks plugins.EndpointValues[int32]
}

var (
	_ plugins.Producer = (*informedProducer)(nil)
	_ plugins.Booker   = (*informedProducer)(nil)
	_ plugins.Settler  = (*informedProducer)(nil)
)

// Provision takes handles of the facts that it overwrites.
func (p *informedProducer) Provision(b *plugins.Builder) error {
	p.known.asked = true
	p.total = plugins.Provides(b, plugins.PromptBlocks)
	p.tokens, p.blocks = plugins.Provides(b, plugins.CachedTokens), plugins.Provides(b, plugins.CachedBlocks)
	return p.Producer.Provision(b)
}

// Produce says what is known.
func (p *informedProducer) Produce(c *plugins.Cycle) {
	p.Producer.Produce(c)
	p.tell(c)
}

// Observe says it again, since the producer may have matched again.
func (p *informedProducer) Observe(c *plugins.Cycle, books *pool.Books) {
	p.Producer.Observe(c, books)
	p.tell(c)
}

func (p *informedProducer) tell(c *plugins.Cycle) {
	s := c.Request.Body
	hashes := s.BlockHashes[:min(len(s.BlockHashes), int(p.total.Of(c.Request)))]
	blocks, tokens := p.blocks.Of(c), p.tokens.Of(c)
	for _, id := range c.Candidates {
		n := p.known.depth(c.Now, fleet.Member(c.Snapshot.Slots[id].Addr), hashes)
		// An engine computes at least the last token anew.
		blocks[id], tokens[id] = int32(n), max(min(int64(n)*int64(s.BlockTokens), s.PromptTokens-1), 0)
	}
}

// Booked notes where the prompt goes.
func (p *informedProducer) Booked(r *plugins.Request, legs []plugins.Leg, books *pool.Books) {
	p.Producer.Booked(r, legs, books)
	if len(legs) > 0 && len(legs[0].Endpoints) > 0 {
		p.known.begin(r.Number, sending{fleet.Member(r.Snapshot.Slots[legs[0].Endpoints[0]].Addr), r.Body.BlockHashes})
	}
}

// Settle notes that the request is over.
func (p *informedProducer) Settle(r *plugins.Request, o plugins.Outcome) {
	p.Producer.Settle(r, o)
	p.known.end(r.Number)
}
