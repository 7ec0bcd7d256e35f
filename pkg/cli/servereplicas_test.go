package cli

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/gateway/admin"
	"github.com/fairlead/fairlead/pkg/gateway/ports"
)

// replicaCertificates writes one certificate that is its own authority, for 127.0.0.1.
func replicaCertificates(t *testing.T) (dir string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "replicas"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	for name, block := range map[string]*pem.Block{
		ports.CertFile: {Type: "CERTIFICATE", Bytes: certificate}, ports.KeyFile: {Type: "PRIVATE KEY", Bytes: private}, "ca.crt": {Type: "CERTIFICATE", Bytes: certificate},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Two processes hear of each other's requests while these run, in plaintext and by certificate.
func TestReplicasHearOfEachOther(t *testing.T) {
	for _, row := range []struct {
		name string
		more []string
	}{
		{"in plaintext", nil},
		{"by certificate", []string{"--replica-cert-dir", replicaCertificates(t)}},
	} {
		t.Run(row.name, func(t *testing.T) {
			answer := make(chan struct{})
			engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost {
					<-answer
				}
				fmt.Fprint(w, `{"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
			}))
			defer engine.Close()
			p := freePorts(t, 2)
			all := fmt.Sprintf("127.0.0.1:%d,127.0.0.1:%d", p[0], p[1])
			var both [2]*served
			for i := range both {
				both[i] = startServing(t, "127.0.0.1", append([]string{"--endpoint", engine.URL, "--replicas", all, "--replica-port", fmt.Sprint(p[i])}, row.more...)...)
			}
			done := make(chan error, 1)
			go func() {
				resp, err := http.Post(both[0].proxy+"/v1/completions", "application/json", strings.NewReader(`{"model":"m","prompt":"hello"}`))
				if err == nil {
					_ = resp.Body.Close()
				}
				done <- err
			}()
			heard := func(n int32) {
				t.Helper()
				late := time.After(20 * time.Second)
				for {
					var books admin.Books
					resp, err := http.Get(both[1].admin + "/debug/books")
					if err != nil {
						t.Fatal(err)
					}
					err = json.NewDecoder(resp.Body).Decode(&books)
					_ = resp.Body.Close()
					if err != nil {
						t.Fatal(err)
					}
					requests, of := int32(0), int32(0)
					for _, l := range books.Endpoints {
						requests, of = requests+l.Requests, of+l.Heard
					}
					if requests == n && of == n {
						return
					}
					select {
					case <-late:
						t.Fatalf("the other one has %d requests in its books, %d of them heard of; want %d", requests, of, n)
					case <-time.After(10 * time.Millisecond):
					}
				}
			}
			heard(1)
			resp, err := http.Get(both[1].admin + "/metrics")
			if err != nil {
				t.Fatal(err)
			}
			page, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil || !strings.Contains(string(page), "\nfairlead_replica_streams 1\n") {
				t.Errorf("the page does not say that one stream is heard (%v)", err)
			}
			close(answer)
			if err := <-done; err != nil {
				t.Error(err)
			}
			heard(0)
		})
	}
}

func TestReplicaCertificatesAreLookedAtFirst(t *testing.T) {
	empty := t.TempDir()
	bad := replicaCertificates(t)
	if err := os.WriteFile(filepath.Join(bad, "ca.crt"), []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{empty: "tls.crt", bad: "ca.crt has no certificate", "": ""} {
		f, err := parsed("--replicas", "127.0.0.1:9004", "--replica-cert-dir", dir)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.replicaIdentity()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), "--replica-cert-dir: ") || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", dir, err, want)
		}
	}
}

// What replicas tell takes time on the wall, whatever the scheduler's clock does.
func TestReplicasWaitByTheWall(t *testing.T) {
	for _, row := range []struct {
		wait  time.Duration
		speed float64
		want  time.Duration
	}{{time.Millisecond, 1, time.Millisecond}, {time.Millisecond, 0.5, time.Millisecond}, {time.Millisecond, 8, 8 * time.Millisecond}, {time.Millisecond, 100, exchange.MaxReplicaWait}, {0, 8, 0}} {
		f := serveFlags{clockSpeed: row.speed, exchange: exchange.Options{ReplicaWait: row.wait}}
		if got := f.replicaWait(); got != row.want {
			t.Errorf("%v at speed %g: %v of the scheduler's clock, want %v", row.wait, row.speed, got, row.want)
		}
	}
}
