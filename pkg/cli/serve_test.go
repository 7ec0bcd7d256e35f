package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	extprocpb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/gateway/extproc"
	"github.com/fairlead/fairlead/pkg/gateway/ports"
)

// served is a process that serves, until end is called.
type served struct {
	t     *testing.T
	end   context.CancelFunc
	ended chan error
	grpc  string
	proxy string
	admin string
}

// tried counts the ports that were looked at.
var tried atomic.Int64

// freePorts returns ports that nobody has, and that no outgoing connection gets: those are above 32,767.
func freePorts(t *testing.T, n int) (ports []int) {
	t.Helper()
	for len(ports) < n {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 20_000+(os.Getpid()*97+int(tried.Add(1)))%10_000))
		if err != nil {
			if tried.Load() > 10_000 {
				t.Fatal(err)
			}
			continue // somebody else has it
		}
		defer l.Close() // when all have one, so that none gets the same
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

func startServing(t *testing.T, host string, more ...string) *served {
	t.Helper()
	p := freePorts(t, 4)
	at := func(i int) string { return net.JoinHostPort(strings.Trim(host, "[]"), fmt.Sprint(p[i])) }
	f, err := parsed(append([]string{
		"--endpoint", "http://127.0.0.1:1", "--secure-serving=false", "--bind-address", host, "--grpc-port", fmt.Sprint(p[0]), "--grpc-health-port", fmt.Sprint(p[1]),
		"--metrics-port", fmt.Sprint(p[2]), "--listen", at(3),
	}, more...)...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &served{t: t, end: cancel, ended: make(chan error, 1), grpc: at(0), proxy: "http://" + at(3), admin: "http://" + at(2)}
	ready := make(chan struct{})
	go func() {
		s.ended <- serve(ctx, catalog.Builtin(), f, slog.New(slog.DiscardHandler), &announced{ready: ready})
	}()
	t.Cleanup(func() {
		cancel()
		select {
		case <-s.ended:
		case <-time.After(20 * time.Second):
			t.Error("it does not end")
		}
	})
	select {
	case <-ready:
	case err := <-s.ended:
		t.Fatal(err)
	}
	return s
}

// announced is closed when the ports are told.
type announced struct{ ready chan struct{} }

func (a *announced) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "reads of a request") {
		close(a.ready)
	}
	return len(p), nil
}

// stops checks that the process ends by itself.
func (s *served) stops() {
	s.t.Helper()
	select {
	case err := <-s.ended:
		if err != nil {
			s.t.Error(err)
		}
		s.ended <- err
	case <-time.After(20 * time.Second):
		s.t.Fatal("it does not end")
	}
}

// TestP29IdleStreamAtShutdown: a stream on which nothing was ever said does not keep a process from ending.
func TestP29IdleStreamAtShutdown(t *testing.T) {
	s := startServing(t, "127.0.0.1", "--drain-timeout", "200ms")
	conn, err := grpc.NewClient(s.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stream, err := extprocpb.NewExternalProcessorClient(conn).Process(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := http.Get(s.admin + "/readyz"); err != nil { // by now the stream is known there
		t.Fatal(err)
	}
	s.end()
	s.stops()
	if _, err := stream.Recv(); err == nil {
		t.Error("the stream goes on")
	}
}

// With a drain time of a day, a process that does nothing ends at once.
func TestAnIdleProcessEndsAtOnce(t *testing.T) {
	s := startServing(t, "127.0.0.1", "--drain-timeout", "24h")
	if resp, err := http.Get(s.proxy + "/v1/models"); err != nil {
		t.Error(err)
	} else {
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	s.end()
	s.stops()
}

func TestAllPortsBindIPv6(t *testing.T) {
	for _, host := range []string{"::1", "[::1]"} {
		s := startServing(t, host)
		for _, url := range []string{s.admin + "/metrics", s.admin + "/debug/books", s.admin + "/healthz"} {
			resp, err := http.Get(url)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != 200 {
				t.Errorf("%s: %s", url, resp.Status)
			}
		}
		if _, err := http.Get(s.proxy + "/"); err != nil {
			t.Error(err)
		}
		s.end()
		s.stops()
	}
}

func TestDebugHasAPortOfItsOwnWhereThatIsAsked(t *testing.T) {
	port := freePorts(t, 1)[0]
	s := startServing(t, "127.0.0.1", "--debug-port", fmt.Sprint(port))
	for url, want := range map[string]int{
		s.admin + "/debug/books": 404, s.admin + "/metrics": 200,
		fmt.Sprintf("http://127.0.0.1:%d/debug/books", port): 200, fmt.Sprintf("http://127.0.0.1:%d/metrics", port): 404,
	} {
		resp, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %s, want %d", url, resp.Status, want)
		}
	}
}

// issue writes a new certificate and its key into a directory, and returns its serial number.
func issue(t *testing.T, dir string) string {
	t.Helper()
	pair, err := extproc.SelfSigned()
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{ports.CertFile: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, ports.KeyFile: {Type: "PRIVATE KEY", Bytes: key}} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path+".new", pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	return leaf.SerialNumber.String()
}

// TestP23EveryPortSpeaksTLS with the certificate of its directory, takes another one while it serves, and offers h2 where gRPC
// or HTTP/2 are spoken.
func TestP23EveryPortSpeaksTLS(t *testing.T) {
	dir := t.TempDir()
	serial := issue(t, dir)
	s := startServing(t, "127.0.0.1", "--secure-serving=true", "--cert-path", dir, "--listen-cert-path", dir, "--metrics-cert-dir", dir)
	addresses := []string{s.grpc, strings.TrimPrefix(s.proxy, "http://"), strings.TrimPrefix(s.admin, "http://")}
	dial := func(address string, protocols ...string) tls.ConnectionState {
		t.Helper()
		c, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, NextProtos: protocols, MinVersion: tls.VersionTLS12})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.ConnectionState()
	}
	for _, address := range addresses {
		state := dial(address, "h2")
		if state.NegotiatedProtocol != "h2" || state.PeerCertificates[0].SerialNumber.String() != serial {
			t.Errorf("%s: protocol %q, certificate %v", address, state.NegotiatedProtocol, state.PeerCertificates[0].SerialNumber)
		}
	}
	for _, h2 := range []bool{false, true} {
		protocols := new(http.Protocols)
		protocols.SetHTTP1(!h2)
		protocols.SetHTTP2(h2)
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}, Protocols: protocols}}
		for _, url := range []string{s.proxy + "/v1/chat/completions", s.admin + "/debug/books"} {
			resp, err := client.Get("https" + strings.TrimPrefix(url, "http"))
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if (resp.ProtoMajor == 2) != h2 {
				t.Errorf("%s: %s", url, resp.Proto)
			}
		}
	}
	next := issue(t, dir)
	retry := time.NewTicker(10 * time.Millisecond)
	defer retry.Stop()
	for _, address := range addresses {
		for deadline := time.Now().Add(10 * time.Second); dial(address, "h2").PeerCertificates[0].SerialNumber.String() != next; <-retry.C {
			if time.Now().After(deadline) {
				t.Fatalf("%s still serves the old certificate", address)
			}
		}
	}
}
