package h2

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// client speaks HTTP/2 by hand, so that a test can say what no library would.
type client struct {
	t       testing.TB
	nc      net.Conn
	framer  *http2.Framer
	encoder *hpack.Encoder
	block   bytes.Buffer
	server  *Server
}

// serving starts a server with a handler for every method "/s/M", and connects.
func serving(t testing.TB, o Options) *client {
	t.Helper()
	if o.Failed == nil {
		o.Failed = func(p any) { t.Errorf("a handler failed: %v", p) }
	}
	if o.MaxMessage == 0 {
		o.MaxMessage = 1 << 20
	}
	if o.MaxAnswer == 0 {
		o.MaxAnswer = 1 << 20
	}
	if o.MaxStreams == 0 {
		o.MaxStreams = 100
	}
	s := New(o)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		if err := s.Serve(l, nil); err != nil {
			t.Error(err)
		}
	}()
	nc, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = nc.SetDeadline(time.Now().Add(10 * time.Second))
	c := &client{t: t, nc: nc, framer: http2.NewFramer(nc, nc), server: s}
	c.framer.AllowIllegalWrites = true
	c.encoder = hpack.NewEncoder(&c.block)
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	t.Cleanup(func() {
		_ = nc.Close()
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		s.Stop(ended)
	})
	return c
}

// greet says that it speaks HTTP/2, and reads what the server's settings are.
func (c *client) greet(settings ...http2.Setting) {
	c.t.Helper()
	c.write([]byte(preface))
	c.must(c.framer.WriteSettings(settings...))
	for _, want := range []http2.FrameType{http2.FrameSettings, http2.FrameWindowUpdate, http2.FrameSettings} {
		if f := c.read(); f.Header().Type != want {
			c.t.Fatalf("got %v; want %v", f, want)
		}
	}
}

func (c *client) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) write(b []byte) {
	c.t.Helper()
	_, err := c.nc.Write(b)
	c.must(err)
}

func (c *client) read() http2.Frame {
	c.t.Helper()
	f, err := c.framer.ReadFrame()
	if err != nil {
		c.t.Fatalf("reading: %v", err)
	}
	return f
}

// fields are the header block of a call of a method.
func (c *client) fields(method string, more ...string) []byte {
	c.block.Reset()
	all := append([]string{":method", "POST", ":scheme", "http", ":path", method, "content-type", "application/grpc", "te", "trailers"}, more...)
	for i := 0; i < len(all); i += 2 {
		_ = c.encoder.WriteField(hpack.HeaderField{Name: all[i], Value: all[i+1]})
	}
	return c.block.Bytes()
}

// open opens a stream.
func (c *client) open(id uint32, more ...string) {
	c.t.Helper()
	c.must(c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.fields("/s/M", more...), EndHeaders: true}))
}

// message is a message of gRPC.
func message(b string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(b))), b...)
}

// send sends a message in one frame.
func (c *client) send(id uint32, b string, end bool) {
	c.t.Helper()
	c.must(c.framer.WriteData(id, end, message(b)))
}

// answer reads frames of a stream until it ends, and returns the messages, the status and, where it was reset, with what.
type answer struct {
	messages []string
	status   string
	text     string
	http     string
	reset    http2.ErrCode
	wasReset bool
}

// reply reads the whole answer to a stream. Window updates, settings and pings between are left out.
func (c *client) reply(id uint32) (a answer) {
	c.t.Helper()
	var data []byte
	for {
		switch f := c.read().(type) {
		case *http2.MetaHeadersFrame:
			for _, h := range f.Fields {
				switch h.Name {
				case ":status":
					a.http = h.Value
				case "grpc-status":
					a.status = h.Value
				case "grpc-message":
					a.text = h.Value
				}
			}
			if f.StreamEnded() {
				for len(data) >= prefix {
					n := int(binary.BigEndian.Uint32(data[1:]))
					a.messages = append(a.messages, string(data[prefix:prefix+n]))
					data = data[prefix+n:]
				}
				if len(data) > 0 {
					c.t.Errorf("%d bytes are no message", len(data))
				}
				return a
			}
		case *http2.DataFrame:
			if f.StreamID != id {
				c.t.Fatalf("data of stream %d; want %d", f.StreamID, id)
			}
			data = append(data, f.Data()...)
		case *http2.RSTStreamFrame:
			if f.StreamID == id {
				a.reset, a.wasReset = f.ErrCode, true
				return a
			}
		case *http2.GoAwayFrame:
			c.t.Fatalf("the connection was ended: %v %s", f.ErrCode, f.DebugData())
		}
	}
}

// gone reads until the connection ends, and returns the code that it was ended with.
func (c *client) gone() http2.ErrCode {
	c.t.Helper()
	code := http2.ErrCodeNo
	for {
		f, err := c.framer.ReadFrame()
		if err != nil {
			if !errors.Is(err, io.EOF) && !isReset(err) {
				c.t.Fatalf("the connection ended with %v", err)
			}
			return code
		}
		if g, ok := f.(*http2.GoAwayFrame); ok {
			code = g.ErrCode
		}
	}
}

func hpackEncoder(to *bytes.Buffer) *hpack.Encoder { return hpack.NewEncoder(to) }

// isReset reports whether the other side closed a connection before it had read all of it.
func isReset(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && !op.Timeout()
}

// echo answers every message with itself and ends with the client.
type echo struct {
	s    *Stream
	over chan struct{}
}

func (e *echo) Message(m []byte) { e.s.Send(nil, m, false) }
func (e *echo) HalfClosed()      { e.s.Finish(0, "") }
func (e *echo) Over()            { close(e.over) }

// echoing are options whose streams echo, and tell when they are over.
func echoing(over chan struct{}) Options {
	return Options{Open: func(s *Stream, method string) Handler {
		if method != "/s/M" {
			return nil
		}
		e := &echo{s, make(chan struct{})}
		if over != nil {
			go func() {
				<-e.over
				over <- struct{}{}
			}()
		}
		return e
	}}
}
