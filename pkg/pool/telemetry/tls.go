package telemetry

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
)

// TLS says how engines that are asked over https are trusted, and how they know us.
type TLS struct {
	SkipVerify        bool   // any certificate will do
	CAFile            string // PEM; empty is the system's
	CertFile, KeyFile string // PEM; empty shows none
}

// Config returns the configuration of a client. Our own certificate is read anew for each connection, so that one that is
// renewed on disk takes effect; the CA file is read once.
func (t TLS) Config() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: t.SkipVerify} //nolint:gosec // engines sign their own
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("telemetry: the engines' CA: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("telemetry: the engines' CA: %s has no certificate in PEM form", t.CAFile)
		}
	}
	switch {
	case t.CertFile == "" && t.KeyFile == "":
		return c, nil
	case t.CertFile == "" || t.KeyFile == "":
		return nil, errors.New("telemetry: of the client's certificate and key one is given; give both")
	}
	own := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("telemetry: our certificate for engines: %w", err)
		}
		return &pair, nil
	}
	if _, err := own(); err != nil {
		return nil, err
	}
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own() }
	return c, nil
}
