package extproc

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"runtime"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// Serving is how a no-op server is served by a process of its own.
type Serving struct {
	// Address takes ext_proc and access logs, host:port; port 0 chooses a free one.
	Address string
	// MetricsAddress takes GET /metrics with the Go runtime's figures; empty for none.
	MetricsAddress string
	// Destinations are handed out in turn.
	Destinations []string
	// TLS serves with a self-signed certificate made at start.
	TLS bool
}

// Lines that a serving process prints, so that its parent learns the ports.
const (
	servingLine = "extproc "
	metricsLine = "metrics "
)

// ServeNoOp serves until ctx ends, and writes where to out, one line for each port. Open streams are cut at the end.
func ServeNoOp(ctx context.Context, s Serving, out io.Writer) error {
	noop, err := NewNoOp(s.Destinations)
	if err != nil {
		return err
	}
	options := []grpc.ServerOption{grpc.MaxRecvMsgSize(window)}
	if s.TLS {
		cert, err := selfSigned(time.Now())
		if err != nil {
			return fmt.Errorf("making a certificate: %w", err)
		}
		options = append(options, grpc.Creds(credentials.NewServerTLSFromCert(&cert)))
	}
	listener, err := net.Listen("tcp", s.Address)
	if err != nil {
		return fmt.Errorf("no-op server: %w", err)
	}
	server := grpc.NewServer(options...)
	noop.Register(server)
	failed := make(chan error, 2)
	go func() { failed <- server.Serve(listener) }()
	defer server.Stop()
	fmt.Fprintf(out, "%s%s\n", servingLine, listener.Addr())

	if s.MetricsAddress != "" {
		listener, err := net.Listen("tcp", s.MetricsAddress)
		if err != nil {
			return fmt.Errorf("no-op server, metrics: %w", err)
		}
		metrics := &http.Server{Handler: runtimeMetrics(), ReadHeaderTimeout: 5 * time.Second}
		go func() { failed <- metrics.Serve(listener) }()
		defer metrics.Close()
		fmt.Fprintf(out, "%shttp://%s/metrics\n", metricsLine, listener.Addr())
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return fmt.Errorf("no-op server: %w", err)
	}
}

// runtimeMetrics serves the two counters that a Meter reads, exact to the object, under the names that the Prometheus
// client library gives them.
func runtimeMetrics() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		fmt.Fprintf(w, "# TYPE %[1]s counter\n%[1]s %[2]d\n# TYPE %[3]s counter\n%[3]s %[4]d\n",
			mallocsCounter, m.Mallocs, bytesCounter, m.TotalAlloc)
	})
	return mux
}

// selfSigned returns an ECDSA P-256 certificate for loopback, valid for a day.
func selfSigned(now time.Time) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()),
		NotBefore:    now.Add(-time.Hour),
		NotAfter:     now.Add(24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:     []string{"localhost"},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
