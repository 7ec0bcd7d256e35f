package exchange

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// Options are what all exchanges of a run share.
type Options struct {
	Built *plugins.Built
	Pools []*pool.Pool // aligned with Built.Plans

	// Epoch is the wall time of Instant 0; it stands in records, and model lists say it as the time of creation.
	Epoch time.Time
	// Seed is the run's: decisions, IDs and random streams are functions of it and of the exchange's number.
	Seed uint64

	Sink  reason.Sink // required
	Alarm Alarm       // may be nil where Tick is called at every instant that it returned
	Meter Meter       // may be nil

	// ConfigText is the effective configuration, ConfigDigest its digest; records refer to it.
	ConfigText, ConfigDigest string

	// MaxBodyBytes bounds a request body; beyond it the request is refused with 413. At least 1.
	MaxBodyBytes int64
	// MaxInflatedBytes bounds how much of a compressed request body is read, decompressed; a longer one passes unread.
	MaxInflatedBytes int64
	// BookingDeadline ends a booking of which no end was seen.
	BookingDeadline time.Duration
	// LogGrace is how long an exchange whose stream ended waits for the access-log entry that tells how.
	LogGrace time.Duration
	// Fallbacks is how many endpoints a destination list has where lists are understood, the primary included. At least 1.
	Fallbacks int
	// ExpectedOutput is the number of tokens that a request without a bound is booked to generate.
	ExpectedOutput int64
	// RecordEvery keeps the columns of every n-th decision; 1 of all, 0 of none. RecordRing is how many records are kept.
	RecordEvery, RecordRing int
	// Full has answers pass through us chunk by chunk, where the transport can, though no hook asks for it.
	Full bool
	// Conformance honours the header test-epp-endpoint-selection and reports the served endpoint in a response header.
	Conformance bool
}

// Defaults returns the options that hold where nobody says otherwise.
func Defaults() Options {
	return Options{
		MaxBodyBytes: 64 << 20, MaxInflatedBytes: 8 << 20, BookingDeadline: 10 * time.Minute, LogGrace: 5 * time.Second, Fallbacks: 3,
		ExpectedOutput: 256, RecordEvery: 1, RecordRing: 1024, Sink: reason.Discard{},
	}
}

// Scheduler runs exchanges under one configuration. A reload makes a new one; running exchanges keep theirs.
type Scheduler struct {
	o        Options
	number   atomic.Uint64
	cycles   []sync.Pool // of *plugins.Cycle, one per plan
	ring     *ring
	draining atomic.Bool

	logs      atomic.Int32 // open access-log streams
	logLost   atomic.Int64 // when the last of them closed; 0 while there is one, or when that has been dealt with
	responses atomic.Bool  // some answer's headers were seen: a stream that ends without them was aborted

	mu       sync.Mutex
	open     map[string]*Exchange // forwarded and not settled, or settled and waiting for its log entry
	deadline deadlines

	dispatching sync.Mutex
	freed       atomic.Bool
	waiting     sync.Map // *plugins.Request → *Exchange, entered in the queue
}

// New returns a scheduler, or an error that names the option that is missing or out of range.
func New(o Options) (*Scheduler, error) {
	switch {
	case o.Built == nil:
		return nil, fmt.Errorf("scheduler: no configuration")
	case len(o.Pools) != len(o.Built.Plans):
		return nil, fmt.Errorf("scheduler: got %d pools, want %d, one per pool of the configuration", len(o.Pools), len(o.Built.Plans))
	case o.Sink == nil:
		return nil, fmt.Errorf("scheduler: no sink of reasons")
	case o.MaxBodyBytes < 1:
		return nil, fmt.Errorf("scheduler: the body limit is %d bytes; at least 1", o.MaxBodyBytes)
	case o.Fallbacks < 1:
		return nil, fmt.Errorf("scheduler: the destination list has %d endpoints; at least 1", o.Fallbacks)
	}
	s := &Scheduler{o: o, ring: newRing(o.RecordRing), open: map[string]*Exchange{}, cycles: make([]sync.Pool, len(o.Built.Plans))}
	s.ring.keepConfig(o.ConfigDigest, o.ConfigText)
	return s, nil
}

// Begin opens an exchange for one request. w is told when Resume is due.
func (s *Scheduler) Begin(now pool.Instant, w Waker) *Exchange {
	number := s.number.Add(1) - 1
	x := &Exchange{s: s, began: now, want: 1}
	x.ID = decisionID(s.o.Seed, number)
	var wake func()
	if w != nil {
		wake = w.Wake
	}
	x.r.Prepare(s.o.Built, wake)
	x.r.ID, x.r.Number, x.r.Now = x.ID, number, now
	x.r.Since = max(s.o.Epoch.Unix(), 0)
	return x
}

// decisionID is a function of seed and number, 32 hexadecimal digits: two rounds of splitmix64.
func decisionID(seed, number uint64) string {
	var words [16]byte
	binary.BigEndian.PutUint64(words[:8], mix(seed^mix(number)))
	binary.BigEndian.PutUint64(words[8:], mix(number+seed*0x9e3779b97f4a7c15))
	return hex.EncodeToString(words[:])
}

func mix(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Drain refuses every request that has not been forwarded yet, from here on; running ones end by themselves.
func (s *Scheduler) Drain() { s.draining.Store(true) }

// Open returns how many exchanges were forwarded and have not ended.
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

// Quiet reports whether nothing is left that Tick would have to end: every exchange that was forwarded is over, nobody
// waits, and no log entry is awaited. A scheduler that was replaced needs no further Tick then.
func (s *Scheduler) Quiet() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open) == 0 && s.deadline.first() == 0
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

// sweepAborted is called when the first answer is shown: from then on a stream that ends without one was aborted, and so
// were those that ended before.
func (s *Scheduler) sweepAborted(now pool.Instant) {
	for _, x := range s.opened() {
		x.wasAborted(now)
	}
}

// opened returns the exchanges that were forwarded and not forgotten yet, in the order in which they began.
func (s *Scheduler) opened() []*Exchange {
	s.mu.Lock()
	open := make([]*Exchange, 0, len(s.open))
	for _, x := range s.open {
		open = append(open, x)
	}
	s.mu.Unlock()
	slices.SortFunc(open, func(a, b *Exchange) int { return cmp.Compare(a.r.Number, b.r.Number) })
	return open
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

// Tick acts on every deadline up to now and returns the next one, 0 for none. The edge calls it then, and at the instants
// that Alarm names.
func (s *Scheduler) Tick(now pool.Instant) (next pool.Instant) {
	for {
		s.mu.Lock()
		x := s.deadline.due(now)
		s.mu.Unlock()
		if x == nil {
			break
		}
		x.expire(now)
	}
	for _, p := range s.o.Pools {
		_, n := p.Expire(now)
		next = earlier(next, n)
	}
	next = earlier(next, s.sweepLost(now))
	next = earlier(next, s.o.Built.Tick(s.o.Sink, now))
	s.dispatch(now)
	s.mu.Lock()
	defer s.mu.Unlock()
	return earlier(next, s.deadline.first())
}

// earlier returns the earlier of two deadlines, of which 0 is none.
func earlier(a, b pool.Instant) pool.Instant {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
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

func (s *Scheduler) register(x *Exchange) {
	s.mu.Lock()
	s.open[x.ID] = x
	s.mu.Unlock()
}

func (s *Scheduler) forget(x *Exchange) {
	s.mu.Lock()
	delete(s.open, x.ID)
	s.deadline.set(x, 0)
	s.mu.Unlock()
}

func (s *Scheduler) cycle(plan int) *plugins.Cycle {
	if c, ok := s.cycles[plan].Get().(*plugins.Cycle); ok {
		return c
	}
	return s.o.Built.Plans[plan].NewCycle(s.o.Sink)
}

// dispatch lets go whom the queue releases, one after the other, each decided and booked before the next is asked for.
// One dispatcher works at a time; who finds it busy leaves a mark and goes on.
func (s *Scheduler) dispatch(now pool.Instant) {
	if s.o.Built.Queue() == nil {
		return
	}
	s.freed.Store(true)
	for s.freed.Load() && s.dispatching.TryLock() {
		s.freed.Store(false)
		for {
			r, ok := s.o.Built.Next(s.o.Sink, now)
			if !ok {
				break
			}
			if x, ok := s.waiting.LoadAndDelete(r); ok {
				x.(*Exchange).letGo(now)
			}
		}
		s.dispatching.Unlock()
	}
}

func (s *Scheduler) metered() Meter {
	if s.o.Meter == nil {
		return noMeter{}
	}
	return s.o.Meter
}

type noMeter struct{}

func (noMeter) Decided(string, openai.API, string, pool.Instant) {}
func (noMeter) Settled(string, openai.API, plugins.Outcome)      {}
