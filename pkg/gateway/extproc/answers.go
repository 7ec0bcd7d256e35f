package extproc

import (
	"net/netip"
	"strings"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocconfig "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocpb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
)

type answer = extprocpb.ProcessingResponse

// MaxPiece is the largest body piece that is sent in one message, in bytes: the protocol recommends at most 64 KiB.
const MaxPiece = 62000

// overrideRequest is the stand-alone mode_override after a request's headers: the body comes to us full duplex, nothing of
// the response's body does, and the stream stays open until the response is over. The response starts at NONE since
// lowering it later loses chunks.
func overrideRequest() *answer {
	return &answer{ModeOverride: &extprocconfig.ProcessingMode{
		RequestBodyMode:     duplex,
		RequestTrailerMode:  extprocconfig.ProcessingMode_SEND,
		ResponseHeaderMode:  extprocconfig.ProcessingMode_SEND,
		ResponseBodyMode:    none,
		ResponseTrailerMode: extprocconfig.ProcessingMode_SEND,
	}}
}

// overrideResponse are the modes that an answer to headers asks for from there on.
func overrideResponse(request, response bodyMode) *extprocconfig.ProcessingMode {
	m := &extprocconfig.ProcessingMode{
		RequestBodyMode:     request,
		RequestTrailerMode:  extprocconfig.ProcessingMode_SKIP,
		ResponseHeaderMode:  extprocconfig.ProcessingMode_SEND,
		ResponseBodyMode:    response,
		ResponseTrailerMode: extprocconfig.ProcessingMode_SEND,
	}
	if request == duplex {
		m.RequestTrailerMode = extprocconfig.ProcessingMode_SEND
	}
	return m
}

// forwardHeaders is the answer to request headers that sends the request on its way.
func forwardHeaders(id string, a *exchange.Action) *answer {
	to := destination(a.To)
	return &answer{
		Response: &extprocpb.ProcessingResponse_RequestHeaders{RequestHeaders: &extprocpb.HeadersResponse{
			Response: &extprocpb.CommonResponse{HeaderMutation: requestMutation(to, &a.Out), ClearRouteCache: true},
		}},
		DynamicMetadata: decisionMetadata(id, to),
	}
}

// forwardBuffered is the answer to a buffered request body that sends the request on its way. body nil leaves it as it is.
func forwardBuffered(id string, a *exchange.Action, body []byte) *answer {
	to := destination(a.To)
	common := &extprocpb.CommonResponse{HeaderMutation: requestMutation(to, &a.Out), ClearRouteCache: true}
	if body != nil {
		common.BodyMutation = &extprocpb.BodyMutation{Mutation: &extprocpb.BodyMutation_Body{Body: body}}
	}
	return &answer{
		Response:        &extprocpb.ProcessingResponse_RequestBody{RequestBody: &extprocpb.BodyResponse{Response: common}},
		DynamicMetadata: decisionMetadata(id, to),
	}
}

// passRequestHeaders answers request headers and leaves them as they are.
func passRequestHeaders() *answer {
	return &answer{Response: &extprocpb.ProcessingResponse_RequestHeaders{RequestHeaders: &extprocpb.HeadersResponse{}}}
}

// passRequestBody answers a body message of the modes in which the gateway keeps the body.
func passRequestBody() *answer {
	return &answer{Response: &extprocpb.ProcessingResponse_RequestBody{RequestBody: &extprocpb.BodyResponse{}}}
}

// streamRequestBody is one piece of a full-duplex request body.
func streamRequestBody(piece []byte, end bool) *answer {
	return &answer{Response: &extprocpb.ProcessingResponse_RequestBody{RequestBody: streamedBody(piece, end)}}
}

// passRequestTrailers answers request trailers, without those of the names in remove.
func passRequestTrailers(remove []string) *answer {
	t := &extprocpb.TrailersResponse{}
	if len(remove) > 0 {
		t.HeaderMutation = &extprocpb.HeaderMutation{RemoveHeaders: remove}
	}
	return &answer{Response: &extprocpb.ProcessingResponse_RequestTrailers{RequestTrailers: t}}
}

// passResponseHeaders is the answer to response headers. Where a hook changes the body its length is taken out.
func passResponseHeaders(a *exchange.Action) *answer {
	h := &extprocpb.HeadersResponse{}
	mutation := &extprocpb.HeaderMutation{SetHeaders: setHeaders(nil, a.Out.Set), RemoveHeaders: a.Out.Remove}
	if a.Respond&plugins.Rewrite != 0 || len(a.Out.Edits) > 0 {
		mutation.RemoveHeaders = append(mutation.RemoveHeaders[:len(mutation.RemoveHeaders):len(mutation.RemoveHeaders)], "content-length")
	}
	if len(mutation.SetHeaders) > 0 || len(mutation.RemoveHeaders) > 0 {
		h.Response = &extprocpb.CommonResponse{HeaderMutation: mutation}
	}
	return &answer{Response: &extprocpb.ProcessingResponse_ResponseHeaders{ResponseHeaders: h}}
}

// passResponseBody answers a body message of the modes in which the gateway keeps the body.
func passResponseBody() *answer {
	return &answer{Response: &extprocpb.ProcessingResponse_ResponseBody{ResponseBody: &extprocpb.BodyResponse{}}}
}

// streamResponseBody is one piece of a full-duplex response body.
func streamResponseBody(piece []byte, end bool) *answer {
	return &answer{Response: &extprocpb.ProcessingResponse_ResponseBody{ResponseBody: streamedBody(piece, end)}}
}

// passResponseTrailers answers response trailers.
func passResponseTrailers() *answer {
	return &answer{Response: &extprocpb.ProcessingResponse_ResponseTrailers{ResponseTrailers: &extprocpb.TrailersResponse{}}}
}

// immediate is a complete answer to the client. Its metadata says that the exchange is over, so that the entry that the
// access log will bring is not taken for the end of a request.
func immediate(id string, r *openai.Reply) *answer {
	return &answer{
		Response: &extprocpb.ProcessingResponse_ImmediateResponse{ImmediateResponse: &extprocpb.ImmediateResponse{
			Status:  &typepb.HttpStatus{Code: typepb.StatusCode(r.Status)}, //nolint:gosec // HTTP statuses are small
			Headers: &extprocpb.HeaderMutation{SetHeaders: setHeaders(nil, r.Headers)},
			Body:    r.Body,
			Details: r.Details,
		}},
		DynamicMetadata: object(map[string]*structpb.Value{nsOwn: structpb.NewStructValue(object(map[string]*structpb.Value{
			keyDecisionID: structpb.NewStringValue(id),
			keyRefused:    structpb.NewStringValue(r.Details),
		}))}),
	}
}

func streamedBody(piece []byte, end bool) *extprocpb.BodyResponse {
	return &extprocpb.BodyResponse{Response: &extprocpb.CommonResponse{BodyMutation: &extprocpb.BodyMutation{
		Mutation: &extprocpb.BodyMutation_StreamedResponse{StreamedResponse: &extprocpb.StreamedBodyResponse{Body: piece, EndOfStream: end}},
	}}}
}

// requestMutation sets the destination and what the decision adds. A body that is edited loses its content-length: Envoy
// keeps the old one in some modes, and the bytes beyond it would be read as the next request on the upstream connection.
func requestMutation(to string, out *plugins.Outgoing) *extprocpb.HeaderMutation {
	m := &extprocpb.HeaderMutation{RemoveHeaders: out.Remove}
	m.SetHeaders = make([]*corepb.HeaderValueOption, 0, len(out.Set)+1)
	m.SetHeaders = append(m.SetHeaders, setHeader(exchange.HeaderDestination, to))
	m.SetHeaders = setHeaders(m.SetHeaders, out.Set)
	if len(out.Edits) > 0 {
		m.RemoveHeaders = append(m.RemoveHeaders[:len(m.RemoveHeaders):len(m.RemoveHeaders)], "content-length")
	}
	return m
}

func setHeaders(to []*corepb.HeaderValueOption, h openai.Headers) []*corepb.HeaderValueOption {
	for _, f := range h {
		to = append(to, setHeader(f.Name, f.Value))
	}
	return to
}

// setHeader replaces all values of a header, or adds it. raw_value is what Envoy reads; a message with value and
// raw_value both is refused by it.
func setHeader(name, value string) *corepb.HeaderValueOption {
	return &corepb.HeaderValueOption{
		Header:       &corepb.HeaderValue{Key: name, RawValue: []byte(value)},
		AppendAction: corepb.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	}
}

// decisionMetadata says the destination once more, as the protocol demands, and names the decision for whoever sees the
// end of the request.
func decisionMetadata(id, to string) *structpb.Struct {
	return object(map[string]*structpb.Value{
		nsLoadBalancer: structpb.NewStructValue(object(map[string]*structpb.Value{exchange.HeaderDestination: structpb.NewStringValue(to)})),
		nsOwn:          structpb.NewStructValue(object(map[string]*structpb.Value{keyDecisionID: structpb.NewStringValue(id)})),
	})
}

func object(fields map[string]*structpb.Value) *structpb.Struct {
	return &structpb.Struct{Fields: fields}
}

// destination writes a list of endpoints: address:port, IPv6 in brackets, joined by commas.
func destination(to []netip.AddrPort) string {
	if len(to) == 1 {
		return to[0].String()
	}
	var b strings.Builder
	for i, at := range to {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(at.String())
	}
	return b.String()
}
