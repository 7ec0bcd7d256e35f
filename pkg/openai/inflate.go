package openai

import (
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"iter"
)

// inflater decompresses what comes in pieces, as it comes: all that the pieces so far hold is given out, which the readers
// of the standard library, who ask for more themselves, do not do on their own. They run in a coroutine that stands still
// while there is no more: close ends it.
type inflater struct {
	pending []byte // of the piece in hand
	ended   bool   // no more pieces come
	left    int64  // bytes that may still be given out
	err     error  // what stopped it; nil at the end of the data
	done    bool

	next func() ([]byte, bool)
	stop func()
}

var (
	errInflatedTooLong = errors.New("it is longer decompressed than what is read")
	errStopped         = errors.New("stopped")
)

// newInflater returns an inflater for a body coded by gzip or zlib ("deflate" in HTTP) that gives out at most limit bytes.
func newInflater(zipped bool, limit int64) *inflater {
	f := &inflater{left: limit}
	f.next, f.stop = iter.Pull(func(yield func([]byte) bool) {
		from := waiting{f, yield}
		open := func() (io.Reader, error) { return gzip.NewReader(from) }
		if !zipped {
			open = func() (io.Reader, error) { return zlib.NewReader(from) }
		}
		r, err := open()
		buffer := make([]byte, 8<<10)
		for err == nil {
			var n int
			if n, err = r.Read(buffer[:min(int64(len(buffer)), f.left+1)]); n > 0 {
				if f.left -= int64(n); f.left < 0 {
					f.err = errInflatedTooLong
					return
				}
				if !yield(buffer[:n]) {
					return
				}
			}
		}
		if err != io.EOF && err != errStopped {
			f.err = err
		}
	})
	return f
}

// waiting is where the decompressor reads: it stands still where the pieces end.
type waiting struct {
	f     *inflater
	yield func([]byte) bool
}

// Read implements io.Reader.
func (w waiting) Read(p []byte) (int, error) {
	for len(w.f.pending) == 0 {
		if w.f.ended {
			return 0, io.EOF
		}
		if !w.yield(nil) {
			return 0, errStopped
		}
	}
	n := copy(p, w.f.pending)
	w.f.pending = w.f.pending[n:]
	return n, nil
}

// feed brings a piece and calls out with what it gives, in slices valid during the call. It keeps nothing of the piece.
func (f *inflater) feed(piece []byte, out func([]byte)) error {
	f.pending = piece
	f.run(out)
	f.pending = nil
	return f.err
}

// finish says that no more comes.
func (f *inflater) finish(out func([]byte)) error {
	f.ended = true
	f.run(out)
	f.close()
	return f.err
}

func (f *inflater) run(out func([]byte)) {
	for !f.done {
		b, ok := f.next()
		if !ok {
			f.done = true
			return
		}
		if b != nil {
			out(b)
		} else if len(f.pending) == 0 {
			return
		}
	}
}

// close ends the coroutine. It may be called more than once.
func (f *inflater) close() {
	f.done = true
	f.stop()
}

// compressed reads a body that is compressed as a whole by another reader, which sees it decompressed.
type compressed struct {
	inner BodyReader
	from  *inflater
	err   error
}

func newCompressed(inner BodyReader, limit int64) *compressed {
	return &compressed{inner: inner, from: newInflater(true, limit)}
}

// Feed implements BodyReader.
func (c *compressed) Feed(chunk []byte) error {
	return c.judge(c.from.feed(chunk, c.read))
}

// read brings what was decompressed; the inner reader keeps it.
func (c *compressed) read(b []byte) {
	if c.err == nil {
		c.err = c.inner.Feed(append([]byte(nil), b...))
	}
}

func (c *compressed) judge(err error) error {
	if c.err == nil && err != nil {
		c.err = &UnreadError{"it cannot be decompressed: " + plainInflate(err)}
	}
	return c.err
}

// plainInflate names an error of a decompressor without a byte of what it read.
func plainInflate(err error) string {
	switch {
	case errors.Is(err, errInflatedTooLong):
		return errInflatedTooLong.Error()
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "it ends too early"
	}
	return "it is damaged"
}

// Finish implements BodyReader.
func (c *compressed) Finish() (*Summary, error) {
	if err := c.judge(c.from.finish(c.read)); err != nil {
		return c.inner.Summary(), err
	}
	sum, err := c.inner.Finish()
	sum.seal()
	return sum, err
}

// seal says that no edit can be made where the model was read.
func (s *Summary) seal() { s.Sealed, s.ModelSpan = true, Span{} }

// Summary implements BodyReader.
func (c *compressed) Summary() *Summary {
	sum := c.inner.Summary()
	sum.seal()
	return sum
}

// Told implements BodyReader.
func (c *compressed) Told(onlyModel bool) bool { return c.inner.Told(onlyModel) }

// Release implements BodyReader.
func (c *compressed) Release() {
	c.from.close()
	c.inner.Release()
}
