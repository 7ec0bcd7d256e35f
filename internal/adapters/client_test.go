package adapters

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// call is a request as a client writes it.
type call struct {
	method, target string
	fields         []string // "Name: value", written as they stand
	pieces         []string // of the body
	framing        framing
	trailers       []string // of a chunked body
}

type framing uint8

const (
	bare    framing = iota // no body, no content-length
	lengthy                // content-length
	chunked                // a chunk per piece
)

// post is a POST of JSON with its length.
func post(target, body string, fields ...string) call {
	return call{"POST", target, append([]string{"Content-Type: application/json"}, fields...), []string{body}, lengthy, nil}
}

// get is a request without a body.
func get(method, target string, fields ...string) call {
	return call{method, target, fields, nil, bare, nil}
}

// as returns c with another content type.
func (c call) as(contentType string) call {
	c.fields = append([]string{"Content-Type: " + contentType}, c.fields[1:]...)
	return c
}

// inChunks returns c chunked, in chunks of these sizes, used again and again until the body ends.
func (c call) inChunks(sizes ...int) call {
	body := strings.Join(c.pieces, "")
	c.framing, c.pieces = chunked, nil
	for i := 0; body != ""; i++ {
		n := min(sizes[i%len(sizes)], len(body))
		c.pieces = append(c.pieces, body[:n])
		body = body[n:]
	}
	return c
}

// with returns c with trailers, chunked.
func (c call) with(trailers ...string) call {
	c.framing, c.trailers = chunked, trailers
	return c
}

func (c *call) head(host string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", c.method, c.target, host)
	for _, f := range c.fields {
		b.WriteString(f + "\r\n")
	}
	switch c.framing {
	case lengthy:
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(strings.Join(c.pieces, "")))
	case chunked:
		b.WriteString("Transfer-Encoding: chunked\r\n")
	}
	b.WriteString("\r\n")
	return b.String()
}

// piece is what piece i looks like on the wire.
func (c *call) piece(i int) string {
	if c.framing == chunked {
		return fmt.Sprintf("%x\r\n%s\r\n", len(c.pieces[i]), c.pieces[i])
	}
	return c.pieces[i]
}

// end is what ends the body on the wire.
func (c *call) end() string {
	if c.framing != chunked {
		return ""
	}
	end := "0\r\n"
	for _, f := range c.trailers {
		end += f + "\r\n"
	}
	return end + "\r\n"
}

// request is a call on its way.
type request struct {
	s       *side
	call    call
	conn    net.Conn
	gotByte chan struct{}
}

// open connects and writes the head and the first n pieces of the body at once, in one write.
func (s *side) open(c call, n int) *request {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.front)
	if err != nil {
		s.t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	r := &request{s, c, conn, make(chan struct{})}
	s.began++
	s.mu.Lock()
	s.gotByte = r.gotByte
	s.mu.Unlock()
	first := c.head("models.example:8080")
	for i := range n {
		first += c.piece(i)
	}
	if n == len(c.pieces) {
		first += c.end()
	}
	r.write(first)
	return r
}

// rest writes the pieces from n on, and the end.
func (r *request) rest(n int) {
	rest := ""
	for i := n; i < len(r.call.pieces); i++ {
		rest += r.call.piece(i)
	}
	r.write(rest + r.call.end())
}

func (r *request) write(text string) {
	if _, err := io.WriteString(r.conn, text); err != nil {
		r.s.t.Logf("the client could not write all: %v", err) // a refusal may come before the whole body
	}
}

// answer reads the whole answer and keeps it for the comparison.
func (r *request) answer() {
	r.s.t.Helper()
	defer r.conn.Close()
	from := bufio.NewReader(r.conn)
	resp, err := http.ReadResponse(from, &http.Request{Method: r.call.method})
	for err == nil && resp.StatusCode == http.StatusContinue { // whether a client is asked for its body before it is refused is the gateway's affair
		resp, err = http.ReadResponse(from, &http.Request{Method: r.call.method})
	}
	if err != nil {
		r.keep("no answer: the connection ended")
		return
	}
	body, err := r.read(resp.Body)
	r.keep(describeAnswer(resp, body, err))
}

// begunAndLeft reads the answer until its first bytes, and closes the connection then.
func (r *request) begunAndLeft() {
	r.s.t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(r.conn), &http.Request{Method: r.call.method})
	if err != nil {
		r.s.t.Fatal(err)
	}
	first := make([]byte, 4096)
	n, err := resp.Body.Read(first)
	r.leave()
	r.keep(describeAnswer(resp, first[:n], err))
}

// leave closes the connection as a client that dies.
func (r *request) leave() { _ = r.conn.Close() }

func (r *request) read(body io.Reader) (all []byte, err error) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := body.Read(buffer)
		if all = append(all, buffer[:n]...); n > 0 && len(all) == n {
			close(r.gotByte)
		}
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return all, err
		}
	}
}

func (r *request) keep(text string) {
	r.s.mu.Lock()
	r.s.answers = append(r.s.answers, text)
	r.s.mu.Unlock()
}

// do plays a call from its beginning to its end.
func (s *side) do(c call) {
	s.t.Helper()
	s.open(c, len(c.pieces)).answer()
	s.settle()
}

// calls is a row's play that does one call after the other.
func calls(c ...call) func(*side) {
	return func(s *side) {
		for _, one := range c {
			s.do(one)
		}
	}
}
