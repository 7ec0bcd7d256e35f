package extproc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"testing"

	extprocpb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/reason"
)

func TestHealth(t *testing.T) {
	g := newRig(t, rigOptions{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- g.server.ServeHealth(ctx, l) }()
	own, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	check := func(when string, ready healthpb.HealthCheckResponse_ServingStatus) {
		t.Helper()
		for where, conn := range map[string]*grpc.ClientConn{"the serving port": g.conn, "the health port": own} {
			for _, name := range []string{"", "liveness", "readiness", "inference-extension", "envoy.service.ext_proc.v3.ExternalProcessor"} {
				want := ready
				if name == "liveness" {
					want = healthpb.HealthCheckResponse_SERVING
				}
				r, err := healthpb.NewHealthClient(conn).Check(context.Background(), &healthpb.HealthCheckRequest{Service: name})
				if err != nil || r.GetStatus() != want {
					t.Errorf("%s, %s: %q is %v, error %v; want %v", when, where, name, r.GetStatus(), err, want)
				}
			}
		}
	}
	check("ready", healthpb.HealthCheckResponse_SERVING)
	g.server.SetReady(false)
	check("not ready", healthpb.HealthCheckResponse_NOT_SERVING)
	g.server.SetReady(true)
	if err := g.server.Drain(ctx); err != nil {
		t.Error(err)
	}
	g.server.SetReady(true) // too late
	check("draining", healthpb.HealthCheckResponse_NOT_SERVING)
	_, err = healthpb.NewHealthClient(own).Check(ctx, &healthpb.HealthCheckRequest{Service: "stranger"})
	if status.Code(err) != codes.NotFound {
		t.Errorf("an unknown service: %v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("serving health ended with %v", err)
	}
}

func TestSelfSigned(t *testing.T) {
	certificate, err := SelfSigned()
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(certificate.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	g := newRig(t, rigOptions{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = g.server.Serve(l, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12})
	}()
	raw, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{RootCAs: roots, ServerName: "localhost", NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	if p := raw.ConnectionState().NegotiatedProtocol; p != "h2" {
		t.Errorf("ALPN %q; want h2", p)
	}
	raw.Close()
	g.conn, err = grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: roots, ServerName: "localhost", MinVersion: tls.VersionTLS12})))
	if err != nil {
		t.Fatal(err)
	}
	gw := g.open()
	gw.headers(duplex, none)
	gw.body(chat, true)
	if got := gw.answerTo(); string(got.body) != chat {
		t.Errorf("the body came back as %q", got.body)
	}
	gw.done()
}

// TestFailureOfOurs: a panic ends its own stream alone, and is noted.
func TestFailureOfOurs(t *testing.T) {
	g := newRig(t, rigOptions{})
	good := g.server.o.Scheduler
	bad := true
	g.server.o.Scheduler = func() *exchange.Scheduler {
		if bad {
			bad = false
			panic("an invariant did not hold")
		}
		return good()
	}
	gw := g.open()
	gw.headers(duplex, none)
	if _, err := gw.io.Recv(); status.Code(err) != codes.Internal {
		t.Errorf("the stream ended with %v; want Internal", err)
	}
	if g.notes.of(reason.Internal) != 1 {
		t.Error("the failure was not noted")
	}
	gw = g.open()
	gw.headers(duplex, none)
	gw.body(chat, true)
	gw.answerTo()
	gw.responseHeaders("10.0.0.1:8000", true)
	gw.recv()
	gw.done()
	g.outcome()
	g.zero()
}

// BenchmarkRequest is a whole request with a body of 8,000 bytes in response mode edges, client and server in one process.
func BenchmarkRequest(b *testing.B) {
	t := &testing.T{}
	g := newRig(t, rigOptions{exchange: func(o *exchange.Options) { o.Meter = nil }})
	body := []byte(chatOf(8000))
	headers := requestHeaders(duplex, none, false, ":authority", "localhost", ":scheme", "http", ":method", "POST", ":path", "/v1/chat/completions",
		"content-type", "application/json", "content-length", "8000", "accept", "*/*", "user-agent", "bench", "x-forwarded-proto", "http", "x-request-id", "1")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	client := extprocpb.NewExternalProcessorClient(g.conn)
	b.ReportAllocs()
	for b.Loop() {
		s, err := client.Process(ctx)
		if err != nil {
			b.Fatal(err)
		}
		_ = s.Send(headers)
		_ = s.Send(&extprocpb.ProcessingRequest{Request: &extprocpb.ProcessingRequest_RequestBody{RequestBody: &extprocpb.HttpBody{Body: body, EndOfStream: true}}})
		for range 2 {
			if _, err := s.Recv(); err != nil {
				b.Fatal(err)
			}
		}
		_ = s.CloseSend()
		if _, err := s.Recv(); err == nil {
			b.Fatal("the stream goes on")
		}
	}
}
