package ports

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead/fairlead/pkg/reason"
)

// heard counts reasons.
type heard struct {
	mu sync.Mutex
	n  map[reason.ID]int
}

func (h *heard) Note(id reason.ID, _ string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.n == nil {
		h.n = map[reason.ID]int{}
	}
	h.n[id]++
}

func (h *heard) of(id reason.ID) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.n[id]
}

// issue writes a certificate of this name into a directory, as a secret is mounted.
func issue(t *testing.T, dir, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{CertFile: {Type: "CERTIFICATE", Bytes: der}, KeyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		path := filepath.Join(dir, file)
		if err := os.WriteFile(path+".new", pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
}

// serve answers "ok" over TLS.
func serve(t *testing.T, c *tls.Config) string {
	t.Helper()
	l, err := Listen("127.0.0.1", 0)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{TLSConfig: c, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })}
	go func() { _ = s.ServeTLS(l, "", "") }()
	t.Cleanup(func() { _ = s.Close() })
	return l.Addr().String()
}

func dial(t *testing.T, addr string, protocols ...string) *tls.Conn {
	t.Helper()
	c, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, NextProtos: protocols, MinVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func nameOf(c *tls.Conn) string { return c.ConnectionState().PeerCertificates[0].Subject.CommonName }

func TestACertificateThatIsRenewedIsServedAndConnectionsStay(t *testing.T) {
	dir := t.TempDir()
	issue(t, dir, "first")
	certificate, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	config, err := TLS{}.Config(certificate.Get, "h2", "http/1.1")
	if err != nil {
		t.Fatal(err)
	}
	addr := serve(t, config)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	inForce := make(chan string, 16)
	go func() {
		defer close(ended)
		certificate.Follow(ctx, func(err error) { t.Error(err) }, func(err error) {
			if err == nil {
				pair, _ := certificate.Get(nil)
				leaf, _ := x509.ParseCertificate(pair.Certificate[0])
				inForce <- leaf.Subject.CommonName
			}
		})
	}()
	t.Cleanup(func() { stop(); <-ended })

	kept := dial(t, addr, "http/1.1")
	if nameOf(kept) != "first" {
		t.Errorf("served %q", nameOf(kept))
	}
	issue(t, dir, "second")
	for name := ""; name != "second"; {
		select {
		case name = <-inForce:
		case <-time.After(10 * time.Second):
			t.Fatal("the new certificate is not in force within 10 s")
		}
	}
	if name := nameOf(dial(t, addr)); name != "second" {
		t.Errorf("served %q", name)
	}
	_, _ = io.WriteString(kept, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	if resp, err := http.ReadResponse(bufio.NewReader(kept), nil); err != nil || resp.StatusCode != 200 {
		t.Errorf("the old connection: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, KeyFile), []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := certificate.changed(1, []byte("no key"), nil); err == nil || !strings.Contains(err.Error(), KeyFile) {
		t.Errorf("a broken key: %v", err)
	}
	if name := nameOf(dial(t, addr)); name != "second" {
		t.Errorf("with a broken key %q is served", name)
	}
}

func TestOpenSaysWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), CertFile) {
		t.Errorf("got %v", err)
	}
	issue(t, dir, "x")
	if err := os.WriteFile(filepath.Join(dir, KeyFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), KeyFile) {
		t.Errorf("got %v", err)
	}
}

// TestP23ALPN: a client that insists on h2 gets it, whatever else it offers.
func TestP23ALPN(t *testing.T) {
	dir := t.TempDir()
	issue(t, dir, "x")
	certificate, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	config, err := TLS{}.Config(certificate.Get, "h2")
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _ = c.(*tls.Conn).Handshake() }()
		}
	}()
	for _, offers := range [][]string{{"h2"}, {"http/1.1", "h2"}} {
		if got := dial(t, l.Addr().String(), offers...).ConnectionState().NegotiatedProtocol; got != "h2" {
			t.Errorf("offered %v: %q", offers, got)
		}
	}
}

func TestWhatTLSIsAskedFor(t *testing.T) {
	dir := t.TempDir()
	issue(t, dir, "ca")
	certificate, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name string
		ask  TLS
		says string
	}{
		{"1.3", TLS{MinVersion: "VersionTLS13"}, ""},
		{"a version that there is not", TLS{MinVersion: "1.3"}, "VersionTLS12 or VersionTLS13"},
		{"a suite", TLS{CipherSuites: []string{"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"}}, ""},
		{"a suite that is not safe", TLS{CipherSuites: []string{"TLS_RSA_WITH_RC4_128_SHA"}}, "not known or not safe"},
		{"no file of certificates", TLS{ClientCAFile: filepath.Join(dir, "absent")}, "absent"},
		{"a file without certificates", TLS{ClientCAFile: filepath.Join(dir, KeyFile)}, "holds no certificate"},
	} {
		_, err := row.ask.Config(certificate.Get)
		if (err == nil) != (row.says == "") || err != nil && !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v, want %q", row.name, err, row.says)
		}
	}
	config, err := TLS{ClientCAFile: filepath.Join(dir, CertFile), MinVersion: "VersionTLS13"}.Config(certificate.Get, "http/1.1")
	if err != nil {
		t.Fatal(err)
	}
	addr := serve(t, config)
	pair, _ := certificate.Get(nil)
	for _, with := range []bool{false, true} {
		client := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12}
		if with {
			client.Certificates = []tls.Certificate{*pair}
		}
		resp, err := (&http.Client{Transport: &http.Transport{TLSClientConfig: client}}).Get("https://" + addr)
		if (err == nil) != with {
			t.Errorf("with a certificate %t: %v", with, err)
		}
		if err == nil {
			_ = resp.Body.Close()
		}
	}
}

func TestListenTakesIPv6InEveryForm(t *testing.T) {
	for _, host := range []string{"::1", "[::1]", "127.0.0.1", "localhost", ""} {
		l, err := Listen(host, 0)
		if err != nil {
			t.Errorf("%q: %v", host, err)
			continue
		}
		_ = l.Close()
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	inner, err := Listen("127.0.0.1", 0)
	if err != nil {
		t.Fatal(err)
	}
	notes := &heard{}
	l := &Bounded{Listener: inner, Name: "proxy", Sink: notes, Max: 2, Answer: true}
	s := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok") })}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close() })
	ask := func(c net.Conn) (int, string) {
		t.Helper()
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(resp.Body)
		return resp.StatusCode, string(b)
	}
	connect := func() net.Conn {
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	one, two := connect(), connect()
	if status, _ := ask(one); status != 200 {
		t.Errorf("the first: %d", status)
	}
	if status, _ := ask(two); status != 200 {
		t.Errorf("the second: %d", status)
	}
	third := connect()
	_, _ = io.WriteString(third, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"+strings.Repeat("x", 100_000)) // nobody reads it
	resp, err := http.ReadResponse(bufio.NewReader(third), nil)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != 503 || !strings.Contains(string(b), `"code":"too_many_connections"`) || !strings.Contains(string(b), "at most 2") || resp.Header.Get("Retry-After") != "1" {
		t.Errorf("the third: %d, %v, %s", resp.StatusCode, resp.Header, b)
	}
	if n := notes.of(reason.TooManyConnections); n != 1 {
		t.Errorf("noted %d times", n)
	}
	_ = one.Close()
	for l.open.Load() > 1 {
		select {
		case <-time.After(time.Millisecond):
		case <-t.Context().Done():
			t.Fatal("the connection that was closed still counts")
		}
	}
	if status, _ := ask(connect()); status != 200 {
		t.Errorf("when there is room again: %d", status)
	}
}

// What net/http refuses before any handler is asked is said in JSON, with its status.
func TestPlainWords(t *testing.T) {
	for _, row := range []struct {
		name, sent string
		status     int
		code, says string
	}{
		{"a version of the future", "GET / HTTP/9.0\r\nHost: x\r\n\r\n", 505, "malformed_request", "unsupported protocol version"},
		{"a coding that nobody knows", "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: zip\r\n\r\n", 501, "malformed_request", "Unsupported transfer encoding"},
		{"no request at all", "hello\r\n\r\n", 400, "malformed_request", "400 Bad Request"},
		{"two hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "malformed_request", "400 Bad Request"},
		{"a length that is none", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400, "malformed_request", "400 Bad Request"},
		{"headers without end", "GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 20_000) + "\r\n\r\n", 431, "headers_too_large", "431 Request Header Fields Too Large"},
		{"an answer of the handler that looks alike", "GET /alike HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 400, "", "400 as it is"},
	} {
		t.Run(row.name, func(t *testing.T) {
			l, err := Listen("127.0.0.1", 0)
			if err != nil {
				t.Fatal(err)
			}
			notes := &heard{}
			s := &http.Server{MaxHeaderBytes: 1000, ReadHeaderTimeout: time.Second, ErrorLog: log.New(io.Discard, "", 0), Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/plain; charset=utf-8")
				w.WriteHeader(400)
				_, _ = io.WriteString(w, "400 as it is")
			})}
			go func() { _ = s.Serve(PlainWords(l, notes)) }()
			t.Cleanup(func() { _ = s.Close() })
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_, _ = io.WriteString(c, row.sent)
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != row.status || !strings.Contains(string(b), row.says) {
				t.Errorf("%d, error %v, %s; want %d and %q", resp.StatusCode, err, b, row.status, row.says)
			}
			if row.code != "" && (!strings.Contains(string(b), `"code":"`+row.code+`"`) || resp.Header.Get("Content-Type") != "application/json" || notes.of(reason.MalformedRequest)+notes.of(reason.HeadersTooLarge) != 1) {
				t.Errorf("%v, %s, noted %v", resp.Header, b, notes.n)
			}
		})
	}
}

// starved is a listener that has no files left for a while.
type starved struct {
	net.Listener
	failures int
}

func (s *starved) Accept() (net.Conn, error) {
	if s.failures > 0 {
		s.failures--
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	}
	return nil, net.ErrClosed
}

func (s *starved) Close() error   { return nil }
func (s *starved) Addr() net.Addr { return &net.TCPAddr{} }

// A server whose files are exhausted waits between two attempts, says why, and goes on.
func TestALackOfFilesIsSaidAndSurvived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		notes := &heard{}
		began := time.Now()
		s := &http.Server{ReadHeaderTimeout: time.Second, ErrorLog: log.New(io.Discard, "", 0)}
		err := s.Serve(&Bounded{Listener: &starved{failures: 5}, Name: "proxy", Sink: notes})
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("ended with %v", err)
		}
		if n := notes.of(reason.AcceptFailed); n != 5 {
			t.Errorf("noted %d times, want 5", n)
		}
		if took := time.Since(began); took != 155*time.Millisecond { // 5, 10, 20, 40, 80
			t.Errorf("five attempts within %v: it does not wait longer and longer", took)
		}
	})
}
