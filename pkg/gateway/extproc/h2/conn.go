package h2

import (
	"encoding/binary"
	"net"
	"sync"
	"time"

	"golang.org/x/net/http2/hpack"
)

const (
	readBuffer = 64 << 10
	// streamWindow lets a client send a long prompt without waiting for us; connWindow is shared by its streams.
	streamWindow = 1 << 20
	connWindow   = 16 << 20
	// defaultWindow is what both sides begin with: RFC 9113, section 6.9.2.
	defaultWindow = 1<<16 - 1
	maxWindow     = 1<<31 - 1
	// queueLimit is how much of a stream may wait for room before the client gets none to send more.
	queueLimit = 1 << 20
)

// conn is one connection. mu guards all but in, r and w, which belong to the reading goroutine.
type conn struct {
	s   *Server
	raw net.Conn
	nc  net.Conn // the same, or TLS over it

	in   []byte
	r, w int

	mu      sync.Mutex
	out     output
	scratch []byte // for messages that are put together
	prefix  [prefix]byte
	ready   bool // the preface came
	broken  bool // writing failed
	halved  bool // we write no more
	closed  bool
	streams map[uint32]*Stream
	last    uint32 // the highest id that was opened
	leaving bool   // the client was told to open no more
	final   bool   // and is not listened to when it does

	// Header blocks.
	decoder *hpack.Decoder
	request request
	block   []byte // of a stream whose headers come in several frames
	blockOf uint32 // that stream, 0 for none
	blockTo frame  // its first frame

	// Flow control.
	room    int64 // bytes that the client takes on the connection
	initial int64 // the room of a new stream
	maxSend int   // the largest payload that the client takes
	ungrant int   // bytes that came and for which the client got no new room yet
	window  int64 // room that the client has
}

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{
		s: s, raw: nc, nc: nc, in: make([]byte, readBuffer), streams: map[uint32]*Stream{},
		room: defaultWindow, initial: defaultWindow, maxSend: maxFrame, window: connWindow,
	}
	switch nc.(type) {
	case *net.TCPConn, *net.UnixConn:
		c.out.vectored = true
	}
	c.decoder = hpack.NewDecoder(4096, c.request.add)
	c.decoder.SetMaxStringLength(maxHeaders)
	return c
}

// prefaceTimeout is how long a client may take to say that it speaks HTTP/2.
const prefaceTimeout = 20 * time.Second

// serve reads until the connection ends.
func (c *conn) serve() {
	defer c.shut()
	if !c.greet() {
		return
	}
	for {
		if !c.turn() {
			return
		}
		if c.r > 0 {
			c.w = copy(c.in, c.in[c.r:c.w])
			c.r = 0
		}
		n, err := c.nc.Read(c.in[c.w:])
		c.w += n
		if n == 0 && err != nil {
			return
		}
	}
}

// greet reads the client's preface and sends our settings.
func (c *conn) greet() bool {
	_ = c.nc.SetReadDeadline(time.Now().Add(prefaceTimeout))
	for c.w < len(preface) {
		n, err := c.nc.Read(c.in[c.w:])
		c.w += n
		if err != nil && n == 0 {
			return false
		}
	}
	if string(c.in[:len(preface)]) != preface {
		return false
	}
	c.r = len(preface)
	_ = c.nc.SetReadDeadline(time.Time{})

	var settings []byte
	settings = appendSetting(settings, settingMaxStreams, c.s.o.MaxStreams)
	settings = appendSetting(settings, settingInitialWindow, streamWindow)
	settings = appendSetting(settings, settingMaxHeaders, maxHeaders)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ready = true
	c.out.buf = appendHeader(c.out.buf, len(settings), frameSettings, 0, 0)
	c.out.buf = append(c.out.buf, settings...)
	c.out.buf = appendWindowUpdate(c.out.buf, 0, connWindow-defaultWindow)
	return true
}

// turn handles all frames that are there in full and writes what they brought about. It reports whether to go on.
func (c *conn) turn() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.w-c.r >= frameHeader {
		length, f := parseHeader(c.in[c.r:])
		if length > maxFrame {
			return c.fail(codeFrameSize)
		}
		if c.w-c.r < frameHeader+length {
			break
		}
		f.payload = c.in[c.r+frameHeader : c.r+frameHeader+length]
		c.r += frameHeader + length
		if code := c.frame(&f); code != codeNo {
			return c.fail(code)
		}
		if c.out.full() {
			c.flush()
		}
	}
	c.settle()
	return !c.broken && !c.closed
}

// settle writes what was gathered, and ends a connection that is to end with its last stream.
func (c *conn) settle() {
	c.flush()
	if c.final && len(c.streams) == 0 && !c.halved {
		c.halved = true
		c.closeWrite()
	}
}

// fail ends the connection for an error of the client's, and tells it which.
func (c *conn) fail(code errorCode) bool {
	c.out.buf = appendGoAway(c.out.buf, c.last, code)
	c.flush()
	return false
}

// flush writes what was gathered. Where that fails the connection is closed, and its reader ends it.
func (c *conn) flush() {
	if c.broken {
		c.out.drop()
		return
	}
	if err := c.out.flush(c.nc); err != nil {
		c.broken = true
		_ = c.nc.Close()
	}
}

// closeWrite says that nothing more comes from us, so that the client reads all of it before the connection is gone.
func (c *conn) closeWrite() {
	if half, ok := c.nc.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_ = c.nc.SetReadDeadline(time.Now().Add(time.Second))
		return
	}
	c.closed = true
	_ = c.nc.Close()
}

// shut ends the connection and its streams.
func (c *conn) shut() {
	_ = c.nc.Close()
	c.mu.Lock()
	c.closed = true
	for _, s := range c.streams {
		s.over()
	}
	clear(c.streams)
	c.mu.Unlock()
	c.s.forget(c)
}

// leave tells the client to open no further stream. final: what it opens is refused, and the connection ends with its last
// stream.
func (c *conn) leave(final bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.final {
		return
	}
	if !c.ready {
		if final {
			_ = c.raw.Close()
		}
		return
	}
	last := uint32(maxWindow)
	if final {
		last = c.last
	} else if c.leaving {
		return
	}
	c.leaving, c.final = true, final
	c.out.buf = appendGoAway(c.out.buf, last, codeNo)
	c.settle()
}

// frame handles one frame. A code other than codeNo ends the connection.
func (c *conn) frame(f *frame) errorCode {
	if c.blockOf != 0 && (f.kind != frameContinuation || f.stream != c.blockOf) {
		return codeProtocol
	}
	switch f.kind {
	case frameData:
		return c.onData(f)
	case frameHeaders:
		return c.onHeaders(f)
	case frameContinuation:
		return c.onContinuation(f)
	case frameSettings:
		return c.onSettings(f)
	case frameWindowUpdate:
		return c.onWindowUpdate(f)
	case framePing:
		return c.onPing(f)
	case frameRST:
		return c.onReset(f)
	case framePushPromise:
		return codeProtocol
	case framePriority:
		if f.stream == 0 {
			return codeProtocol
		}
	case frameGoAway:
		if f.stream != 0 {
			return codeProtocol
		}
	}
	return codeNo // kinds not known are ignored: RFC 9113, section 5.5
}

func (c *conn) onPing(f *frame) errorCode {
	switch {
	case f.stream != 0:
		return codeProtocol
	case len(f.payload) != 8:
		return codeFrameSize
	case !f.has(flagAck):
		c.out.buf = appendHeader(c.out.buf, 8, framePing, flagAck, 0)
		c.out.buf = append(c.out.buf, f.payload...)
	}
	return codeNo
}

func (c *conn) onReset(f *frame) errorCode {
	switch {
	case f.stream == 0 || f.stream > c.last:
		return codeProtocol
	case len(f.payload) != 4:
		return codeFrameSize
	}
	if s := c.streams[f.stream]; s != nil {
		delete(c.streams, f.stream)
		s.over()
	}
	return codeNo
}

func (c *conn) onSettings(f *frame) errorCode {
	switch {
	case f.stream != 0:
		return codeProtocol
	case f.has(flagAck):
		if len(f.payload) != 0 {
			return codeFrameSize
		}
		return codeNo
	case len(f.payload)%6 != 0:
		return codeFrameSize
	}
	for p := f.payload; len(p) > 0; p = p[6:] {
		value := binary.BigEndian.Uint32(p[2:])
		switch binary.BigEndian.Uint16(p) {
		case settingInitialWindow:
			if value > maxWindow {
				return codeFlowControl
			}
			if code := c.resize(int64(value)); code != codeNo {
				return code
			}
		case settingMaxFrame:
			if value < maxFrame || value > 1<<24-1 {
				return codeProtocol
			}
			c.maxSend = int(value)
		}
	}
	c.out.buf = appendHeader(c.out.buf, 0, frameSettings, flagAck, 0)
	return codeNo
}
