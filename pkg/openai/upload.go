package openai

import (
	"bytes"
	"mime"
)

const (
	boundaryMax   = 256     // RFC 2046 allows 70
	partHeaderMax = 8 << 10 // of one part
	fieldMax      = 4 << 10 // of the value of a field that is read
)

// upload reads a multipart/form-data body (RFC 7578) for its fields "model" and "stream"; files pass over at the speed of a
// search. It never refuses: a body that is none of the kind says nothing, and the engine judges it. Of fields that stand
// twice the last counts, as with form readers.
type upload struct {
	sum   *Summary
	delim []byte // CR LF and the boundary with its dashes
	state uploadState
	start int64  // of the headers or content in hand
	tail  []byte // the last bytes of earlier chunks, fewer than what is looked for
	field string // of the content in hand; "" for one that is not read
	seen  bool
	buf   []byte
}

type uploadState uint8

const (
	inContent uploadState = iota // up to a delimiter; what comes before the first part is content of nobody
	inHeaders                    // up to an empty line
	uploadOver
)

var emptyLine = []byte("\r\n\r\n")

func newUpload(boundary string) *upload {
	u := &upload{sum: NewSummary(), delim: []byte("\r\n--" + boundary)}
	u.tail = append(u.tail, "\r\n"...) // the first delimiter need not begin with a line break
	return u
}

// Feed implements BodyReader.
func (u *upload) Feed(chunk []byte) error {
	off := u.sum.Bytes
	u.sum.AddChunk(chunk)
	for at := 0; u.state != uploadOver; {
		want := u.delim
		if u.state == inHeaders {
			want = emptyLine
		}
		end := u.find(chunk[at:], want)
		if end < 0 {
			if u.state == inHeaders && off+int64(len(chunk))-u.start > partHeaderMax {
				u.state = uploadOver
			}
			return nil
		}
		at += end
		u.tail = u.tail[:0]
		if u.state == inHeaders {
			u.headers(off + int64(at))
		} else {
			u.content(off + int64(at))
		}
	}
	return nil
}

// find returns the index in c behind the first want, which may have begun in the tail; -1 if there is none, and keeps the
// tail then.
func (u *upload) find(c, want []byte) int {
	if n := len(u.tail); n > 0 {
		u.tail = append(u.tail, c[:min(len(c), len(want)-1)]...)
		if i := bytes.Index(u.tail, want); i >= 0 {
			return i + len(want) - n
		}
		u.tail = u.tail[:n]
	}
	if i := bytes.Index(c, want); i >= 0 {
		return i + len(want)
	}
	keep := len(want) - 1
	if len(c) >= keep {
		u.tail = append(u.tail[:0], c[len(c)-keep:]...)
		return -1
	}
	u.tail = append(u.tail, c...)
	if drop := len(u.tail) - keep; drop > 0 {
		u.tail = append(u.tail[:0], u.tail[drop:]...)
	}
	return -1
}

// content ends a part before the delimiter that ends before offset end.
func (u *upload) content(end int64) {
	value := Span{u.start, end - int64(len(u.delim))}
	if u.field != "" && value.Len() >= 0 {
		u.value(value)
	}
	u.state, u.field, u.start = inHeaders, "", end
}

func (u *upload) value(at Span) {
	if at.Len() > fieldMax {
		if u.field == "model" {
			u.seen = true
			u.sum.Model, u.sum.ModelSpan, u.sum.ModelFault = "", Span{}, modelTooLong
		}
		return
	}
	u.buf = u.sum.AppendSpan(u.buf[:0], at)
	switch u.field {
	case "model":
		u.seen = true
		u.sum.setModel(string(u.buf), at)
		u.sum.ModelBare = true
	case "stream":
		u.sum.Stream = bytes.EqualFold(u.buf, []byte("true")) || string(u.buf) == "1"
	}
}

// headers ends a part's headers before the offset end, behind their empty line.
func (u *upload) headers(end int64) {
	u.state = inContent
	at := Span{u.start, end}
	u.start = end
	if at.Len() > partHeaderMax {
		u.state = uploadOver
		return
	}
	u.buf = u.sum.AppendSpan(u.buf[:0], at)
	if bytes.HasPrefix(u.buf, []byte("--")) {
		u.state = uploadOver
		return
	}
	for line := range bytes.SplitSeq(u.buf, []byte("\r\n")) {
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || !bytes.EqualFold(bytes.TrimSpace(name), []byte("content-disposition")) {
			continue
		}
		_, params, err := mime.ParseMediaType(string(value))
		if _, file := params["filename"]; err == nil && !file {
			if field := params["name"]; field == "model" || field == "stream" {
				u.field = field
			}
		}
	}
}

// Finish implements BodyReader.
func (u *upload) Finish() (*Summary, error) {
	u.sum.Complete = true
	return u.sum, nil
}

// Summary implements BodyReader.
func (u *upload) Summary() *Summary { return u.sum }

// Told implements BodyReader: nothing but the model is read here.
func (u *upload) Told(bool) bool { return u.seen || u.state == uploadOver }

// Release implements BodyReader.
func (u *upload) Release() { u.sum = nil }
