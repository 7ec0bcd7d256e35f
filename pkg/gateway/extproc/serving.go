package extproc

import (
	"context"
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

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

const (
	// maxMessage is the largest message taken. Envoy sends at most its listener's buffer limit, 1 MiB by default.
	maxMessage = 32 << 20
	// streamWindow lets a gateway send a long prompt without waiting for us; connWindow is shared by its streams.
	streamWindow = 1 << 20
	connWindow   = 16 << 20
)

// ServerOptions are the options of a gRPC server that this service wants: windows and limits for long bodies, and lenient
// keepalive. A nil configuration serves plaintext.
func ServerOptions(secure *tls.Config) []grpc.ServerOption {
	o := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxSendMsgSize(maxMessage),
		grpc.InitialWindowSize(streamWindow),
		grpc.InitialConnWindowSize(connWindow),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
	}
	if secure != nil {
		o = append(o, grpc.Creds(credentials.NewTLS(secure)))
	}
	return o
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

// statusWriter is what grpc-go's server streams can do besides their published interface.
type statusWriter interface {
	WriteStatus(*status.Status) error
}

// hangUp ends a stream with OK while its handler waits in Recv. A status that is written interrupts the handler; cancelling
// the stream's context would do that as well, but Recv would then end the stream with CANCELLED, which a gateway takes for a
// failure. The alternative is a second goroutine for every stream. On a transport that cannot do it nothing happens, and the
// stream ends by itself.
func hangUp(ctx context.Context) {
	if w, ok := grpc.ServerTransportStreamFromContext(ctx).(statusWriter); ok {
		_ = w.WriteStatus(status.New(codes.OK, "")) // fails only where the stream is over
	}
}
