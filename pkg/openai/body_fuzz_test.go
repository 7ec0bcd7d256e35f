package openai

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"mime/multipart"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// FuzzUpload: the model of a form is the field that was written last, whatever file stands before it; and of bytes that are
// perhaps no form at all the same is read however they are cut.
func FuzzUpload(f *testing.F) {
	f.Add([]byte("RIFF\r\n--x"), "whisper", "other", uint8(3))
	f.Add([]byte("--x\r\ncontent-disposition: form-data; name=model\r\n\r\nm\r\n--x--"), "", "", uint8(1))
	f.Fuzz(func(t *testing.T, file []byte, first, last string, size uint8) {
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		part, _ := w.CreateFormFile("file", "a")
		_, _ = part.Write(file)
		_ = w.WriteField("model", first)
		_ = w.WriteField("model", last)
		_ = w.Close()
		if bytes.Contains(file, []byte(w.Boundary())) {
			return
		}
		sum, _, err := readBody(Transcriptions, w.FormDataContentType(), "", b.Bytes(), int(size)+1)
		if err != nil || len(last) <= fieldMax && sum.Model != last && !bytes.Contains([]byte(last), []byte(w.Boundary())) {
			t.Fatalf("the model is %q, error %v; want %q", sum.Model, err, last)
		}
		const raw = "multipart/form-data; boundary=x"
		whole, _, _ := readBody(Transcriptions, raw, "", file, 0)
		cut, _, _ := readBody(Transcriptions, raw, "", file, int(size)+1)
		if whole.Model != cut.Model || whole.ModelSpan != cut.ModelSpan || whole.Stream != cut.Stream {
			t.Fatalf("%q: %q whole, %q in pieces of %d", file, whole.Model, cut.Model, int(size)+1)
		}
	})
}

// slowTokens reads a vLLM message with protowire: the number of its token ids, and whether it is one.
func slowTokens(b []byte, depth int) (n int64, ok bool) {
	for len(b) > 0 {
		number, kind, k := protowire.ConsumeTag(b)
		if k < 0 || number > protowire.MaxValidNumber || kind == protowire.StartGroupType || kind == protowire.EndGroupType {
			return 0, false
		}
		b = b[k:]
		k = protowire.ConsumeFieldValue(number, kind, b)
		if k < 0 {
			return 0, false
		}
		value := b[:k]
		b = b[k:]
		switch {
		case depth == 0 && (number == 2 || number == 4) && kind == protowire.BytesType:
			inner, _ := protowire.ConsumeBytes(value)
			m, fine := slowTokens(inner, map[protowire.Number]int{2: 1, 4: 2}[number])
			if !fine {
				return 0, false
			}
			n += m
		case depth == 1 && number == 2 && kind == protowire.BytesType:
			inner, _ := protowire.ConsumeBytes(value)
			for _, c := range inner {
				if c < 0x80 {
					n++
				}
			}
		case depth == 1 && number == 2:
			n++
		}
	}
	return n, true
}

// FuzzFrame: a message is one for the reader if it is one for protowire, and has as many token ids.
func FuzzFrame(f *testing.F) {
	f.Add(join(sub(2, join(sub(1, []byte("a")), sub(2, ids(1, 300)))), sub(4, num(8, 3)), num(5, 1)), uint8(1))
	f.Add([]byte{0xff, 0xff}, uint8(2))
	f.Fuzz(func(t *testing.T, message []byte, size uint8) {
		sum, _, err := readBody(GRPCGenerate, "application/grpc", "", frame(0, message), int(size)+1)
		want, ok := slowTokens(message, 0)
		if (err == nil) != ok {
			t.Fatalf("%x: error %v; protowire says %v", message, err, ok)
		}
		if ok && want > 0 && len(sum.Prompt) > 0 && sum.PromptTokens != want {
			t.Fatalf("%x: %d tokens, want %d", message, sum.PromptTokens, want)
		}
	})
}

// FuzzGzip: what comes out is what the standard library reads from the whole, however it is cut, and no more than the limit.
func FuzzGzip(f *testing.F) {
	f.Add(zipped("hello"), uint8(1), uint16(100))
	f.Add(append(zipped("a"), zipped("b")...), uint8(2), uint16(1))
	f.Add([]byte("no gzip"), uint8(3), uint16(9))
	f.Fuzz(func(t *testing.T, body []byte, size uint8, limit uint16) {
		var want []byte
		r, wantErr := gzip.NewReader(bytes.NewReader(body))
		if wantErr == nil {
			want, wantErr = io.ReadAll(io.LimitReader(r, 1<<20))
		}
		if wantErr == io.EOF {
			wantErr = nil
		}
		for _, most := range []int64{1 << 20, int64(limit)} {
			var got []byte
			take := func(b []byte) { got = append(got, b...) }
			in := newInflater(true, most)
			for at := 0; at < len(body); at += int(size) + 1 {
				_ = in.feed(body[at:min(at+int(size)+1, len(body))], take)
			}
			err := in.finish(take)
			in.close()
			if int64(len(got)) > most || !bytes.HasPrefix(want, got) {
				t.Fatalf("%d bytes of at most %d, want the beginning of %d", len(got), most, len(want))
			}
			if int64(len(want)) < most && ((err == nil) != (wantErr == nil) || err == nil && !bytes.Equal(got, want)) {
				t.Fatalf("%s", fmt.Sprintf("%d bytes, error %v; want %d, %v", len(got), err, len(want), wantErr))
			}
		}
	})
}
