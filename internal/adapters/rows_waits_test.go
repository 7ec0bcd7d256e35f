package adapters

import (
	"time"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// waitRows are about stages that hold.
func waitRows() []row {
	held := func(phase plugins.Phase) func(*side) {
		return func(s *side) {
			r := s.open(post(chat, hello, "Gate-"+phase.String()+": hold"), 1)
			held := <-s.plugins.held
			held.Wake() // without cause: it holds on
			s.plugins.held <- <-s.plugins.held
			s.pass(3 * time.Second)
			s.plugins.letGo(phase)
			r.answer()
		}
	}
	tooLong := func(phase plugins.Phase) func(*side) {
		return func(s *side) {
			r := s.open(post(chat, hello, "Gate-"+phase.String()+": hold"), 1)
			<-s.plugins.held
			s.pass(9 * time.Second)
			s.pass(2 * time.Second)
			r.answer()
		}
	}
	return []row{
		{name: "a stage at the headers holds and is woken", play: held(plugins.AtHeaders)},
		{name: "a stage at resolve holds and is woken", play: held(plugins.AtResolve)},
		{name: "a stage at describe holds and is woken", play: held(plugins.AtDescribe)},
		{name: "a stage at admit holds and is woken", play: held(plugins.AtAdmit)},
		{name: "a stage holds a request without body", play: func(s *side) {
			r := s.open(get("GET", "/v1/models", "Gate-Admit: hold"), 0)
			s.plugins.letGo(plugins.AtAdmit)
			r.answer()
		}},
		{name: "two stages hold one after the other", play: func(s *side) {
			c := post(chat, hello, "Gate-Describe: hold", "Gate-Admit: hold").inChunks(9)
			r := s.open(c, len(c.pieces))
			s.plugins.letGo(plugins.AtDescribe)
			s.pass(time.Second)
			s.plugins.letGo(plugins.AtAdmit)
			r.answer()
		}},
		{name: "a stage at the headers holds while the body comes", notBuffered: true, play: func(s *side) {
			c := post(chat, "", "Gate-Headers: hold")
			c.framing, c.pieces = chunked, []string{hello[:30], hello[30:]}
			r := s.open(c, 1)
			held := <-s.plugins.held
			r.rest(1)
			s.plugins.held <- held
			s.plugins.letGo(plugins.AtHeaders)
			r.answer()
		}},
		{name: "a request that waits too long for its place", want: "429 queue_timeout: 1", play: tooLong(plugins.AtAdmit)},
		{name: "a look-up that takes too long", want: "503 lookup_timeout: 1", play: tooLong(plugins.AtDescribe)},
		{name: "a look-up at the headers that takes too long", want: "503 lookup_timeout: 1", play: tooLong(plugins.AtHeaders)},
		{name: "a replica that drains while a request waits", want: "503 shutting_down: 1", play: func(s *side) {
			r := s.open(post(chat, hello, "Gate-Admit: hold"), 1)
			held := <-s.plugins.held
			s.scheduler.Drain()
			held.Wake()
			r.answer()
		}},
		{name: "another replica chooses the same endpoint", world: (*side).neighbour, want: "200 decided_anew: 1", play: func(s *side) {
			r := s.open(post(chat, prompt(4000)), 1)
			s.untilBooked(1)
			s.others(pool.Booked)
			s.pass(exchange.Defaults().ReplicaWait)
			s.until("it is not decided anew", func() bool { return s.times(reason.DecidedAnew) == 1 })
			s.others(pool.Ended)
			s.untilBooked(1)
			s.pass(exchange.Defaults().ReplicaWait)
			r.answer()
		}},
		{name: "no other replica chooses the endpoint", world: (*side).neighbour, play: func(s *side) {
			r := s.open(post(chat, prompt(4000)), 1)
			s.untilBooked(1)
			s.pass(exchange.Defaults().ReplicaWait)
			r.answer()
		}},
		{name: "a client that leaves while its request is held for other replicas", world: (*side).neighbour, want: "client_aborted: 1", play: func(s *side) {
			r := s.open(post(chat, prompt(4000)), 1)
			s.untilBooked(1)
			r.leave()
			s.untilBooked(0)
		}},
		{name: "a replica that drains while a request is held for others", world: (*side).neighbour, play: func(s *side) {
			r := s.open(post(chat, prompt(4000)), 1)
			s.untilBooked(1)
			s.scheduler.Drain()
			s.pass(exchange.Defaults().ReplicaWait)
			r.answer()
		}},
		{name: "a client that leaves while it waits", want: "client_aborted: 1", play: func(s *side) {
			r := s.open(post(chat, hello, "Gate-Admit: hold"), 1)
			<-s.plugins.held
			r.leave()
		}},
		{name: "one that waits is overtaken", want: "200 200", big: true, play: func(s *side) {
			r := s.open(post(chat, hello, "Gate-Admit: hold"), 1)
			held := <-s.plugins.held
			s.open(post(chat, prompt(300)), 1).answer()
			s.until("the one that overtakes is not over", func() bool { return s.scheduler.Open() == 0 })
			s.plugins.held <- held
			s.plugins.letGo(plugins.AtAdmit)
			r.answer()
		}},
	}
}

// neighbour has another replica heard, that has booked a moment ago.
func (s *side) neighbour() {
	s.others(pool.Booked)
	s.others(pool.Ended)
}

// others has another replica heard: of a long prompt for each endpoint, or of the ends of those. They were booked before whatever is
// booked here.
func (s *side) others(kind pool.EventKind) {
	s.t.Helper()
	p := s.pools[0]
	var events []pool.Event
	for i, id := range p.Snapshot().Members {
		events = append(events, pool.Event{Kind: kind, Booking: pool.Booking{Slot: uint32(i), Generation: 1}, To: p.Snapshot().Slots[id].Addr,
			Load: pool.Load{UncachedPrefill: 5000}, Left: time.Minute, Turn: 1})
	}
	if s.scheduler.Hear(s.clock.Now(), p, &s.mirror, events) != 0 {
		s.t.Error("what another replica tells is of no use")
	}
}

// untilBooked waits until so many requests are booked.
func (s *side) untilBooked(n int) {
	s.t.Helper()
	s.until("the requests are not booked", func() bool { return s.pools[0].Open() == n })
}

func (s *side) times(id reason.ID) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.noted[id]
}
