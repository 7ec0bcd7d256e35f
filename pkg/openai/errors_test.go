package openai

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestErrorReply(t *testing.T) {
	tests := []struct {
		name    string
		got     *Reply
		body    string
		headers Headers
	}{
		{"a client's mistake", ErrorReply(ChatCompletions, 400, "malformed_json", "say \"what\"\n", 0, ""),
			`{"error":{"message":"say \"what\"\n","type":"invalid_request_error","param":null,"code":"malformed_json"}}`, nil},
		{"a bad key", ErrorReply(Other, 401, "c", "m", 0, ""), `{"error":{"message":"m","type":"authentication_error","param":null,"code":"c"}}`, nil},
		{"not allowed", ErrorReply(Other, 403, "c", "m", 0, ""), `{"error":{"message":"m","type":"permission_error","param":null,"code":"c"}}`, nil},
		{"no such model", ErrorReply(Completions, 404, "c", "m", 0, ""), `{"error":{"message":"m","type":"not_found_error","param":null,"code":"c"}}`, nil},
		{"too large", ErrorReply(Completions, 413, "c", "m", 0, ""), `{"error":{"message":"m","type":"invalid_request_error","param":null,"code":"c"}}`, nil},
		{"saturated, retry in whole seconds rounded up", ErrorReply(Completions, 429, "c", "m", 1200*time.Millisecond, "rejected-saturated"),
			`{"error":{"message":"m","type":"rate_limit_error","param":null,"code":"c"}}`,
			Headers{{"retry-after", "2"}, {"x-llm-d-request-dropped-reason", "rejected-saturated"}}},
		{"a whole second stays", ErrorReply(Completions, 503, "c", "m", time.Second, ""), `{"error":{"message":"m","type":"server_error","param":null,"code":"c"}}`, Headers{{"retry-after", "1"}}},
		{"a nanosecond is a second", ErrorReply(Completions, 503, "c", "m", 1, ""), `{"error":{"message":"m","type":"server_error","param":null,"code":"c"}}`, Headers{{"retry-after", "1"}}},
		{"the longest time", ErrorReply(Completions, 503, "c", "m", math.MaxInt64, ""), `{"error":{"message":"m","type":"server_error","param":null,"code":"c"}}`, Headers{{"retry-after", "9223372037"}}},
		{"anthropic's shape", ErrorReply(Messages, 400, "c", "m", 0, ""), `{"type":"error","error":{"type":"invalid_request_error","message":"m","code":"c"}}`, nil},
		{"anthropic: too large", ErrorReply(Messages, 413, "c", "m", 0, ""), `{"type":"error","error":{"type":"request_too_large","message":"m","code":"c"}}`, nil},
		{"anthropic: saturated", ErrorReply(Messages, 429, "c", "m", 0, ""), `{"type":"error","error":{"type":"rate_limit_error","message":"m","code":"c"}}`, nil},
		{"anthropic: ours", ErrorReply(Messages, 500, "c", "m", 0, ""), `{"type":"error","error":{"type":"api_error","message":"m","code":"c"}}`, nil},
		{"anthropic: no room", ErrorReply(Messages, 503, "c", "m", 0, ""), `{"type":"error","error":{"type":"overloaded_error","message":"m","code":"c"}}`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if string(tt.got.Body) != tt.body {
				t.Errorf("body\n%s, want\n%s", tt.got.Body, tt.body)
			}
			if d := cmp.Diff(append(Headers{{"content-type", "application/json"}}, tt.headers...), tt.got.Headers); d != "" {
				t.Errorf("headers (-want +got):\n%s", d)
			}
		})
	}
}

func TestModelsReply(t *testing.T) {
	r := ModelsReply([]string{"b", "a\"x"}, 1760000000)
	const want = `{"object":"list","data":[{"id":"b","object":"model","created":1760000000,"owned_by":"fairlead"},` +
		`{"id":"a\"x","object":"model","created":1760000000,"owned_by":"fairlead"}]}`
	if r.Status != 200 || string(r.Body) != want {
		t.Errorf("%d %s", r.Status, r.Body)
	}
	if got := string(ModelsReply(nil, 0).Body); got != `{"object":"list","data":[]}` {
		t.Errorf("without models: %s", got)
	}
}

func TestQuotedTextReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.SliceOf(rapid.OneOf(rapid.Byte(), rapid.ByteRange(0, 40))).Draw(t, "bytes")) + rapid.String().Draw(t, "text")
		var got string
		if err := json.Unmarshal(QuoteModel(text), &got); err != nil || got != string([]rune(text)) {
			t.Fatalf("%q: %s reads %q, %v", text, QuoteModel(text), got, err)
		}
	})
}
