package ports

import (
	"bytes"
	"net"
	"net/http"
	"strconv"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/reason"
)

// PlainWords has what net/http refuses by itself, before any handler is asked, told in JSON: headers that are too long (431), a
// version (505) or transfer coding (501) that it does not know, framing that is wrong (400). net/http writes these answers past
// its own machinery, so they are recognised as they are written. It is for connections in clear text; over TLS, and where an
// answer has begun, net/http's own words stand.
func PlainWords(l net.Listener, sink reason.Sink) net.Listener { return plainListener{l, sink} }

type plainListener struct {
	net.Listener
	sink reason.Sink
}

// Accept returns the next connection.
func (l plainListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return plainConn{c, l.sink}, nil
}

type plainConn struct {
	net.Conn
	sink reason.Sink
}

// NetConn returns the connection underneath.
func (c plainConn) NetConn() net.Conn { return c.Conn }

// plainHead is what net/http writes between the status and the text of an answer of its own (errorHeaders in net/http's
// server.go). Answers of handlers have a date and a length.
var plainHead = []byte("\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n")

const statusLine = "HTTP/1.1 "

// Write writes p, or says the same in JSON.
func (c plainConn) Write(p []byte) (int, error) {
	if len(p) > 1<<10 || !bytes.HasPrefix(p, []byte(statusLine)) {
		return c.Conn.Write(p)
	}
	head, text, found := bytes.Cut(p, plainHead)
	if !found || bytes.Contains(head, []byte("\r\n")) || len(head) < len(statusLine)+3 {
		return c.Conn.Write(p)
	}
	status, err := strconv.Atoi(string(head[len(statusLine) : len(statusLine)+3]))
	if err != nil {
		return c.Conn.Write(p)
	}
	why := reason.MalformedRequest
	if status == http.StatusRequestHeaderFieldsTooLarge {
		why = reason.HeadersTooLarge
	}
	c.sink.Note(why, "")
	reply := openai.ErrorReply(openai.Other, status, why.String(), string(text), 0, "")
	out := append([]byte(nil), head...)
	out = append(out, "\r\nConnection: close\r\nContent-Length: "+strconv.Itoa(len(reply.Body))+"\r\n"...)
	for _, h := range reply.Headers {
		out = append(out, h.Name+": "+h.Value+"\r\n"...)
	}
	out = append(append(out, "\r\n"...), reply.Body...)
	if _, err := c.Conn.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}
