package exchange

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

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
	// MaxHeaderCount and MaxHeaderBytes bound a request's headers, of names and values; 431 beyond. 0 is no bound.
	MaxHeaderCount, MaxHeaderBytes int
	// MaxHeldBytes bounds what all bodies together that are held take; 503 beyond. A body is held until it is on its way, and
	// where another endpoint may still need it, until an endpoint answers. 0 is no bound.
	MaxHeldBytes int64
	// MaxRequests bounds the exchanges that are not over; 503 beyond. 0 is no bound.
	MaxRequests int
	// MaxScanBytes bounds how much of a body is read; what stands behind it is passed on unread. 0 is no bound.
	MaxScanBytes int64
	// BookingDeadline ends a booking of which no end was seen.
	BookingDeadline time.Duration
	// ReplicaWait is for how long a request whose endpoint was chosen and told is held where other replicas book too, so that of those
	// that chose one endpoint at the same time all but one are decided anew; at most MaxReplicaWait. 0: they go at once.
	ReplicaWait time.Duration
	// LogGrace is how long an exchange whose stream ended waits for the access-log entry that tells how.
	LogGrace time.Duration
	// Fallbacks is how many endpoints a destination list has where lists are understood, the primary included. At least 1.
	Fallbacks int
	// ExpectedOutput is the number of tokens that a request is booked to generate where no plugin says, and at most.
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
		MaxBodyBytes: 64 << 20, MaxInflatedBytes: 8 << 20, MaxHeaderCount: 256, MaxHeaderBytes: 128 << 10,
		MaxHeldBytes: 1 << 30, MaxRequests: 65_536,
		BookingDeadline: 10 * time.Minute, ReplicaWait: time.Millisecond, LogGrace: 5 * time.Second, Fallbacks: 3,
		ExpectedOutput: 256, RecordEvery: 1, RecordRing: 1024, Sink: reason.Discard{},
	}
}

// Scheduler runs exchanges under one configuration. Replace makes another one that takes its place; running exchanges keep
// theirs, and what does not hang on a configuration is common to both.
type Scheduler struct {
	*run
	o      Options
	cycles []sync.Pool // of *plugins.Cycle, one per plan

	live atomic.Int64 // exchanges that are not over

	dispatching sync.Mutex
	freed       atomic.Bool
	queueDue    atomic.Int64 // the queue's deadline that the edge knows of; 0 for none
}

// New returns the first scheduler of a run, or an error that names the option that is missing or out of range.
func New(o Options) (*Scheduler, error) {
	r := &run{ring: newRing(o.RecordRing), open: map[string]*Exchange{}}
	s, err := r.scheduler(o)
	if err != nil {
		return nil, err
	}
	r.all.Store(&[]*Scheduler{s})
	r.current.Store(s)
	s.begin()
	return s, nil
}

// scheduler makes one that is not in force yet.
func (r *run) scheduler(o Options) (*Scheduler, error) {
	switch {
	case o.Built == nil:
		return nil, fmt.Errorf("scheduler: no configuration")
	case len(o.Pools) != len(o.Built.Plans):
		return nil, fmt.Errorf("scheduler: got %d pools, want %d, one per pool of the configuration", len(o.Pools), len(o.Built.Plans))
	case o.Sink == nil:
		return nil, fmt.Errorf("scheduler: no sink of reasons")
	case o.MaxBodyBytes < 1:
		return nil, fmt.Errorf("scheduler: the body limit is %d bytes; at least 1", o.MaxBodyBytes)
	case o.ReplicaWait < 0 || o.ReplicaWait > MaxReplicaWait:
		return nil, fmt.Errorf("scheduler: requests wait %v for other replicas; from 0 to %v", o.ReplicaWait, MaxReplicaWait)
	case o.Fallbacks < 1:
		return nil, fmt.Errorf("scheduler: the destination list has %d endpoints; at least 1", o.Fallbacks)
	}
	return &Scheduler{run: r, o: o, cycles: make([]sync.Pool, len(o.Built.Plans))}, nil
}

// begin gives plugins their pools, and has the queue asked when they change.
func (s *Scheduler) begin() {
	s.o.Built.Attach(s.o.Pools, s.o.Sink)
	for _, p := range s.o.Pools {
		p.Watch(s.poolChanged)
	}
}

// poolChanged is told of samples and changes of a membership. Somebody may wait for that; the edge dispatches, so that whoever
// reads metrics decides no requests.
func (s *Scheduler) poolChanged(now pool.Instant) {
	for _, of := range *s.all.Load() {
		if q := of.o.Built.Queue(); q != nil && q.Deadline() != 0 {
			if s.o.Alarm != nil {
				s.o.Alarm.At(now)
			} else {
				of.release(now)
			}
		}
	}
}

// Begin opens an exchange for one request, under the configuration in force. w is told when Resume is due.
func (s *Scheduler) Begin(now pool.Instant, w Waker) *Exchange {
	s = s.enter()
	number := s.number.Add(1) - 1
	x := &Exchange{s: s, began: now, want: 1}
	x.ID = decisionID(s.o.Seed, number)
	var wake func()
	if w != nil {
		wake = w.Wake
	}
	x.r.Prepare(s.o.Built, wake)
	x.r.ID, x.r.Number, x.r.Now, x.r.Owner = x.ID, number, now, x
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
	for _, of := range *s.all.Load() {
		if due := pool.Instant(of.queueDue.Load()); due != plugins.Forever {
			next = earlier(next, due)
		}
	}
	s.retire()
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

func (s *Scheduler) cycle(plan int) *plugins.Cycle {
	if c, ok := s.cycles[plan].Get().(*plugins.Cycle); ok {
		return c
	}
	return s.o.Built.Plans[plan].NewCycle(s.o.Sink)
}

// dispatch has the queue of each scheduler let go whom it can, the oldest first: an end may free what a request waits for
// that came under another configuration.
func (s *Scheduler) dispatch(now pool.Instant) {
	for _, of := range *s.all.Load() {
		of.release(now)
	}
}

// release lets go whom the queue releases, one after the other, each decided and booked before the next is asked for.
// One dispatcher works at a time; who finds it busy leaves a mark and goes on.
func (s *Scheduler) release(now pool.Instant) {
	q := s.o.Built.Queue()
	if q == nil {
		return
	}
	s.freed.Store(true)
	for s.freed.Load() && s.dispatching.TryLock() {
		s.freed.Store(false)
		for {
			r, no, ok := s.o.Built.Next(s.o.Sink, now)
			if !ok {
				if s.evict(now) {
					continue
				}
				break
			}
			r.Owner.(*Exchange).letGo(now, no)
		}
		s.announce(q.Deadline())
		s.dispatching.Unlock()
	}
}

// announce tells the edge of the queue's deadline, if that is an earlier one than it knows.
func (s *Scheduler) announce(due pool.Instant) {
	known := pool.Instant(s.queueDue.Swap(int64(due)))
	if due != 0 && due != plugins.Forever && s.o.Alarm != nil && (known == 0 || due < known) {
		s.o.Alarm.At(due)
	}
}

func (s *Scheduler) meter() Meter {
	if s.o.Meter == nil {
		return noMeter{}
	}
	return s.o.Meter
}
