package extproc

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
)

// process is an ext_proc server whose one method is the test's.
type process struct {
	extprocv3.UnimplementedExternalProcessorServer
	run func(extprocv3.ExternalProcessor_ProcessServer) error
}

func (p process) Process(stream extprocv3.ExternalProcessor_ProcessServer) error {
	return p.run(stream)
}

func misbehaving(run func(extprocv3.ExternalProcessor_ProcessServer) error) func(grpc.ServiceRegistrar) {
	return func(s grpc.ServiceRegistrar) { extprocv3.RegisterExternalProcessorServer(s, process{run: run}) }
}

// held reads a request to its end and returns the body.
func held(stream extprocv3.ExternalProcessor_ProcessServer) ([]byte, error) {
	var body []byte
	for {
		m, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		body = append(body, m.GetRequestBody().GetBody()...)
		if m.GetRequestBody().GetEndOfStream() {
			return body, nil
		}
	}
}

// decision is a headers answer that names to in the header and in the metadata, either unless empty.
func decision(header, metadata string) *extprocv3.ProcessingResponse {
	common := &extprocv3.CommonResponse{}
	m := &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestHeaders{
		RequestHeaders: &extprocv3.HeadersResponse{Response: common},
	}}
	if header != "" {
		common.HeaderMutation = &extprocv3.HeaderMutation{SetHeaders: []*corev3.HeaderValueOption{{
			Header: &corev3.HeaderValue{Key: destinationHeader, Value: header},
		}}}
	}
	if metadata != "" {
		m.DynamicMetadata = &structpb.Struct{Fields: map[string]*structpb.Value{
			lbNamespace: structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
				destinationHeader: structpb.NewStringValue(metadata),
			}}),
		}}
	}
	return m
}

func bodyAnswer(piece []byte, end bool) *extprocv3.ProcessingResponse {
	return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestBody{RequestBody: streamed(piece, end)}}
}

const there = "10.0.0.1:8000"

// TestServersThatMisbehaveAreFound has one row per thing that a server can get wrong. What a row answers comes after the
// whole request has been read; the stream then goes on until the client ends it.
func TestServersThatMisbehaveAreFound(t *testing.T) {
	right := decision(there, there)
	for _, row := range []struct {
		name    string
		answers func(body []byte) []*extprocv3.ProcessingResponse
		want    FaultKind
		detail  string
	}{
		{"nothing wrong, in three pieces", func(b []byte) []*extprocv3.ProcessingResponse {
			return []*extprocv3.ProcessingResponse{right, bodyAnswer(b[:1], false), bodyAnswer(b[1:50], false), bodyAnswer(b[50:], true)}
		}, "", ""},
		{"destination in the metadata alone", func(b []byte) []*extprocv3.ProcessingResponse {
			return []*extprocv3.ProcessingResponse{decision("", there), bodyAnswer(b, true)}
		}, "", ""},
		{"destination in the header alone, with a fallback", func(b []byte) []*extprocv3.ProcessingResponse {
			return []*extprocv3.ProcessingResponse{decision(there+", 10.0.0.2:8000", ""), bodyAnswer(b, true)}
		}, "", ""},
		{"the last byte is dropped", func(b []byte) []*extprocv3.ProcessingResponse {
			return []*extprocv3.ProcessingResponse{right, bodyAnswer(b[:len(b)-1], true)}
		}, BodyDiffers, "1 bytes short"},
		{"a piece in the middle is dropped", func(b []byte) []*extprocv3.ProcessingResponse {
			return []*extprocv3.ProcessingResponse{right, bodyAnswer(b[:100], false), bodyAnswer(b[150:], true)}
		}, BodyDiffers, "at offset 100"},
		{"the pieces are swapped", func(b []byte) []*extprocv3.ProcessingResponse {
			return []*extprocv3.ProcessingResponse{right, bodyAnswer(b[100:], false), bodyAnswer(b[:100], true)}
		}, BodyDiffers, "at offset 0"},
		{"a piece comes twice", func(b []byte) []*extprocv3.ProcessingResponse {
			return []*extprocv3.ProcessingResponse{right, bodyAnswer(b, false), bodyAnswer(b, true)}
		}, BodyDiffers, "more than"},
		{"a bit is flipped", func(b []byte) []*extprocv3.ProcessingResponse {
			c := append([]byte(nil), b...)
			c[77] ^= 1
			return []*extprocv3.ProcessingResponse{right, bodyAnswer(c, true)}
		}, BodyDiffers, "at offset 0"},
		{"a piece is too large", func(b []byte) []*extprocv3.ProcessingResponse {
			return []*extprocv3.ProcessingResponse{right, bodyAnswer(make([]byte, MaxPiece+1), true)}
		}, PieceTooLarge, "62001"},
		{"the body comes before the headers", func(b []byte) []*extprocv3.ProcessingResponse {
			return []*extprocv3.ProcessingResponse{bodyAnswer(b, true), right}
		}, OutOfOrder, "before the headers"},
		{"the headers are answered twice", func(b []byte) []*extprocv3.ProcessingResponse {
			return []*extprocv3.ProcessingResponse{right, right, bodyAnswer(b, true)}
		}, OutOfOrder, "twice"},
		{"the body ends twice", func(b []byte) []*extprocv3.ProcessingResponse {
			return []*extprocv3.ProcessingResponse{right, bodyAnswer(b, true), bodyAnswer(nil, true)}
		}, OutOfOrder, "while answering the response headers"},
		{"the response is answered before it came", func(b []byte) []*extprocv3.ProcessingResponse {
			return []*extprocv3.ProcessingResponse{{Response: &extprocv3.ProcessingResponse_ResponseHeaders{}}}
		}, OutOfOrder, "ResponseHeaders while answering the request"},
		{"a body answer says nothing of the body", func(b []byte) []*extprocv3.ProcessingResponse {
			return []*extprocv3.ProcessingResponse{right, {Response: &extprocv3.ProcessingResponse_RequestBody{RequestBody: &extprocv3.BodyResponse{}}}}
		}, OutOfOrder, "without a streamed_response"},
		{"a body answer replaces", func(b []byte) []*extprocv3.ProcessingResponse {
			m := bodyAnswer(b, true)
			m.GetRequestBody().Response.Status = extprocv3.CommonResponse_CONTINUE_AND_REPLACE
			return []*extprocv3.ProcessingResponse{right, m}
		}, OutOfOrder, "CONTINUE_AND_REPLACE"},
		{"a mode override that the body mode forbids", func(b []byte) []*extprocv3.ProcessingResponse {
			return []*extprocv3.ProcessingResponse{{ModeOverride: &filterv3.ProcessingMode{}}}
		}, OutOfOrder, "mode_override true"},
		{"no destination", func(b []byte) []*extprocv3.ProcessingResponse {
			return []*extprocv3.ProcessingResponse{decision("", ""), bodyAnswer(b, true)}
		}, NoDestination, `""`},
		{"a name instead of an address", func(b []byte) []*extprocv3.ProcessingResponse {
			return []*extprocv3.ProcessingResponse{decision("pod-1:8000", ""), bodyAnswer(b, true)}
		}, NoDestination, "pod-1:8000"},
		{"an address in the header, another in the metadata", func(b []byte) []*extprocv3.ProcessingResponse {
			return []*extprocv3.ProcessingResponse{decision(there, "10.0.0.2:8000"), bodyAnswer(b, true)}
		}, NoDestination, "10.0.0.2:8000"},
		{"a refusal", func(b []byte) []*extprocv3.ProcessingResponse {
			return []*extprocv3.ProcessingResponse{{Response: &extprocv3.ProcessingResponse_ImmediateResponse{
				ImmediateResponse: &extprocv3.ImmediateResponse{Status: &typev3.HttpStatus{Code: typev3.StatusCode_TooManyRequests}, Body: []byte("later")},
			}}}
		}, Refused, "status 429 while answering the request: later"},
	} {
		t.Run(row.name, func(t *testing.T) {
			target := serve(t, misbehaving(func(stream extprocv3.ExternalProcessor_ProcessServer) error {
				body, err := held(stream)
				if err != nil {
					return err
				}
				for _, m := range row.answers(body) {
					if err := stream.Send(m); err != nil {
						return err
					}
				}
				return answerResponse(stream)
			}))
			expect(t, target, Headers, row.want, row.detail)
		})
	}
}

// answerResponse answers response messages until the client ends the stream.
func answerResponse(stream extprocv3.ExternalProcessor_ProcessServer) error {
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if m.GetResponseHeaders() != nil {
			err = stream.Send(&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseHeaders{
				ResponseHeaders: &extprocv3.HeadersResponse{},
			}})
		} else {
			err = sendResponse(stream, m.GetResponseBody().GetBody(), m.GetResponseBody().GetEndOfStream())
		}
		if err != nil {
			return err
		}
	}
}

// expect plays twenty exchanges, of which each must show the fault, or none if want is empty.
func expect(t *testing.T, target string, mode Mode, want FaultKind, detail string) {
	t.Helper()
	l := NewLoad(target)
	l.Mode, l.Requests, l.Duration, l.Concurrency = mode, 20, 0, 2
	if mode == Full {
		l.Chunks = 3
	}
	r, err := Run(context.Background(), l)
	if err != nil {
		t.Fatal(err)
	}
	if want == "" {
		if r.Decisions != 20 || r.Failed() != 0 {
			t.Errorf("%d decisions of 20, faults %v %q", r.Decisions, r.Faults, r.Examples)
		}
		return
	}
	if r.Decisions != 0 || r.Faults[want] != 20 || len(r.Examples) != maxExamples {
		t.Fatalf("%d decisions, faults %v %q; want 20 x %s", r.Decisions, r.Faults, r.Examples, want)
	}
	for _, e := range r.Examples {
		if !strings.HasPrefix(e, string(want)) || !strings.Contains(e, detail) {
			t.Errorf("example %q; want %q in it", e, detail)
		}
	}
}

// TestStreamsThatBreakAreFound has servers that leave, at each point of an exchange.
func TestStreamsThatBreakAreFound(t *testing.T) {
	echoed := func(stream extprocv3.ExternalProcessor_ProcessServer) error {
		body, err := held(stream)
		if err != nil {
			return err
		}
		if err := stream.Send(decision(there, there)); err != nil {
			return err
		}
		return sendBody(stream, body, true)
	}
	for _, row := range []struct {
		name   string
		mode   Mode
		run    func(extprocv3.ExternalProcessor_ProcessServer) error
		detail string
	}{
		{"at once, with OK", Headers, func(extprocv3.ExternalProcessor_ProcessServer) error { return nil }, "with OK"},
		{"at once, with an error", Headers, func(extprocv3.ExternalProcessor_ProcessServer) error {
			return status.Error(codes.ResourceExhausted, "full")
		}, "full"},
		{"after the body", Headers, echoed, "with OK while answering the response headers"},
		{"with an error at the end", Headers, func(stream extprocv3.ExternalProcessor_ProcessServer) error {
			if err := echoed(stream); err != nil {
				return err
			}
			if err := answerResponse(stream); err != nil {
				return err
			}
			return status.Error(codes.Internal, "late")
		}, "Internal while answering the end of the stream: late"},
		{"in the middle of the response", Full, func(stream extprocv3.ExternalProcessor_ProcessServer) error {
			if err := echoed(stream); err != nil {
				return err
			}
			if _, err := stream.Recv(); err != nil {
				return err
			}
			err := stream.Send(&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseHeaders{}})
			if err != nil {
				return err
			}
			_, err = stream.Recv()
			return err
		}, "with OK while answering the response body"},
	} {
		t.Run(row.name, func(t *testing.T) { expect(t, serve(t, misbehaving(row.run)), row.mode, StreamBroken, row.detail) })
	}
}

// TestResponsesThatChangeAreFound bends the echo of the response body.
func TestResponsesThatChangeAreFound(t *testing.T) {
	for _, row := range []struct {
		name   string
		bend   func(*extprocv3.HttpBody) (chunk []byte, end bool)
		want   FaultKind
		detail string
	}{
		{"nothing wrong", func(b *extprocv3.HttpBody) ([]byte, bool) { return b.Body, b.EndOfStream }, "", ""},
		{"a token is changed", func(b *extprocv3.HttpBody) ([]byte, bool) {
			return []byte(strings.Replace(string(b.Body), "token", "Token", 1)), b.EndOfStream
		}, BodyDiffers, "at offset 0"},
		{"the response ends at its first chunk", func(b *extprocv3.HttpBody) ([]byte, bool) { return b.Body, true }, OutOfOrder, "before its end_of_stream"},
		{"a chunk grows", func(b *extprocv3.HttpBody) ([]byte, bool) { return append(b.Body, '\n'), b.EndOfStream }, BodyDiffers, "1 bytes more"},
	} {
		t.Run(row.name, func(t *testing.T) {
			target := serve(t, misbehaving(func(stream extprocv3.ExternalProcessor_ProcessServer) error {
				body, err := held(stream)
				if err == nil {
					err = stream.Send(decision(there, there))
				}
				if err == nil {
					err = sendBody(stream, body, true)
				}
				for err == nil {
					var m *extprocv3.ProcessingRequest
					if m, err = stream.Recv(); err != nil {
						break
					}
					if b := m.GetResponseBody(); b != nil {
						chunk, end := row.bend(b)
						err = sendResponse(stream, chunk, end)
					} else {
						err = stream.Send(&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseHeaders{}})
					}
				}
				return err
			}))
			expect(t, target, Full, row.want, row.detail)
		})
	}
}

// silentLog is an access log service that ends its stream without the response.
type silentLog struct {
	accesslogv3.UnimplementedAccessLogServiceServer
	entries atomic.Int64
}

func (s *silentLog) StreamAccessLogs(stream accesslogv3.AccessLogService_StreamAccessLogsServer) error {
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, e := range m.GetHttpLogs().GetLogEntry() {
			lb := e.GetCommonProperties().GetMetadata().GetFilterMetadata()[lbNamespace].GetFields()
			if lb[destinationHeader].GetStringValue() == there && lb[servedKey].GetStringValue() == there &&
				e.GetCommonProperties().GetStreamId() != "" && e.GetRequest().GetRequestBodyBytes() > 8000 {
				s.entries.Add(1)
			}
		}
	}
}

func TestEachRequestHasAnAccessLogEntry(t *testing.T) {
	log := &silentLog{}
	target := serve(t, func(s grpc.ServiceRegistrar) {
		noop, err := NewNoOp([]string{there})
		if err != nil {
			t.Fatal(err)
		}
		extprocv3.RegisterExternalProcessorServer(s, noop)
		accesslogv3.RegisterAccessLogServiceServer(s, log)
	})
	expect(t, target, Edges, "", "")
	if n := log.entries.Load(); n != 20 {
		t.Errorf("%d complete entries of 20 when the run had ended", n)
	}
}

func TestAServerWithoutAccessLogIsFound(t *testing.T) {
	target := serve(t, misbehaving(func(stream extprocv3.ExternalProcessor_ProcessServer) error {
		body, err := held(stream)
		if err == nil {
			err = stream.Send(decision(there, there))
		}
		if err == nil {
			err = sendBody(stream, body, true)
		}
		if err == nil {
			err = answerResponse(stream)
		}
		return err
	}))
	l := NewLoad(target)
	l.Mode, l.Requests, l.Duration = Edges, 20, 0
	r, err := Run(context.Background(), l)
	if err == nil || !strings.Contains(err.Error(), "access log") || !strings.Contains(err.Error(), "Unimplemented") {
		t.Errorf("result %+v, error %v; want that the server has no access log service", r, err)
	}
}
