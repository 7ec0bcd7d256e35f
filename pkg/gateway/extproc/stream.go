package extproc

import (
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/gateway/extproc/h2"
	"github.com/fairlead/fairlead/pkg/gateway/extproc/wire"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/pool"
)

// stream is one request on its way through the protocol. Its fields belong to whoever its connection lets run, but for woken.
type stream struct {
	s     *Server
	io    *h2.Stream
	said  declared
	x     *exchange.Exchange // nil before the request's headers
	held  bool               // the exchange holds; messages wait in the transport
	woken atomic.Bool        // somebody called Wake, and nobody resumed yet

	begun bool // its first message came, which says what the modes are
	modes modes

	// The request.
	asked      Kind     // the message that the decision will answer, where the gateway keeps the body
	kept       [][]byte // chunks that came before the decision
	room       [2][]byte
	sent       int64 // bytes of the client's body that were passed on
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

// Message reads a message, gives it to the exchange and answers it. A message of a kind not known is ignored, as the protocol
// asks of both sides.
func (st *stream) Message(m []byte) {
	var r wire.Request
	if err := wire.ReadRequest(m, &r); err != nil {
		st.s.o.Received(Unknown)
		st.s.o.Log.Warn("a gateway's message cannot be read", "error", err)
		st.io.Finish(codes.Internal, err.Error())
		return
	}
	if !st.begun && r.Kind != wire.None { // of a gateway's own answer before the request came here, response headers are the first
		st.begun, st.modes = true, readModes(r.Config, st.said)
	}
	switch r.Kind {
	case wire.RequestHeaders:
		st.s.o.Received(RequestHeaders)
		st.onRequestHeaders(&r)
	case wire.RequestBody:
		st.s.o.Received(RequestBody)
		st.onRequestBody(r.Body, r.End)
	case wire.RequestTrailers:
		st.s.o.Received(RequestTrailers)
		st.onRequestTrailers(r.Headers)
	case wire.ResponseHeaders:
		st.s.o.Received(ResponseHeaders)
		st.onResponseHeaders(&r)
	case wire.ResponseBody:
		st.s.o.Received(ResponseBody)
		st.onResponseBody(r.Body, r.End)
	case wire.ResponseTrailers:
		st.s.o.Received(ResponseTrailers)
		st.onResponseTrailers()
	default:
		st.s.o.Received(Unknown)
	}
	st.endIfDraining()
}

// HalfClosed: the gateway has said everything.
func (st *stream) HalfClosed() { st.finish() }

// Over ends the exchange, whatever the way out was.
func (st *stream) Over() {
	if st.x != nil {
		st.x.End(st.s.o.Clock(), exchange.Ending{From: exchange.FromStream, Clean: st.responseEnd})
	}
	st.kept, st.pieces, st.room = nil, nil, [2][]byte{}
	st.s.leave(st)
}

// finish ends the stream with OK.
func (st *stream) finish() { st.io.Finish(codes.OK, "") }

// mayEnd reports whether ending the stream here loses nothing: the request is on its way, and no chunk of the response can
// be on its way to us that only we could pass on.
func (st *stream) mayEnd() bool {
	sent := st.forwarded && (st.requestEnd || st.modes.request == none)
	return sent && (!st.responseSeen || st.responseEnd || st.modes.response != duplex)
}

// endIfDraining ends the stream of a server that drains, if nothing is lost by it.
func (st *stream) endIfDraining() {
	if st.s.draining.Load() && st.mayEnd() {
		st.finish()
	}
}

// Wake has Resume called, if the exchange holds.
func (st *stream) Wake() {
	if !st.woken.Swap(true) {
		go st.io.Do(st.resume) // whoever wakes may hold locks, and the connection may be at work
	}
}

// resume goes on after a hold, or ends a request that was taken back.
func (st *stream) resume() {
	st.woken.Store(false)
	switch {
	case st.held:
		st.held = false
		st.io.Continue()
		st.act(st.decide(st.x.Resume))
	case st.forwarded && !st.responseSeen: // no message is outstanding, and yet Envoy takes an answer in place of the engine's
		if a := st.x.Resume(st.s.o.Clock()); a.Do == exchange.Reply {
			st.reply(a.Reply)
			return
		}
	}
	st.endIfDraining()
}

// hold has the stream's messages wait until somebody calls Wake.
func (st *stream) hold() {
	st.held = true
	st.io.Pause()
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

// send sends an answer that was put together in the stream's scratch memory.
func (st *stream) send(m []byte) { st.io.Send(m, nil, false) }

// pass answers a message of this kind, and leaves what it brought as it is.
func (st *stream) pass(k wire.Kind) { st.send(wire.Pass(st.io.Scratch(), wire.AnswerTo(k))) }

// reply answers the client in place of an engine, and ends the stream.
func (st *stream) reply(r *openai.Reply) {
	st.send(immediate(st.io.Scratch(), st.x.ID, r))
	st.finish()
}

// sendPieces answers a full-duplex body with these slices. stays says that they never change.
func (st *stream) sendPieces(to wire.Answer, slices [][]byte, end, stays bool) {
	inPieces(slices, end, func(piece []byte, end bool) {
		st.io.Send(wire.Piece(st.io.Scratch(), to, len(piece), end), piece, stays)
	})
}

// inPieces calls yield for parts of the slices, each of at most MaxPiece bytes and none empty but an only one that ends.
func inPieces(slices [][]byte, end bool, yield func(piece []byte, end bool)) {
	var held []byte // one behind, so that the last one carries the end
	for _, s := range slices {
		for len(s) > 0 {
			n := min(len(s), MaxPiece)
			if held != nil {
				yield(held, false)
			}
			held, s = s[:n:n], s[n:]
		}
	}
	if held != nil || end {
		yield(held, end)
	}
}
