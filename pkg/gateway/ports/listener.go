package ports

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/reason"
)

// Listen opens a TCP port; host is an address, in brackets or not, a name, or empty for all addresses of both families.
func Listen(host string, port int) (net.Listener, error) {
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
}

// Bounded is a listener that says why it cannot accept, and that has at most so many connections open.
type Bounded struct {
	net.Listener

	Name string // of the port, for details
	Sink reason.Sink
	// Max is how many connections may be open; 0 is no bound. Answer: those beyond are told so in HTTP/1.1 before they are
	// closed; else they are closed.
	Max    int
	Answer bool

	open    atomic.Int64
	parting atomic.Int64
}

// Accept returns the next connection. A lack of files or memory is noted and returned: servers wait a while then and accept
// again, as net/http and grpc do with temporary errors.
func (b *Bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			if temporary(err) {
				b.Sink.Note(reason.AcceptFailed, b.Name+": "+err.Error())
			}
			return nil, err
		}
		if b.Max > 0 && b.open.Add(1) > int64(b.Max) {
			b.open.Add(-1)
			b.Sink.Note(reason.TooManyConnections, b.Name)
			b.turnAway(c)
			continue
		}
		if b.Max <= 0 {
			return c, nil
		}
		return &counted{Conn: c, of: b}, nil
	}
}

// temporary reports whether accepting may work again, and what is wrong is ours.
func temporary(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOBUFS) || errors.Is(err, syscall.ENOMEM)
}

const (
	// partingTime is how long a client that is turned away may take to read why.
	partingTime = 200 * time.Millisecond
	// partingMax bounds those that are being told at the same time; others are closed without a word.
	partingMax = 64
)

// turnAway closes a connection that is one too many. It never waits, since meanwhile nobody accepts.
func (b *Bounded) turnAway(c net.Conn) {
	if !b.Answer || b.parting.Add(1) > partingMax {
		if b.Answer {
			b.parting.Add(-1)
		}
		_ = c.Close()
		return
	}
	go func() {
		defer b.parting.Add(-1)
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(partingTime))
		if _, err := c.Write(b.words()); err != nil {
			return
		}
		// A connection that is closed with a request unread is reset, and the answer with it.
		if half, ok := c.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
			_, _ = io.Copy(io.Discard, c)
		}
	}()
}

// words is what a client is told that is turned away.
func (b *Bounded) words() []byte {
	row := reason.TooManyConnections.Row()
	reply := openai.ErrorReply(openai.Other, row.Status, row.Code, fmt.Sprintf("%s: at most %d are open", row.Means, b.Max), row.RetryAfter, row.Dropped)
	out := []byte("HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Length: " + strconv.Itoa(len(reply.Body)) + "\r\n")
	for _, h := range reply.Headers {
		out = append(out, h.Name+": "+h.Value+"\r\n"...)
	}
	return append(append(out, "\r\n"...), reply.Body...)
}

// counted is a connection that says when it is closed.
type counted struct {
	net.Conn
	of   *Bounded
	once sync.Once
}

// Close closes the connection.
func (c *counted) Close() error {
	c.once.Do(func() { c.of.open.Add(-1) })
	return c.Conn.Close()
}

// NetConn returns the connection underneath, for those who set its options.
func (c *counted) NetConn() net.Conn { return c.Conn }
