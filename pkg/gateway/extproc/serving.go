package extproc

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/fairlead/fairlead/pkg/gateway/extproc/h2"
)

const (
	// defaultMaxMessage is the largest message taken, and sent. Envoy sends at most its listener's buffer limit, 1 MiB by default.
	defaultMaxMessage = 32 << 20
	// defaultMaxStreams is how many streams a connection has at a time. Where answers keep their streams open it is that many
	// answers of one thread of a gateway.
	defaultMaxStreams = 16 << 10
)

// service is the name of the ext_proc service, and the methods are what is served beside gRPC health.
const (
	service       = "envoy.service.ext_proc.v3.ExternalProcessor"
	processMethod = "/" + service + "/Process"
	accessLogs    = "/envoy.service.accesslog.v3.AccessLogService/StreamAccessLogs"
)

// Serve serves ext_proc, the access log and gRPC health on l until Stop, which is no error. A nil configuration serves
// plaintext.
func (s *Server) Serve(l net.Listener, secure *tls.Config) error {
	if secure != nil {
		secure = secure.Clone()
		secure.NextProtos = []string{"h2"}
	}
	return s.h2.Serve(l, secure)
}

// open begins a stream.
func (s *Server) open(io *h2.Stream, method string) h2.Handler {
	switch method {
	case processMethod:
		st := &stream{s: s, io: io, said: readDeclared(io.Metadata(ModesKey))}
		s.enter(st)
		return st
	case accessLogs:
		return s.openLog(io)
	case healthpb.Health_Check_FullMethodName, healthpb.Health_Watch_FullMethodName, healthpb.Health_List_FullMethodName:
		return &probe{s: s, io: io, method: method}
	}
	return nil
}

// SelfSigned makes a certificate for serving where gateways do not verify it: ECDSA P-256, valid for ten years from an hour
// ago.
func SelfSigned() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("making the serving key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("making the serving certificate's serial number: %w", err)
	}
	from := time.Now().Add(-time.Hour)
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{Organization: []string{"fairlead"}, CommonName: "fairlead"},
		NotBefore: from, NotAfter: from.AddDate(10, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, DNSNames: []string{"localhost", "fairlead"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("making the serving certificate: %w", err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
