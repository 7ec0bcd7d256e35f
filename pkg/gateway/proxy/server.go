package proxy

import (
	"net/http"
	"time"
)

// The bounds of the serving port.
const (
	readHeaderTimeout = 10 * time.Second
	clientIdleTimeout = 2 * time.Minute
	maxRequestHeader  = 256 << 10
)

// Server returns a server for a proxy, or anything around it: HTTP/1.1, and HTTP/2 in clear text with prior knowledge.
// There is no bound on how long a body or an answer may take, since both may be a stream; headers have one, and so have
// idle connections.
func Server(h http.Handler) *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler: h, Protocols: protocols, ReadHeaderTimeout: readHeaderTimeout, IdleTimeout: clientIdleTimeout,
		MaxHeaderBytes: maxRequestHeader,
	}
}
