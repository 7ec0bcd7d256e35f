package proxy

import (
	"io"
	"net/http"
	"sync/atomic"

	"github.com/fairlead/fairlead/pkg/openai"
)

// upload is the body of an upstream request: the pieces that were kept, then the rest as it comes from the client, with
// the decision's edits in it. The transport's writing goroutine reads it; nobody else touches it, nor the inbound body,
// before that goroutine is done.
type upload struct {
	in       *inbound
	reached  func() bool        // whether something of the request has been written
	tell     func([]byte) error // of what comes from the client; an error: no more of it is to be sent
	edits    []openai.Edit
	client   *http.Request
	trailer  http.Header // what the transport sends after the body; filled at its end
	next     int         // of in.pieces
	offset   int64       // in the client's body
	pending  [][]byte    // spliced, not yet taken
	spare    [][]byte    // the memory of pending
	passing  *[copyBuffer]byte
	lost     atomic.Pointer[error] // why no more of the client's body can be read
	finished bool
}

// fill makes pending hold something, or returns io.EOF at the end of the body.
func (u *upload) fill() error {
	for len(u.pending) == 0 {
		chunk, err := u.chunk()
		if err != nil {
			return err
		}
		if len(u.edits) == 0 {
			u.spare = append(u.spare[:0], chunk)
		} else {
			u.spare = openai.Splice(u.spare[:0], u.offset, chunk, u.edits)
		}
		u.offset += int64(len(chunk))
		u.pending = u.spare
	}
	return nil
}

// chunk returns the next bytes of the client's body. As long as nothing of the request has been written, another attempt
// may need them, and they are kept; after that they pass through one buffer.
func (u *upload) chunk() ([]byte, error) {
	in := u.in
	for {
		if u.next < len(in.pieces) {
			u.next++
			return in.pieces[u.next-1], nil
		}
		if in.ended {
			u.finish()
			return nil, io.EOF
		}
		if u.reached() {
			return u.pass()
		}
		chunk, err := in.next()
		if err != nil {
			u.lost.Store(&err)
			return nil, err
		}
		if err := u.tell(chunk); err != nil {
			return nil, err
		}
	}
}

func (u *upload) pass() ([]byte, error) {
	if u.passing == nil {
		u.passing = copyBuffers.Get().(*[copyBuffer]byte)
	}
	n, err := u.in.read(u.passing[:])
	if err != nil {
		u.lost.Store(&err)
		return nil, err
	}
	if err := u.tell(u.passing[:n]); err != nil {
		return nil, err
	}
	if n == 0 {
		u.finish()
		return nil, io.EOF
	}
	return u.passing[:n], nil
}

// finish is called at the end of the client's body, when its trailers are known.
func (u *upload) finish() {
	if u.finished {
		return
	}
	u.finished = true
	if u.trailer != nil {
		trailers(u.trailer, u.client)
	}
	if u.passing != nil {
		copyBuffers.Put(u.passing)
		u.passing = nil
	}
}

// Read implements io.Reader.
func (u *upload) Read(p []byte) (int, error) {
	if err := u.fill(); err != nil {
		return 0, err
	}
	n := copy(p, u.pending[0])
	u.took(n)
	return n, nil
}

// took removes n bytes from the first pending piece.
func (u *upload) took(n int) {
	if u.pending[0] = u.pending[0][n:]; len(u.pending[0]) == 0 {
		u.pending = u.pending[1:]
	}
}

// WriteTo implements io.WriterTo: each piece is one write, and so one chunk of a chunked body.
func (u *upload) WriteTo(w io.Writer) (int64, error) { return u.writeSome(w, 1<<62) }

// writeSome writes at most limit bytes.
func (u *upload) writeSome(w io.Writer, limit int64) (written int64, err error) {
	for written < limit {
		if err := u.fill(); err != nil {
			if err == io.EOF {
				err = nil
			}
			return written, err
		}
		piece := u.pending[0][:min(int64(len(u.pending[0])), limit-written)]
		n, err := w.Write(piece)
		written += int64(n)
		u.took(n)
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// Close implements io.Closer. The client's body belongs to its connection.
func (u *upload) Close() error { return nil }

// trailers copies the client's trailers, those that may pass, to dst.
func trailers(dst http.Header, r *http.Request) {
	for name, values := range r.Trailer {
		if passes(name) && len(values) > 0 {
			dst[name] = values
		}
	}
}
