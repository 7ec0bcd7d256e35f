package workload

import (
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/simulator/fleet"
)

// Source yields the requests of a workload for one seed.
type Source struct {
	spec    *Spec
	streams []*stream
	pending fleet.Heap[planned]
	order   uint64
	popped  int // requests and sessions begun
}

var _ fleet.Source = (*Source)(nil)

// New returns the requests of a workload. A trace is opened, and closed when its last row was read. The error is that of
// opening.
func New(s *Spec, seed uint64) (*Source, error) {
	src := &Source{spec: s}
	tenant := int32(0)
	for i := range s.Streams {
		st, err := src.open(&s.Streams[i], int32(i), tenant, seed)
		if err != nil {
			return nil, err
		}
		tenant += int32(s.Streams[i].Tenants)
		src.streams = append(src.streams, st)
		src.begin(st)
	}
	return src, nil
}

// BlockTokens is the size of the blocks that hashes name.
func (s *Source) BlockTokens() int32 { return s.spec.BlockTokens }

// Peek returns the next arrival that is known.
func (s *Source) Peek() (pool.Instant, bool) {
	if len(s.pending) == 0 {
		return 0, false
	}
	return s.pending[0].at, true
}

// Pop takes the next request.
func (s *Source) Pop() *fleet.Request {
	p := s.pending.Pop()
	st := s.streams[p.request.Class]
	if p.fresh {
		s.comes(st)
	}
	return p.request
}

// Done plans what follows a request.
func (s *Source) Done(now pool.Instant, r *fleet.Request, status fleet.Status) {
	st := s.streams[r.Class]
	if st.conversation != nil {
		if next, wait := st.follow(r, status); next != nil {
			next.At = now + seconds(wait)
			s.plan(next, false)
			return
		}
	}
	if st.users > 0 && s.more(now) {
		s.plan(st.fresh(now), false)
	}
}

// Err returns what went wrong with a trace, after the run.
func (s *Source) Err() error {
	for _, st := range s.streams {
		if st.replay != nil && st.replay.failed != nil {
			return st.replay.failed
		}
	}
	return nil
}

// planned is a request that is to come. A fresh one has the next of its open stream behind it.
type planned struct {
	at      pool.Instant
	order   uint64
	request *fleet.Request
	fresh   bool
}

func (s *Source) plan(r *fleet.Request, fresh bool) {
	s.order++
	s.streams[r.Class].claim(r)
	s.pending.Push(planned{r.At, s.order, r, fresh})
}

// begin plans the first requests of a stream.
func (s *Source) begin(st *stream) {
	if st.users == 0 {
		s.comes(st)
		return
	}
	for i := range st.users {
		at := 1 + pool.Instant(float64(st.ramp)*float64(i)/float64(st.users))
		if s.more(at) {
			s.plan(st.fresh(at), false)
		}
	}
}

// comes plans the next arrival of an open stream.
func (s *Source) comes(st *stream) {
	if st.replay != nil {
		if r, ok := st.replayed(); ok && s.more(r.At) {
			s.plan(r, true)
		} else {
			st.replay.close()
		}
		return
	}
	at, ok := st.process.next()
	if !ok {
		return
	}
	now := 1 + seconds(at)
	if !s.more(now) {
		return
	}
	s.plan(st.fresh(now), true)
	if c := st.Siblings; c != nil { // all of a burst come, whatever the bounds: half of one is another workload
		for k := 1; k < c.Each; k++ {
			s.plan(st.sibling(now+seconds(c.Within*float64(k)/float64(c.Each))), false)
		}
	}
}

// more reports whether one more may begin at now, and counts it.
func (s *Source) more(now pool.Instant) bool {
	if s.spec.Duration > 0 && now > pool.Instant(s.spec.Duration) {
		return false
	}
	if s.spec.Requests > 0 && s.popped >= s.spec.Requests {
		return false
	}
	s.popped++
	return true
}

func seconds(s float64) pool.Instant { return pool.Instant(math.Round(s * 1e9)) }

// stream is a Stream in progress.
type stream struct {
	*Stream
	class, tenant int32
	blockTokens   int32
	model         string
	bound         bool
	noise         float64

	process *process
	users   int
	ramp    pool.Instant
	replay  *replay

	lengths, choices, waits, labels, patience, lengthened *rand.Rand

	popular      popularity
	prefixes     []chain // of groups, made when first asked for
	documents    []int32 // lengths
	conversation *Conversation
	eldest       fleet.Request // of the latest burst: what its siblings are like
	family       chain         // and what their prompts share
	alike        *alike
	sessions     []session
	idle         []int32 // sessions that ended
	named        map[string]int32
	begun        uint64
}

// session is a conversation in progress.
type session struct {
	number uint64
	turn   int32
	turns  int32
	chain  chain
	labels fleet.Request // tenant, adapter
	id     int32
}

func (s *Source) open(st *Stream, class, tenant int32, seed uint64) (*stream, error) {
	draw := func(concern uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, uint64(class)<<8|concern)) }
	out := &stream{
		Stream: st, class: class, tenant: tenant, blockTokens: s.spec.BlockTokens, model: s.spec.Model, bound: s.spec.ClientBound,
		lengths: draw('l'), choices: draw('c'), waits: draw('w'), labels: draw('t'), patience: draw('g'), lengthened: draw('n'), noise: s.spec.OutputNoise,
		conversation: st.Conversation, named: map[string]int32{},
	}
	if st.Trace != nil {
		var err error
		out.replay, err = openReplay(st.Trace, s.spec.BlockTokens, draw('a'))
		return out, err
	}
	a, share := s.spec.Arrivals, st.Share
	if st.Own != nil {
		a, share = *st.Own, 1
	}
	if a.Type == "closed" {
		out.users, out.ramp = a.Users, pool.Instant(a.Ramp)
	} else {
		out.process = newProcess(a, share, draw('a'), draw('b'))
	}
	switch {
	case st.SharedPrefix != nil:
		out.popular = newPopularity(st.SharedPrefix.Groups, st.SharedPrefix.Zipf)
		out.prefixes = make([]chain, st.SharedPrefix.Groups)
	case st.Documents != nil:
		out.popular = newPopularity(st.Documents.Count, st.Documents.Zipf)
		out.documents = make([]int32, st.Documents.Count)
		// The documents are the same whatever the seed draws for the questions of a run with another number of them.
		texts := draw('d')
		for i := range out.documents {
			out.documents[i] = st.Documents.Tokens.tokens(texts, 1)
		}
	case st.Like != nil:
		out.alike = newAlike(st.Like, out.lengths, out.choices)
	}
	return out, nil
}

// AdapterName is what clients call an adapter.
func AdapterName(adapter int32) string { return "adapter-" + strconv.Itoa(int(adapter)) }

// identity names a text of the stream.
func (st *stream) identity(kind byte, number uint64) uint64 {
	return mix(uint64(st.class)<<56|uint64(kind)<<48) ^ mix(number)
}

// fresh makes a request that follows from none.
func (st *stream) fresh(at pool.Instant) *fleet.Request {
	r := &fleet.Request{At: at, Model: st.model, Class: st.class, Priority: st.Priority, Session: -1}
	r.Tenant = st.tenant
	if st.Tenants > 1 {
		r.Tenant += int32(st.labels.IntN(st.Tenants))
	}
	if len(st.Adapters) > 0 {
		x := st.labels.Float64()
		for i, share := range st.Adapters {
			if x < share {
				r.Adapter = int32(i + 1)
				r.Model = AdapterName(r.Adapter)
				break
			}
			x -= share
		}
	}
	st.begun++
	switch {
	case st.Siblings != nil:
		st.eldest, st.family = *r, st.root(r)
		st.family.add(st.identity('f', st.begun), st.Siblings.Prompt.tokens(st.lengths, 1))
		st.bear(r)
	case st.SharedPrefix != nil:
		st.prefixed(r)
	case st.Documents != nil:
		st.retrieved(r)
	case st.Independent != nil:
		c := st.root(r)
		c.add(st.identity('q', st.begun), st.Independent.Input.tokens(st.lengths, 1))
		st.ask(r, &c, st.Independent.Output.tokens(st.lengths, 1))
	case st.alike != nil:
		c := st.alike.prompt(st.blockTokens)
		st.ask(r, &c, st.alike.answer())
	case st.conversation != nil:
		st.open(r)
	}
	return r
}

// claim says what the client of a request wants, and how long it waits.
func (st *stream) claim(r *fleet.Request) {
	r.TTFT, r.ITL = st.SLO.TTFT, st.SLO.ITL
	if st.noise > 0 {
		factor := math.Exp(float64(st.noise*st.lengthened.NormFloat64()) - st.noise*st.noise/2)
		r.Output = int32(max(math.Round(float64(r.Output)*factor), 1))
		if r.MaxTokens > 0 {
			r.Output = min(r.Output, r.MaxTokens)
		}
	}
	if st.Aborts.Share > 0 && st.patience.Float64() < st.Aborts.Share {
		r.GivesUp = max(seconds(st.Aborts.After.draw(st.patience)), 1)
	}
}

// root is the empty prompt: those of different adapters share nothing.
func (st *stream) root(r *fleet.Request) chain {
	c := newChain(st.blockTokens)
	c.acc ^= mix(uint64(r.Adapter))
	return c
}

// ask completes a request whose prompt is c. The answer's blocks are named too: a later turn may begin with them.
func (st *stream) ask(r *fleet.Request, c *chain, output int32) {
	r.Prompt = c.tokens
	r.Output = output
	if st.bound {
		r.MaxTokens = output
	}
	r.Hashes = c.hashes
}

// sibling makes one more request of the latest burst.
func (st *stream) sibling(at pool.Instant) *fleet.Request {
	st.begun++
	r := st.eldest
	r.At = at
	st.bear(&r)
	return &r
}

// bear completes a sibling.
func (st *stream) bear(r *fleet.Request) {
	prompt := st.family.extended()
	own := int32(1)
	if st.Siblings.Own.given() {
		own = st.Siblings.Own.tokens(st.lengths, 1)
	}
	prompt.add(st.identity('q', st.begun), own)
	st.ask(r, &prompt, st.Siblings.Output.tokens(st.lengths, 1))
}

func (st *stream) prefixed(r *fleet.Request) {
	c := st.SharedPrefix
	group := st.popular.draw(st.choices)
	if c.Hot > 0 && st.choices.Float64() < c.Hot {
		group = 0
	}
	question := st.begun
	if c.Prompts > 0 {
		question = uint64(st.choices.IntN(c.Prompts))
	}
	var prompt chain
	if r.Adapter == 0 {
		shared := &st.prefixes[group]
		if shared.size == 0 {
			*shared = st.system(r, group)
		}
		prompt = shared.extended()
	} else {
		prompt = st.system(r, group)
	}
	text := st.identity('q', uint64(group)<<32|question)
	// A question that comes back has the length that it had.
	length, answer := c.Question.tokens(st.lengths, 1), c.Output.tokens(st.lengths, 1)
	if c.Prompts > 0 {
		own := rand.New(rand.NewPCG(text, 'q'))
		length = c.Question.tokens(own, 1)
	}
	prompt.add(text, length)
	st.ask(r, &prompt, answer)
}

// system is the text of a group, whose length belongs to it.
func (st *stream) system(r *fleet.Request, group int) chain {
	c := st.root(r)
	text := st.identity('s', uint64(group))
	c.add(text, st.SharedPrefix.System.tokens(rand.New(rand.NewPCG(text, 's')), 1))
	return c
}

func (st *stream) retrieved(r *fleet.Request) {
	c := st.Documents
	prompt := st.root(r)
	prompt.add(st.identity('s', 0), c.System)
	for range c.Each {
		d := st.popular.draw(st.choices)
		prompt.add(st.identity('d', uint64(d)), st.documents[d])
	}
	prompt.add(st.identity('q', st.begun), c.Question.tokens(st.lengths, 1))
	st.ask(r, &prompt, c.Output.tokens(st.lengths, 1))
}

// open makes a session and its first turn.
func (st *stream) open(r *fleet.Request) {
	c := st.conversation
	var at int32
	if n := len(st.idle); n > 0 {
		at, st.idle = st.idle[n-1], st.idle[:n-1]
	} else {
		at = int32(len(st.sessions))
		st.sessions = append(st.sessions, session{})
	}
	s := &st.sessions[at]
	*s = session{number: st.begun, turns: c.Turns.tokens(st.lengths, 1), chain: st.root(r), labels: *r, id: int32(st.begun)}
	if c.Shared > 0 {
		s.chain.add(st.identity('s', 0), c.Shared)
	}
	if c.System.given() {
		if n := c.System.tokens(st.lengths, 0); n > 0 {
			s.chain.add(st.identity('s', s.number), n)
		}
	}
	if !st.turn(s, r, at) { // the first turn comes, however long: the engine will say that it is too long
		st.ask(r, &s.chain, 1)
	}
}

// turn makes the next turn of a session; false if it would be too long.
func (st *stream) turn(s *session, r *fleet.Request, at int32) bool {
	c := st.conversation
	input, output := c.Input.tokens(st.lengths, 1), c.Output.tokens(st.lengths, 1)
	if c.MaxTokens > 0 && s.chain.tokens+input+output > c.MaxTokens && s.turn > 0 {
		return false
	}
	if c.MaxTokens > 0 {
		input = max(min(input, c.MaxTokens-s.chain.tokens-output), 1)
	}
	s.turn++
	s.chain.add(st.identity('i', s.number<<16|uint64(s.turn)), input)
	st.ask(r, &s.chain, output)
	// The answer belongs to the history. What r.Hashes holds is never changed: the chain only grows behind it.
	s.chain.add(st.identity('o', s.number<<16|uint64(s.turn)), output)
	r.Hashes = s.chain.hashes
	r.Session, r.Next = s.id, at
	return true
}

// follow returns the turn that follows a request, and after how many seconds; nil at the session's end. A turn that did not
// get its answer ends its session.
func (st *stream) follow(r *fleet.Request, status fleet.Status) (*fleet.Request, float64) {
	s := &st.sessions[r.Next]
	if status == fleet.Completed && s.turn < s.turns {
		next := s.labels
		if st.turn(s, &next, r.Next) {
			wait := 0.0
			if st.conversation.Wait.given() {
				wait = st.conversation.Wait.draw(st.waits)
			}
			return &next, wait
		}
	}
	s.chain = chain{}
	st.idle = append(st.idle, r.Next)
	return nil, 0
}

// replayed makes the next request of a trace.
func (st *stream) replayed() (*fleet.Request, bool) {
	row, ok := st.replay.next()
	if !ok {
		return nil, false
	}
	st.begun++
	r := &fleet.Request{
		At: 1 + seconds(row.at), Prompt: row.prompt, Output: row.output, Hashes: row.hashes,
		Model: st.model, Class: st.class, Tenant: st.tenant, Priority: st.Priority, Session: -1,
	}
	if st.bound {
		r.MaxTokens = row.output
	}
	if row.session != "" && len(st.named) < 1<<20 {
		id, ok := st.named[row.session]
		if !ok {
			id = int32(len(st.named))
			st.named[row.session] = id
		}
		r.Session = id
	}
	return r, true
}

// Before orders planned requests by instant, then order.
func (p planned) Before(q planned) bool { return p.at < q.at || p.at == q.at && p.order < q.order }
