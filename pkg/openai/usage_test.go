package openai

import (
	"strings"
	"testing"
)

func TestUsage(t *testing.T) {
	const sse, unary = "text/event-stream; charset=utf-8", "application/json"
	start := func(usage string) string {
		return "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"1\",\"usage\":" + usage + "}}\n\n"
	}
	delta := func(usage string) string {
		return "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{},\"usage\":" + usage + "}\n\n"
	}
	const stop = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	tests := []struct {
		name, media, answer string
		want                Usage
		events              int64
		done                bool
		rejected            int64
	}{
		{"a chat stream", sse, `data: {"choices":[{}]}` + "\n\n" + `data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10,"prompt_tokens_details":{"cached_tokens":4}}}` + "\n\ndata: [DONE]\n\n",
			Usage{7, 4, 3}, 2, true, 0},
		{"a stream without usage", sse, "data: {\"usage\":null}\n\ndata: [DONE]\n\n", NoUsage, 1, true, 0},
		{"the end is missing", sse, `data: {"usage":{"prompt_tokens":7,"completion_tokens":3}}`, Usage{7, Unknown, 3}, 1, false, 0},
		{"no space, CRLF, comments between", sse, ": keep-alive\r\n\r\ndata:{\"usage\":\r\ndata:{\"prompt_tokens\":7}}\r\n\r\n", Usage{7, Unknown, Unknown}, 1, false, 0},
		{"lines that end in CR", sse, "data:{\"usage\":{\"prompt_tokens\":7}}\r\rdata: [DONE]\r\r", Usage{7, Unknown, Unknown}, 1, true, 0},
		{"continuous usage is not summed", sse, `data: {"usage":{"prompt_tokens":5,"completion_tokens":1}}` + "\n\n" + `data: {"usage":{"prompt_tokens":5,"completion_tokens":2}}` + "\n\n" +
			`data: {"usage":null}` + "\n\n" + `data: {"usage":{"prompt_tokens":5,"completion_tokens":3}}` + "\n\n", Usage{5, Unknown, 3}, 4, false, 0},
		{"anthropic: the delta brings the output", sse, start(`{"input_tokens":17,"cache_read_input_tokens":6,"output_tokens":1}`) + delta(`{"output_tokens":40}`) + stop, Usage{17, 6, 40}, 3, true, 0},
		{"anthropic: the delta repeats the input", sse, start(`{"input_tokens":17,"cache_read_input_tokens":6,"output_tokens":1}`) + delta(`{"input_tokens":17,"output_tokens":40}`) + stop, Usage{17, 6, 40}, 3, true, 0},
		{"anthropic: zeros first, all in the delta", sse, start(`{"input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0}`) + delta(`{"input_tokens":17,"cache_read_input_tokens":6,"output_tokens":40}`), Usage{17, 6, 40}, 2, false, 0},
		{"anthropic: zeros in the delta", sse, start(`{"input_tokens":17,"cache_read_input_tokens":6,"output_tokens":1}`) + delta(`{"input_tokens":0,"cache_read_input_tokens":0,"output_tokens":40}`), Usage{17, 6, 40}, 2, false, 0},
		{"anthropic: names of events lost on the way", sse, `data: {"type":"message_stop"}` + "\n\n", NoUsage, 1, true, 0},
		{"pings are no events of the answer", sse, "event: ping\ndata: {\"type\":\"ping\"}\n\n", NoUsage, 0, false, 0},
		{"responses: completed", sse, "event: response.completed\n" + `data: {"type":"response.completed","response":{"usage":{"input_tokens":9,"output_tokens":2,"input_tokens_details":{"cached_tokens":1}}}}` + "\n\n", Usage{9, 1, 2}, 1, true, 0},
		{"responses: incomplete", sse, "event: response.incomplete\n" + `data: {"type":"response.incomplete","response":{"usage":{"input_tokens":9,"output_tokens":2}}}` + "\n\n", Usage{9, Unknown, 2}, 1, true, 0},
		{"responses: failed, name lost", sse, `data: {"type":"response.failed","response":{"usage":{"input_tokens":9,"output_tokens":2}}}` + "\n\n", Usage{9, Unknown, 2}, 1, true, 0},
		{"responses: failed without usage", sse, "event: response.failed\n" + `data: {"type":"response.failed","response":{}}` + "\n\n", NoUsage, 1, true, 0},
		{"an event that talks of usage", sse, `data: {"choices":[{"delta":{"content":"\"usage\":{\"prompt_tokens\":1}"}}]}` + "\n\n", NoUsage, 1, false, 0},
		{"an event that is no JSON", sse, "data: usage\n\n", NoUsage, 1, false, 0},

		{"a chat answer", unary, `{"choices":[{"message":{"usage":{"prompt_tokens":99}}}],"usage":{"prompt_tokens":7,"completion_tokens":3,"prompt_tokens_details":null}}`, Usage{7, Unknown, 3}, 0, true, 0},
		{"a responses answer", unary, `{"usage":{"input_tokens":9,"output_tokens":2,"input_tokens_details":{"cached_tokens":1}},"output":[]}`, Usage{9, 1, 2}, 0, true, 0},
		{"an anthropic answer", unary, `{"type":"message","usage":{"input_tokens":9,"output_tokens":2,"cache_read_input_tokens":3}}`, Usage{9, 3, 2}, 0, true, 0},
		{"embeddings", unary, `{"usage":{"prompt_tokens":5,"total_tokens":5}}`, Usage{5, Unknown, 0}, 0, true, 0},
		{"rerank: a total alone", unary, `{"usage":{"total_tokens":5}}`, Usage{5, Unknown, Unknown}, 0, true, 0},
		{"output and total", unary, `{"usage":{"completion_tokens":2,"total_tokens":5}}`, Usage{3, Unknown, 2}, 0, true, 0},
		{"an error", unary, `{"object":"error","message":"too long","code":400}`, NoUsage, 0, true, 0},
		{"usage is no object", unary, `{"usage":"none"}`, NoUsage, 0, true, 1},
		{"a number as a string", unary, `{"usage":{"prompt_tokens":"12"}}`, Usage{12, Unknown, Unknown}, 0, true, 0},
		{"an absurd number", unary, `{"usage":{"prompt_tokens":1e30,"completion_tokens":3}}`, Usage{Unknown, Unknown, 3}, 0, true, 1},
		{"a negative number", unary, `{"usage":{"prompt_tokens":-4}}`, NoUsage, 0, true, 1},
		{"a fraction", unary, `{"usage":{"prompt_tokens":4.5}}`, NoUsage, 0, true, 1},
		{"a list for a number", unary, `{"usage":{"prompt_tokens":[4],"completion_tokens":1}}`, Usage{Unknown, Unknown, 1}, 0, true, 1},
		{"details that are none", unary, `{"usage":{"prompt_tokens":4,"prompt_tokens_details":7}}`, Usage{4, Unknown, Unknown}, 0, true, 1},
		{"cut off within the usage", unary, `{"usage":{"prompt_tokens":4`, NoUsage, 0, false, 0},
		{"cut off behind the usage", unary, `{"usage":{"prompt_tokens":4},"choices":[`, Usage{4, Unknown, Unknown}, 0, false, 0},
		{"more than one value", unary, `{"usage":{"prompt_tokens":4}} x`, Usage{4, Unknown, Unknown}, 0, false, 0},
		{"no JSON", unary, `upstream broke`, NoUsage, 0, false, 0},
		{"a problem in JSON's dress", "application/problem+json", `{"usage":{"prompt_tokens":4}}`, Usage{4, Unknown, Unknown}, 0, true, 0},
		{"another type is not read", "text/plain", `{"usage":{"prompt_tokens":4}}`, NoUsage, 0, false, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for cut := range len(tt.answer) + 1 {
				u := NewUsageReader(ChatCompletions, tt.media, "")
				u.Feed([]byte(tt.answer[:cut]))
				u.Feed([]byte(tt.answer[cut:]))
				u.Close()
				u.Close()
				if u.Usage() != tt.want || u.Events() != tt.events || u.Done() != tt.done || u.Rejected() != tt.rejected {
					t.Fatalf("cut at %d: %+v, %d events, done %v, %d rejected; want %+v, %d, %v, %d", cut,
						u.Usage(), u.Events(), u.Done(), u.Rejected(), tt.want, tt.events, tt.done, tt.rejected)
				}
			}
		})
	}
}

func TestUsageBehindAnEventTooLong(t *testing.T) {
	u := NewUsageReader(ChatCompletions, "text/event-stream", "")
	u.Feed([]byte("data: {\"usage\":{\"prompt_tokens\":1},\"x\":\""))
	for range DefaultMaxEvent >> 16 {
		u.Feed([]byte(strings.Repeat("x", 1<<16)))
	}
	u.Feed([]byte("\"}\n\ndata: {\"usage\":{\"prompt_tokens\":2}}\n\n"))
	if u.Usage().Prompt != 2 || u.Skipped() != 1 || u.Events() != 1 {
		t.Errorf("%+v, %d skipped, %d events", u.Usage(), u.Skipped(), u.Events())
	}
	if room := cap(u.events.line) + cap(u.events.own); room > 3*DefaultMaxEvent {
		t.Errorf("%d bytes are held", room)
	}
}

// FuzzUsage compares any chunking of an answer with the whole, and holds the numbers to their range.
func FuzzUsage(f *testing.F) {
	f.Add(true, []byte("data: {\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":\"3\"}}\n\ndata: [DONE]\n\n"), []byte{1, 9})
	f.Add(true, []byte("event: message_stop\ndata: {\"type\":\"message_stop\",\"response\":{\"usage\":{\"input_tokens\":-1}}}\r\r"), []byte{5})
	f.Add(false, []byte(`{"usage":{"total_tokens":5,"prompt_tokens_details":{"cached_tokens":1e2}},"choices":[]}`), []byte{40, 2})
	f.Fuzz(func(t *testing.T, stream bool, answer, steps []byte) {
		media := "application/json"
		if stream {
			media = "text/event-stream"
		}
		whole, cut := NewUsageReader(ChatCompletions, media, ""), NewUsageReader(ChatCompletions, media, "")
		whole.Feed(answer)
		for i, rest := 0, answer; len(rest) > 0; i++ {
			n := len(rest)
			if len(steps) > 0 {
				n = min(n, int(steps[i%len(steps)])+1)
			}
			cut.Feed(rest[:n])
			rest = rest[n:]
		}
		whole.Close()
		cut.Close()
		if whole.Usage() != cut.Usage() || whole.Events() != cut.Events() || whole.Done() != cut.Done() || whole.Rejected() != cut.Rejected() {
			t.Fatalf("whole %+v, %d, %v, %d; cut %+v, %d, %v, %d", whole.Usage(), whole.Events(), whole.Done(), whole.Rejected(),
				cut.Usage(), cut.Events(), cut.Done(), cut.Rejected())
		}
		u := whole.Usage()
		for _, n := range []int64{u.Prompt, u.Cached, u.Out} {
			if n < Unknown || n > maxReported {
				t.Fatalf("%+v", u)
			}
		}
	})
}
