package cli

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"

	"github.com/fairlead/fairlead/pkg/gateway/extproc"
	"github.com/fairlead/fairlead/pkg/gateway/ports"
)

// plaintext is how a port without TLS is announced.
const plaintext = "plaintext"

// tlsFiles makes the TLS configurations of the ports, and follows their files.
type tlsFiles struct {
	f      *serveFlags
	log    *slog.Logger
	follow func(func(context.Context))
}

// forGRPC is that of ext_proc: the certificate of --cert-path, else a self-signed one.
func (t *tlsFiles) forGRPC() (*tls.Config, string, error) {
	switch {
	case !t.f.secure:
		return nil, plaintext, nil
	case t.f.certPath != "":
		return t.from("--cert-path", t.f.certPath, "", "h2")
	}
	certificate, err := extproc.SelfSigned()
	if err != nil {
		return nil, "", fmt.Errorf("making a self-signed certificate: %w", err)
	}
	c, err := t.options("").Config(func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &certificate, nil }, "h2")
	return c, "TLS, self-signed", err
}

// forProxy is that of the embedded proxy, which without a certificate serves plaintext.
func (t *tlsFiles) forProxy() (*tls.Config, string, error) {
	if t.f.listenCertPath == "" {
		return nil, plaintext, nil
	}
	return t.from("--listen-cert-path", t.f.listenCertPath, "", "h2", "http/1.1")
}

// forMetrics is that of the admin port, likewise.
func (t *tlsFiles) forMetrics() (*tls.Config, string, error) {
	if t.f.metricsCertDir == "" {
		return nil, plaintext, nil
	}
	return t.from("--metrics-cert-dir", t.f.metricsCertDir, t.f.metricsClientCA, "h2", "http/1.1")
}

func (t *tlsFiles) options(clientCA string) ports.TLS {
	return ports.TLS{MinVersion: t.f.tlsMinVersion, CipherSuites: t.f.tlsCipherSuites, ClientCAFile: clientCA}
}

// from serves the certificate in a directory, and follows it where that is wanted.
func (t *tlsFiles) from(flag, dir, clientCA string, protocols ...string) (*tls.Config, string, error) {
	certificate, err := ports.Open(dir)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", flag, err)
	}
	c, err := t.options(clientCA).Config(certificate.Get, protocols...)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", flag, err)
	}
	if t.f.certReload {
		slow := func(err error) { t.log.Warn("changes of a certificate are seen by polling", "error", err) }
		told := func(err error) {
			if err != nil {
				t.log.Warn("certificate refused; the one before it stays", "flag", flag, "error", err)
				return
			}
			t.log.Info("certificate in force", "flag", flag, "valid_until", certificate.NotAfter())
		}
		t.follow(func(ctx context.Context) { certificate.Follow(ctx, slow, told) })
	}
	how := "TLS, " + dir
	if clientCA != "" {
		how += ", clients by certificate"
	}
	return c, how, nil
}
