package extproc

import (
	"errors"
	"sync/atomic"
	"time"

	extprocpb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/pool"
)

var (
	errInternal = status.Error(codes.Internal, "the picker failed on this request; its log says where")
	// errOver ends a handler without an error for the gateway: the stream is gone, or is to be ended.
	errOver = errors.New("the stream is over")
)

// stream is one request on its way through the protocol. Its handler is the only goroutine that touches it, but for wake
// and place.
type stream struct {
	s     *Server
	io    extprocpb.ExternalProcessor_ProcessServer
	x     *exchange.Exchange // nil before the request's headers
	wake  chan struct{}
	place atomic.Uint32

	modes modes

	// The request.
	asked      Kind     // the message that the decision will answer, where the gateway keeps the body
	kept       [][]byte // chunks that came before the decision
	sent       int64    // bytes of the client's body that were passed on
	edits      []openai.Edit
	forwarded  bool
	requestEnd bool
	trailers   bool // the request ended with trailers, which are answered after the body
	announced  bool // its headers say that it will
	marks      bool // the gateway wants such a request marked
	pieces     [][]byte
	refused    []string // trailers that are taken out
	spent      pool.Instant

	// The response.
	responseSeen, responseEnd bool
}

// The places of a stream, as Drain sees it.
const (
	busy   uint32 = iota // its handler works, or ending it would lose something
	parked               // its handler waits for the gateway, and ending the stream loses nothing
	ending               // Drain ends it
)

// serve reads messages until the stream is over.
func (st *stream) serve() error {
	for {
		m, err := st.receive()
		if err == nil {
			err = st.handle(m)
		}
		if errors.Is(err, errOver) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// receive returns the next message, or errOver.
func (st *stream) receive() (*extprocpb.ProcessingRequest, error) {
	park := st.mayEnd()
	if park {
		st.place.Store(parked)
		if st.s.draining.Load() {
			return nil, errOver
		}
	}
	m, err := st.io.Recv()
	if park && !st.place.CompareAndSwap(parked, busy) || err != nil {
		return nil, errOver // the status of a broken stream says nothing of how the exchange ended
	}
	return m, nil
}

// mayEnd reports whether ending the stream here loses nothing: the request is on its way, and no chunk of the response can
// be on its way to us that only we could pass on.
func (st *stream) mayEnd() bool {
	sent := st.forwarded && (st.requestEnd || st.modes.request == none)
	return sent && (!st.responseSeen || st.responseEnd || st.modes.response != duplex)
}

// endIfParked has Drain end the stream if nothing is lost by it.
func (st *stream) endIfParked() {
	if st.place.CompareAndSwap(parked, ending) {
		hangUp(st.io.Context())
	}
}

// Wake has the handler call Resume, if it holds.
func (st *stream) Wake() {
	select {
	case st.wake <- struct{}{}:
	default:
	}
}

// wait waits until somebody calls Wake, or returns errOver when the stream ends before.
func (st *stream) wait() error {
	select {
	case <-st.wake:
		return nil
	case <-st.io.Context().Done():
		return errOver
	}
}

// decide makes one call of the exchange and sums up what the calls take until the decision.
func (st *stream) decide(call func(now pool.Instant) exchange.Action) exchange.Action {
	now := st.s.o.Clock()
	a := call(now)
	if !st.forwarded {
		st.spent += st.s.o.Clock() - now
		if a.Do == exchange.Forward || a.Do == exchange.Reply {
			st.s.o.Observe(time.Duration(st.spent))
		}
	}
	return a
}

func (st *stream) send(m *answer) error { return st.io.Send(m) }

// handle gives one message to the exchange and answers it. A message of a kind not known is ignored, as the protocol
// prepares for: later releases send some that older servers may leave unanswered.
func (st *stream) handle(m *extprocpb.ProcessingRequest) error {
	switch r := m.GetRequest().(type) {
	case *extprocpb.ProcessingRequest_RequestHeaders:
		st.s.o.Received(RequestHeaders)
		return st.onRequestHeaders(m, r.RequestHeaders)
	case *extprocpb.ProcessingRequest_RequestBody:
		st.s.o.Received(RequestBody)
		return st.onRequestBody(r.RequestBody)
	case *extprocpb.ProcessingRequest_RequestTrailers:
		st.s.o.Received(RequestTrailers)
		return st.onRequestTrailers(r.RequestTrailers)
	case *extprocpb.ProcessingRequest_ResponseHeaders:
		st.s.o.Received(ResponseHeaders)
		return st.onResponseHeaders(m, r.ResponseHeaders)
	case *extprocpb.ProcessingRequest_ResponseBody:
		st.s.o.Received(ResponseBody)
		return st.onResponseBody(r.ResponseBody)
	case *extprocpb.ProcessingRequest_ResponseTrailers:
		st.s.o.Received(ResponseTrailers)
		return st.onResponseTrailers()
	}
	st.s.o.Received(Unknown)
	return nil
}
