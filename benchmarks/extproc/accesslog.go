package extproc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	accesslogdata "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	accesslogv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// accessLog is the one long-lived stream on which a worker of Envoy reports the end of its requests, each entry at once
// (buffer_size_bytes 0). It may be used concurrently.
type accessLog struct {
	cancel context.CancelFunc
	mu     sync.Mutex
	stream grpc.ClientStream
}

// openAccessLog opens the stream and introduces itself as the node with this number.
func openAccessLog(ctx context.Context, cc grpc.ClientConnInterface, node int) (*accessLog, error) {
	ctx, cancel := context.WithCancel(ctx)
	// Declared as streaming in both directions, so that a server which ends it without its one response has ended it with
	// OK, as it has for Envoy.
	desc := &grpc.StreamDesc{StreamName: "StreamAccessLogs", ClientStreams: true, ServerStreams: true}
	stream, err := cc.NewStream(ctx, desc, accesslogv3.AccessLogService_StreamAccessLogs_FullMethodName)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("opening the access log stream: %w", err)
	}
	l := &accessLog{cancel: cancel, stream: stream}
	err = l.send(&accesslogv3.StreamAccessLogsMessage{
		Identifier: &accesslogv3.StreamAccessLogsMessage_Identifier{
			Node:    &corev3.Node{Id: fmt.Sprintf("bench-%d", node), Cluster: "gateway"},
			LogName: "picker",
		},
		LogEntries: &accesslogv3.StreamAccessLogsMessage_HttpLogs{
			HttpLogs: &accesslogv3.StreamAccessLogsMessage_HTTPAccessLogEntries{},
		},
	})
	if err != nil {
		cancel()
		return nil, fmt.Errorf("opening the access log stream: %w", err)
	}
	return l, nil
}

func (l *accessLog) send(m *accesslogv3.StreamAccessLogsMessage) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.stream.SendMsg(m)
	if errors.Is(err, io.EOF) { // the server ended the stream; the status says why
		err = l.stream.RecvMsg(new(accesslogv3.StreamAccessLogsResponse))
		if err == nil || errors.Is(err, io.EOF) {
			err = errors.New("the server ended the access log stream with OK")
		}
	}
	return err
}

// entry reports a clean end of the request with this id. metadata is what Envoy then holds of the request.
func (l *accessLog) entry(id string, metadata *corev3.Metadata, bodyBytes int) error {
	common := &accesslogdata.AccessLogCommon{
		StartTime:                   timestamppb.Now(),
		TimeToLastRxByte:            durationpb.New(time.Millisecond),
		TimeToFirstUpstreamRxByte:   durationpb.New(80 * time.Millisecond),
		TimeToLastUpstreamRxByte:    durationpb.New(2 * time.Second),
		TimeToLastDownstreamTxByte:  durationpb.New(2 * time.Second),
		Duration:                    durationpb.New(2 * time.Second),
		UpstreamCluster:             "pool",
		RouteName:                   "completions",
		UpstreamRequestAttemptCount: 1,
		StreamId:                    id,
		AccessLogType:               accesslogdata.AccessLogType_DownstreamEnd,
		Metadata:                    metadata,
	}
	served := metadata.GetFilterMetadata()[lbNamespace].GetFields()[servedKey].GetStringValue()
	if at, err := netip.ParseAddrPort(served); err == nil {
		common.UpstreamRemoteAddress = &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
			Address:       at.Addr().String(),
			PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: uint32(at.Port())},
		}}}
	}
	return l.send(&accesslogv3.StreamAccessLogsMessage{
		LogEntries: &accesslogv3.StreamAccessLogsMessage_HttpLogs{HttpLogs: &accesslogv3.StreamAccessLogsMessage_HTTPAccessLogEntries{
			LogEntry: []*accesslogdata.HTTPAccessLogEntry{{
				CommonProperties: common,
				ProtocolVersion:  accesslogdata.HTTPAccessLogEntry_HTTP11,
				Request: &accesslogdata.HTTPRequestProperties{
					RequestMethod: corev3.RequestMethod_POST, Scheme: "http", Authority: "inference.example.com",
					Path: "/v1/chat/completions", RequestId: id, RequestBodyBytes: uint64(bodyBytes),
				},
				Response: &accesslogdata.HTTPResponseProperties{
					ResponseCode:        wrapperspb.UInt32(200),
					ResponseBodyBytes:   256 * uint64(len(sseChunk)),
					ResponseCodeDetails: "via_upstream",
				},
			}},
		}},
	})
}

// close half-closes the stream and waits, for so long at most, until the server has taken all entries and ended it too.
func (l *accessLog) close(wait time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer time.AfterFunc(wait, l.cancel).Stop()
	if err := l.stream.CloseSend(); err != nil {
		return err
	}
	err := l.stream.RecvMsg(new(accesslogv3.StreamAccessLogsResponse))
	if err == nil || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
