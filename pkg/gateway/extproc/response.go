package extproc

import (
	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/gateway/extproc/wire"
	"github.com/fairlead/fairlead/pkg/plugins"
)

func (st *stream) onResponseHeaders(m *wire.Request) {
	st.responseSeen, st.responseEnd = true, m.End
	served := readServed(m.Metadata)
	var a exchange.Action
	if st.x != nil {
		if why := readFailure(m.Attribute(nsAttributes, keyDetails).Text()); why != 0 {
			if a = st.x.Failed(st.s.o.Clock(), served, why); a.Do == exchange.Reply {
				st.reply(a.Reply) // in place of the gateway's own words
				return
			}
		}
		if a = st.x.Response(st.s.o.Clock(), m.Headers, served, st.responseEnd); a.Do == exchange.Reply {
			st.reply(a.Reply)
			return
		}
	}
	answer := wire.Headers(st.io.Scratch(), wire.AnswerTo(wire.ResponseHeaders), responseMutation(&a), false)
	if st.modes.overrides && st.x != nil {
		if asksForBody(a.Respond) && !st.responseEnd {
			st.modes.response = duplex
		}
		request := st.modes.request
		if request == duplex && st.requestEnd {
			request = none // the request is through: a picker that dies from here on cuts no answer
		}
		answer = wire.Override(answer, overrideResponse(request, st.modes.response))
	}
	st.send(answer)
}

// responseMutation changes response headers. Where a hook changes the body its length is taken out.
func responseMutation(a *exchange.Action) wire.Mutation {
	m := wire.Mutation{Set: a.Out.Set, Remove: a.Out.Remove}
	if a.Respond&plugins.Rewrite != 0 || len(a.Out.Edits) > 0 {
		m.Remove = without(m.Remove, "content-length")
	}
	return m
}

func (st *stream) onResponseBody(chunk []byte, end bool) {
	st.responseEnd = st.responseEnd || end
	if st.x != nil {
		st.x.Chunk(st.s.o.Clock(), chunk, end)
	}
	if st.modes.response != duplex {
		st.pass(wire.ResponseBody)
		return
	}
	st.pieces = append(st.pieces[:0], chunk)
	st.sendPieces(wire.AnswerTo(wire.ResponseBody), st.pieces, end, false)
	st.pieces[0] = nil
}

func (st *stream) onResponseTrailers() {
	st.responseEnd = true
	if st.x != nil {
		st.x.Chunk(st.s.o.Clock(), nil, true)
	}
	st.pass(wire.ResponseTrailers)
}
