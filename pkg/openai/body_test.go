package openai

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// readBody reads body in chunks of so many bytes; 0: in one.
func readBody(api API, contentType, encoding string, body []byte, size int) (sum *Summary, strict bool, err error) {
	r, strict, why := OpenBody(api, contentType, encoding, 1<<20)
	if r == nil {
		return nil, strict, &UnreadError{why}
	}
	defer r.Release()
	if size == 0 {
		size = max(len(body), 1)
	}
	for at := 0; at < len(body); at += size {
		if err := r.Feed(body[at:min(at+size, len(body))]); err != nil {
			return r.Summary(), strict, err
		}
	}
	sum, err = r.Finish()
	return sum, strict, err
}

// sizes are those in which bodies are cut.
var sizes = []int{0, 1, 2, 3, 7, 64, 4096}

// audio is an upload whose file precedes its model.
func audio(fileBytes int, fields ...string) (contentType string, body []byte) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	f, _ := w.CreateFormFile("file", "a.wav")
	_, _ = f.Write(bytes.Repeat([]byte("RIFF\r\n--\x00\xff"), fileBytes/10))
	for i := 0; i < len(fields); i += 2 {
		_ = w.WriteField(fields[i], fields[i+1])
	}
	_ = w.Close()
	return w.FormDataContentType(), b.Bytes()
}

func TestB11MultipartAudio(t *testing.T) {
	media, body := audio(3<<20, "language", "en", "model", "whisper-x", "stream", "true")
	for _, size := range []int{0, 1000, 16 << 10, 1 << 20} {
		sum, _, err := readBody(Transcriptions, media, "", body, size)
		if err != nil || sum.Model != "whisper-x" || !sum.Stream || string(sum.AppendSpan(nil, sum.ModelSpan)) != "whisper-x" || !sum.ModelBare {
			t.Errorf("in pieces of %d: %+v, error %v", size, sum.Model, err)
		}
	}
	small, short := audio(100, "model", "whisper-x")
	const plain = "multipart/form-data; boundary=x"
	for _, tt := range []struct {
		name, media, body, model, unread string
	}{
		{"a small one", small, string(short), "whisper-x", ""},
		{"no boundary", "multipart/form-data", string(short), "", "multipart/form-data without a usable boundary"},
		{"an empty boundary", `multipart/form-data; boundary=""`, string(short), "", "multipart/form-data without a usable boundary"},
		{"a boundary that is too long", "multipart/form-data; boundary=" + strings.Repeat("x", 300), "", "", "multipart/form-data without a usable boundary"},
		{"another boundary", plain, string(short), "", ""},
		{"empty", plain, "", "", ""},
		{"only its end", plain, "--x--\r\n", "", ""},
		{"a preamble", plain, "hello\r\n--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--x--", "m", ""},
		{"padding behind the boundary", plain, "--x  \r\ncontent-disposition: form-data; name=model\r\n\r\nm\r\n--x--", "m", ""},
		{"no headers at all", plain, "--x\r\n\r\nm\r\n--x--", "", ""},
		{"cut in the value", plain, "--x\r\ncontent-disposition: form-data; name=model\r\n\r\nwhis", "", ""},
		{"cut in the headers", plain, "--x\r\ncontent-disposition: form-da", "", ""},
		{"a file of that name", plain, "--x\r\ncontent-disposition: form-data; name=model; filename=model\r\n\r\nm\r\n--x--", "", ""},
		{"the last of two counts", plain, "--x\r\ncontent-disposition: form-data; name=model\r\n\r\na\r\n--x\r\ncontent-disposition: form-data; name=model\r\n\r\nb\r\n--x--", "b", ""},
		{"what follows the end does not count", plain, "--x--\r\n--x\r\ncontent-disposition: form-data; name=model\r\n\r\na\r\n--x--", "", ""},
		{"headers without an end", plain, "--x\r\n" + strings.Repeat("a: b\r\n", 5000) + "\r\n", "", ""},
		{"a value with half a boundary", plain, "--x\r\ncontent-disposition: form-data; name=model\r\n\r\nm\r\n--y\r\n--x--", "m\r\n--y", ""},
	} {
		for _, size := range sizes {
			sum, strict, err := readBody(Transcriptions, tt.media, "", []byte(tt.body), size)
			var unread *UnreadError
			switch {
			case tt.unread != "":
				if !errors.As(err, &unread) || unread.Why != tt.unread {
					t.Errorf("%s: error %v, want %q", tt.name, err, tt.unread)
				}
			case err != nil || strict || sum.Model != tt.model:
				t.Errorf("%s, in pieces of %d: model %q, error %v; want %q", tt.name, size, sum.Model, err, tt.model)
			}
		}
	}
}

func zipped(body string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, body)
	_ = z.Close()
	return b.Bytes()
}

func TestCompressedBodies(t *testing.T) {
	const chat = `{"model":"m","messages":[{"role":"user","content":"hello"}],"max_tokens":7}`
	two := append(zipped(chat[:20]), zipped(chat[20:])...)
	for _, tt := range []struct {
		name, encoding string
		body           []byte
		model          string
		want           string // the error
	}{
		{"gzip", "gzip", zipped(chat), "m", ""},
		{"by its other name", " X-GZIP ", zipped(chat), "m", ""},
		{"two members", "gzip", two, "m", ""},
		{"nothing", "gzip", nil, "", "the body is not valid JSON at byte 0: the body is empty"},
		{"no gzip", "gzip", []byte(chat), "", "it cannot be decompressed: it is damaged"},
		{"cut short", "gzip", zipped(chat)[:40], "", "it cannot be decompressed: it ends too early"},
		{"broken JSON inside", "gzip", zipped(`{"model"}`), "", "the body is not valid JSON at byte 8: a colon is expected after the name of a member"},
		{"a bomb", "gzip", zipped(`{"model":"m","x":"` + strings.Repeat("0", 64<<20) + `"}`), "", "it cannot be decompressed: it is longer decompressed than what is read"},
		{"zstd", "zstd", []byte(chat), "", "content-encoding zstd"},
		{"brotli", "br", []byte(chat), "", "content-encoding br"},
		{"deflate", "deflate", []byte(chat), "", "content-encoding deflate"},
		{"two codings", "gzip, br", []byte(chat), "", "content-encoding that is not read"},
	} {
		for _, size := range sizes {
			if size > 0 && size < 64 && len(tt.body) > 10_000 {
				continue
			}
			sum, _, err := readBody(ChatCompletions, "application/json", tt.encoding, tt.body, size)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != tt.want || got == "" && (sum.Model != tt.model || !sum.Sealed || sum.ModelSpan.Len() != 0 || sum.MaxTokens != 7 || len(sum.Prompt) != 2) {
				t.Errorf("%s in pieces of %d: %+v, error %q; want %q", tt.name, size, sum, got, tt.want)
			}
		}
	}
}

// frame puts a message into a gRPC frame.
func frame(flag byte, message []byte) []byte {
	b := binary.BigEndian.AppendUint32([]byte{flag}, uint32(len(message)))
	return append(b, message...)
}

func sub(number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), value)
}

func num(number protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, number, protowire.VarintType), v)
}

func ids(list ...uint64) (packed []byte) {
	for _, id := range list {
		packed = protowire.AppendVarint(packed, id)
	}
	return packed
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func TestGRPCRequests(t *testing.T) {
	sampling := sub(4, join(protowire.AppendFixed32(protowire.AppendTag(nil, 1, protowire.Fixed32Type), 7), num(8, 33), num(15, 2)))
	chat := `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true}`
	for _, tt := range []struct {
		name string
		api  API
		body []byte
		want string
	}{
		{"text", GRPCGenerate, frame(0, join(sub(1, []byte("id")), sub(3, []byte("hello")), sampling, num(5, 1))), `model "" stream true max 33 n 2 prompt [text hello] tokens -1`},
		{"token ids", GRPCGenerate, frame(0, join(sub(2, join(sub(1, []byte("hello")), sub(2, ids(1, 300, 70000)))), sampling)), `model "" stream false max 33 n 2 prompt [tokens ` + string(ids(1, 300, 70000)) + `] tokens 3`},
		{"token ids that are not packed", GRPCGenerate, frame(0, sub(2, join(num(2, 5), num(2, 600)))), `model "" stream false max -1 n 1 prompt [tokens ` + "\x05\x10\xd8\x04" + `] tokens 2`},
		{"an embedding", GRPCEmbed, frame(0, sub(2, sub(2, ids(9, 8)))), `model "" stream false max -1 n 1 prompt [tokens ` + string(ids(9, 8)) + `] tokens 2`},
		{"an empty message", GRPCGenerate, frame(0, nil), `model "" stream false max -1 n 1 prompt [] tokens -1`},
		{"unknown fields", GRPCGenerate, frame(0, join(num(99, 1<<63), sub(98, []byte("x")), protowire.AppendFixed64(protowire.AppendTag(nil, 97, protowire.Fixed64Type), 1), sub(3, []byte("a")))), `model "" stream false max -1 n 1 prompt [text a] tokens -1`},
		{"a chat of Vertex AI", VertexChat, frame(0, join(sub(1, []byte("projects/p")), sub(2, join(sub(1, []byte("application/json")), sub(2, []byte(chat)))))), `model "m" stream true max -1 n 1 prompt [role user text hi] tokens -1`},
		{"a raw prediction", VertexRaw, frame(0, sub(2, sub(2, []byte(`{"anthropic_version":"v","max_tokens":5,"system":"S","messages":[{"role":"user","content":"u"}]}`)))), `model "" stream false max 5 n 1 prompt [system S role user text u] tokens -1`},
		{"broken JSON inside", VertexChat, frame(0, sub(2, sub(2, []byte(`{"model"`)))), "the body is not valid JSON at byte 8: the body ends too early"},
		{"a message that is compressed", GRPCGenerate, frame(1, []byte("anything")), "unread: its gRPC message is compressed"},
		{"another flag", GRPCGenerate, frame(7, nil), "the gRPC message begins with flag 7; there are 0 and 1"},
		{"a length near 2^32", GRPCGenerate, []byte("\x00\xff\xff\xff\xfdabc"), "the gRPC message is cut short"},
		{"a length near 2^32, of a valid beginning", GRPCGenerate, []byte("\x00\xff\xff\xff\xfd\x1a\x03a"), "the gRPC message is cut short"},
		{"half a head", GRPCGenerate, []byte{0, 0}, "the gRPC message is cut short"},
		{"no bytes", GRPCGenerate, nil, "the gRPC message is cut short"},
		{"a field longer than its message", GRPCGenerate, frame(0, []byte{0x1a, 50, 'a'}), "the gRPC message is no protobuf message"},
		{"a nested field longer than its message", GRPCGenerate, frame(0, append(sub(2, []byte{0x12, 9, 1}), sub(3, make([]byte, 20))...)), "the gRPC message is no protobuf message"},
		{"a number that does not end", GRPCGenerate, frame(0, bytes.Repeat([]byte{0xff}, 30)), "the gRPC message is no protobuf message"},
		{"a number cut by its message's end", GRPCGenerate, frame(0, []byte{0x28, 0x80}), "the gRPC message is no protobuf message"},
		{"a tag without a value", GRPCGenerate, frame(0, []byte{0x28}), "the gRPC message is no protobuf message"},
		{"a group", GRPCGenerate, frame(0, []byte{0x2b, 0x2c}), "the gRPC message is no protobuf message"},
		{"a field number above 2^29", GRPCGenerate, frame(0, []byte{0xd0, 0xd0, 0xd0, 0xd0, 0xd0, 0x30, 0x30}), "the gRPC message is no protobuf message"},
		{"field 0", GRPCGenerate, frame(0, []byte{0x00, 0x00}), "the gRPC message is no protobuf message"},
		{"more than a message", GRPCGenerate, append(frame(0, sub(3, []byte("a"))), 9, 9, 9), `model "" stream false max -1 n 1 prompt [text a] tokens -1`},
	} {
		for _, size := range sizes {
			sum, strict, err := readBody(tt.api, "application/grpc+proto", "", tt.body, size)
			got := ""
			var unread *UnreadError
			switch {
			case errors.As(err, &unread):
				got = "unread: " + unread.Why
			case err != nil:
				got = err.Error()
			default:
				got = fmt.Sprintf("model %q stream %v max %d n %d prompt %v tokens %d", sum.Model, sum.Stream, sum.MaxTokens, sum.N, segments(sum), sum.PromptTokens)
			}
			if got != tt.want || !strict {
				t.Errorf("%s in pieces of %d: %s\nwant %s", tt.name, size, got, tt.want)
			}
		}
	}
}

func TestP17LengthNear2To32(t *testing.T) {
	for _, size := range sizes {
		_, strict, err := readBody(GRPCGenerate, "application/grpc", "", []byte("\x00\xff\xff\xff\xfd\x00\x00\x00"), size)
		if !strict || err == nil {
			t.Errorf("in pieces of %d: strict %v, error %v", size, strict, err)
		}
	}
	if r := ErrorReply(GRPCGenerate, 400, "malformed_body", "x%", 0, ""); r.Headers.Get("grpc-status") != "3" || r.Headers.Get("grpc-message") != "malformed_body: x%25" {
		t.Errorf("the refusal is %+v", r.Headers)
	}
}

// Nothing that a client sends makes a reader panic, and how its body is cut says nothing.
func FuzzBodies(f *testing.F) {
	media, body := audio(50, "model", "m")
	f.Add(uint8(Transcriptions), media, "", body, uint8(3))
	f.Add(uint8(ChatCompletions), "application/json", "gzip", zipped(`{"model":"m"}`), uint8(2))
	f.Add(uint8(GRPCGenerate), "application/grpc", "", frame(0, sub(2, sub(2, ids(1, 2)))), uint8(1))
	f.Add(uint8(VertexChat), "application/grpc", "", frame(0, sub(2, sub(2, []byte(`{"model":"m"}`)))), uint8(1))
	f.Add(uint8(GRPCGenerate), "application/grpc", "", []byte("\x00\xff\xff\xff\xfd\x00\x00\x00"), uint8(1))
	f.Fuzz(func(t *testing.T, api uint8, media, encoding string, body []byte, size uint8) {
		whole, _, err := readBody(API(api%uint8(apiCount)), media, encoding, body, 0)
		cut, _, err2 := readBody(API(api%uint8(apiCount)), media, encoding, body, int(size)+1)
		if (err == nil) != (err2 == nil) {
			t.Fatalf("whole: %v; in pieces of %d: %v", err, int(size)+1, err2)
		}
		if err == nil && digest(whole).Model != digest(cut).Model {
			t.Fatalf("whole: %+v; in pieces: %+v", whole, cut)
		}
	})
}
