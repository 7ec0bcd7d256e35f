// Package openai knows the OpenAI-compatible HTTP API, and Anthropic's beside it, as bytes: which path is which API, how a
// request body is scanned without being decoded, how one member of it is edited in place, how a server-sent event stream
// and the token usage in it are read, and how errors and model lists are shaped. It imports nothing of ours.
package openai

import "strings"

// API is the kind of a request, known by its method and path.
type API uint8

// The kinds. Other is every path that is none of the known ones; it is passed through.
const (
	Other           API = iota
	ChatCompletions     // POST …/chat/completions
	Completions         // POST …/completions
	Responses           // POST …/responses
	Messages            // POST …/messages (Anthropic)
	Embeddings          // POST …/embeddings
	Rerank              // POST …/rerank
	Score               // POST …/score
	Classify            // POST …/classify
	Generate            // POST …/inference/v1/generate (vLLM)
	Models              // GET …/models
)

var apiNames = [...]string{"other", "chat.completions", "completions", "responses", "messages", "embeddings", "rerank",
	"score", "classify", "generate", "models"}

// String returns the API's name as records and metric labels print it.
func (a API) String() string {
	if int(a) < len(apiNames) {
		return apiNames[a]
	}
	return apiNames[Other]
}

// Generates reports whether a request of this kind makes an engine prefill a prompt and generate tokens.
func (a API) Generates() bool {
	switch a {
	case ChatCompletions, Completions, Responses, Messages, Generate:
		return true
	}
	return false
}

// suffixes in the order of their length: the longest match wins, and a match ends at a path segment's boundary.
var suffixes = []struct {
	method, suffix string
	api            API
}{
	{"POST", "/inference/v1/generate", Generate},
	{"POST", "/chat/completions", ChatCompletions},
	{"POST", "/completions", Completions},
	{"POST", "/embeddings", Embeddings},
	{"POST", "/responses", Responses},
	{"POST", "/messages", Messages},
	{"POST", "/classify", Classify},
	{"POST", "/rerank", Rerank},
	{"POST", "/score", Score},
	{"GET", "/v1/models", Models},
}

// ClassifyPath returns the kind of a request by method and path. The query is ignored, and so is one trailing slash; a known
// suffix counts only after a segment boundary, so that "/xcompletions" is Other. Sub-paths such as
// "/v1/chat/completions/render" are Other.
func ClassifyPath(method, path string) API {
	if i := strings.IndexByte(path, '?'); i >= 0 {
		path = path[:i]
	}
	path = strings.TrimSuffix(path, "/")
	for _, s := range suffixes {
		if s.method == method && strings.HasSuffix(path, s.suffix) {
			return s.api
		}
	}
	return Other
}
