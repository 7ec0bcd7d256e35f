package extproc

import (
	"slices"
	"strings"

	extprocpb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/pool"
)

func (st *stream) onRequestHeaders(m *extprocpb.ProcessingRequest, h *extprocpb.HttpHeaders) error {
	if st.x != nil {
		return nil
	}
	now := st.s.o.Clock()
	said := readDeclared(st.io.Context())
	st.modes = readModes(m.GetProtocolConfig(), said)
	st.requestEnd = h.GetEndOfStream()
	st.asked = RequestHeaders

	st.x = st.s.o.Scheduler().Begin(now, st)
	st.x.Transport("modes", st.modes.String())
	via := st.modes.via(said)
	via.Subset, via.HasSubset = readSubset(m.GetMetadataContext())
	headers := readHeaders(h.GetHeaders())
	st.announced, st.marks = headers.Has("trailer"), said.trailers
	a := st.decide(func(now pool.Instant) exchange.Action { return st.x.Headers(now, headers, via, st.requestEnd) })

	if st.modes.overrides && !st.requestEnd && a.Do != exchange.Reply {
		if err := st.send(overrideRequest()); err != nil {
			return err
		}
		st.modes.request, st.modes.response = duplex, none
	}
	return st.act(a)
}

func (st *stream) onRequestBody(b *extprocpb.HttpBody) error {
	chunk, end := b.GetBody(), b.GetEndOfStream()
	switch {
	case st.x == nil:
		return nil
	case st.modes.request == duplex:
		return st.onChunk(chunk, end)
	case st.modes.request == buffered && !st.requestEnd, st.modes.request == partial && !st.forwarded:
		end = end || st.modes.request == buffered // the message is the whole body, also where trailers follow
		st.requestEnd = end
		if a := st.bring(chunk, end); !st.forwarded {
			st.asked, st.kept = RequestBody, [][]byte{chunk}
			return st.act(a)
		}
	}
	st.requestEnd = st.requestEnd || end
	return st.send(passRequestBody()) // the headers have decided, and the gateway keeps the bytes
}

// onChunk brings a chunk of a full-duplex body.
func (st *stream) onChunk(chunk []byte, end bool) error {
	if !st.forwarded && !st.requestEnd {
		st.asked = RequestBody
		if len(chunk) > 0 {
			st.kept = append(st.kept, chunk)
		}
	}
	a := st.bring(chunk, end)
	if a.Do == exchange.Ignore {
		return nil
	}
	st.requestEnd = end
	if st.forwarded && a.Do != exchange.Reply { // a body may outgrow its limit when it is on its way
		return st.pass(chunk, end)
	}
	return st.act(a)
}

func (st *stream) bring(chunk []byte, end bool) exchange.Action {
	return st.decide(func(now pool.Instant) exchange.Action { return st.x.Body(now, chunk, end) })
}

func (st *stream) onRequestTrailers(t *extprocpb.HttpTrailers) error {
	for _, f := range t.GetTrailers().GetHeaders() {
		if name := strings.ToLower(f.GetKey()); exchange.ControlHeader(name) {
			st.refused = append(st.refused, name)
		}
	}
	if st.x == nil || st.requestEnd || st.forwarded && st.modes.request != duplex {
		st.requestEnd = true
		return st.send(passRequestTrailers(st.refused))
	}
	st.requestEnd, st.trailers, st.asked = true, true, RequestTrailers
	if a := st.bring(nil, true); !st.forwarded {
		return st.act(a)
	}
	return st.send(passRequestTrailers(st.refused))
}

// act does what the exchange says until the gateway's next message is due.
func (st *stream) act(a exchange.Action) error {
	for {
		switch a.Do {
		case exchange.Continue:
			switch {
			case st.modes.request == duplex:
				return nil
			case st.asked == RequestHeaders && (st.modes.request == buffered || st.modes.request == partial):
				return st.send(passRequestHeaders()) // without it the body does not come
			}
			a = st.decide(st.x.Unseen)
		case exchange.Hold:
			if err := st.wait(); err != nil {
				return err
			}
			a = st.decide(st.x.Resume)
		case exchange.Reply:
			if err := st.send(immediate(st.x.ID, a.Reply)); err != nil {
				return err
			}
			return errOver
		case exchange.Forward:
			return st.forward(&a)
		default:
			return nil
		}
	}
}

// forward answers the message that the decision was held for, and releases what was kept.
func (st *stream) forward(a *exchange.Action) error {
	st.forwarded, st.edits = true, a.Out.Edits
	if st.marks && (st.trailers || st.announced) && st.modes.request == duplex {
		a.Out.Set = append(slices.Clip(a.Out.Set), openai.Header{Name: HeaderTrailers, Value: "1"})
	}
	defer func() { st.kept = nil }()
	switch {
	case st.modes.request == duplex || st.asked == RequestHeaders:
		m := forwardHeaders(st.x.ID, a)
		if st.modes.overrides && st.modes.request != duplex { // no body follows, and no stand-alone override was sent
			m.ModeOverride, st.modes.response = overrideResponse(st.modes.request, none), none
		}
		if err := st.send(m); err != nil || st.modes.request != duplex {
			return err
		}
		return st.release()
	case st.asked == RequestBody:
		return st.send(forwardBuffered(st.x.ID, a, st.edited()))
	}
	m := passRequestTrailers(st.refused) // trailers without a body: metadata is what still can carry the destination
	m.DynamicMetadata = decisionMetadata(st.x.ID, destination(a.To))
	return st.send(m)
}

// release passes the kept chunks on, and the end if it was seen.
func (st *stream) release() error {
	last := len(st.kept) - 1
	for i, chunk := range st.kept {
		if err := st.pass(chunk, i == last && st.requestEnd && !st.trailers); err != nil {
			return err
		}
	}
	switch {
	case st.trailers:
		return st.send(passRequestTrailers(st.refused))
	case last < 0 && st.requestEnd && st.asked != RequestHeaders:
		return st.pass(nil, true)
	}
	return nil
}

// pass passes a chunk of the body on, with the edits that fall into it, in pieces that are parts of the chunk.
func (st *stream) pass(chunk []byte, end bool) error {
	pieces := append(st.pieces[:0], chunk)
	if len(st.edits) > 0 {
		pieces = openai.Splice(st.pieces[:0], st.sent, chunk, st.edits)
	}
	st.sent += int64(len(chunk))
	st.pieces = pieces
	return inPieces(pieces, end, func(piece []byte, end bool) error { return st.send(streamRequestBody(piece, end)) })
}

// edited returns the kept body with its edits, nil if there are none.
func (st *stream) edited() []byte {
	if len(st.edits) == 0 {
		return nil
	}
	var body []byte
	for _, chunk := range st.kept {
		for _, piece := range openai.Splice(nil, st.sent, chunk, st.edits) {
			body = append(body, piece...)
		}
		st.sent += int64(len(chunk))
	}
	return body
}

// inPieces calls yield for parts of the slices, each of at most MaxPiece bytes and none empty but an only one that ends.
func inPieces(slices [][]byte, end bool, yield func(piece []byte, end bool) error) error {
	var held []byte // one behind, so that the last one carries the end
	for _, s := range slices {
		for len(s) > 0 {
			n := min(len(s), MaxPiece)
			if held != nil {
				if err := yield(held, false); err != nil {
					return err
				}
			}
			held, s = s[:n:n], s[n:]
		}
	}
	if held != nil || end {
		return yield(held, end)
	}
	return nil
}
