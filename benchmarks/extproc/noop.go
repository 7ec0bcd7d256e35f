package extproc

import (
	"errors"
	"io"
	"sync/atomic"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
)

// NoOp is the floor: an ext_proc server that keeps the FULL_DUPLEX_STREAMED protocol and does nothing else. It holds a
// body to its end, answers the headers with the next destination in turn, echoes the body in pieces of MaxPiece bytes,
// and parses nothing. Access logs are received and dropped. It runs on grpc-go and its stock protobuf codec, and is
// written as one writes such a server at first, without tricks.
type NoOp struct {
	extprocv3.UnimplementedExternalProcessorServer

	destinations []string
	turn         atomic.Uint64
}

// NewNoOp returns a NoOp that sends requests to these destinations, address:port each, in turn.
func NewNoOp(destinations []string) (*NoOp, error) {
	if len(destinations) == 0 {
		return nil, errors.New("no-op server without destinations; name at least one address:port")
	}
	return &NoOp{destinations: destinations}, nil
}

// Register adds the server's services to s.
func (n *NoOp) Register(s grpc.ServiceRegistrar) {
	extprocv3.RegisterExternalProcessorServer(s, n)
	accesslogv3.RegisterAccessLogServiceServer(s, n)
}

// StreamAccessLogs takes all entries and drops them.
func (n *NoOp) StreamAccessLogs(stream accesslogv3.AccessLogService_StreamAccessLogsServer) error {
	for {
		if _, err := stream.Recv(); errors.Is(err, io.EOF) {
			return stream.SendAndClose(&accesslogv3.StreamAccessLogsResponse{})
		} else if err != nil {
			return err
		}
	}
}

// Process answers one exchange.
func (n *NoOp) Process(stream extprocv3.ExternalProcessor_ProcessServer) error {
	var body []byte
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch r := m.GetRequest().(type) {
		case *extprocv3.ProcessingRequest_RequestHeaders:
			if r.RequestHeaders.GetEndOfStream() {
				err = stream.Send(n.decide())
			}
		case *extprocv3.ProcessingRequest_RequestBody:
			if body == nil {
				body = r.RequestBody.GetBody()
			} else {
				body = append(body, r.RequestBody.GetBody()...)
			}
			if r.RequestBody.GetEndOfStream() {
				if err = stream.Send(n.decide()); err == nil {
					err = sendBody(stream, body, true)
				}
			}
		case *extprocv3.ProcessingRequest_RequestTrailers:
			if err = stream.Send(n.decide()); err == nil {
				err = sendBody(stream, body, false)
			}
			if err == nil {
				err = stream.Send(&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestTrailers{
					RequestTrailers: &extprocv3.TrailersResponse{},
				}})
			}
		case *extprocv3.ProcessingRequest_ResponseHeaders:
			err = stream.Send(&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseHeaders{
				ResponseHeaders: &extprocv3.HeadersResponse{},
			}})
		case *extprocv3.ProcessingRequest_ResponseBody:
			err = sendResponse(stream, r.ResponseBody.GetBody(), r.ResponseBody.GetEndOfStream())
		case *extprocv3.ProcessingRequest_ResponseTrailers:
			err = stream.Send(&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseTrailers{
				ResponseTrailers: &extprocv3.TrailersResponse{},
			}})
		default:
			return status.Errorf(codes.InvalidArgument, "message of kind %T", r)
		}
		if err != nil {
			return err
		}
	}
}

// decide is the answer to the request headers: the next destination as header and as dynamic metadata.
func (n *NoOp) decide() *extprocv3.ProcessingResponse {
	to := n.destinations[n.turn.Add(1)%uint64(len(n.destinations))]
	return &extprocv3.ProcessingResponse{
		Response: &extprocv3.ProcessingResponse_RequestHeaders{
			RequestHeaders: &extprocv3.HeadersResponse{Response: &extprocv3.CommonResponse{
				ClearRouteCache: true,
				HeaderMutation: &extprocv3.HeaderMutation{SetHeaders: []*corev3.HeaderValueOption{{
					Header:       &corev3.HeaderValue{Key: destinationHeader, RawValue: []byte(to)},
					AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
				}}},
			}},
		},
		DynamicMetadata: &structpb.Struct{Fields: map[string]*structpb.Value{
			lbNamespace: structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
				destinationHeader: structpb.NewStringValue(to),
			}}),
		}},
	}
}

// sendBody echoes a request body; end says whether its last piece ends the stream (trailers do otherwise).
func sendBody(stream extprocv3.ExternalProcessor_ProcessServer, body []byte, end bool) error {
	for {
		piece := body[:min(len(body), MaxPiece)]
		body = body[len(piece):]
		err := stream.Send(&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestBody{
			RequestBody: streamed(piece, end && len(body) == 0),
		}})
		if err != nil || len(body) == 0 {
			return err
		}
	}
}

// sendResponse echoes one chunk of a response body.
func sendResponse(stream extprocv3.ExternalProcessor_ProcessServer, chunk []byte, end bool) error {
	for {
		piece := chunk[:min(len(chunk), MaxPiece)]
		chunk = chunk[len(piece):]
		err := stream.Send(&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ResponseBody{
			ResponseBody: streamed(piece, end && len(chunk) == 0),
		}})
		if err != nil || len(chunk) == 0 {
			return err
		}
	}
}

func streamed(piece []byte, end bool) *extprocv3.BodyResponse {
	return &extprocv3.BodyResponse{Response: &extprocv3.CommonResponse{
		BodyMutation: &extprocv3.BodyMutation{Mutation: &extprocv3.BodyMutation_StreamedResponse{
			StreamedResponse: &extprocv3.StreamedBodyResponse{Body: piece, EndOfStream: end},
		}},
	}}
}
