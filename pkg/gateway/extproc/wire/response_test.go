package wire_test

import (
	"bytes"
	"testing"

	corepb "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocconfig "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocpb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"

	"github.com/fairlead/fairlead/pkg/gateway/extproc/wire"
	"github.com/fairlead/fairlead/pkg/openai"
)

// What the generated types are for each of our answers.

func setHeaders(h openai.Headers) (to []*corepb.HeaderValueOption) {
	for _, f := range h {
		to = append(to, &corepb.HeaderValueOption{
			Header:       &corepb.HeaderValue{Key: f.Name, RawValue: []byte(f.Value)},
			AppendAction: corepb.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
		})
	}
	return to
}

func mutation(m wire.Mutation) *extprocpb.HeaderMutation {
	return &extprocpb.HeaderMutation{SetHeaders: setHeaders(m.Set), RemoveHeaders: m.Remove}
}

func drawMutation(t *rapid.T) (m wire.Mutation) {
	for range rapid.IntRange(0, 3).Draw(t, "set") {
		m.Set = append(m.Set, openai.Header{Name: text.Draw(t, "name"), Value: text.Draw(t, "value")})
	}
	for range rapid.IntRange(0, 2).Draw(t, "remove") {
		m.Remove = append(m.Remove, text.Draw(t, "removed"))
	}
	return m
}

// answered wraps v as the answer to a message of a kind.
func answered(k wire.Kind, common *extprocpb.CommonResponse, trailers *extprocpb.HeaderMutation) *extprocpb.ProcessingResponse {
	switch k {
	case wire.RequestHeaders:
		return &extprocpb.ProcessingResponse{Response: &extprocpb.ProcessingResponse_RequestHeaders{RequestHeaders: &extprocpb.HeadersResponse{Response: common}}}
	case wire.ResponseHeaders:
		return &extprocpb.ProcessingResponse{Response: &extprocpb.ProcessingResponse_ResponseHeaders{ResponseHeaders: &extprocpb.HeadersResponse{Response: common}}}
	case wire.RequestBody:
		return &extprocpb.ProcessingResponse{Response: &extprocpb.ProcessingResponse_RequestBody{RequestBody: &extprocpb.BodyResponse{Response: common}}}
	case wire.ResponseBody:
		return &extprocpb.ProcessingResponse{Response: &extprocpb.ProcessingResponse_ResponseBody{ResponseBody: &extprocpb.BodyResponse{Response: common}}}
	case wire.RequestTrailers:
		return &extprocpb.ProcessingResponse{Response: &extprocpb.ProcessingResponse_RequestTrailers{RequestTrailers: &extprocpb.TrailersResponse{HeaderMutation: trailers}}}
	}
	return &extprocpb.ProcessingResponse{Response: &extprocpb.ProcessingResponse_ResponseTrailers{ResponseTrailers: &extprocpb.TrailersResponse{HeaderMutation: trailers}}}
}

var kinds = []wire.Kind{wire.RequestHeaders, wire.ResponseHeaders, wire.RequestBody, wire.ResponseBody, wire.RequestTrailers, wire.ResponseTrailers}

// TestAnswersAreThoseOfTheGeneratedCode draws an answer and what comes with it, and has the generated code read it.
func TestAnswersAreThoseOfTheGeneratedCode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var got []byte
		var want *extprocpb.ProcessingResponse
		flag := rapid.Bool().Draw(t, "flag")
		body := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "body")
		switch rapid.IntRange(0, 5).Draw(t, "answer") {
		case 0:
			k := rapid.SampledFrom(kinds[:2]).Draw(t, "kind")
			m := drawMutation(t)
			got = wire.Headers(nil, wire.AnswerTo(k), m, flag)
			var common *extprocpb.CommonResponse
			if flag || len(m.Set)+len(m.Remove) > 0 {
				common = &extprocpb.CommonResponse{ClearRouteCache: flag}
			}
			if len(m.Set)+len(m.Remove) > 0 {
				common.HeaderMutation = mutation(m)
			}
			want = answered(k, common, nil)
		case 1:
			k := rapid.SampledFrom(kinds).Draw(t, "kind")
			got, want = wire.Pass(nil, wire.AnswerTo(k)), answered(k, nil, nil)
		case 2:
			m := drawMutation(t)
			got = wire.Buffered(nil, m, body, flag)
			common := &extprocpb.CommonResponse{HeaderMutation: mutation(m), ClearRouteCache: true}
			if flag {
				common.BodyMutation = &extprocpb.BodyMutation{Mutation: &extprocpb.BodyMutation_Body{Body: body}}
			}
			want = answered(wire.RequestBody, common, nil)
		case 3:
			k := rapid.SampledFrom(kinds[4:]).Draw(t, "kind")
			m := drawMutation(t)
			got = wire.Trailers(nil, wire.AnswerTo(k), m.Remove)
			var removed *extprocpb.HeaderMutation
			if len(m.Remove) > 0 {
				removed = &extprocpb.HeaderMutation{RemoveHeaders: m.Remove}
			}
			want = answered(k, nil, removed)
		case 4:
			k := rapid.SampledFrom(kinds[2:4]).Draw(t, "kind")
			got = append(wire.Piece(nil, wire.AnswerTo(k), len(body), flag), body...)
			want = answered(k, &extprocpb.CommonResponse{BodyMutation: &extprocpb.BodyMutation{Mutation: &extprocpb.BodyMutation_StreamedResponse{
				StreamedResponse: &extprocpb.StreamedBodyResponse{Body: body, EndOfStream: flag},
			}}}, nil)
		case 5:
			m, details := drawMutation(t), text.Draw(t, "details")
			status := rapid.SampledFrom([]int{200, 400, 429, 503}).Draw(t, "status")
			got = wire.Immediate(nil, status, m.Set, body, details)
			want = &extprocpb.ProcessingResponse{Response: &extprocpb.ProcessingResponse_ImmediateResponse{ImmediateResponse: &extprocpb.ImmediateResponse{
				Status: &typepb.HttpStatus{Code: typepb.StatusCode(status)}, Headers: &extprocpb.HeaderMutation{SetHeaders: setHeaders(m.Set)},
				Body: body, Details: details,
			}}}
		}
		isPiece := want.GetRequestBody().GetResponse().GetBodyMutation().GetStreamedResponse() != nil || want.GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse() != nil
		if !isPiece && rapid.Bool().Draw(t, "override") {
			got, want.ModeOverride = drawModes(t, got)
		}
		if !isPiece && rapid.Bool().Draw(t, "metadata") {
			a, b, v := text.Draw(t, "namespace"), text.Draw(t, "key"), text.Draw(t, "value")
			got = wire.DynamicMetadata(got, wire.Datum{Namespace: "one", Key: b, Value: v}, wire.Datum{Namespace: "one", Key: b + "'", Value: "w"}, wire.Datum{Namespace: "two" + a, Key: "k", Value: v})
			want.DynamicMetadata = object(map[string]*structpb.Value{
				"one":     structpb.NewStructValue(object(map[string]*structpb.Value{b: structpb.NewStringValue(v), b + "'": structpb.NewStringValue("w")})),
				"two" + a: structpb.NewStructValue(object(map[string]*structpb.Value{"k": structpb.NewStringValue(v)})),
			})
		}
		m := &extprocpb.ProcessingResponse{}
		if err := proto.Unmarshal(got, m); err != nil {
			t.Fatalf("the generated code cannot read it: %v", err)
		}
		if diff := cmp.Diff(want, m, protocmp.Transform()); diff != "" {
			t.Fatalf("-want +got:\n%s", diff)
		}
	})
}

func object(fields map[string]*structpb.Value) *structpb.Struct {
	return &structpb.Struct{Fields: fields}
}

func drawModes(t *rapid.T, to []byte) ([]byte, *extprocconfig.ProcessingMode) {
	body := func() int32 { return rapid.Int32Range(0, 4).Draw(t, "body mode") }
	header := func() int32 { return rapid.Int32Range(0, 2).Draw(t, "header mode") }
	m := wire.Modes{
		RequestHeaders: wire.HeaderMode(header()), ResponseHeaders: wire.HeaderMode(header()), RequestBody: wire.BodyMode(body()),
		ResponseBody: wire.BodyMode(body()), RequestTrailers: wire.HeaderMode(header()), ResponseTrailers: wire.HeaderMode(header()),
	}
	return wire.Override(to, m), &extprocconfig.ProcessingMode{
		RequestHeaderMode: extprocconfig.ProcessingMode_HeaderSendMode(m.RequestHeaders), ResponseHeaderMode: extprocconfig.ProcessingMode_HeaderSendMode(m.ResponseHeaders),
		RequestBodyMode: extprocconfig.ProcessingMode_BodySendMode(m.RequestBody), ResponseBodyMode: extprocconfig.ProcessingMode_BodySendMode(m.ResponseBody),
		RequestTrailerMode: extprocconfig.ProcessingMode_HeaderSendMode(m.RequestTrailers), ResponseTrailerMode: extprocconfig.ProcessingMode_HeaderSendMode(m.ResponseTrailers),
	}
}

// TestPiecesOfEverySize: lengths of one to four bytes, at each level of the message.
func TestPiecesOfEverySize(t *testing.T) {
	scratch := make([]byte, 0, 64)
	for _, n := range []int{0, 1, 100, 105, 110, 115, 120, 127, 128, 16_360, 16_370, 16_380, 16_384, 62_000, 3 << 20} {
		body := bytes.Repeat([]byte("a"), n)
		for _, last := range []bool{false, true} {
			if allocated := testing.AllocsPerRun(10, func() { scratch = wire.Piece(scratch[:0], wire.AnswerTo(wire.ResponseBody), n, last) }); allocated != 0 {
				t.Errorf("%d bytes: %v allocations", n, allocated)
			}
			m := &extprocpb.ProcessingResponse{}
			if err := proto.Unmarshal(append(bytes.Clone(scratch), body...), m); err != nil {
				t.Fatalf("%d bytes: %v", n, err)
			}
			piece := m.GetResponseBody().GetResponse().GetBodyMutation().GetStreamedResponse()
			if !bytes.Equal(piece.GetBody(), body) || piece.GetEndOfStream() != last {
				t.Errorf("%d bytes, last %v: %d came, last %v", n, last, len(piece.GetBody()), piece.GetEndOfStream())
			}
		}
	}
}
