package ports

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/fairlead/fairlead/pkg/config/files"
)

// The names of the files in a certificate's directory, as a Kubernetes secret of type kubernetes.io/tls mounts them.
const (
	CertFile = "tls.crt"
	KeyFile  = "tls.key"
)

// Certificate is a serving certificate with its key, from two files of one directory. All methods may be called from any
// goroutine.
type Certificate struct {
	cert, key string // paths
	current   atomic.Pointer[tls.Certificate]

	mu   sync.Mutex
	read [2][]byte
}

// Open reads the certificate of a directory. Errors name the file.
func Open(dir string) (*Certificate, error) {
	c := &Certificate{cert: filepath.Join(dir, CertFile), key: filepath.Join(dir, KeyFile)}
	for i, path := range []string{c.cert, c.key} {
		data, err := files.Read(path)
		if err != nil {
			return nil, err
		}
		c.read[i] = data
	}
	if err := c.use(); err != nil {
		return nil, err
	}
	return c, nil
}

// use puts what was read in force, if the two files belong together.
func (c *Certificate) use() error {
	pair, err := tls.X509KeyPair(c.read[0], c.read[1])
	if err != nil {
		return fmt.Errorf("%s and %s: %w", c.cert, c.key, err)
	}
	c.current.Store(&pair)
	return nil
}

// Get returns the certificate in force, for [tls.Config.GetCertificate]: handshakes take it, connections keep theirs.
func (c *Certificate) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return c.current.Load(), nil
}

// NotAfter returns until when the certificate in force is valid, as RFC 3339.
func (c *Certificate) NotAfter() string {
	leaf, err := x509.ParseCertificate(c.current.Load().Certificate[0])
	if err != nil {
		return err.Error()
	}
	return leaf.NotAfter.UTC().Format("2006-01-02T15:04:05Z")
}

// Follow reads the files again when they change, until ctx ends. told hears of each change: nil when the new certificate is in
// force, else why the old one stays. While one of two files is new it says that they do not belong together; the second one
// puts both in force. slow is that of [files.Watch].
func (c *Certificate) Follow(ctx context.Context, slow, told func(error)) {
	var both sync.WaitGroup
	for i, path := range []string{c.cert, c.key} {
		both.Go(func() {
			c.mu.Lock()
			last := c.read[i]
			c.mu.Unlock()
			files.Watch(ctx, path, last, slow, func(data []byte, err error) { told(c.changed(i, data, err)) })
		})
	}
	both.Wait()
}

func (c *Certificate) changed(i int, data []byte, err error) error {
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read[i] = data
	// A secret is swapped as a whole: the other file is most likely new as well.
	if other, err := files.Read([]string{c.cert, c.key}[1-i]); err == nil && !bytes.Equal(other, c.read[1-i]) {
		c.read[1-i] = other
	}
	return c.use()
}

// TLS says how a port speaks TLS.
type TLS struct {
	MinVersion   string   // VersionTLS12 or VersionTLS13; empty is the former
	CipherSuites []string // of TLS 1.2, by their names; empty is Go's choice
	ClientCAFile string   // clients must show a certificate that one of these signed; empty asks for none
}

// Config returns the configuration of a port that serves a certificate and offers these protocols. Errors name what is
// wrong.
func (t TLS) Config(get func(*tls.ClientHelloInfo) (*tls.Certificate, error), protocols ...string) (*tls.Config, error) {
	c := &tls.Config{GetCertificate: get, NextProtos: protocols, MinVersion: tls.VersionTLS12}
	switch t.MinVersion {
	case "", "VersionTLS12":
	case "VersionTLS13":
		c.MinVersion = tls.VersionTLS13
	default:
		return nil, fmt.Errorf("the least version is %q; VersionTLS12 or VersionTLS13", t.MinVersion)
	}
	for _, name := range t.CipherSuites {
		id, err := cipher(name)
		if err != nil {
			return nil, err
		}
		c.CipherSuites = append(c.CipherSuites, id)
	}
	if t.ClientCAFile != "" {
		pem, err := os.ReadFile(t.ClientCAFile)
		if err != nil {
			return nil, fmt.Errorf("reading the certificates that sign clients': %w", err)
		}
		c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		if !c.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: holds no certificate in PEM", t.ClientCAFile)
		}
	}
	return c, nil
}

func cipher(name string) (uint16, error) {
	var known []string
	for _, s := range tls.CipherSuites() {
		if s.Name == name {
			return s.ID, nil
		}
		known = append(known, s.Name)
	}
	return 0, errors.New("cipher suite " + name + " is not known or not safe; one of " + strings.Join(known, ", "))
}
