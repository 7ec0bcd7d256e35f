package openai

import (
	"bytes"
	"strings"
)

// suffixes: the first match wins, and a match begins at a path segment's boundary.
var suffixes = []struct {
	suffix string
	api    API
}{
	{"/inference/v1/generate", Generate},
	{"/vllm.grpc.engine.vllmengine/generate", GRPCGenerate},
	{"/vllm.grpc.engine.vllmengine/embed", GRPCEmbed},
	{"predictionservice/chatcompletions", VertexChat},
	{"predictionservice/streamrawpredict", VertexRaw},
	{"predictionservice/rawpredict", VertexRaw},
	{":streamrawpredict", VertexHTTP},
	{":rawpredict", VertexHTTP},
	{"/audio/transcriptions", Transcriptions},
	{"/audio/translations", Translations},
	{"/messages/count_tokens", CountTokens},
	{"/images/generations", Images},
	{"/images/variations", Images},
	{"/chat/completions", ChatCompletions},
	{"/images/edits", Images},
	{"/audio/speech", Speech},
	{"/conversations", Conversations},
	{"/completions", Completions},
	{"/embeddings", Embeddings},
	{"/responses", Responses},
	{"/messages", Messages},
	{"/classify", Classify},
	{"/generate", SGLangGenerate},
	{"/pooling", Pooling},
	{"/rerank", Rerank},
	{"/score", Score},
}

// ClassifyPath returns the kind of a request by method and path.
//
// A path is read as generously as any server behind us might read it, so that no spelling of a path is another kind for us
// than for the one who answers: escapes are decoded once, case does not count, nor do doubled and trailing slashes and the
// query. A known suffix counts only after a segment's boundary: "/xcompletions" is Other. So are sub-paths such as
// "/v1/chat/completions/render", but for those of Anthropic's messages, which are MessagesOther. What two servers may read
// differently all the same is for AmbiguousPath to say.
func ClassifyPath(method, path string) API {
	var room [128]byte
	b := appendPlainPath(room[:0], path)
	api := classify(method, b)
	if i := bytes.IndexByte(b, ';'); i >= 0 && api == Other {
		// Some servers take what follows a semicolon for parameters of the path, some for parameters of its segment.
		if api = classify(method, bytes.TrimSuffix(b[:i], []byte("/"))); api == Other {
			api = classify(method, withoutParameters(b))
		}
	}
	return api
}

func classify(method string, b []byte) API {
	switch {
	case hasSuffix(b, "/v1/models") && method == "GET":
		return Models
	case method == "POST" && !contains(b, "/threads/"): // the messages of a thread are OpenAI's
		for i := range suffixes {
			s := &suffixes[i]
			if !hasSuffix(b, s.suffix) {
				continue
			}
			if s.api == VertexHTTP && contains(b, "/publishers/anthropic/") {
				return Messages // its body, whose model stands in the path
			}
			return s.api
		}
		if contains(b, "/v1/messages/") {
			return MessagesOther
		}
	case hasSuffix(b, "/v1/messages") || contains(b, "/v1/messages/"):
		return MessagesOther
	}
	return Other
}

// withoutParameters takes out of b, in place, what follows a semicolon in a segment.
func withoutParameters(b []byte) []byte {
	out, skip := b[:0], false
	for _, c := range b {
		switch c {
		case '/':
			skip = false
		case ';':
			skip = true
		}
		if !skip {
			out = append(out, c)
		}
	}
	return out
}

func hasSuffix(b []byte, s string) bool {
	return len(b) >= len(s) && string(b[len(b)-len(s):]) == s
}

func contains(b []byte, s string) bool { return bytes.Contains(b, []byte(s)) }

func beforeQuery(path string) string {
	if i := strings.IndexByte(path, '?'); i >= 0 {
		return path[:i]
	}
	return path
}

// appendPlainPath appends path in the reading that ClassifyPath describes. The result is never longer than path.
func appendPlainPath(dst []byte, path string) []byte {
	path = beforeQuery(path)
	for i := 0; i < len(path); i++ {
		c := path[i]
		if c == '%' && i+2 < len(path) && unhex(path[i+1])|unhex(path[i+2]) >= 0 {
			c = byte(unhex(path[i+1])<<4 | unhex(path[i+2]))
			i += 2
		}
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if n := len(dst); c == '/' && n > 0 && dst[n-1] == '/' {
			continue
		}
		dst = append(dst, c)
	}
	if n := len(dst); n > 1 && dst[n-1] == '/' {
		dst = dst[:n-1]
	}
	return dst
}

// AmbiguousPath returns what in a path two servers may read differently, as a clause for an error, or "" for nothing:
// segments of dots, backslashes and control characters, as they are or escaped, a fragment, and escapes that are
// none. Such a path can mean one API to who limits it and another to who serves it. No client of these APIs writes one.
func AmbiguousPath(path string) string {
	path = beforeQuery(path)
	segment := 0 // bytes in it so far, decoded; -1 if they are not all dots
	for i := 0; ; i++ {
		if i >= len(path) {
			if segment == 1 || segment == 2 {
				return "a segment of dots"
			}
			return ""
		}
		c, escaped := path[i], false
		if c == '%' {
			if i+2 >= len(path) || unhex(path[i+1])|unhex(path[i+2]) < 0 {
				return "a percent sign that begins no escape"
			}
			c, escaped = byte(unhex(path[i+1])<<4|unhex(path[i+2])), true
			i += 2
		}
		switch {
		case c < ' ' || c == 0x7F:
			return "a control character"
		case c == '\\':
			return "a backslash"
		case c == '#' && !escaped:
			return "a fragment"
		case c == '/':
			if segment == 1 || segment == 2 {
				return "a segment of dots"
			}
			segment = 0
		case c == '.' && segment >= 0:
			segment++
		default:
			segment = -1
		}
	}
}
