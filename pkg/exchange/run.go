package exchange

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// run is what the schedulers of one process have in common, whatever their configurations: the numbering of exchanges, their
// records, those that have not ended with their deadlines, and what is known of the gateways.
type run struct {
	number   atomic.Uint64
	ring     *ring
	draining atomic.Bool
	running  atomic.Int64 // exchanges that are not over
	held     atomic.Int64 // bytes of bodies that are held

	logs      atomic.Int32 // open access-log streams
	logLost   atomic.Int64 // when the last of them closed; 0 while there is one, or when that has been dealt with
	responses atomic.Bool  // some answer's headers were seen: a stream that ends without them was aborted

	current atomic.Pointer[Scheduler]
	all     atomic.Pointer[[]*Scheduler] // the oldest first, current last; replaced, never modified
	change  sync.Mutex                   // of whoever replaces all

	mu       sync.Mutex
	open     map[string]*Exchange // forwarded and not settled, or settled and waiting for its log entry
	deadline deadlines
}

// Current returns the scheduler in force.
func (s *Scheduler) Current() *Scheduler { return s.current.Load() }

// Replace puts another configuration in force and returns its scheduler: exchanges that begin from here on are its own, those
// that run end under theirs. pools are aligned with the plans of built; those that stay are the same pools as before, so
// that load is known across the change. Numbers, and so decision ids, go on; records are kept; an access-log entry finds its
// exchange whichever scheduler hears of it. A scheduler that was replaced wants Tick until it is Quiet.
func (s *Scheduler) Replace(now pool.Instant, built *plugins.Built, pools []*pool.Pool, text, digest string) (*Scheduler, error) {
	s.change.Lock()
	defer s.change.Unlock()
	o := s.o
	o.Built, o.Pools, o.ConfigText, o.ConfigDigest = built, pools, text, digest
	next, err := s.scheduler(o)
	if err != nil {
		return nil, err
	}
	all := append(slices.Clone(*s.all.Load()), next)
	next.begin()
	s.all.Store(&all)
	s.current.Store(next)
	if o.Alarm != nil {
		o.Alarm.At(now) // for its tickers to begin
	}
	return next, nil
}

// enter counts one more exchange at the scheduler in force, and returns that. A caller may have asked for the scheduler just
// before it was replaced; nobody would tick it for an exchange that begins after it was found quiet.
func (s *Scheduler) enter() *Scheduler {
	for {
		s.live.Add(1)
		current := s.current.Load()
		if current == s {
			s.running.Add(1)
			return s
		}
		s.live.Add(-1)
		s = current
	}
}

// Quiet reports whether nothing is left that Tick would have to act on. A scheduler that was replaced is when all its
// exchanges are over.
func (s *Scheduler) Quiet() bool {
	switch {
	case s.live.Load() != 0:
		return false
	case s.current.Load() != s:
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open) == 0 && s.deadline.first() == 0
}

// Running returns the schedulers that have exchanges that are not over, and the one in force, which is the last.
func (s *Scheduler) Running() []*Scheduler {
	s.retire()
	return *s.all.Load()
}

// Queues returns the queues of the schedulers that have exchanges that are not over, and that of the one in force, which is the
// last; those without one have none.
func (s *Scheduler) Queues() (all []plugins.Queue) {
	for _, of := range s.Running() {
		if q := of.o.Built.Queue(); q != nil {
			all = append(all, q)
		}
	}
	return all
}

// retire forgets schedulers that were replaced and are quiet.
func (s *Scheduler) retire() {
	done := func(of *Scheduler) bool { return of != s.current.Load() && of.Quiet() }
	if all := *s.all.Load(); len(all) < 2 || !slices.ContainsFunc(all, done) {
		return
	}
	s.change.Lock()
	defer s.change.Unlock()
	left := slices.DeleteFunc(slices.Clone(*s.all.Load()), done)
	s.all.Store(&left)
}

// Pools returns the pools of the scheduler's configuration. They must not be modified.
func (s *Scheduler) Pools() []*pool.Pool { return s.o.Pools }

// Hear takes in what another replica tells of its bookings in one of the pools: m holds them, and plugins learn what prompts
// engines were given. It returns how many events were of no use.
func (s *Scheduler) Hear(now pool.Instant, p *pool.Pool, m *pool.Mirror, events []pool.Event) (useless int) {
	before := p.Changes()
	useless = p.Hear(now, m, events)
	if p.Changes() != before { // where others book, nobody who waits has more room
		defer s.poolChanged(now)
	}
	s = s.Current()
	if i := slices.Index(s.o.Pools, p); i >= 0 {
		members := p.Snapshot()
		for k := range events {
			e := &events[k]
			if e.Kind != pool.Brought {
				continue
			}
			if id, ok := members.Lookup(e.To); ok {
				s.o.Built.Hear(i, now, members.Slots[id].Ref, e.Chain, int(e.Tokens))
			} else {
				useless++
			}
		}
	}
	return useless
}

// Health returns how an endpoint of the pool with this index is, where somebody watches over it.
func (s *Scheduler) Health(poolIndex int, now pool.Instant, of pool.Ref) (h plugins.Health, ok bool) {
	return s.o.Built.Health(poolIndex, now, of)
}

// Drain refuses every request that has not been forwarded yet, from here on; running ones end by themselves. Those that wait
// for capacity are refused at the next Tick, which Alarm is asked for.
func (s *Scheduler) Drain() {
	s.draining.Store(true)
	for _, of := range *s.all.Load() {
		if q := of.o.Built.Queue(); q != nil {
			q.Drain()
		}
	}
	if s.o.Alarm != nil {
		s.o.Alarm.At(0)
	}
}

// Open returns how many exchanges were forwarded and have not ended, under whatever configuration.
func (s *Scheduler) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, x := range s.open {
		if !x.over.Load() {
			n++
		}
	}
	return n
}

// LogOpened and LogClosed tell that a gateway's access-log stream began and ended: while one is open, the end of a
// response that we do not see is awaited from it.
func (s *Scheduler) LogOpened() {
	s.logs.Add(1)
	s.logLost.Store(0)
}

// LogClosed is the counterpart of LogOpened. If no log stream is back within the grace, the entries of exchanges whose
// streams have ended are taken to be lost with it: they end then, and not at their booking's deadline.
func (s *Scheduler) LogClosed(now pool.Instant) {
	if s.logs.Add(-1) > 0 {
		return
	}
	s.logLost.Store(int64(now))
	if s.o.Alarm != nil {
		s.o.Alarm.At(now + pool.Instant(s.o.LogGrace))
	}
}

// sweepLost ends what waits for a log that was lost, when its grace is over, and returns when that will be, 0 for not.
func (s *Scheduler) sweepLost(now pool.Instant) pool.Instant {
	lost := s.logLost.Load()
	if lost == 0 || s.logs.Load() > 0 {
		return 0
	}
	if due := pool.Instant(lost) + pool.Instant(s.o.LogGrace); now < due {
		return due
	}
	s.logLost.CompareAndSwap(lost, 0)
	for _, x := range s.opened() {
		x.logIsLost(now)
	}
	return 0
}

// opened returns the open exchanges by their numbers.
func (r *run) opened() []*Exchange {
	r.mu.Lock()
	open := make([]*Exchange, 0, len(r.open))
	for _, x := range r.open {
		open = append(open, x)
	}
	r.mu.Unlock()
	slices.SortFunc(open, func(a, b *Exchange) int { return cmp.Compare(a.r.Number, b.r.Number) })
	return open
}

// sweepAborted is called when the first answer of the run was seen. A stream that ended before without one did not end
// because answers are not shown: its request was broken off, and its log entry may know nothing of us.
func (r *run) sweepAborted(now pool.Instant) {
	for _, x := range r.opened() {
		x.wasAborted(now)
	}
}

// Ended brings an access-log entry. Unknown ids are counted, no more.
func (s *Scheduler) Ended(now pool.Instant, id string, e Ending) {
	s.mu.Lock()
	x := s.open[id]
	s.mu.Unlock()
	if x == nil {
		s.o.Sink.Note(reason.UnknownLogEntry, "")
		return
	}
	e.From = FromLog
	x.End(now, e)
}

// expect enters or moves the exchange's deadline; 0 takes it out. The caller holds x's lock.
func (s *Scheduler) expect(x *Exchange, at pool.Instant) {
	s.mu.Lock()
	first := s.deadline.first()
	s.deadline.set(x, at)
	s.mu.Unlock()
	if at != 0 && s.o.Alarm != nil && (first == 0 || at < first) {
		s.o.Alarm.At(at)
	}
}

// expected reports whether the exchange has a deadline still, or again.
func (r *run) expected(x *Exchange) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return x.dueIndex > 0
}

func (r *run) register(x *Exchange) {
	r.mu.Lock()
	r.open[x.ID] = x
	r.mu.Unlock()
}

func (r *run) forget(x *Exchange) {
	r.mu.Lock()
	delete(r.open, x.ID)
	r.deadline.set(x, 0)
	r.mu.Unlock()
}
