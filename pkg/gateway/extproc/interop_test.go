package extproc

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	alspb "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	extprocpb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

// What grpc-go's client asks of a server, over TCP, beside what every test of this package does over memory.

// dialed connects a client of its own to the rig's server over TCP.
func dialed(t *testing.T, g *rig, more ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = g.server.Serve(l, nil) }()
	conn, err := grpc.NewClient(l.Addr().String(), append(more, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// TestWatch: health tells of its changes on the serving port, lists all there is, and a watch ends with its client.
func TestWatch(t *testing.T) {
	g := newRig(t, rigOptions{})
	client := healthpb.NewHealthClient(dialed(t, g))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	w, err := client.Watch(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, ready := range []bool{true, false, true} {
		g.server.SetReady(ready)
		want := healthpb.HealthCheckResponse_NOT_SERVING
		if ready {
			want = healthpb.HealthCheckResponse_SERVING
		}
		if r, err := w.Recv(); err != nil || r.GetStatus() != want {
			t.Fatalf("%v, error %v; want %v", r.GetStatus(), err, want)
		}
	}
	if l, err := client.List(ctx, &healthpb.HealthListRequest{}); err != nil || len(l.GetStatuses()) != 5 {
		t.Errorf("%v, error %v; want five services", l.GetStatuses(), err)
	}
	if _, err := client.Check(ctx, &healthpb.HealthCheckRequest{Service: "stranger"}); status.Code(err) != codes.NotFound {
		t.Errorf("a stranger: %v", err)
	}
	cancel()
	if _, err := w.Recv(); err == nil {
		t.Error("the watch goes on")
	}
}

// TestStrangers: a method that there is not, and a compressed message, are refused by their own stream alone.
func TestStrangers(t *testing.T) {
	g := newRig(t, rigOptions{})
	conn := dialed(t, g)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := conn.Invoke(ctx, "/a.Service/Method", &healthpb.HealthCheckRequest{}, &healthpb.HealthCheckResponse{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("a method that there is not: %v", err)
	}
	s, err := extprocpb.NewExternalProcessorClient(conn).Process(ctx, grpc.UseCompressor(gzip.Name))
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Send(requestHeaders(duplex, none, true, ":method", "GET", ":path", "/v1/models"))
	if _, err := s.Recv(); status.Code(err) != codes.Unimplemented || !strings.Contains(err.Error(), "gzip") {
		t.Errorf("a compressed message: %v", err)
	}
	if _, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{}); err != nil {
		t.Errorf("the connection does not live on: %v", err)
	}
	log, err := alspb.NewAccessLogServiceClient(conn).StreamAccessLogs(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := log.CloseAndRecv(); err != nil {
		t.Errorf("an access log that ends: %v", err)
	}
}

// TestWindows: bodies pass whole through a client's smallest windows, many at a time on one connection, with keepalive pings
// between.
func TestWindows(t *testing.T) {
	for _, window := range []int32{0, 1 << 16, 1 << 20} { // 0: the client finds its windows by itself
		g := newRig(t, rigOptions{})
		g.conn = dialed(t, g, grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(window),
			grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, PermitWithoutStream: true}))
		var all sync.WaitGroup
		for i := range 12 {
			body := chatOf(100_000 + i*37_000)
			gw := g.open()
			all.Go(func() {
				gw.headers(duplex, none)
				go func() {
					for rest := body; rest != ""; {
						n := min(len(rest), 300_000)
						gw.body(rest[:n], n == len(rest))
						rest = rest[n:]
					}
				}()
				if got := gw.answerTo(); string(got.body) != body {
					t.Errorf("window %d: %d bytes came back as %d, or changed", window, len(body), len(got.body))
				}
				gw.cancel()
			})
		}
		all.Wait()
		g.untilClosed()
	}
}

// TestMaxStreams: a client that knows the limit waits for its turn.
func TestMaxStreams(t *testing.T) {
	g := newRig(t, rigOptions{streams: 2})
	g.conn = dialed(t, g)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			gw := g.open()
			gw.headers(duplex, none)
			gw.body(chat, true)
			gw.answerTo()
			if n := g.server.Open(); n > 2 {
				t.Errorf("%d streams are open", n)
			}
			gw.cancel()
		})
	}
	all.Wait()
	g.untilClosed()
}

// TestGoAwayOnDrain: a client whose server drains keeps its open stream, and opens its next one on another connection.
func TestGoAwayOnDrain(t *testing.T) {
	g := newRig(t, rigOptions{})
	g.conn = dialed(t, g)
	gw := g.open()
	gw.headers(duplex, duplex)
	gw.body(chat, true)
	gw.answerTo()
	gw.responseHeaders("10.0.0.1:8000", false)
	gw.recv()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- g.server.Stop(ctx) }()
	g.until("draining has not begun", func() bool { return g.server.draining.Load() })
	if r, err := healthpb.NewHealthClient(g.conn).Check(ctx, &healthpb.HealthCheckRequest{}); err != nil || r.GetStatus() != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Errorf("health says %v, error %v", r.GetStatus(), err)
	}
	gw.responseBody("last", true)
	gw.recv()
	if _, err := gw.io.Recv(); err != io.EOF {
		t.Errorf("the stream ended with %v", err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestMalformedMessage: a message that is none ends its stream with an error, which a gateway takes for a failure of the picker.
func TestMalformedMessage(t *testing.T) {
	g := newRig(t, rigOptions{})
	for method, desc := range map[string]*grpc.StreamDesc{
		processMethod: {ClientStreams: true, ServerStreams: true}, accessLogs: {ClientStreams: true},
	} {
		s, err := g.conn.NewStream(context.Background(), desc, method, grpc.ForceCodec(rawCodec{}))
		if err != nil {
			t.Fatal(err)
		}
		_ = s.SendMsg([]byte{0x12, 0x7f})
		var answer []byte
		if err := s.RecvMsg(&answer); status.Code(err) != codes.Internal {
			t.Errorf("%s: ended with %v", method, err)
		}
	}
	if n := g.received(Unknown); n != 2 {
		t.Errorf("%d unknown messages were counted; want 2", n)
	}
	g.untilClosed()
	if exchanges := g.scheduler.Open(); exchanges != 0 {
		t.Errorf("%d exchanges are open", exchanges)
	}
}

// rawCodec sends bytes as they are.
type rawCodec struct{}

func (rawCodec) Marshal(v any) ([]byte, error) { return v.([]byte), nil }
func (rawCodec) Unmarshal(b []byte, v any) error {
	*v.(*[]byte) = b
	return nil
}
func (rawCodec) Name() string { return "raw" }
