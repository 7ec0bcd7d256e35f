package openai

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// readUsage reads an answer in pieces of so many bytes; 0: in one.
func readUsage(api API, media, encoding string, body []byte, size int) *UsageReader {
	u := NewUsageReader(api, media, encoding)
	if size == 0 {
		size = max(len(body), 1)
	}
	for at := 0; at < len(body); at += size {
		u.Feed(body[at:min(at+size, len(body))])
	}
	u.Close()
	u.Close()
	return u
}

// flushed compresses an event stream as one gzip member, flushed after each event.
func flushed(events ...string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for _, e := range events {
		_, _ = z.Write([]byte(e))
		_ = z.Flush()
	}
	_ = z.Close()
	return b.Bytes()
}

func TestS13GzipOverChunks(t *testing.T) {
	events := []string{"data: {\"choices\":[]}\n\n", "data: {\"choices\":[]}\n\n", "data: {\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3}}\n\n", "data: [DONE]\n\n"}
	whole := flushed(events...)
	members := append(zipped(strings.Join(events[:2], "")), zipped(strings.Join(events[2:], ""))...)
	var deflated bytes.Buffer
	z := zlib.NewWriter(&deflated)
	_, _ = z.Write([]byte(strings.Join(events, "")))
	_ = z.Close()
	for _, tt := range []struct {
		name, encoding string
		body           []byte
		want           Usage
		done           bool
	}{
		{"one member, flushed for each event", "gzip", whole, Usage{7, Unknown, 3}, true},
		{"two members", "gzip", members, Usage{7, Unknown, 3}, true},
		{"deflate", "deflate", deflated.Bytes(), Usage{7, Unknown, 3}, true},
		{"cut behind its usage", "gzip", flushed(events[:3]...)[:len(flushed(events[:3]...))-10], Usage{7, Unknown, 3}, false},
		{"nothing", "gzip", nil, NoUsage, false},
		{"no gzip", "gzip", []byte(strings.Join(events, "")), NoUsage, false},
		{"brotli is not read", "br", []byte(strings.Join(events, "")), NoUsage, false},
	} {
		for _, size := range sizes {
			if u := readUsage(ChatCompletions, "text/event-stream", tt.encoding, tt.body, size); u.Usage() != tt.want || u.Done() != tt.done {
				t.Errorf("%s in pieces of %d: %+v, done %v; want %+v, %v", tt.name, size, u.Usage(), u.Done(), tt.want, tt.done)
			}
		}
	}
	// Each event is known as soon as its piece came, not at the end.
	u := NewUsageReader(ChatCompletions, "text/event-stream", "gzip")
	u.Feed(flushed(events[:3]...)[:len(flushed(events[:3]...))-10])
	if u.Usage().Out != 3 {
		t.Error("the usage waits for the end of the answer")
	}
	u.Close()
}

func TestUsageOfGRPC(t *testing.T) {
	chunk := func(prompt, out, cached uint64) []byte {
		return frame(0, sub(1, join(sub(1, ids(1, 2)), num(2, prompt), num(3, out), num(4, cached))))
	}
	complete := frame(0, sub(2, join(sub(1, ids(1, 2, 3)), sub(2, []byte("stop")), num(3, 11), num(4, 3), num(5, 8))))
	floats := sub(1, make([]byte, 4096))
	for _, tt := range []struct {
		name string
		api  API
		body []byte
		want Usage
		done bool
	}{
		{"chunks and an end", GRPCGenerate, join(chunk(11, 1, 8), chunk(11, 2, 8), complete), Usage{11, 8, 3}, true},
		{"chunks alone", GRPCGenerate, join(chunk(11, 1, 8), chunk(11, 2, 8)), Usage{11, 8, 2}, false},
		{"an end alone, nothing cached", GRPCGenerate, frame(0, sub(2, join(num(3, 11), num(4, 3)))), Usage{11, 0, 3}, true},
		{"an embedding", GRPCEmbed, frame(0, join(floats, num(2, 5), num(3, 1024))), Usage{5, Unknown, 0}, true},
		{"a compressed message is passed over", GRPCGenerate, join(frame(1, []byte("x")), complete), Usage{11, 8, 3}, true},
		{"no protobuf", GRPCGenerate, frame(0, []byte{0xff}), NoUsage, false},
		{"numbers that cannot be", GRPCGenerate, frame(0, sub(2, num(3, 1<<40))), Usage{0, 0, 0}, true},
		{"JSON inside", VertexChat, frame(0, join(sub(1, []byte("application/json")), sub(2, []byte(`{"usage":{"prompt_tokens":7,"completion_tokens":3}}`)))), Usage{7, Unknown, 3}, true},
		{"an event stream inside", VertexRaw, join(frame(0, sub(2, []byte("\n"))), frame(0, sub(2, []byte("data: {\"usage\":{\"prompt_"))), frame(0, sub(2, []byte("tokens\":7,\"completion_tokens\":3}}\n\n")))), Usage{7, Unknown, 3}, false},
		{"nothing", GRPCGenerate, nil, NoUsage, false},
	} {
		for _, size := range sizes {
			if u := readUsage(tt.api, "application/grpc", "", tt.body, size); u.Usage() != tt.want || u.Done() != tt.done {
				t.Errorf("%s in pieces of %d: %+v, done %v; want %+v, %v", tt.name, size, u.Usage(), u.Done(), tt.want, tt.done)
			}
		}
	}
}

func TestUsageOfSGLang(t *testing.T) {
	want := Usage{12, 4, 3}
	if got := readUsage(SGLangGenerate, "application/json", "", []byte(`{"text":"a","meta_info":{"id":"1","prompt_tokens":12,"completion_tokens":3,"cached_tokens":4}}`), 5).Usage(); got != want {
		t.Errorf("a JSON answer: %+v", got)
	}
	stream := "data: {\"meta_info\":{\"prompt_tokens\":12,\"completion_tokens\":1,\"cached_tokens\":4}}\n\ndata: {\"meta_info\":{\"prompt_tokens\":12,\"completion_tokens\":3,\"cached_tokens\":4}}\n\ndata: [DONE]\n\n"
	if got := readUsage(SGLangGenerate, "text/event-stream", "", []byte(stream), 7).Usage(); got != want {
		t.Errorf("a stream: %+v", got)
	}
}

// TestUsageOfRealAnswers reads answers that a vLLM server gave, one of each kind, and finds what encoding/json finds.
func TestUsageOfRealAnswers(t *testing.T) {
	text, err := os.ReadFile("testdata/vllm-0.32.0-answers.json")
	if err != nil {
		t.Fatal(err)
	}
	var answers []struct {
		Path, ContentType, Reply string
		Prompt, Cached, Out      int64
	}
	if err := json.Unmarshal(text, &answers); err != nil {
		t.Fatal(err)
	}
	seen := map[API]int{}
	for _, a := range answers {
		api := ClassifyPath("POST", a.Path)
		seen[api]++
		want := Usage{a.Prompt, a.Cached, a.Out}
		for _, size := range sizes {
			if got := readUsage(api, a.ContentType, "", []byte(a.Reply), size).Usage(); got != want {
				t.Errorf("%s in pieces of %d: %+v, want %+v", a.Path, size, got, want)
			}
		}
	}
	for _, api := range []API{ChatCompletions, Responses, Messages} {
		if seen[api] < 2 {
			t.Errorf("%d answers of %v; want a JSON one and a stream", seen[api], api)
		}
	}
}

// Nothing that an engine sends makes the reader panic, and how it is cut says nothing.
func FuzzUsageForms(f *testing.F) {
	f.Add(uint8(GRPCGenerate), "application/grpc", "", frame(0, sub(2, num(3, 11))), uint8(1))
	f.Add(uint8(VertexChat), "application/grpc", "", frame(0, sub(2, []byte(`{"usage":{"prompt_tokens":7}}`))), uint8(2))
	f.Add(uint8(ChatCompletions), "text/event-stream", "gzip", flushed("data: {}\n\n", "data: {\"usage\":{\"prompt_tokens\":7}}\n\n"), uint8(3))
	f.Fuzz(func(t *testing.T, api uint8, media, encoding string, body []byte, size uint8) {
		whole := readUsage(API(api), media, encoding, body, 0).Usage()
		if cut := readUsage(API(api), media, encoding, body, int(size)+1).Usage(); cut != whole {
			t.Fatalf("whole: %+v; in pieces of %d: %+v", whole, int(size)+1, cut)
		}
	})
}
