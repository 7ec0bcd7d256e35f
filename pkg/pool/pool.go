package pool

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlead/fairlead/pkg/reason"
)

// DefaultStaleAfter is five scrapes at the default interval of one second: a lost page or two change nothing, and an
// engine that has been silent for longer may have filled up unseen.
const DefaultStaleAfter = 5 * time.Second

// DefaultPrefillPerToken is what one uncached prompt token costs an H100 SXM with Llama-3.1-8B in bf16, about 32,000
// tokens/s. It is a start, to be replaced per endpoint by what is measured.
const DefaultPrefillPerToken = 31 * time.Microsecond

// Options are the parameters of a Pool. Zero takes the default.
type Options struct {
	StaleAfter      time.Duration // DefaultStaleAfter
	PrefillPerToken time.Duration // of an endpoint for which nobody said more; DefaultPrefillPerToken

	// Epoch is the wall time of Instant 0, by which the bookings of several pickers are told earlier from later; zero where all
	// count from the same instant.
	Epoch time.Time
}

// Pool is a set of endpoints that serve the same models. All methods may be called from any goroutine, but none of them
// from within Decide.
type Pool struct {
	Name string

	sink     reason.Sink
	options  Options
	snapshot atomic.Pointer[Snapshot]
	changes  atomic.Uint64
	watcher  atomic.Pointer[func(Instant)]

	mu           sync.Mutex // guards what is below, and the writing of snapshot
	books        Books
	incarnations []uint32 // by ID: the last one given out
}

// New returns an empty pool with default options. A nil sink discards.
func New(name string, sink reason.Sink) *Pool { return Options{}.New(name, sink) }

// New returns an empty pool with these options. A nil sink discards.
func (o Options) New(name string, sink reason.Sink) *Pool {
	if o.StaleAfter <= 0 {
		o.StaleAfter = DefaultStaleAfter
	}
	if o.PrefillPerToken <= 0 {
		o.PrefillPerToken = DefaultPrefillPerToken
	}
	if sink == nil {
		sink = reason.Discard{}
	}
	p := &Pool{Name: name, sink: sink, options: o}
	s := &Snapshot{}
	p.snapshot.Store(s)
	p.books.snapshot, p.books.free = s, none
	if !o.Epoch.IsZero() {
		p.books.epochMicros = o.Epoch.UnixMicro()
	}
	return p
}

// StaleAfter is the age beyond which a sample is stale.
func (p *Pool) StaleAfter() time.Duration { return p.options.StaleAfter }

// Snapshot returns the membership: one atomic load.
func (p *Pool) Snapshot() *Snapshot { return p.snapshot.Load() }

// Changes rises with everything that may have made room: a first byte, progress, a move or an end, a sample, another
// membership. Bookings do not count.
func (p *Pool) Changes() uint64 { return p.changes.Load() }

// Watch has f called after each sample, each change of the membership and each Forget, outside the pool's lock and on the goroutine that
// brought it. There is one watcher at most; nil takes it away.
func (p *Pool) Watch(f func(now Instant)) {
	if f == nil {
		p.watcher.Store(nil)
		return
	}
	p.watcher.Store(&f)
}

// changed counts a change.
func (p *Pool) changed() { p.changes.Add(1) }

// told counts a change that came from outside, and tells the watcher.
func (p *Pool) told(now Instant) {
	p.changed()
	if f := p.watcher.Load(); f != nil {
		(*f)(now)
	}
}

// Decide is the one critical section: choose reads the membership and the books, which belong together, and books. It
// must be short, must not call the pool, and must keep neither the books nor their columns. A panic of choose is passed on
// with the lock released; what it had booked by then stands until its deadline.
func (p *Pool) Decide(choose func(*Snapshot, *Books)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	choose(p.books.snapshot, &p.books)
	if p.books.gaveBack {
		p.books.gaveBack = false
		p.changed()
	}
}

// FirstByte says that the answer began: the prefill is done, and no longer stands in the books. Repeated calls change
// nothing. It reports whether the booking is open.
func (p *Pool) FirstByte(now Instant, b Booking) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.books.At(now)
	p.changed()
	return p.books.firstByte(b)
}

// Progress says that the leg's decode stands at so many tokens, in place of what was expected. It reports whether the
// booking is open.
func (p *Pool) Progress(now Instant, b Booking, decode int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.books.At(now)
	p.changed()
	return p.books.progress(b, decode)
}

// Move gives the leg to another endpoint, which served it in place of the one booked. The handle and deadline stay; l is
// what it costs there, its prefill 0 if the answer has begun. On a stale Ref nothing is changed. It reports whether the
// leg stands at to.
func (p *Pool) Move(now Instant, b Booking, to Ref, l Load) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.books.At(now)
	p.changed()
	return p.books.move(b, to, l)
}

// End takes the leg out of the books. It reports whether this call did.
func (p *Pool) End(now Instant, b Booking) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.books.At(now)
	p.changed()
	return p.books.end(b)
}

// Expire ends the bookings whose deadline is now or before, each with reason BookingExpired. It returns how many, and the
// earliest deadline of those left, 0 for none.
func (p *Pool) Expire(now Instant) (ended int, next Instant) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := &p.books
	b.At(now)
	for len(b.due) > 0 {
		i := b.due[0]
		e := &b.entries[i]
		if e.deadline > now {
			return ended, e.deadline
		}
		at := &b.snapshot.Slots[e.to.ID]
		p.sink.Note(reason.BookingExpired, at.Namespace+"/"+at.Name)
		b.remove(i)
		b.release(i)
		p.changed()
		ended++
	}
	return ended, 0
}

// Open returns how many bookings have not ended.
func (p *Pool) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.books.due)
}
