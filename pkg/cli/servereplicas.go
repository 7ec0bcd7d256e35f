package cli

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/gateway/ports"
	"github.com/fairlead/fairlead/pkg/gateway/replicas"
)

// replicaConnections bounds the streams that are served: one per other replica and pool, with room for those of replicas that
// restart.
const replicaConnections = 4 * replicas.MaxReplicas

// checkReplicas refuses names of replicas that cannot be looked up, and completes the port.
func (f *serveFlags) checkReplicas() error {
	for _, flag := range []struct {
		name  string
		given bool
	}{{"--replica-port", f.replicaPort != 0}, {"--replica-bind", f.replicaBind != ""}, {"--replica-cert-dir", f.replicaCertDir != ""},
		{"--replica-wait", f.exchange.ReplicaWait != exchange.Defaults().ReplicaWait}} {
		if flag.given && len(f.replicas) == 0 {
			return fmt.Errorf("%s is given without --replicas; give the address at which all replicas are found", flag.name)
		}
	}
	if w := f.exchange.ReplicaWait; w < 0 || w > exchange.MaxReplicaWait {
		return fmt.Errorf("--replica-wait is %v; from 0 to %v", w, exchange.MaxReplicaWait)
	}
	if len(f.replicas) > replicas.MaxReplicas {
		return fmt.Errorf("--replicas has %d names; at most %d", len(f.replicas), replicas.MaxReplicas)
	}
	for i, name := range f.replicas {
		host, port, err := net.SplitHostPort(name)
		number, bad := strconv.Atoi(port)
		if err != nil || host == "" || bad != nil || number < 1 || number > 65535 {
			return fmt.Errorf("--replicas is %q; a host and a port, such as fairlead-replicas:9004", name)
		}
		if i == 0 && f.replicaPort == 0 {
			f.replicaPort = number
		}
	}
	return nil
}

// replicaWait is what --replica-wait is by the scheduler's clock: what replicas tell each other takes time on the wall.
func (f *serveFlags) replicaWait() time.Duration {
	return min(time.Duration(float64(f.exchange.ReplicaWait)*max(f.clockSpeed, 1)), exchange.MaxReplicaWait)
}

// forReplicas is that of the port on which bookings are told: others must show a certificate of the same authority.
func (t *tlsFiles) forReplicas() (*tls.Config, string, error) {
	if t.f.replicaCertDir == "" {
		return nil, plaintext, nil
	}
	return t.from("--replica-cert-dir", t.f.replicaCertDir, filepath.Join(t.f.replicaCertDir, "ca.crt"), "http/1.1")
}

// replicaIdentity is what this replica shows to those whom it hears, and whom it trusts; nil for plaintext.
func (f *serveFlags) replicaIdentity() (*tls.Config, error) {
	if f.replicaCertDir == "" {
		return nil, nil
	}
	if _, err := ports.Open(f.replicaCertDir); err != nil {
		return nil, fmt.Errorf("--replica-cert-dir: %w", err)
	}
	file := filepath.Join(f.replicaCertDir, "ca.crt")
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--replica-cert-dir: %w", err)
	}
	authority := x509.NewCertPool()
	if !authority.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("--replica-cert-dir: %s has no certificate", file)
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: authority,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			certificate, err := ports.Open(f.replicaCertDir) // anew, so that one that was renewed is shown from the next stream on
			if err != nil {
				return nil, err
			}
			return certificate.Get(nil)
		}}, nil
}
