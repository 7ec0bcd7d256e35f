package h2

import (
	"google.golang.org/grpc/codes"
)

// onHeaders opens a stream, or takes the trailers that end what a client sends.
func (c *conn) onHeaders(f *frame) errorCode {
	if f.stream == 0 || f.stream%2 == 0 {
		return codeProtocol
	}
	block, ok := f.unpadded()
	if !ok {
		return codeProtocol
	}
	if f.has(flagPriority) {
		if len(block) < 5 {
			return codeFrameSize
		}
		block = block[5:]
	}
	c.request.reset()
	if f.has(flagEndHeaders) {
		return c.onBlock(f, block)
	}
	c.block = append(c.block[:0], block...)
	c.blockOf, c.blockTo = f.stream, frame{flags: f.flags, stream: f.stream}
	return codeNo
}

// onContinuation takes the next part of a header block.
func (c *conn) onContinuation(f *frame) errorCode {
	if c.blockOf == 0 {
		return codeProtocol
	}
	if len(c.block)+len(f.payload) > maxHeaders {
		return codeCalm // a block without end
	}
	c.block = append(c.block, f.payload...)
	if !f.has(flagEndHeaders) {
		return codeNo
	}
	c.blockOf = 0
	first := c.blockTo
	return c.onBlock(&first, c.block)
}

// onBlock decodes a whole header block, whatever comes of it: the decoder's table is the connection's.
func (c *conn) onBlock(f *frame, block []byte) errorCode {
	if _, err := c.decoder.Write(block); err != nil {
		return codeCompression
	}
	if err := c.decoder.Close(); err != nil {
		return codeCompression
	}
	if s := c.streams[f.stream]; s != nil {
		if s.ended || !f.has(flagEndStream) {
			c.reset(s, codeProtocol)
			return codeNo
		}
		s.ended = true
		c.pump(s, nil)
		return codeNo
	}
	if f.stream <= c.last {
		return codeNo // trailers of a stream that we ended
	}
	if c.final || len(c.streams) >= int(c.s.o.MaxStreams) {
		if !c.final {
			c.last = f.stream
		}
		c.out.buf = appendReset(c.out.buf, f.stream, codeRefused)
		return codeNo
	}
	c.last = f.stream
	c.open(f)
	return codeNo
}

// open begins a stream whose headers are in c.request.
func (c *conn) open(f *frame) {
	switch {
	case c.request.size > maxHeaders:
		c.out.buf = appendReset(c.out.buf, f.stream, codeCalm)
		return
	case !c.request.isGRPC():
		const unsupported = "\x08\x03415" // :status, with the static table's name
		c.out.buf = appendHeader(c.out.buf, len(unsupported), frameHeaders, flagEndHeaders|flagEndStream, f.stream)
		c.out.buf = append(c.out.buf, unsupported...)
		if !f.has(flagEndStream) {
			c.out.buf = appendReset(c.out.buf, f.stream, codeNo)
		}
		return
	}
	s := &Stream{c: c, id: f.stream, room: c.initial, ended: f.has(flagEndStream), coding: c.request.get("grpc-encoding")}
	c.streams[s.id] = s
	s.handler = refusing{}
	method := c.request.get(":path")
	c.guarded(s, func() {
		if h := c.s.o.Open(s, method); h != nil {
			s.handler = h
		} else {
			s.Finish(codes.Unimplemented, "no method "+method)
		}
	})
	c.halfClose(s)
}

// refusing is the handler of a stream that has none.
type refusing struct{}

func (refusing) Message([]byte) {}
func (refusing) HalfClosed()    {}
func (refusing) Over()          {}
