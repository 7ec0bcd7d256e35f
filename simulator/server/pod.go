package server

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlead/fairlead/simulator/engine"
)

// pod is one engine and the requests in it, from its start to its end. A mutex guards the engine; one goroutine sleeps
// until the running step ends. Whoever else takes the lock first brings the engine up to date, so that everything happens at
// its instant, in order, however late the sleeper wakes.
type pod struct {
	index  int
	record *recorder // nil for none
	clock  Clock
	flush  time.Duration
	wake   chan struct{} // capacity 1: the sleeper's deadline moved
	done   chan struct{}
	models *modelTable
	ended  sync.WaitGroup

	mu      sync.Mutex
	engine  *engine.Engine
	streams []*stream // by the engine's slot
	held    []*stream // have tokens that their readers were not told of
	flushed time.Time // when they last were
	stats   *stats

	hungSince time.Duration // engine time; valid while hung
	hung      bool
}

// stream is one request as its handler sees it. The pod writes, the handler reads.
type stream struct {
	id        engine.ID
	maxTokens int32
	stops     bool // by itself, not for its limit
	held      bool // guarded by the pod's lock

	generated atomic.Int32 // tokens so far
	finished  atomic.Bool  // set after timeline
	timeline  engine.Timeline
	ready     chan struct{} // capacity 1: look again
}

// leastSleep bounds how often the sleeper wakes: several steps that end within it are made together, each at its instant.
const leastSleep = 500 * time.Microsecond

func newPod(o Options, index int, clock Clock, record *recorder) (*pod, error) {
	e, err := engine.New(o.Profile, o.Engine)
	if err != nil {
		return nil, err
	}
	models := newModelTable(o)
	p := &pod{
		index:   index,
		record:  record,
		clock:   clock,
		flush:   o.Flush,
		wake:    make(chan struct{}, 1),
		done:    make(chan struct{}),
		engine:  e,
		flushed: time.Now(),
		models:  models,
		stats:   newStats(e.Profile(), o, models),
	}
	p.ended.Go(p.loop)
	return p, nil
}

// close ends the loop and waits for it. Requests in the engine get nothing more.
func (p *pod) close() {
	close(p.done)
	p.ended.Wait()
}

func (p *pod) loop() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		p.mu.Lock()
		p.advance(p.clock.Now())
		wait := p.sleep(time.Now())
		p.mu.Unlock()
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-p.wake:
		case <-p.done:
			return
		}
	}
}

// sleep tells the readers of held tokens, if their time has come, and returns how long nothing is to be done.
func (p *pod) sleep(wall time.Time) time.Duration {
	wait := time.Hour
	if next, busy := p.engine.Next(); busy && !p.hung {
		wait = max(p.clock.Until(next), leastSleep)
	}
	if len(p.held) > 0 {
		left := p.flush - wall.Sub(p.flushed)
		if left > 0 {
			return min(wait, left)
		}
		for i, s := range p.held {
			s.held = false
			s.tell()
			p.held[i] = nil
		}
		p.held = p.held[:0]
		p.flushed = wall
	}
	return wait
}

// advance makes every step that ends until now.
func (p *pod) advance(now time.Duration) {
	for !p.hung {
		next, busy := p.engine.Next()
		if !busy || next > now {
			return
		}
		r := p.engine.Step(next)
		p.record.stepped(p.index, p.engine)
		p.deliver(r)
	}
}

func (p *pod) deliver(r engine.Result) {
	p.stats.observe(r)
	for _, t := range r.Tokens {
		s := p.streams[t.ID.Slot]
		s.generated.Store(t.Count)
		switch {
		case t.Last: // told below
		case t.Count == 1:
			s.tell()
		case !s.held:
			s.held = true
			p.held = append(p.held, s)
		}
	}
	for _, f := range r.Finished {
		s := p.streams[f.ID.Slot]
		p.streams[f.ID.Slot] = nil
		p.stats.finish(f.Timeline, s.maxTokens, s.stops)
		s.timeline = f.Timeline
		s.finished.Store(true)
		s.tell()
	}
}

// tell wakes the stream's reader, or leaves it a note.
func (s *stream) tell() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// submit puts a request into the engine; stops says that its answer ends by itself. The error is the engine's.
func (p *pod) submit(r engine.Request, maxTokens int32, stops bool) (*stream, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	p.advance(now)
	id, err := p.engine.Add(now, r)
	if err != nil {
		p.stats.rejected()
		return nil, err
	}
	s := &stream{id: id, maxTokens: maxTokens, stops: stops, ready: make(chan struct{}, 1)}
	for int(id.Slot) >= len(p.streams) {
		p.streams = append(p.streams, nil)
	}
	p.streams[id.Slot] = s
	p.record.added(p.index, now, r)
	p.start(now)
	return s, nil
}

// start begins a step on an idle engine and has the sleeper look at its new deadline.
func (p *pod) start(now time.Duration) {
	if _, busy := p.engine.Next(); busy || p.hung {
		return
	}
	p.engine.Step(now)
	p.record.stepped(p.index, p.engine)
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// abort takes a request out of the engine; one that has ended is left alone.
func (p *pod) abort(s *stream) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	p.advance(now)
	if p.engine.Abort(s.id) {
		p.record.aborted(p.index, now, s.id)
	}
}

// setHung stops the device, or lets it go on: the step that was running then ends as much later as it stood still.
func (p *pod) setHung(hung bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	switch {
	case hung && !p.hung:
		p.advance(now)
		p.hung, p.hungSince = true, now
	case !hung && p.hung:
		p.hung = false
		p.engine.Stall(now - p.hungSince)
		p.start(now)
		select {
		case p.wake <- struct{}{}:
		default:
		}
	}
}

// setSlowdown makes the steps that begin from now on take factor times as long.
func (p *pod) setSlowdown(factor float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advance(p.clock.Now())
	p.engine.SetSlowdown(factor)
}

// resetCache forgets cached contents and reports whether it did; it does not while a request holds blocks.
func (p *pod) resetCache() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advance(p.clock.Now())
	return p.engine.ResetCache()
}

func (p *pod) snapshot() (engine.Gauges, engine.Counters) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advance(p.clock.Now())
	return p.engine.Gauges(), p.engine.Counters()
}

// page appends the metrics page to dst.
func (p *pod) page(dst []byte, wall time.Time) []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advance(p.clock.Now())
	return p.stats.append(dst, p.engine, wall)
}
