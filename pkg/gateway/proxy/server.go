package proxy

import (
	"net/http"
	"time"
)

// Bounds are those of the serving port that stand before the exchange's own.
type Bounds struct {
	// HeaderTime is how long a client may take for a request's headers; 10 s.
	HeaderTime time.Duration
	// IdleTime is how long a connection is kept that carries nothing; 2 min.
	IdleTime time.Duration
	// HeaderBytes is what net/http reads of headers at most; 256 KiB. It is to be above the exchange's bound, which is refused
	// in the words of the API.
	HeaderBytes int
	// Streams bounds the requests that run on one HTTP/2 connection; net/http's 250.
	Streams int
}

// Server returns a server for a proxy, or anything around it: HTTP/1.1, and HTTP/2 in clear text with prior knowledge or, with
// TLS, by ALPN. There is no bound on how long a body or an answer may take, since both may be a stream; headers have one, and
// so have idle connections.
func Server(h http.Handler, b Bounds) *http.Server {
	if b.HeaderTime <= 0 {
		b.HeaderTime = 10 * time.Second
	}
	if b.IdleTime <= 0 {
		b.IdleTime = 2 * time.Minute
	}
	if b.HeaderBytes <= 0 {
		b.HeaderBytes = 256 << 10
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler: h, Protocols: protocols, ReadHeaderTimeout: b.HeaderTime, IdleTimeout: b.IdleTime,
		MaxHeaderBytes: b.HeaderBytes, HTTP2: &http.HTTP2Config{MaxConcurrentStreams: b.Streams},
	}
}
