package openai

import "testing"

// Every path is the kind for us that any server behind us may take it for, or it is refused.
func TestX09EncodedAndDottedPaths(t *testing.T) {
	for _, tt := range []struct {
		path      string
		want      API
		ambiguous string
	}{
		{"/v1/chat/completions", ChatCompletions, ""},
		{"/v1//chat/completions", ChatCompletions, ""},
		{"//v1/chat//completions//", ChatCompletions, ""},
		{"/v1/chat%2Fcompletions", ChatCompletions, ""},
		{"/v1%2fchat%2fcompletions", ChatCompletions, ""},
		{"/v1/%63hat/completions", ChatCompletions, ""},
		{"/V1/Chat/Completions", ChatCompletions, ""},
		{"/v1/chat%252Fcompletions", Other, ""},
		{"/v1/models/../chat/completions", ChatCompletions, "a segment of dots"},
		{"/v1/chat/completions/x/..", Other, "a segment of dots"},
		{"/v1/chat/completions/%2e%2E/models", Other, "a segment of dots"},
		{"/v1/chat/./completions", Completions, "a segment of dots"},
		{"/v1/chat/%2e", Other, "a segment of dots"},
		{"/v1/chat/completions%00", Other, "a control character"},
		{"/v1/chat/completions\n", Other, "a control character"},
		{"/v1/chat/completions%7f", Other, "a control character"},
		{`/v1\chat\completions`, Other, "a backslash"},
		{"/v1%5Cchat%5ccompletions", Other, "a backslash"},
		{"/v1/chat/completions#/v1/models", Other, "a fragment"},
		{"/v1/chat/completions%", Other, "a percent sign that begins no escape"},
		{"/v1/chat/completions%2", Other, "a percent sign that begins no escape"},
		{"/v1/chat/completions%zz", Other, "a percent sign that begins no escape"},
		{"/v1/chat/completions;/v1/models", ChatCompletions, ""},
		{"/v1/chat;a=b/completions;c", ChatCompletions, ""},
		{"/a;b/v1/chat/completions", ChatCompletions, ""},
		{"/v1/chat/completions/;/v1/models", ChatCompletions, ""},
		{"/v1/chat/completions?x=/../%00#", ChatCompletions, ""},
		{"/v1/models/meta-llama%2FLlama-3.1-8B", Other, ""},
		{"/files/...", Other, ""},
		{"/files/a..b/..c/d..", Other, ""},
		{"/", Other, ""},
		{"*", Other, ""},
		{"", Other, ""},
	} {
		if got := ClassifyPath("POST", tt.path); got != tt.want {
			t.Errorf("%q is %v, want %v", tt.path, got, tt.want)
		}
		if got := AmbiguousPath(tt.path); got != tt.ambiguous {
			t.Errorf("%q has %q, want %q", tt.path, got, tt.ambiguous)
		}
	}
}

func TestP13AQueryIsNoPartOfThePath(t *testing.T) {
	for path, want := range map[string]API{
		"/v1/messages?beta=true":              Messages,
		"/v1/messages/count_tokens?beta=true": CountTokens,
		"/v1/messages/?beta=true":             Messages,
		"/v1/anything?/v1/messages":           Other,
	} {
		if got := ClassifyPath("POST", path); got != want {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
}

func TestP14SubPathsHaveAKind(t *testing.T) {
	for path, want := range map[string]API{
		"/v1/chat/completions/render":                              Other,
		"/v1/chat/completions/batch":                               Other,
		"/v1/completions/render":                                   Other,
		"/v1/responses/resp_1/cancel":                              Other,
		"/openai/v1/chat/completions":                              ChatCompletions,
		"/v1/chat/completions/":                                    ChatCompletions,
		"/v1/messages/render":                                      MessagesOther,
		"/team/a/v1/messages/batches":                              MessagesOther,
		"/v1/threads/t1/messages":                                  Other,
		"/v1/xmessages":                                            Other,
		"/v1/projects/p/endpoints/openapi/chat/completions":        ChatCompletions,
		"/v1/p/publishers/anthropic/models/c:streamRawPredict":     Messages,
		"/v1/p/publishers/anthropic/models/c@2025:rawPredict":      Messages,
		"/v1/projects/p/endpoints/1:rawPredict":                    VertexHTTP,
		"/google.cloud.aiplatform.v1.PredictionService/RawPredict": VertexRaw,
	} {
		if got := ClassifyPath("POST", path); got != want {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
	if got := ClassifyPath("GET", "/v1/messages/batches/b1"); got != MessagesOther {
		t.Errorf("a batch of messages is %v", got)
	}
}

func TestPathsAllocateNothing(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() {
		if ClassifyPath("POST", "/team/a/v1/chat%2Fcompletions?x=1") != ChatCompletions || AmbiguousPath("/v1/chat/completions") != "" {
			t.Fatal("another kind")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzPath(f *testing.F) {
	for _, path := range []string{"/v1/chat/completions", "/v1/chat%2Fcompletions;a/../b?c#d", "%", "/%2e%2e/%00\\"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		plain := appendPlainPath(nil, path)
		if len(plain) > len(path) {
			t.Fatalf("%q is read as the longer %q", path, plain)
		}
		if AmbiguousPath(path) == "" && contains(plain, "/../") {
			t.Fatalf("%q is not found ambiguous", path)
		}
		_ = ClassifyPath("POST", path)
	})
}
