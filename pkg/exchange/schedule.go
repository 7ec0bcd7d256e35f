package exchange

import (
	"net/netip"
	"strings"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// schedule chooses and books in one step, and commits. full true: the queue says that it does not fit any more; nothing is
// booked.
func (x *Exchange) schedule(now pool.Instant) (a Action, full bool) {
	s, plan, p := x.s, x.plan(), x.pool()
	if x.s.draining.Load() {
		return x.refuse(now, &reason.Refusal{ID: reason.ShuttingDown}), false
	}
	x.want = 1
	if x.via.Fallbacks {
		x.want = s.o.Fallbacks
	}
	c := s.cycle(plan.Index)
	defer s.cycles[plan.Index].Put(c)
	c.Want, c.Record = x.want, s.sampled(x.r.Number)

	var refusal *reason.Refusal
	if x.may, refusal = x.among(); refusal != nil {
		return x.refuse(now, refusal), false
	}
	snapshot := p.Snapshot()
	no := c.Prepare(&x.r, snapshot, p.StaleAfter(), s.o.Seed, x.may)
	if no == nil {
		p.Decide(func(snap *pool.Snapshot, books *pool.Books) {
			if snap != snapshot { // the membership changed since: facts are columns of a snapshot
				if no = c.Prepare(&x.r, snap, p.StaleAfter(), s.o.Seed, x.may); no != nil {
					return
				}
			}
			fits := false
			if fits, no = s.o.Built.Fits(s.o.Sink, c, books); no != nil || !fits {
				full = no == nil
				return
			}
			books.At(x.r.Now)
			var legs []plugins.Leg
			switch legs, no = c.Decide(books); {
			case no != nil:
				if s.o.Built.Nobody(s.o.Sink, &x.r, no) {
					full, no = true, nil
				}
			case !s.o.Built.Suits(s.o.Sink, c, legs):
				full = true
			default:
				x.book(c, legs, books)
				s.o.Built.Admitted(s.o.Sink, &x.r, x.legs[0].refs[0], x.legs[0].load)
				if x.looksTwice(c, books) {
					x.lookAt = now + pool.Instant(s.o.ReplicaWait)
				} else {
					plan.Booked(s.o.Sink, &x.r, legs, books)
				}
			}
		})
	}
	x.trace = c.Trace
	switch {
	case no != nil:
		return x.refuse(now, no), false
	case full:
		return Action{}, true
	case x.lookAt != 0:
		x.step = stepTold
		s.expect(x, x.lookAt)
		return Action{Do: Hold}, false
	}
	return x.commit(now, plan), false
}

// book copies the legs out of the cycle and books each. It runs inside the pool's lock.
func (x *Exchange) book(c *plugins.Cycle, legs []plugins.Leg, books *pool.Books) {
	b := x.s.o.Built
	prompt := b.PromptTokens(&x.r)
	if x.r.Body == nil && x.r.API.Generates() && x.expected > 0 {
		prompt = x.expected / 4 // decided before the body came: its length is what there is
	}
	x.prompt = prompt
	x.decided, x.foresaw = x.r.Now, b.Foreseen(c, &x.r, legs[0].Endpoints[0])
	x.legs = make([]leg, len(legs))
	for i, chosen := range legs {
		l := &x.legs[i]
		l.profile = chosen.Profile
		n := len(chosen.Endpoints)
		l.refs, l.addrs, l.names = make([]pool.Ref, n), make([]netip.AddrPort, n), make([]string, n)
		for j, id := range chosen.Endpoints {
			e := &c.Snapshot.Slots[id]
			l.refs[j], l.addrs[j], l.names[j] = e.Ref, e.Addr, plugins.EndpointName(e)
		}
		l.load.Cached = min(b.CachedTokens(c, chosen.Endpoints[0]), max(prompt, 0))
		l.load.UncachedPrefill = max(prompt-l.load.Cached, 0)
		l.load.Silent = x.r.API.Generates() && x.r.Body != nil && !x.r.Body.Stream || !x.shows(plugins.FirstByte)
		if i == 0 {
			l.load.Decode = x.expectedOutput()
		}
		l.booking = books.Book(l.refs[0], l.load, x.r.Now+pool.Instant(x.s.o.BookingDeadline))
	}
	x.plan().Claim(x.s.o.Sink, &x.r, legs, books)
	x.to = x.legs[0].addrs
	if x.via.Walks && x.via.Fallbacks {
		x.to = repeated(x.to, x.want)
	}
}

// repeated returns the list at least n long, by going through it again. A gateway that walks a list on its own goes on after its
// end, to any pod that it knows, also to one of another pool; a list that is as long as its attempts leaves it no such step.
func repeated(list []netip.AddrPort, n int) []netip.AddrPort {
	if len(list) >= n {
		return list
	}
	out := make([]netip.AddrPort, n)
	for i := range out {
		out[i] = list[i%len(list)]
	}
	return out
}

func (x *Exchange) expectedOutput() int64 {
	body := x.r.Body
	if !x.r.API.Generates() {
		return 0
	}
	tokens, ok := x.s.o.Built.ExpectedOutput(&x.r)
	switch {
	case ok:
		return tokens
	case body != nil && body.MaxTokens >= 0:
		return min(body.MaxTokens, x.s.o.ExpectedOutput) * max(body.N, 1)
	}
	return x.s.o.ExpectedOutput
}

// commit runs the request hooks and opens the way for the answer.
func (x *Exchange) commit(now pool.Instant, plan *plugins.Plan) Action {
	s := x.s
	plan.Commit(s.o.Sink, &x.r, x.chosen(), &x.out)
	x.step, x.sent = stepForwarded, now
	x.respond = plugins.FirstByte | s.o.Built.Wants
	if x.via.LogsUsage && (x.via.Chooses || !x.shows(plugins.Chunks)) { // its log tells, and nothing per token visits us
		x.respond &^= plugins.Usage
	}
	if s.o.Full {
		x.respond |= plugins.Chunks | plugins.Usage
	}
	if x.via.Walks { // the other side keeps what another endpoint may need
		x.letGoOfBytes()
	}
	s.register(x)
	s.expect(x, now+pool.Instant(s.o.BookingDeadline))
	s.ring.put(x.record(), s.o.ConfigText)
	s.meter().Decided(x.metered(), 0, now-x.began)
	return Action{Do: Forward, To: x.to, Out: x.out, Respond: x.respond, Revocable: s.o.Built.Evicts()}
}

// letGo is called by the dispatcher when the queue lets the request go: it is decided and booked before the next one
// is asked for, or refused with no, and its adapter fetches the action with Resume.
func (x *Exchange) letGo(now pool.Instant, no *reason.Refusal) {
	x.mu.Lock()
	if x.step != stepAdmit || x.settled {
		x.mu.Unlock()
		return
	}
	x.r.Now = now
	var a Action
	if no != nil {
		a = x.refuse(now, no)
	} else {
		x.stage++
		a = x.advance(now)
	}
	if a.Do == Hold { // it did not fit any more, and waits on, or it is looked at a second time
		x.mu.Unlock()
		return
	}
	x.pending = &a
	x.mu.Unlock()
	x.r.Wake()
}

// held is called with what an entry point returns, when its lock is released: a request that waits in the queue may go
// at once, since room may have been made between its attempt and its place in the queue; and so may others where it gave some back.
func (x *Exchange) held(now pool.Instant, a Action) Action {
	switch {
	case x.freed.Load():
		x.freed.Store(false)
		x.s.dispatch(now)
	case a.Do == Hold:
		x.s.release(now)
	}
	return a
}

// among returns which members may take the request, by the subset hint and, in conformance runs, by the client's
// steering; nil for all. An entry is an address with a port, or without one for all ports; IPv6 bare or in brackets.
func (x *Exchange) among() (func(*pool.Endpoint) bool, *reason.Refusal) {
	hint, has := x.via.Subset, x.via.HasSubset
	if x.s.o.Conformance && len(x.r.Steered) > 0 {
		hint, has = x.r.Steered, true
	}
	if !has {
		return nil, nil
	}
	var exact []netip.AddrPort
	var hosts []netip.Addr
	for _, list := range hint {
		for entry := range strings.SplitSeq(list, ",") {
			entry = strings.TrimSpace(entry)
			if entry == "" {
				continue
			}
			if ap, err := netip.ParseAddrPort(entry); err == nil {
				exact = append(exact, netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port()))
			} else if a, err := netip.ParseAddr(strings.Trim(entry, "[]")); err == nil {
				hosts = append(hosts, a.Unmap())
			} else {
				x.note(reason.SubsetIgnored, "")
			}
		}
	}
	if len(exact) == 0 && len(hosts) == 0 {
		return nil, reason.Refuse(reason.NoEndpoint, "the subset hint names no endpoint")
	}
	return func(e *pool.Endpoint) bool {
		for _, ap := range exact {
			if ap == e.Addr {
				return true
			}
		}
		for _, a := range hosts {
			if a == e.Addr.Addr() {
				return true
			}
		}
		return false
	}, nil
}

// shows reports whether the transport shows all of part.
func (x *Exchange) shows(part plugins.Parts) bool { return x.via.Sees&part == part }

// asksForBody reports whether somebody must see the answer's body.
func (x *Exchange) asksForBody() bool {
	return x.respond&(plugins.Chunks|plugins.Usage|plugins.Rewrite) != 0
}

// watches reports whether the answer's body comes by us.
func (x *Exchange) watches() bool {
	return x.shows(plugins.Chunks) && (!x.via.Chooses || x.asksForBody())
}

// usageOf returns what the adapter or the reader found of the answer's token usage.
func (x *Exchange) usageOf() openai.Usage {
	if x.ending.Usage != nil && *x.ending.Usage != openai.NoUsage {
		return *x.ending.Usage
	}
	if x.usage != nil {
		x.usage.Close()
		return x.usage.Usage()
	}
	return openai.NoUsage
}
