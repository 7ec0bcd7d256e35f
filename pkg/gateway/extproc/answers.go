package extproc

import (
	"net/netip"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/gateway/extproc/wire"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
)

// MaxPiece is the largest body piece that is sent in one message, in bytes: the protocol recommends at most 64 KiB.
const MaxPiece = 62000

// overrideRequest is the stand-alone mode_override after a request's headers: the body comes to us full duplex, nothing of
// the response's body does, and the stream stays open until the response is over. The response starts at NONE since
// lowering it later loses chunks.
func overrideRequest() wire.Modes {
	return wire.Modes{
		RequestBody: duplex, RequestTrailers: wire.HeadersSend,
		ResponseHeaders: wire.HeadersSend, ResponseBody: none, ResponseTrailers: wire.HeadersSend,
	}
}

// overrideResponse are the modes that an answer to headers asks for from there on.
func overrideResponse(request, response bodyMode) wire.Modes {
	m := wire.Modes{
		RequestBody: request, RequestTrailers: wire.HeadersSkip,
		ResponseHeaders: wire.HeadersSend, ResponseBody: response, ResponseTrailers: wire.HeadersSend,
	}
	if request == duplex {
		m.RequestTrailers = wire.HeadersSend
	}
	return m
}

// immediate is a complete answer to the client. Its metadata says that the exchange is over, so that the entry that the
// access log will bring is not taken for the end of a request.
func immediate(dst []byte, id string, r *openai.Reply) []byte {
	dst = wire.Immediate(dst, r.Status, r.Headers, r.Body, r.Details)
	return wire.DynamicMetadata(dst, wire.Datum{Namespace: nsOwn, Key: keyDecisionID, Value: id}, wire.Datum{Namespace: nsOwn, Key: keyRefused, Value: r.Details})
}

// requestMutation sets the destination and what the decision adds. A body that is edited loses its content-length: Envoy
// keeps the old one in some modes, and the bytes beyond it would be read as the next request on the upstream connection.
func requestMutation(to string, out *plugins.Outgoing) wire.Mutation {
	m := wire.Mutation{Remove: out.Remove, Set: make(openai.Headers, 0, len(out.Set)+1)}
	m.Set = append(m.Set, openai.Header{Name: exchange.HeaderDestination, Value: to})
	m.Set = append(m.Set, out.Set...)
	if len(out.Edits) > 0 {
		m.Remove = without(m.Remove, "content-length")
	}
	return m
}

// without returns names with one more. The exchange's own list stays as it is.
func without(names []string, more string) []string {
	return append(names[:len(names):len(names)], more)
}

// decisionMetadata says the destination once more, as the protocol demands, and names the decision for whoever sees the
// end of the request.
func decisionMetadata(dst []byte, id, to string) []byte {
	return wire.DynamicMetadata(dst,
		wire.Datum{Namespace: nsLoadBalancer, Key: exchange.HeaderDestination, Value: to},
		wire.Datum{Namespace: nsOwn, Key: keyDecisionID, Value: id})
}

// destination writes a list of endpoints: address:port, IPv6 in brackets, joined by commas.
func destination(to []netip.AddrPort) string {
	b := make([]byte, 0, len(to)*len("255.255.255.255:65535,"))
	for i, at := range to {
		if i > 0 {
			b = append(b, ',')
		}
		b = at.AppendTo(b)
	}
	return string(b)
}
