package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Transport bounds the connections to engines. Zero takes the defaults.
type Transport struct {
	// DialTimeout is after what time an endpoint that does not accept a connection counts as unreachable; 2 s.
	DialTimeout time.Duration
	// IdleTimeout is how long an idle connection is kept; 4 s, which is below the 5 s of uvicorn.
	IdleTimeout time.Duration
	// MaxIdlePerEndpoint and MaxIdle bound the idle connections to one endpoint, and to all; 256 and 8192.
	MaxIdlePerEndpoint, MaxIdle int
	// Dial opens a connection; nil is TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// maxAnswerHeader bounds the headers of an answer, in bytes.
const maxAnswerHeader = 1 << 20

// build returns a transport that speaks HTTP/1.1 in clear text, keeps connections, and leaves bodies as they are.
func (t Transport) build() *http.Transport {
	if t.DialTimeout <= 0 {
		t.DialTimeout = 2 * time.Second
	}
	if t.IdleTimeout <= 0 {
		t.IdleTimeout = 4 * time.Second
	}
	if t.MaxIdlePerEndpoint <= 0 {
		t.MaxIdlePerEndpoint = 256
	}
	if t.MaxIdle <= 0 {
		t.MaxIdle = 8192
	}
	if t.Dial == nil {
		t.Dial = (&net.Dialer{Timeout: t.DialTimeout}).DialContext
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy: nil, // engines are reached directly, whatever the environment says
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, t.DialTimeout)
			defer cancel()
			c, err := t.Dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &conn{Conn: c}, nil
		},
		DisableCompression:     true,
		IdleConnTimeout:        t.IdleTimeout,
		MaxIdleConns:           t.MaxIdle,
		MaxIdleConnsPerHost:    t.MaxIdlePerEndpoint,
		MaxResponseHeaderBytes: maxAnswerHeader,
		Protocols:              protocols,
		WriteBufferSize:        8 << 10, // a short prompt and its headers leave in one packet
	}
}

// conn is a connection to an engine that knows how much the kernel has taken.
type conn struct {
	net.Conn
	written atomic.Int64
	closed  atomic.Bool // to further writing
}

var errNotAgain = errors.New("the connection broke after the request was written; it is not sent again")

// Write counts.
func (c *conn) Write(p []byte) (int, error) {
	if c.closed.Load() {
		return 0, errNotAgain
	}
	n, err := c.Conn.Write(p)
	c.written.Add(int64(n))
	return n, err
}

// ReadFrom is called by the transport for the body of a request. What lies in memory is written from where it lies.
func (c *conn) ReadFrom(r io.Reader) (int64, error) {
	if l, ok := r.(*io.LimitedReader); ok {
		n, err, done := int64(0), error(nil), true
		switch body := l.R.(type) {
		case *upload:
			n, err = body.writeSome(c, l.N)
		case *bytes.Reader:
			if done = int64(body.Len()) <= l.N; done {
				n, err = body.WriteTo(c)
			}
		default:
			done = false
		}
		if done {
			l.N -= n
			return n, err
		}
	}
	buffer := copyBuffers.Get().(*[copyBuffer]byte)
	defer copyBuffers.Put(buffer)
	return io.CopyBuffer(writer{c}, r, buffer[:])
}

// writer hides ReadFrom.
type writer struct{ io.Writer }

// copyBuffer is the size in which answers pass: a socket seldom holds more.
const copyBuffer = 32 << 10

var copyBuffers = sync.Pool{New: func() any { return new([copyBuffer]byte) }}
