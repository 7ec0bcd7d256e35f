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
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/tap"
)

const (
	// maxMessage is the largest message taken. Envoy sends at most its listener's buffer limit, 1 MiB by default.
	maxMessage = 32 << 20
	// streamWindow lets a gateway send a long prompt without waiting for us; connWindow is shared by its streams.
	streamWindow = 1 << 20
	connWindow   = 16 << 20
)

// ServerOptions are the options of a gRPC server that this service wants: windows and limits for long bodies, lenient
// keepalive, and the means by which Drain ends a stream whose handler waits. A nil certificate serves plaintext.
func ServerOptions(certificate *tls.Certificate) []grpc.ServerOption {
	o := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxSendMsgSize(maxMessage),
		grpc.InitialWindowSize(streamWindow),
		grpc.InitialConnWindowSize(connWindow),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
		grpc.InTapHandle(tie),
	}
	if certificate != nil {
		o = append(o, grpc.Creds(credentials.NewTLS(&tls.Config{
			Certificates: []tls.Certificate{*certificate}, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12,
		})))
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

// leash ends a stream whose handler waits in Recv, so that the handler can return OK: cancelling the stream's context from
// outside is the only way to do so without a second goroutine for every stream.
type leash struct{ cancel context.CancelFunc }

func (l *leash) pull() {
	if l != nil {
		l.cancel()
	}
}

type leashKey struct{}

// tie puts a leash into the context of a new stream. It is called before gRPC looks at the context.
func tie(ctx context.Context, _ *tap.Info) (context.Context, error) {
	ctx, cancel := context.WithCancel(ctx)
	return context.WithValue(ctx, leashKey{}, &leash{cancel}), nil
}

// leashOf returns the stream's leash, nil on a server without [ServerOptions].
func leashOf(ctx context.Context) *leash {
	l, _ := ctx.Value(leashKey{}).(*leash)
	return l
}
