package extproc

import (
	"slices"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/gateway/extproc/wire"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/pool"
)

func (st *stream) onRequestHeaders(m *wire.Request) {
	if st.x != nil {
		return
	}
	now := st.s.o.Clock()
	st.requestEnd = m.End
	st.asked = RequestHeaders

	st.x = st.s.o.Scheduler().Begin(now, st)
	st.x.Transport("modes", st.modes.String())
	via := st.modes.via(st.said)
	via.Subset, via.HasSubset = readSubset(m.Metadata)
	headers := m.Headers
	st.announced, st.marks = headers.Has("trailer"), st.said.trailers
	a := st.decide(func(now pool.Instant) exchange.Action { return st.x.Headers(now, headers, via, st.requestEnd) })

	// The override also ends message_timeout, which would bound the wait of a request that holds.
	if st.modes.overrides && (!st.requestEnd || a.Do == exchange.Hold) && a.Do != exchange.Reply {
		st.send(wire.Override(st.io.Scratch(), overrideRequest()))
		st.modes.request, st.modes.response = duplex, none
	}
	st.act(a)
}

func (st *stream) onRequestBody(chunk []byte, end bool) {
	switch {
	case st.x == nil:
		return
	case st.modes.request == duplex:
		st.onChunk(chunk, end)
		return
	case st.modes.request == buffered && !st.requestEnd, st.modes.request == partial && !st.forwarded:
		end = end || st.modes.request == buffered // the message is the whole body, also where trailers follow
		st.requestEnd = end
		if !st.forwarded {
			chunk = st.io.Keep(chunk)
		}
		if a := st.bring(chunk, end); !st.forwarded {
			st.asked, st.kept = RequestBody, append(st.room[:0], chunk)
			st.act(a)
			return
		}
	}
	st.requestEnd = st.requestEnd || end
	st.pass(wire.RequestBody) // the headers have decided, and the gateway keeps the bytes
}

// onChunk brings a chunk of a full-duplex body.
func (st *stream) onChunk(chunk []byte, end bool) {
	if !st.forwarded && !st.requestEnd {
		st.asked = RequestBody
		if len(chunk) > 0 {
			if st.kept == nil {
				st.kept = st.room[:0]
			}
			chunk = st.io.Keep(chunk)
			st.kept = append(st.kept, chunk)
		}
	}
	a := st.bring(chunk, end)
	if a.Do == exchange.Ignore {
		return
	}
	st.requestEnd = end
	if st.forwarded && a.Do != exchange.Reply { // a body may outgrow its limit when it is on its way
		st.passOn(chunk, end, false)
		return
	}
	st.act(a)
}

func (st *stream) bring(chunk []byte, end bool) exchange.Action {
	return st.decide(func(now pool.Instant) exchange.Action { return st.x.Body(now, chunk, end) })
}

func (st *stream) onRequestTrailers(trailers openai.Headers) {
	for _, f := range trailers {
		if exchange.ControlHeader(f.Name) {
			st.refused = append(st.refused, f.Name)
		}
	}
	if st.x == nil || st.requestEnd || st.forwarded && st.modes.request != duplex {
		st.requestEnd = true
		st.passTrailers()
		return
	}
	st.requestEnd, st.trailers, st.asked = true, true, RequestTrailers
	if a := st.bring(nil, true); !st.forwarded {
		st.act(a)
		return
	}
	st.passTrailers()
}

func (st *stream) passTrailers() {
	st.send(wire.Trailers(st.io.Scratch(), wire.AnswerTo(wire.RequestTrailers), st.refused))
}

// act does what the exchange says until the gateway's next message is due.
func (st *stream) act(a exchange.Action) {
	for {
		switch a.Do {
		case exchange.Continue:
			switch {
			case st.modes.request == duplex:
				return
			case st.asked == RequestHeaders && (st.modes.request == buffered || st.modes.request == partial):
				st.pass(wire.RequestHeaders) // without it the body does not come
				return
			}
			a = st.decide(st.x.Unseen)
		case exchange.Hold:
			st.hold()
			return
		case exchange.Reply:
			st.reply(a.Reply)
			return
		case exchange.Forward:
			st.forward(&a)
			return
		default:
			return
		}
	}
}

// forward answers the message that the decision was held for, and releases what was kept.
func (st *stream) forward(a *exchange.Action) {
	st.forwarded, st.edits = true, a.Out.Edits
	if st.marks && (st.trailers || st.announced) && st.modes.request == duplex {
		a.Out.Set = append(slices.Clip(a.Out.Set), openai.Header{Name: HeaderTrailers, Value: "1"})
	}
	to := destination(a.To)
	answer := st.io.Scratch()
	switch {
	case st.modes.request == duplex || st.asked == RequestHeaders:
		answer = wire.Headers(answer, wire.AnswerTo(wire.RequestHeaders), requestMutation(to, &a.Out), true)
		if st.modes.overrides && st.modes.request != duplex { // no body follows, and no stand-alone override was sent
			answer = wire.Override(answer, overrideResponse(st.modes.request, none))
			st.modes.response = none
		}
		st.send(decisionMetadata(answer, st.x.ID, to))
		if st.modes.request == duplex {
			st.release()
		}
	case st.asked == RequestBody:
		body, edited := st.edited()
		answer = wire.Buffered(answer, requestMutation(to, &a.Out), body, edited)
		st.send(decisionMetadata(answer, st.x.ID, to))
	default: // trailers without a body: metadata is what still can carry the destination
		answer = wire.Trailers(answer, wire.AnswerTo(wire.RequestTrailers), st.refused)
		st.send(decisionMetadata(answer, st.x.ID, to))
	}
	st.kept, st.room = nil, [len(st.room)][]byte{}
}

// release passes the kept chunks on, and the end if it was seen.
func (st *stream) release() {
	last := len(st.kept) - 1
	for i, chunk := range st.kept {
		st.passOn(chunk, i == last && st.requestEnd && !st.trailers, true)
	}
	switch {
	case st.trailers:
		st.passTrailers()
	case last < 0 && st.requestEnd && st.asked != RequestHeaders:
		st.passOn(nil, true, true)
	}
}

// passOn passes a chunk of the body on, with the edits that fall into it, in pieces that are parts of the chunk. stays says
// that its memory is ours.
func (st *stream) passOn(chunk []byte, end, stays bool) {
	pieces := append(st.pieces[:0], chunk)
	if len(st.edits) > 0 {
		pieces = openai.Splice(st.pieces[:0], st.sent, chunk, st.edits)
	}
	st.sent += int64(len(chunk))
	st.sendPieces(wire.AnswerTo(wire.RequestBody), pieces, end, stays)
	clear(pieces)
	st.pieces = pieces
}

// edited returns the kept body with its edits; has is false if there are none.
func (st *stream) edited() (body []byte, has bool) {
	if len(st.edits) == 0 {
		return nil, false
	}
	for _, chunk := range st.kept {
		for _, piece := range openai.Splice(nil, st.sent, chunk, st.edits) {
			body = append(body, piece...)
		}
		st.sent += int64(len(chunk))
	}
	return body, true
}
