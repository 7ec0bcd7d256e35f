package proxy

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// Clock tells the time since the run began.
type Clock interface{ Now() pool.Instant }

// Options are what a proxy needs of its process.
type Options struct {
	// Scheduler returns the scheduler in force; it is asked once per request. Required.
	Scheduler func() *exchange.Scheduler
	// Clock is required.
	Clock Clock
	// Sink counts what no exchange stands for. Nil discards.
	Sink reason.Sink
	// Log gets, at debug level, the errors of upstream connections, which no client sees. Nil discards.
	Log *slog.Logger
	// Observe is told what time the calls of the exchange took until the request was forwarded or refused, without the
	// waiting for bytes. Nil: nobody is.
	Observe func(time.Duration)
	// Transport bounds the connections to engines.
	Transport Transport
}

// Proxy is the handler of the serving port. See the package's documentation.
type Proxy struct {
	o         Options
	transport *http.Transport
	traffic   traffic
}

var _ http.Handler = (*Proxy)(nil)

// New returns a proxy. Scheduler and Clock must be set.
func New(o Options) *Proxy {
	if o.Sink == nil {
		o.Sink = reason.Discard{}
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Proxy{o: o, transport: o.Transport.build()}
}

// Close closes the connections to engines that are idle.
func (p *Proxy) Close() { p.transport.CloseIdleConnections() }

// via is what the proxy's transport can do. Rewrite is missing from Sees: an answer's bytes pass as they come.
func via() exchange.Via {
	return exchange.Via{
		Adapter: "proxy", Fallbacks: true, StreamLasts: true, TellsEnd: true,
		Sees: plugins.FirstByte | plugins.Usage | plugins.Chunks, Chooses: true,
	}
}

// flight is one request on its way through the proxy.
type flight struct {
	p *Proxy
	w http.ResponseWriter
	r *http.Request
	x *exchange.Exchange

	wake   chan struct{} // of capacity 1
	in     inbound
	header http.Header // what goes upstream
	spent  time.Duration

	forwarded bool
	ending    exchange.Ending                    // what End is told; the zero value: the upstream broke
	refused   atomic.Pointer[exchange.Action]    // the answer to a request whose body was on its way, or that was taken back
	cancel    atomic.Pointer[context.CancelFunc] // breaks off an attempt of a request that may be taken back
	left      bool                               // the handler ends on purpose: it relayed an answer, replied or broke off
}

// Wake implements exchange.Waker.
func (f *flight) Wake() {
	if f.cancel.Load() != nil {
		go f.takenBack() // whoever wakes may hold locks
		return
	}
	select {
	case f.wake <- struct{}{}:
	default: // one is on its way
	}
}

// takenBack breaks off the attempt of a request that was taken back; its answer is the exchange's.
func (f *flight) takenBack() {
	if a := f.x.Resume(f.p.o.Clock.Now()); a.Do == exchange.Reply {
		f.refused.Store(&a)
		(*f.cancel.Load())()
	}
}

// ServeHTTP carries one request.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f := &flight{p: p, w: w, r: r, wake: make(chan struct{}, 1)}
	if p.traffic.enter(f) {
		defer p.traffic.leave(f)
	}
	f.x = p.o.Scheduler().Begin(p.o.Clock.Now(), f)
	defer f.end()
	a, ok := f.decide()
	for ok && a.Do == exchange.Forward {
		a, ok = f.forward(&a)
	}
	switch {
	case ok && a.Do == exchange.Reply:
		f.left = true
		reply(w, a.Reply)
	case !f.left:
		f.breakOff()
	}
}

// end runs on every exit, panics among them, so that no booking outlives its request.
func (f *flight) end() {
	if !f.left {
		f.p.o.Sink.Note(reason.Internal, "the proxy's handler panicked")
	}
	f.x.End(f.p.o.Clock.Now(), f.ending)
	if !f.forwarded {
		f.in.release()
	}
}

// decide brings headers and body to the exchange until it forwards or replies. ok is false when the client went away.
func (f *flight) decide() (a exchange.Action, ok bool) {
	none := f.r.Body == nil || f.r.Body == http.NoBody || f.r.ContentLength == 0
	f.in.open(f.r, none)
	f.header = outgoing(f.r)
	headers := borrowHeaders()
	*headers = incoming((*headers)[:0], f.r, f.header)
	a = f.timed(func(now pool.Instant) exchange.Action { return f.x.Headers(now, *headers, via(), none) })
	returnHeaders(headers)
	for {
		switch a.Do {
		case exchange.Continue:
			chunk, err := f.in.next()
			if err != nil {
				return f.lost(err)
			}
			if f.in.ended && f.r.Context().Err() != nil { // a stream that was reset is not worth a decision
				f.ending.ByClient = true
				return a, false
			}
			a = f.timed(func(now pool.Instant) exchange.Action { return f.x.Body(now, chunk, f.in.ended) })
		case exchange.Hold:
			select {
			case <-f.wake:
			case <-f.r.Context().Done():
				f.ending.ByClient = true
				return a, false
			}
			a = f.timed(f.x.Resume)
		default:
			if f.p.o.Observe != nil {
				f.p.o.Observe(f.spent)
			}
			return a, a.Do != exchange.Ignore
		}
	}
}

// lost says what becomes of a request whose body cannot be read any further. A client that went away gets nothing, ok is then
// false; one whose framing is wrong is told.
func (f *flight) lost(err error) (a exchange.Action, ok bool) {
	var network net.Error
	if f.r.ProtoMajor != 1 || f.r.Context().Err() != nil || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &network) {
		f.ending.ByClient = true
		return a, false
	}
	f.w.Header()["Connection"] = []string{"close"}
	a = f.x.Malformed(f.p.o.Clock.Now(), err.Error())
	return a, a.Do != exchange.Ignore
}

func (f *flight) timed(call func(pool.Instant) exchange.Action) exchange.Action {
	now := f.p.o.Clock.Now()
	a := call(now)
	f.spent += time.Duration(f.p.o.Clock.Now() - now)
	return a
}

// breakOff ends the handler without, or in the midst of, an answer, so that the client sees that it is none.
func (f *flight) breakOff() {
	f.left = true
	if !f.r.ProtoAtLeast(1, 1) {
		reset(f.w) // to HTTP/1.0 the end of the connection is the end of the answer
	}
	panic(http.ErrAbortHandler)
}
