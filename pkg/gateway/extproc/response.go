package extproc

import (
	extprocpb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"github.com/fairlead/fairlead/pkg/exchange"
)

func (st *stream) onResponseHeaders(m *extprocpb.ProcessingRequest, h *extprocpb.HttpHeaders) error {
	st.responseSeen, st.responseEnd = true, h.GetEndOfStream()
	served := readServed(m.GetMetadataContext())
	var a exchange.Action
	if st.x != nil {
		if why := readFailure(m.GetAttributes()); why != 0 {
			if a = st.x.Failed(st.s.o.Clock(), served, why); a.Do == exchange.Reply {
				if err := st.send(immediate(st.x.ID, a.Reply)); err != nil { // in place of the gateway's own words
					return err
				}
				return errOver
			}
		}
		a = st.x.Response(st.s.o.Clock(), readHeaders(h.GetHeaders()), served, st.responseEnd)
	}
	answer := passResponseHeaders(&a)
	if st.modes.overrides {
		if asksForBody(a.Respond) && !st.responseEnd {
			st.modes.response = duplex
		}
		request := st.modes.request
		if request == duplex && st.requestEnd {
			request = none // the request is through: a picker that dies from here on cuts no answer
		}
		answer.ModeOverride = overrideResponse(request, st.modes.response)
	}
	return st.send(answer)
}

func (st *stream) onResponseBody(b *extprocpb.HttpBody) error {
	chunk, end := b.GetBody(), b.GetEndOfStream()
	st.responseEnd = st.responseEnd || end
	if st.x != nil {
		st.x.Chunk(st.s.o.Clock(), chunk, end)
	}
	if st.modes.response != duplex {
		return st.send(passResponseBody())
	}
	st.pieces = append(st.pieces[:0], chunk)
	return inPieces(st.pieces, end, func(piece []byte, end bool) error { return st.send(streamResponseBody(piece, end)) })
}

func (st *stream) onResponseTrailers() error {
	st.responseEnd = true
	if st.x != nil {
		st.x.Chunk(st.s.o.Clock(), nil, true)
	}
	return st.send(passResponseTrailers())
}
