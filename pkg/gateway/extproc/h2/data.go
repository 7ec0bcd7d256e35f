package h2

import (
	"encoding/binary"

	"google.golang.org/grpc/codes"
)

// What a stream ends with whose handler panicked.
const (
	failedCode    = codes.Internal
	failedMessage = "the picker failed on this request; its log says where"
)

// onData hands the messages of a DATA frame to their stream.
func (c *conn) onData(f *frame) errorCode {
	if f.stream == 0 || f.stream > c.last {
		return codeProtocol
	}
	n := len(f.payload) // padding counts too
	if c.window -= int64(n); c.window < 0 {
		return codeFlowControl
	}
	if c.ungrant += n; c.ungrant >= connWindow/2 {
		c.out.buf = appendWindowUpdate(c.out.buf, 0, c.ungrant)
		c.window += int64(c.ungrant)
		c.ungrant = 0
	}
	data, ok := f.unpadded()
	if !ok {
		return codeProtocol
	}
	s := c.streams[f.stream]
	if s == nil {
		return codeNo // it ended from our side, and the client did not know yet
	}
	if s.ended {
		c.reset(s, codeClosed)
		return codeNo
	}
	if s.ungrant += n; s.ungrant > streamWindow {
		c.reset(s, codeFlowControl)
		return codeNo
	}
	s.ended = f.has(flagEndStream)
	c.pump(s, data)
	c.grant(s)
	return codeNo
}

// pump hands the messages to the stream's handler that are there in full: those of what came before, and of data.
func (c *conn) pump(s *Stream, data []byte) {
	if s.pumping {
		return
	}
	s.pumping = true
	defer func() { s.pumping = false }()
	if len(s.in) == 0 && !s.paused {
		s.inPlace = true
		if data = c.messages(s, data); len(data) == 0 {
			c.halfClose(s)
			return
		}
	}
	if s.handler == nil {
		return
	}
	if len(data) > 0 {
		s.gather(data)
	}
	if len(s.in) > 0 && !s.paused {
		s.inPlace = false
		c.gathered(s)
	}
	c.halfClose(s)
}

// gathered hands on what lies in the stream's own buffer.
func (c *conn) gathered(s *Stream) {
	whole := s.in
	rest := c.messages(s, whole)
	switch {
	case s.handler == nil:
		return
	case s.kept:
		// The buffer is the handler's; what is left of it begins another.
		s.kept, s.in = false, nil
		if len(rest) > 0 {
			s.gather(rest)
		}
		return
	case len(rest) == len(whole):
		return
	case len(c.out.cuts) > 0:
		c.flush() // it refers to the buffer
	}
	if s.in = append(s.in[:0], rest...); len(s.in) == 0 && cap(s.in) > readBuffer {
		s.in = nil
	}
}

// messages hands on the whole messages of data and returns the rest.
func (c *conn) messages(s *Stream, data []byte) []byte {
	for !s.paused && s.handler != nil {
		message, rest, ok := s.next(data)
		if !ok {
			break
		}
		data = rest
		c.message(s, message)
	}
	if s.handler == nil {
		return nil
	}
	return data
}

func (c *conn) message(s *Stream, m []byte) {
	defer c.contain(s)
	s.handler.Message(m)
}

// guarded runs what a handler does; a panic ends its stream.
func (c *conn) guarded(s *Stream, f func()) {
	defer c.contain(s)
	f()
}

// contain is deferred around calls of a handler.
func (c *conn) contain(s *Stream) {
	if p := recover(); p != nil {
		c.s.o.Failed(p)
		s.paused = false
		s.Finish(failedCode, failedMessage)
	}
}

// halfClose tells the handler that the client sends no more, when it has seen all of it.
func (c *conn) halfClose(s *Stream) {
	if s.handler == nil || !s.ended || s.halved || s.paused {
		return
	}
	s.halved = true
	if len(s.in) > 0 {
		s.Finish(codes.Internal, "the stream ended within a message")
		return
	}
	defer c.contain(s)
	s.handler.HalfClosed()
}

// grant gives the client room for what was taken in, unless the stream is paused or does not take what we send.
func (c *conn) grant(s *Stream) {
	if s.ungrant < streamWindow/2 || s.ended || s.paused || s.handler == nil || s.waiting > queueLimit {
		return
	}
	c.out.buf = appendWindowUpdate(c.out.buf, s.id, s.ungrant)
	s.ungrant = 0
}

// reset ends a stream for an error.
func (c *conn) reset(s *Stream, code errorCode) {
	c.out.buf = appendReset(c.out.buf, s.id, code)
	delete(c.streams, s.id)
	s.over()
}

// data writes a message as DATA frames; there is room for it.
func (c *conn) data(id uint32, p, head, body []byte) {
	o := &c.out
	left := len(p) + len(head) + len(body)
	n := min(left, c.maxSend)
	o.buf = appendHeader(o.buf, n, frameData, 0, id)
	left -= n
	for _, part := range [...][]byte{p, head, body} {
		for len(part) > 0 {
			if n == 0 {
				n = min(left, c.maxSend)
				o.buf = appendHeader(o.buf, n, frameData, 0, id)
				left -= n
			}
			k := min(n, len(part))
			o.payload(part[:k])
			part, n = part[k:], n-k
		}
	}
}

// drainQueue sends what waits, as far as there is room, and then the trailers.
func (c *conn) drainQueue(s *Stream) {
	for len(s.queue) > 0 && s.room > 0 && c.room > 0 {
		part := s.queue[0]
		n := int(min(int64(len(part)), s.room, c.room, int64(c.maxSend)))
		c.out.buf = appendHeader(c.out.buf, n, frameData, 0, s.id)
		c.out.payload(part[:n]) // the queue's memory is its own and not used again
		s.room -= int64(n)
		c.room -= int64(n)
		s.waiting -= n
		if s.queue[0] = part[n:]; n == len(part) {
			s.queue[0] = nil
			s.queue = s.queue[1:]
		}
	}
	if len(s.queue) > 0 || !s.finished {
		return
	}
	if c.streams[s.id] != s {
		return
	}
	delete(c.streams, s.id)
	c.out.buf = appendHeader(c.out.buf, len(s.trailers), frameHeaders, flagEndHeaders|flagEndStream, s.id)
	c.out.buf = append(c.out.buf, s.trailers...)
	if !s.ended {
		c.out.buf = appendReset(c.out.buf, s.id, codeNo) // we read no more of it
	}
}

// onWindowUpdate gives room.
func (c *conn) onWindowUpdate(f *frame) errorCode {
	if len(f.payload) != 4 {
		return codeFrameSize
	}
	n := int64(binary.BigEndian.Uint32(f.payload) & maxWindow)
	if f.stream == 0 {
		if n == 0 {
			return codeProtocol
		}
		if c.room += n; c.room > maxWindow {
			return codeFlowControl
		}
		c.drainAll()
		return codeNo
	}
	s := c.streams[f.stream]
	switch {
	case f.stream > c.last:
		return codeProtocol
	case s == nil:
		return codeNo
	case n == 0:
		c.reset(s, codeProtocol)
		return codeNo
	}
	if s.room += n; s.room > maxWindow {
		c.reset(s, codeFlowControl)
		return codeNo
	}
	c.drainQueue(s)
	c.grant(s)
	return codeNo
}

// resize changes the room of all streams by what SETTINGS_INITIAL_WINDOW_SIZE changed: RFC 9113, section 6.9.2.
func (c *conn) resize(initial int64) errorCode {
	more := initial - c.initial
	c.initial = initial
	for _, s := range c.streams {
		if s.room += more; s.room > maxWindow {
			return codeFlowControl
		}
	}
	if more > 0 {
		c.drainAll()
	}
	return codeNo
}

// drainAll gives new room of the connection to the streams that wait, the oldest first.
func (c *conn) drainAll() {
	for c.room > 0 {
		var oldest *Stream
		for _, s := range c.streams {
			if len(s.queue) > 0 && s.room > 0 && (oldest == nil || s.id < oldest.id) {
				oldest = s
			}
		}
		if oldest == nil {
			return
		}
		c.drainQueue(oldest)
		c.grant(oldest)
	}
}
