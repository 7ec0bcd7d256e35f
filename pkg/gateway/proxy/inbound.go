package proxy

import (
	"io"
	"net/http"
	"sync"
)

// The sizes of the buffers into which bodies are read: one for short prompts, one that takes what a socket holds.
const (
	smallBuffer = 4 << 10
	largeBuffer = 64 << 10
)

var smallBuffers = sync.Pool{New: func() any { return new([smallBuffer]byte) }}
var largeBuffers = sync.Pool{New: func() any { return new([largeBuffer]byte) }}

// inbound is the client's body: what came of it lies in pooled buffers and is never moved, since the exchange refers to
// it and another attempt may need it.
type inbound struct {
	source io.Reader
	length int64 // as declared; -1 without
	bytes  int64 // that came
	ended  bool

	pieces [][]byte // what came, in order and kept
	room   []byte   // the rest of the last buffer
	small  []*[smallBuffer]byte
	large  []*[largeBuffer]byte
}

func (in *inbound) open(r *http.Request, none bool) {
	in.source, in.length, in.ended = r.Body, r.ContentLength, none
}

// next reads what has come, waiting for at least a byte or the end, keeps it, and returns it; ended then says whether that
// was the last. An error means that the client broke off, or that its framing is wrong.
func (in *inbound) next() ([]byte, error) {
	if in.ended {
		return nil, io.ErrUnexpectedEOF // the exchange asks for more than there is
	}
	if len(in.room) == 0 {
		in.grow()
	}
	n, err := in.read(in.room)
	if err != nil {
		return nil, err
	}
	chunk := in.room[:n:n]
	in.room = in.room[n:]
	if n > 0 {
		in.pieces = append(in.pieces, chunk)
	}
	return chunk, nil
}

// read reads into p, which is not empty.
func (in *inbound) read(p []byte) (int, error) {
	for {
		n, err := in.source.Read(p)
		in.bytes += int64(n)
		switch {
		case err == io.EOF:
			in.ended = true
			return n, nil
		case err != nil:
			return n, err
		case n > 0:
			return n, nil
		}
	}
}

// grow gets a buffer for what comes next. A body of unknown length begins with a small one: most are short, and with a large
// one a flood of requests would hold sixteen times the memory.
func (in *inbound) grow() {
	if in.length >= 0 && in.length-in.bytes <= smallBuffer || in.length < 0 && in.bytes == 0 {
		b := smallBuffers.Get().(*[smallBuffer]byte)
		in.small, in.room = append(in.small, b), b[:]
		return
	}
	b := largeBuffers.Get().(*[largeBuffer]byte)
	in.large, in.room = append(in.large, b), b[:]
}

// whole returns the body in one piece, if it lies in one buffer, all of it came and nothing in it is to be edited.
func (in *inbound) whole() ([]byte, bool) {
	if !in.ended || len(in.small)+len(in.large) != 1 {
		return nil, false
	}
	if len(in.small) == 1 {
		return in.small[0][:in.bytes], true
	}
	return in.large[0][:in.bytes], true
}

// release gives the buffers back. Nobody may refer to the body any more: neither the exchange nor a transport.
func (in *inbound) release() {
	for _, b := range in.small {
		smallBuffers.Put(b)
	}
	for _, b := range in.large {
		largeBuffers.Put(b)
	}
	in.small, in.large, in.pieces, in.room = nil, nil, nil, nil
}
