package proxy

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/fairlead/fairlead/pkg/openai"
)

// dribble hands out its bytes in pieces of the given sizes, over and over.
type dribble struct {
	rest  []byte
	sizes []int
	next  int
}

func (d *dribble) Read(p []byte) (int, error) {
	if len(d.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, d.rest[:min(d.sizes[d.next%len(d.sizes)], len(d.rest))])
	d.next++
	d.rest = d.rest[n:]
	return n, nil
}

// edited is the plain way to apply edits.
func edited(body []byte, edits []openai.Edit) []byte {
	var out []byte
	at := int64(0)
	for _, e := range edits {
		out = append(append(out, body[at:e.Span.Start]...), e.New...)
		at = e.Span.End
	}
	return append(out, body[at:]...)
}

// However the body comes, however much of it was kept before the request went out, whatever attempt needs it again and
// however the transport takes it: what goes upstream is the edited body.
func TestUploadsAreTheEditedBody(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := rapid.SliceOfN(rapid.Byte(), 1, 3000).Draw(t, "body")
		var edits []openai.Edit
		ends := rapid.SliceOfNDistinct(rapid.IntRange(0, len(body)), 0, 6, rapid.ID).Draw(t, "spans")
		slices.Sort(ends)
		for i := 0; i+1 < len(ends); i += 2 {
			edits = append(edits, openai.Edit{Span: openai.Span{Start: int64(ends[i]), End: int64(ends[i+1])}, New: rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "new")})
		}
		sizes := rapid.SliceOfN(rapid.IntRange(1, 700), 1, 5).Draw(t, "sizes")
		in := &inbound{source: &dribble{rest: bytes.Clone(body), sizes: sizes}, length: rapid.SampledFrom([]int64{-1, int64(len(body))}).Draw(t, "length")}
		for range rapid.IntRange(0, 4).Draw(t, "chunks before the decision") {
			if !in.ended {
				if _, err := in.next(); err != nil {
					t.Fatal(err)
				}
			}
		}
		told := slices.Concat(in.pieces...)
		reached := false
		attempt := func() *upload {
			return &upload{in: in, reached: func() bool { return reached }, tell: func(chunk []byte) error { told = append(told, chunk...); return nil }, edits: edits,
				client: new(http.Request), trailer: http.Header{}}
		}
		for range rapid.IntRange(0, 2).Draw(t, "attempts of which nothing was written") {
			if _, err := attempt().writeSome(io.Discard, rapid.Int64Range(0, 500).Draw(t, "buffered by the transport")); err != nil {
				t.Fatal(err)
			}
		}
		u := attempt()
		var got bytes.Buffer
		for range rapid.IntRange(0, 3).Draw(t, "limited writes") {
			if _, err := u.writeSome(&got, rapid.Int64Range(0, 400).Draw(t, "limit")); err != nil {
				t.Fatal(err)
			}
			reached = reached || got.Len() > 0
		}
		var err error
		if rapid.Bool().Draw(t, "read") {
			_, err = io.Copy(&got, struct{ io.Reader }{u})
		} else {
			_, err = u.WriteTo(&got)
		}
		if err != nil {
			t.Fatal(err)
		}
		if want := edited(body, edits); !bytes.Equal(got.Bytes(), want) {
			t.Fatalf("got %q, want %q", got.Bytes(), want)
		}
		if !bytes.Equal(told, body) {
			t.Fatalf("the exchange was told of %d bytes, want %d", len(told), len(body))
		}
		if n, err := u.WriteTo(io.Discard); n != 0 || err != nil {
			t.Fatalf("after its end: %d bytes, %v", n, err)
		}
		in.release()
	})
}
