package openai

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// readEvents reads a stream in chunks that end at the given offsets and prints its events, one "name|data" each.
func readEvents(maxEvent int, stream string, cuts ...int) (out []string, skipped int64) {
	r := NewEventReader(maxEvent)
	yield := func(e Event) { out = append(out, string(e.Name)+"|"+string(e.Data)) }
	from := 0
	for _, c := range append(cuts, len(stream)) {
		chunk := []byte(stream[from:c])
		r.Feed(chunk, yield)
		for i := range chunk { // a chunk belongs to its owner again
			chunk[i] = '#'
		}
		from = c
	}
	r.Close(yield)
	return out, r.Skipped()
}

func TestEvents(t *testing.T) {
	tests := []struct {
		name, stream string
		want         []string
		skipped      int64
	}{
		{"nothing", "", nil, 0},
		{"one event", "data: a\n\n", []string{"|a"}, 0},
		{"without the space", "data:a\n\ndata:  b\n\n", []string{"|a", "| b"}, 0},
		{"a named event", "event: ping\ndata: {}\n\ndata: x\n\n", []string{"ping|{}", "|x"}, 0},
		{"lines that end in CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", []string{"|a", "|b"}, 0},
		{"lines that end in CR", "data: a\r\rdata: b\r\r", []string{"|a", "|b"}, 0},
		{"line ends of all kinds", "data: a\r\n\ndata: b\r\n\rdata: c\n\r\n", []string{"|a", "|b", "|c"}, 0},
		{"data of several lines", "data: a\ndata: b\ndata:\ndata: c\n\n", []string{"|a\nb\n\nc"}, 0},
		{"comments", ": keep-alive\n\ndata: a\n:\n\n", []string{"|a"}, 0},
		{"an event without data is none", "event: x\nid: 7\n\ndata: a\n\n", []string{"|a"}, 0},
		{"an event of empty data", "data\n\ndata:\n\n", []string{"|", "|"}, 0},
		{"fields that mean nothing", "id: 1\nretry: 5\ndatax: y\n data: z\ndata: a\n\n", []string{"|a"}, 0},
		{"a byte order mark", "\xef\xbb\xbfdata: a\n\n", []string{"|a"}, 0},
		{"half a byte order mark is a line", "\xef\xbbdata: a\ndata: b\n\n", []string{"|b"}, 0},
		{"the stream ends without a blank line", "data: a\n\ndata: b\n", []string{"|a", "|b"}, 0},
		{"the stream ends within a line", "data: a\n\nevent: e\ndata: b", []string{"|a", "e|b"}, 0},
		{"the last name counts", "event: a\nevent: b\ndata: x\n\n", []string{"b|x"}, 0},
		{"as long as allowed", "data: 1234567890123456\n\n", []string{"|1234567890123456"}, 0},
		{"one byte too long", "data: 12345678901234567\n\ndata: a\n\n", []string{"|a"}, 1},
		{"too long together", "data: 12345678\ndata: 12345678\ndata: 1\n\ndata: a\n\n", []string{"|a"}, 1},
		{"far too long, several lines", "data: " + strings.Repeat("x", 60) + "\ndata: b\n\ndata: a\n\n", []string{"|a"}, 1},
		{"far too long at the end", "data: " + strings.Repeat("x", 60), nil, 1},
		{"a name too long", "event: " + strings.Repeat("x", 40) + "\ndata: b\n\ndata: a\n\n", []string{"|a"}, 1},
		{"a long comment is no event", ": " + strings.Repeat("x", 60) + "\ndata: a\n\n", []string{"|a"}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for cut := range len(tt.stream) + 1 {
				for second := cut; second <= len(tt.stream); second++ {
					got, skipped := readEvents(16, tt.stream, cut, second)
					if d := cmp.Diff(tt.want, got); d != "" || skipped != tt.skipped {
						t.Fatalf("cut at %d and %d: %d skipped (-want +got):\n%s", cut, second, skipped, d)
					}
				}
			}
		})
	}
}

// slowEvents is the standard's reading of a whole stream, line by line.
func slowEvents(maxEvent int, stream string) (out []string, skipped int64) {
	stream = strings.TrimPrefix(stream, "\xef\xbb\xbf")
	stream = strings.ReplaceAll(strings.ReplaceAll(stream, "\r\n", "\n"), "\r", "\n")
	name, long := "", false
	var data []string
	for _, line := range append(strings.Split(stream, "\n"), "") {
		if line == "" {
			joined := strings.Join(data, "\n")
			if long = long || len(joined) > maxEvent; long {
				skipped++
			} else if data != nil {
				out = append(out, name+"|"+joined)
			}
			name, data, long = "", nil, false
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			name = value
			long = long || len(value) > maxEvent
		case "data":
			data = append(data, value)
		}
	}
	return out, skipped
}

// FuzzSSE compares any chunking with the whole read in the slow way.
func FuzzSSE(f *testing.F) {
	for _, s := range []string{
		"data: {\"a\":1}\n\ndata: [DONE]\n\n", "event: x\r\ndata:a\r\ndata:b\r\n\r\n", "\xef\xbb\xbf: c\rdata: 1\r\rdata", "\xefdata: 1\n\n",
		"data: 0123456789012345678901234567890123456789\n\n", "\r\n\r\r\n\ndata\n\n",
	} {
		f.Add([]byte(s), byte(20), []byte{1, 2, 3})
	}
	f.Fuzz(func(t *testing.T, stream []byte, bound byte, steps []byte) {
		maxEvent := int(bound) + 1
		want, wantSkipped := slowEvents(maxEvent, string(stream))
		var cuts []int
		at := 0
		for i := 0; at < len(stream) && len(steps) > 0 && i < 10_000; i++ {
			at = min(at+int(steps[i%len(steps)]), len(stream))
			cuts = append(cuts, at)
		}
		got, skipped := readEvents(maxEvent, string(stream), cuts...)
		if d := cmp.Diff(want, got); d != "" || skipped != wantSkipped {
			t.Fatalf("cut at %v: %d skipped, want %d (-want +got):\n%s", cuts, skipped, wantSkipped, d)
		}
	})
}

const tokenEvent = `data: {"id":"chatcmpl-0f3c2b9d5e1a4f6b8c7d","object":"chat.completion.chunk","created":1760000000,"model":"llama-3.1-8b","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}` + "\n\n"

func BenchmarkUsageReader(b *testing.B) {
	for _, size := range []int{len(tokenEvent), 64, 4096} {
		b.Run(fmt.Sprintf("stream/chunks of %d", size), func(b *testing.B) {
			u := NewUsageReader(ChatCompletions, "text/event-stream", "")
			chunks := chunked(bytes.Repeat([]byte(tokenEvent), size), size)
			b.ReportAllocs()
			b.SetBytes(int64(size))
			i := 0
			for b.Loop() {
				u.Feed(chunks[i])
				if i++; i == len(chunks) {
					i = 0
				}
			}
		})
	}
	b.Run("unary/100000", func(b *testing.B) {
		body := []byte(`{"choices":[{"message":{"content":"` + strings.Repeat("word ", 20_000) + `"}}],"usage":{"prompt_tokens":5}}`)
		b.ReportAllocs()
		b.SetBytes(int64(len(body)))
		for b.Loop() {
			u := NewUsageReader(ChatCompletions, "application/json", "")
			u.Feed(body)
			if u.Usage().Prompt != 5 {
				b.Fatal("usage was not found")
			}
		}
	})
}

func TestUsageReaderAllocatesNothingPerChunk(t *testing.T) {
	withUsage := strings.Replace(tokenEvent, `"choices"`, `"usage":{"prompt_tokens":9,"completion_tokens":2},"choices"`, 1)
	for _, event := range []string{tokenEvent, withUsage} {
		for _, size := range []int{len(event), 7, 64, 1000} {
			u := NewUsageReader(ChatCompletions, "text/event-stream", "")
			chunks := chunked([]byte(strings.Repeat(event, size)), size)
			for _, c := range chunks {
				u.Feed(c)
			}
			i := 0
			if got := testing.AllocsPerRun(len(chunks), func() {
				u.Feed(chunks[i])
				i = (i + 1) % len(chunks)
			}); got != 0 {
				t.Errorf("chunks of %d bytes: %v allocations per chunk", size, got)
			}
			if want := int64(2 * size); u.Events() < want {
				t.Errorf("%d events, want at least %d", u.Events(), want)
			}
		}
	}
}
