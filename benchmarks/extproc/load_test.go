package extproc

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"

	"github.com/fairlead/fairlead/benchmarks/children"
)

// serve runs register's services on a free loopback port until the test ends.
func serve(t *testing.T, register func(grpc.ServiceRegistrar)) (target string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(window))
	register(server)
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Stop(); <-done })
	return listener.Addr().String()
}

func serveNoOp(t *testing.T, destinations ...string) string {
	t.Helper()
	noop, err := NewNoOp(destinations)
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, noop.Register)
}

func TestNoOpKeepsTheProtocol(t *testing.T) {
	target := serveNoOp(t, "10.0.0.1:8000", "10.0.0.2:8000", "[fd00::3]:8000")
	for _, row := range []struct {
		name    string
		mode    Mode
		framing Framing
		chars   int
		chunks  int
	}{
		{"a small prompt", Headers, HTTP1, 200, 0},
		{"a small prompt over HTTP/2", Headers, HTTP2, 200, 0},
		{"more than one piece", Headers, HTTP1, 100_000, 0},
		{"more than one piece over HTTP/2", Headers, HTTP2, 100_000, 0},
		{"more than one message of a megabyte", Headers, HTTP1, 1_500_000, 0},
		{"with access log", Edges, HTTP1, 8000, 0},
		{"with the response body", Full, HTTP1, 8000, 20},
		{"with a response of headers and end only", Full, HTTP2, 200, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			l := NewLoad(target)
			l.Mode, l.Framing, l.Chars, l.Chunks = row.mode, row.framing, row.chars, row.chunks
			l.Requests, l.Duration = 30, 0
			r, err := Run(context.Background(), l)
			if err != nil {
				t.Fatal(err)
			}
			if r.Decisions != 30 || r.Begun != 30 || r.Failed() != 0 || r.Destinations != 3 {
				t.Fatalf("%d of %d decisions to %d destinations, faults %v %q; want 30 of 30 to 3", r.Decisions, r.Begun, r.Destinations, r.Faults, r.Examples)
			}
			if r.BodyBytes < 30*uint64(row.chars) || r.P50 <= 0 || r.P99 < r.P50 || r.Max < r.P99 || r.PerSecond <= 0 {
				t.Errorf("%d bytes compared, p50 %v, p99 %v, max %v, %g/s", r.BodyBytes, r.P50, r.P99, r.Max, r.PerSecond)
			}
		})
	}
}

func TestNoOpAnswersTrailersAndHeadersOnly(t *testing.T) {
	target := serveNoOp(t, "10.0.0.1:8000")
	r := &run{load: &Load{Target: target, Connections: 1, Timeout: 5 * time.Second}}
	defer r.disconnect()
	if err := r.connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	client := extprocv3.NewExternalProcessorClient(r.conns[0])

	t.Run("a GET is decided at its headers", func(t *testing.T) {
		stream, err := client.Process(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		send(t, stream, &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestHeaders{
			RequestHeaders: &extprocv3.HttpHeaders{Headers: headerMap(":method", "GET", ":path", "/v1/models"), EndOfStream: true},
		}})
		a := answers{}
		if f := a.take(receive(t, stream)); f != nil || a.to != "10.0.0.1:8000" {
			t.Errorf("destination %q, fault %v", a.to, f)
		}
	})
	t.Run("trailers end a body", func(t *testing.T) {
		stream, err := client.Process(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		body := []byte(strings.Repeat("x", MaxPiece+1))
		send(t, stream, &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestHeaders{
			RequestHeaders: &extprocv3.HttpHeaders{Headers: requestHeaders("id", len(body))},
		}})
		send(t, stream, &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestBody{
			RequestBody: &extprocv3.HttpBody{Body: body},
		}})
		send(t, stream, &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestTrailers{
			RequestTrailers: &extprocv3.HttpTrailers{},
		}})
		a := answers{body: echo{want: body}}
		for range 3 { // headers, two pieces
			if f := a.take(receive(t, stream)); f != nil {
				t.Fatal(f)
			}
		}
		if receive(t, stream).GetRequestTrailers() == nil || a.body.done || a.body.at != len(body) {
			t.Errorf("%d of %d bytes, end of stream %v; want all, and the trailers as the end", a.body.at, len(body), a.body.done)
		}
	})
}

func send(t *testing.T, stream extprocv3.ExternalProcessor_ProcessClient, m *extprocv3.ProcessingRequest) {
	t.Helper()
	if err := stream.Send(m); err != nil {
		t.Fatal(err)
	}
}

func receive(t *testing.T, stream extprocv3.ExternalProcessor_ProcessClient) *extprocv3.ProcessingResponse {
	t.Helper()
	m, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestOpenLoop(t *testing.T) {
	t.Run("arrivals come at their rate", func(t *testing.T) {
		l := NewLoad(serveNoOp(t, "10.0.0.1:8000"))
		l.Rate, l.Chars, l.Requests, l.Duration, l.Concurrency = 500, 200, 100, 0, 100
		r, err := Run(context.Background(), l)
		if err != nil {
			t.Fatal(err)
		}
		if r.Decisions+r.Shed != 100 || r.Failed() != 0 {
			t.Errorf("%d decisions and %d shed of 100, faults %v", r.Decisions, r.Shed, r.Faults)
		}
		// the sum of 100 exponential intervals at 500/s is 200 ms with a deviation of 20
		if r.Elapsed < 120*time.Millisecond {
			t.Errorf("100 arrivals at 500/s took %v", r.Elapsed)
		}
	})
	t.Run("those beyond the bound are shed, not queued", func(t *testing.T) {
		hung := serve(t, misbehaving(func(stream extprocv3.ExternalProcessor_ProcessServer) error {
			<-stream.Context().Done()
			return nil
		}))
		l := NewLoad(hung)
		l.Rate, l.Chars, l.Requests, l.Duration, l.Concurrency, l.Timeout = 2000, 200, 50, 0, 3, 500*time.Millisecond
		r, err := Run(context.Background(), l)
		if err != nil {
			t.Fatal(err)
		}
		if r.Begun+r.Shed != 50 || r.Shed == 0 || r.Decisions != 0 || r.Faults[StreamBroken] != r.Begun {
			t.Errorf("%d begun, %d shed, faults %v; want 50 in all, each begun one timed out", r.Begun, r.Shed, r.Faults)
		}
	})
}

func TestDurationEndsARun(t *testing.T) {
	l := NewLoad(serveNoOp(t, "10.0.0.1:8000"))
	l.Chars, l.Duration = 200, 150*time.Millisecond
	r, err := Run(context.Background(), l)
	if err != nil {
		t.Fatal(err)
	}
	if r.Decisions == 0 || r.Failed() != 0 || r.Elapsed < l.Duration {
		t.Errorf("%d decisions in %v, faults %v", r.Decisions, r.Elapsed, r.Faults)
	}
}

func TestLoadsThatCannotRunAreRefused(t *testing.T) {
	for _, row := range []struct {
		name string
		bend func(*Load)
		want string
	}{
		{"no target", func(l *Load) { l.Target = "" }, "target"},
		{"no end", func(l *Load) { l.Duration = 0 }, "end the run"},
		{"no connection", func(l *Load) { l.Connections = 0 }, "connections is 0"},
		{"no worker", func(l *Load) { l.Concurrency = 0 }, "concurrency is 0"},
		{"a rate below zero", func(l *Load) { l.Rate = -1 }, "rate is -1"},
		{"chunks that nobody sees", func(l *Load) { l.Chunks = 5 }, "mode full only"},
		{"an unknown mode", func(l *Load) { l.Mode = "half" }, `mode is "half"`},
		{"an unknown framing", func(l *Load) { l.Framing = "http3" }, `framing is "http3"`},
		{"a prompt without room", func(l *Load) { l.Chars = 1 }, "prompt size is 1"},
		{"no time", func(l *Load) { l.Timeout = 0 }, "timeout"},
	} {
		l := NewLoad("127.0.0.1:1")
		row.bend(&l)
		if _, err := Run(context.Background(), l); err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v; want an error with %q", row.name, err, row.want)
		}
	}
}

func TestAServerThatIsNotThereIsAnError(t *testing.T) {
	ports, err := children.FreePorts(1)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0") // bound, then closed: nobody listens
	if err != nil {
		t.Fatal(err)
	}
	at := listener.Addr().String()
	listener.Close()
	if _, err := Run(context.Background(), NewLoad(at)); err == nil || !strings.Contains(err.Error(), at) {
		t.Errorf("error %v (%v); want one that names %s", err, ports, at)
	}
}

func TestACancelledRunIsAnError(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	target := serve(t, misbehaving(func(stream extprocv3.ExternalProcessor_ProcessServer) error {
		cancel()
		<-stream.Context().Done()
		return nil
	}))
	if _, err := Run(ctx, NewLoad(target)); err == nil || !strings.Contains(err.Error(), "canceled") {
		t.Errorf("error %v; want that of the context", err)
	}
}
