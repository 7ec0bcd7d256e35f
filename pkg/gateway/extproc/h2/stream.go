package h2

import (
	"encoding/binary"
	"fmt"

	"google.golang.org/grpc/codes"
)

// Handler answers one stream. Its methods are called one at a time, and those of all streams of a connection are; none may
// wait for anything. Calls into the stream are made from within them, or from within [Stream.Do].
type Handler interface {
	// Message brings the next message. It is valid until Message returns, and longer by [Stream.Keep].
	Message(m []byte)
	// HalfClosed says that the client sends no further message.
	HalfClosed()
	// Over says that the stream is over, whoever ended it. It is called once, and last.
	Over()
}

// prefix is the length of what stands before each message of gRPC.
const prefix = 5

// maxScratch is the most memory that is kept for putting messages together.
const maxScratch = 64 << 10

// Stream is one gRPC call.
type Stream struct {
	c       *conn
	id      uint32
	handler Handler // nil when the stream is over for it

	// What came.
	in       []byte // the beginning of a message, or all that came while paused
	inPlace  bool   // the message at hand lies in the connection's read buffer
	kept     bool   // the handler keeps a part of in
	paused   bool
	ended    bool // the client sends no more
	halved   bool // the handler knows
	coding   string
	ungrant  int // bytes that came and for which the client got no new room yet
	pumping  bool
	finished bool // the status was given; it may still wait for room

	// What goes.
	opened   bool     // the headers are out
	room     int64    // bytes that the client takes
	queue    [][]byte // what waits for room
	waiting  int      // its bytes
	trailers []byte   // what ends the stream once the queue is empty
}

// Keep returns part, a part of the message at hand, in memory that stays as it is: without a copy where the message came in
// several frames.
func (s *Stream) Keep(part []byte) []byte {
	if s.inPlace {
		return append([]byte(nil), part...)
	}
	s.kept = true
	return part
}

// Metadata yields the values of a header of the call. It may be called while the stream is being opened, not later.
func (s *Stream) Metadata(name string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for i := range s.c.request.fields {
			if f := &s.c.request.fields[i]; f.Name == name && !yield(f.Value) {
				return
			}
		}
	}
}

// Pause has further messages wait until Continue. At most the window of the stream is held.
func (s *Stream) Pause() { s.paused = true }

// Continue ends a pause, from when the handler returns.
func (s *Stream) Continue() { s.paused = false }

// Do runs f as if a message had come, from any goroutine but the handler's. Where the stream is over it does nothing.
func (s *Stream) Do(f func()) {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.handler == nil || c.closed {
		return
	}
	c.guarded(s, f)
	c.pump(s, nil)
	c.grant(s)
	c.settle()
}

// Send sends a message that is head and body one after the other. head is copied; body must not change until the handler has
// returned or, with stays, ever.
func (s *Stream) Send(head, body []byte, stays bool) {
	if s.finished || s.handler == nil {
		return
	}
	c := s.c
	if n := len(head) + len(body); n > c.s.o.MaxAnswer {
		s.Finish(codes.ResourceExhausted, fmt.Sprintf("an answer of %d bytes; at most %d", n, c.s.o.MaxAnswer))
		return
	}
	if cap(head) > cap(c.scratch) && cap(head) <= maxScratch {
		c.scratch = head[:0] // it grew
	}
	s.open()
	p := &c.prefix
	binary.BigEndian.PutUint32(p[1:], uint32(len(head)+len(body)))
	if n := int64(prefix + len(head) + len(body)); len(s.queue) == 0 && n <= s.room && n <= c.room {
		s.room -= n
		c.room -= n
		c.data(s.id, p[:], head, body)
		return
	}
	first := append(append(make([]byte, 0, prefix+len(head)), p[:]...), head...)
	s.queue = append(s.queue, first)
	s.waiting += len(first)
	if len(body) > 0 {
		if !stays {
			body = append([]byte(nil), body...)
		}
		s.queue = append(s.queue, body)
		s.waiting += len(body)
	}
	c.drainQueue(s)
}

// Scratch returns empty memory to put a message together in, as head of the next Send.
func (s *Stream) Scratch() []byte { return s.c.scratch[:0] }

// Finish ends the stream with a status when everything that was sent has left.
func (s *Stream) Finish(code codes.Code, message string) {
	if s.finished || s.handler == nil {
		return
	}
	s.finished = true
	if !s.opened {
		s.opened = true
		s.trailers = append(s.trailers, answerHeaders...)
	}
	s.trailers = appendStatus(s.trailers, code, message)
	s.c.drainQueue(s)
	s.over()
}

// open sends the headers of the answer.
func (s *Stream) open() {
	if !s.opened {
		s.opened = true
		o := &s.c.out
		o.buf = appendHeader(o.buf, len(answerHeaders), frameHeaders, flagEndHeaders, s.id)
		o.buf = append(o.buf, answerHeaders...)
	}
}

// over tells the handler, once.
func (s *Stream) over() {
	if h := s.handler; h != nil {
		s.handler, s.in = nil, nil
		s.c.guarded(s, h.Over)
	}
}

// next takes the next whole message from data, which begins with a prefix. ok is false where it is not there in full yet, or
// where the stream was ended because of it.
func (s *Stream) next(data []byte) (message, rest []byte, ok bool) {
	if len(data) < prefix {
		return nil, data, false
	}
	n := binary.BigEndian.Uint32(data[1:])
	switch {
	case data[0] != 0:
		s.Finish(codes.Unimplemented, fmt.Sprintf("a message is compressed by %q; only identity is taken", s.coding))
		return nil, nil, false
	case uint64(n) > uint64(s.c.s.o.MaxMessage):
		s.Finish(codes.ResourceExhausted, fmt.Sprintf("a message of %d bytes; at most %d", n, s.c.s.o.MaxMessage))
		return nil, nil, false
	case uint64(len(data)-prefix) < uint64(n):
		return nil, data, false
	}
	end := prefix + int(n)
	return data[prefix:end:end], data[end:], true
}

// firstGrowth is what is set aside for a message at once, however long its prefix says that it is.
const firstGrowth = 256 << 10

// gather appends data to what came. The memory of a message is taken at once where its length is known and small, and else
// as it comes.
func (s *Stream) gather(data []byte) {
	if len(s.in)+len(data) > cap(s.in) {
		want := len(s.in) + len(data)
		var head [prefix]byte
		if n := copy(head[:], s.in); n+copy(head[n:], data) == prefix {
			whole := int64(prefix) + int64(binary.BigEndian.Uint32(head[1:]))
			grown := max(int64(2*cap(s.in)), firstGrowth)
			want = max(want, int(min(whole, grown)))
		}
		s.in = append(make([]byte, 0, want), s.in...)
	}
	s.in = append(s.in, data...)
}
