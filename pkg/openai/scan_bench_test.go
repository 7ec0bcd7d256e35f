package openai

import (
	"fmt"
	"strings"
	"testing"
)

// chat makes a chat request of about size bytes: a system prompt and turns of prose with a line break now and then.
func chat(size int) []byte {
	const prose = `The quick brown fox jumps over the lazy dog, and it does so again whenever nobody looks after the dog.\n`
	var b strings.Builder
	b.WriteString(`{"model":"llama-3.1-8b","stream":true,"stream_options":{"include_usage":true},"max_tokens":256,"messages":[{"role":"system","content":"You are helpful."}`)
	for b.Len() < size-60 {
		n := min(4000, size-b.Len()-50)
		fmt.Fprintf(&b, `,{"role":"user","content":"%s"}`, strings.TrimRight(strings.Repeat(prose, n/len(prose)+1)[:max(n, 1)], `\`))
	}
	b.WriteString(`]}`)
	return []byte(b.String())
}

// chunked cuts body into chunks of the size in which Envoy sends them.
func chunked(body []byte, size int) [][]byte {
	var out [][]byte
	for len(body) > size {
		out, body = append(out, body[:size]), body[size:]
	}
	return append(out, body)
}

func BenchmarkScan(b *testing.B) {
	bench := func(name string, api API, body []byte) {
		b.Run(name, func(b *testing.B) {
			s := NewScanner(api)
			chunks := chunked(body, 16<<10)
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				s.Reset(api)
				for _, c := range chunks {
					if err := s.Feed(c); err != nil {
						b.Fatal(err)
					}
				}
				if _, err := s.Finish(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	for _, size := range []int{200, 8_000, 100_000, 400_000} {
		bench(fmt.Sprintf("chat/%d", size), ChatCompletions, chat(size))
	}
	long := func(s string) []byte {
		return []byte(`{"model":"m","prompt":"` + strings.Repeat(s, 400_000/len(s)) + `"}`)
	}
	bench("ascii", Completions, long("plain words without any escape in them "))
	bench("chinese", Completions, long("今天天气很好，我们去公园散步吧。"))
	bench("german", Completions, long("Über den Wölkchen, schön grün, fährt ein Zug. "))
	bench("code", Completions, long(`func main() {\n\tfmt.Println(\"hello\")\n}\n`))
	bench("ascii-escaped", Completions, long(`\u4eca\u5929\u5929`))
	bench("tokens", Completions, []byte(`{"prompt":[`+strings.Repeat("12345, ", 57_000)+`1]}`))
	bench("tools", ChatCompletions, []byte(`{"tools":[`+strings.Repeat(`{"type":"function","function":{"name":"get","parameters":{"type":"object","properties":{"x":{"type":"number"}}}}},`, 3500)+`{}]}`))
}

func TestScanAllocates(t *testing.T) {
	for _, size := range []int{200, 8_000, 100_000, 400_000} {
		body := chunked(chat(size), 16<<10)
		s := NewScanner(ChatCompletions)
		got := testing.AllocsPerRun(20, func() {
			s.Reset(ChatCompletions)
			for _, c := range body {
				if s.Feed(c) != nil {
					t.Fatal("refused")
				}
			}
			if _, err := s.Finish(); err != nil {
				t.Fatal(err)
			}
		})
		// The Summary, its two lists of chunks, the model's name and the prompt; the lists grow beyond eight chunks.
		limit := 5.0
		for n := 8; n < len(body); n *= 2 {
			limit += 2
		}
		if got > limit {
			t.Errorf("a body of %d bytes in %d chunks: %v allocations, want at most %v", size, len(body), got, limit)
		}
	}
}

func TestFeedAllocatesNothing(t *testing.T) {
	s := NewScanner(ChatCompletions)
	open := []byte(`{"messages":[{"role":"user","content":"`)
	if err := s.Feed(open); err != nil {
		t.Fatal(err)
	}
	chunk := []byte(`text\n"},{"role":"user","content":[{"type":"text","text":"more"}]},{"role":"user","content":"`)
	s.sum.chunks, s.sum.starts = make([][]byte, 0, 5000), make([]int64, 0, 5000)
	s.prompt.arena = make([]segment, 0, 20_000)
	if got := testing.AllocsPerRun(1000, func() {
		if err := s.Feed(chunk); err != nil {
			t.Fatal(err)
		}
	}); got != 0 {
		t.Errorf("%v allocations per chunk", got)
	}
}
