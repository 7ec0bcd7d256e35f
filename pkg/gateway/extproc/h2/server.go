package h2

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// Options are what a Server needs.
type Options struct {
	// Open returns the handler of a new stream of a method, "/package.Service/Method". Nil: there is no such method. Required.
	Open func(s *Stream, method string) Handler
	// Failed hears of a handler that panicked. Required.
	Failed func(p any)
	// MaxMessage is the longest message taken, MaxAnswer the longest sent, in bytes. Required.
	MaxMessage, MaxAnswer int
	// MaxStreams is how many streams of one connection may be open at a time. Required.
	MaxStreams uint32
}

// Server serves streams.
type Server struct {
	o Options

	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	stopped   bool
	empty     chan struct{} // closed when stopped and no connection is left
}

// New returns a server. It panics if an option is missing.
func New(o Options) *Server {
	if o.Open == nil || o.Failed == nil || o.MaxMessage <= 0 || o.MaxAnswer <= 0 || o.MaxStreams == 0 {
		panic("h2: all Options are required")
	}
	return &Server{o: o, listeners: map[net.Listener]struct{}{}, conns: map[*conn]struct{}{}, empty: make(chan struct{})}
}

// handshakeTimeout bounds a TLS handshake.
const handshakeTimeout = 20 * time.Second

// Serve serves l, by TLS where secure is not nil, until Stop, which is no error.
func (s *Server) Serve(l net.Listener, secure *tls.Config) error {
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		return l.Close()
	}
	s.listeners[l] = struct{}{}
	s.mu.Unlock()
	for delay := time.Duration(0); ; {
		nc, err := l.Accept()
		if err == nil {
			delay = 0
			go s.accept(nc, secure)
			continue
		}
		s.mu.Lock()
		stopped := s.stopped
		s.mu.Unlock()
		var passing interface{ Temporary() bool }
		switch {
		case stopped:
			return nil
		case errors.As(err, &passing) && passing.Temporary(): // for want of file descriptors
			delay = min(max(2*delay, 5*time.Millisecond), time.Second)
			time.Sleep(delay)
		default:
			return fmt.Errorf("accepting: %w", err)
		}
	}
}

// accept serves one connection.
func (s *Server) accept(nc net.Conn, secure *tls.Config) {
	c := newConn(s, nc)
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		_ = nc.Close()
		return
	}
	s.conns[c] = struct{}{}
	s.mu.Unlock()
	defer func() {
		if p := recover(); p != nil { // no panic reaches the listener
			s.o.Failed(p)
			_ = nc.Close()
			s.forget(c)
		}
	}()
	if secure != nil {
		encrypted := tls.Server(nc, secure)
		ctx, cancel := context.WithTimeout(context.Background(), handshakeTimeout)
		err := encrypted.HandshakeContext(ctx)
		cancel()
		if err != nil || encrypted.ConnectionState().NegotiatedProtocol != "h2" {
			_ = nc.Close()
			s.forget(c)
			return
		}
		c.nc, c.out.vectored = encrypted, false
	}
	c.serve()
}

func (s *Server) forget(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.conns[c]; !known {
		return
	}
	delete(s.conns, c)
	if s.stopped && len(s.conns) == 0 {
		close(s.empty)
	}
}

// Leave asks all clients to open their next streams elsewhere.
func (s *Server) Leave() { s.leave(false) }

// leave does not wait for connections that are stuck in a write.
func (s *Server) leave(final bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		go c.leave(final)
	}
}

// Stop closes the listeners, and each connection when its last stream is over. When ctx ends first the rest is cut.
func (s *Server) Stop(ctx context.Context) {
	s.mu.Lock()
	first := !s.stopped
	s.stopped = true
	for l := range s.listeners {
		_ = l.Close()
	}
	if first && len(s.conns) == 0 {
		close(s.empty)
	}
	s.mu.Unlock()
	s.leave(true)
	select {
	case <-s.empty:
		return
	case <-ctx.Done():
	}
	s.mu.Lock()
	for c := range s.conns {
		_ = c.raw.Close()
	}
	s.mu.Unlock()
	<-s.empty
}
