package openai

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestClassifyPath(t *testing.T) {
	tests := []struct {
		name, method, path string
		want               API
	}{
		{"chat", "POST", "/v1/chat/completions", ChatCompletions},
		{"chat behind a prefix", "POST", "/team/a/v1/chat/completions", ChatCompletions},
		{"completions are not chat", "POST", "/v1/completions", Completions},
		{"a query is no part of the path", "POST", "/v1/completions?x=/embeddings", Completions},
		{"one slash at the end", "POST", "/v1/embeddings/", Embeddings},
		{"a segment that only ends alike", "POST", "/v1/xcompletions", Other},
		{"a path below", "POST", "/v1/chat/completions/render", Other},
		{"another method", "GET", "/v1/chat/completions", Other},
		{"anthropic", "POST", "/v1/messages", Messages},
		{"anthropic's count is another kind", "POST", "/v1/messages/count_tokens", CountTokens},
		{"responses", "POST", "/v1/responses", Responses},
		{"rerank without version", "POST", "/rerank", Rerank},
		{"score", "POST", "/v1/score", Score},
		{"classify", "POST", "/classify", Classify},
		{"vLLM's generate", "POST", "/inference/v1/generate", Generate},
		{"SGLang's generate", "POST", "/generate", SGLangGenerate},
		{"models", "GET", "/v1/models", Models},
		{"one model", "GET", "/v1/models/m", Other},
		{"the root", "GET", "/", Other},
		{"nothing", "", "", Other},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := ClassifyPath(tt.method, tt.path); got != tt.want {
				t.Errorf("%s %s is %v, want %v", tt.method, tt.path, got, tt.want)
			}
		})
	}
}

func TestAPINames(t *testing.T) {
	seen := map[string]bool{}
	for a := Other; int(a) < apiCount; a++ {
		if s := a.String(); s == "" || seen[s] {
			t.Errorf("API %d is named %q", a, s)
		}
		seen[a.String()] = true
	}
	if API(200).String() != "other" {
		t.Error("an API beyond the list is not named other")
	}
	for _, a := range []API{Other, Embeddings, Rerank, Score, Classify, Models} {
		if a.Generates() {
			t.Errorf("%v generates", a)
		}
	}
	for _, a := range []API{ChatCompletions, Completions, Responses, Messages, Generate} {
		if !a.Generates() {
			t.Errorf("%v does not generate", a)
		}
	}
}

func TestHeaders(t *testing.T) {
	h := Headers{{"a", "1"}, {"b", ""}, {"a", "2"}}
	if h.Get("a") != "1" || h.Get("c") != "" || !h.Has("b") || h.Has("c") {
		t.Errorf("Get or Has is wrong on %v", h)
	}
	if d := cmp.Diff(Headers{{"a", "3"}, {"b", ""}}, slices.Clone(h).Set("a", "3")); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(Headers{{"a", "1"}, {"b", ""}, {"a", "2"}, {"c", "4"}}, slices.Clone(h).Set("c", "4")); d != "" {
		t.Error(d)
	}
	for given, want := range map[string]string{"": "", "application/json": "application/json", " Text/Event-Stream ;charset=utf-8": "text/event-stream"} {
		if got := MediaType(given); got != want {
			t.Errorf("MediaType(%q) is %q, want %q", given, got, want)
		}
	}
}

func TestPieces(t *testing.T) {
	s := NewSummary()
	for _, c := range []string{"", "abc", "d", "", "efgh"} {
		s.AddChunk([]byte(c))
	}
	const body = "abcdefgh"
	if s.Bytes != int64(len(body)) || len(s.Chunks()) != 3 {
		t.Fatalf("%d bytes in %d chunks", s.Bytes, len(s.Chunks()))
	}
	for from := range len(body) + 1 {
		for to := from; to <= len(body); to++ {
			if got := string(s.AppendSpan(nil, Span{int64(from), int64(to)})); got != body[from:to] {
				t.Errorf("[%d, %d) is %q, want %q", from, to, got, body[from:to])
			}
		}
	}
	if got := string(s.AppendSpan(nil, Span{6, 99})); got != "gh" {
		t.Errorf("beyond the end: %q", got)
	}
	calls := 0
	s.Pieces(Span{0, 8}, func(p []byte) bool { calls++; return len(p) == 0 })
	if calls != 1 {
		t.Errorf("Pieces went on after false: %d calls", calls)
	}
	if got := string(NewSummary().AppendSpan(nil, Span{0, 5})); got != "" {
		t.Errorf("of nothing: %q", got)
	}
}
