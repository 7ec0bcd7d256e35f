package openai

import (
	"strconv"
	"time"
)

// headerDropped tells llm-d's tools why a request was not served.
const headerDropped = "x-llm-d-request-dropped-reason"

// ErrorReply returns a refusal in the shape that clients of api decode.
//
// On Anthropic's paths it is {"type":"error","error":{"type","message","code"}}, elsewhere OpenAI's
// {"error":{"message","type","param":null,"code"}}, and for gRPC an answer of status 200 that has no body but grpc-status
// and grpc-message. The type follows from status, as in the official clients; code is
// stable and ours, also where Anthropic has no such member. RetryAfter is sent in whole seconds, rounded up; 0 or less
// sends none. Dropped is the value of x-llm-d-request-dropped-reason; empty sends none.
func ErrorReply(api API, status int, code, message string, retryAfter time.Duration, dropped string) *Reply {
	if kinds[api.kind()].errors == grpcDialect {
		return grpcError(status, code, message, retryAfter, dropped)
	}
	b := make([]byte, 0, 96+len(message)+len(code))
	if kinds[api.kind()].errors == anthropicDialect {
		b = append(b, `{"type":"error","error":{"type":"`...)
		b = append(b, anthropicType(status)...)
		b = append(b, `","message":`...)
		b = appendQuoted(b, message)
		b = append(b, `,"code":`...)
		b = appendQuoted(b, code)
	} else {
		b = append(b, `{"error":{"message":`...)
		b = appendQuoted(b, message)
		b = append(b, `,"type":"`...)
		b = append(b, openaiType(status)...)
		b = append(b, `","param":null,"code":`...)
		b = appendQuoted(b, code)
	}
	b = append(b, "}}"...)
	r := &Reply{Status: status, Headers: jsonHeaders(), Body: b, Details: code}
	return r.saying(retryAfter, dropped)
}

// saying adds when to come again, and why a request was not served.
func (r *Reply) saying(retryAfter time.Duration, dropped string) *Reply {
	if retryAfter > 0 {
		// Not retryAfter+time.Second-1, which overflows for the longest durations.
		seconds := int64(retryAfter / time.Second)
		if retryAfter%time.Second > 0 {
			seconds++
		}
		r.Headers = append(r.Headers, Header{"retry-after", strconv.FormatInt(seconds, 10)})
	}
	if dropped != "" {
		r.Headers = append(r.Headers, Header{headerDropped, dropped})
	}
	return r
}

// grpcError returns a refusal that a gRPC client decodes: all in the headers, as a server does that has nothing to send
// (PROTOCOL-HTTP2.md, Trailers-Only).
func grpcError(status int, code, message string, retryAfter time.Duration, dropped string) *Reply {
	r := &Reply{Status: 200, Details: code, Headers: Headers{
		{"content-type", "application/grpc"}, {"grpc-status", strconv.Itoa(grpcStatus(status))},
		{"grpc-message", grpcText(code + ": " + message)},
	}}
	return r.saying(retryAfter, dropped)
}

// grpcStatus returns the gRPC status for one of HTTP, by what it means to a client (google.rpc.Code).
func grpcStatus(status int) int {
	switch {
	case status == 401:
		return 16 // UNAUTHENTICATED
	case status == 403:
		return 7 // PERMISSION_DENIED
	case status == 404:
		return 5 // NOT_FOUND
	case status == 405:
		return 12 // UNIMPLEMENTED
	case status == 413 || status == 429:
		return 8 // RESOURCE_EXHAUSTED
	case status == 502 || status == 503:
		return 14 // UNAVAILABLE
	case status == 504:
		return 4 // DEADLINE_EXCEEDED
	case status >= 500:
		return 13 // INTERNAL
	}
	return 3 // INVALID_ARGUMENT
}

// grpcText writes a text as grpc-message wants it: what is not printable ASCII, and the percent sign, in percent escapes.
func grpcText(text string) string {
	const hex = "0123456789ABCDEF"
	b := make([]byte, 0, len(text))
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '%' {
			b = append(b, '%', hex[c>>4], hex[c&15])
		} else {
			b = append(b, c)
		}
	}
	return string(b)
}

func jsonHeaders() Headers { return Headers{{"content-type", "application/json"}} }

// openaiType returns error.type for a status, in the words of the OpenAI API; its clients choose their exception by the
// status alone.
func openaiType(status int) string {
	switch {
	case status == 401:
		return "authentication_error"
	case status == 403:
		return "permission_error"
	case status == 404:
		return "not_found_error"
	case status == 409:
		return "conflict_error"
	case status == 429:
		return "rate_limit_error"
	case status >= 500:
		return "server_error"
	}
	return "invalid_request_error"
}

// anthropicType returns error.type for a status, as the Anthropic API lists them.
func anthropicType(status int) string {
	switch {
	case status == 401:
		return "authentication_error"
	case status == 403:
		return "permission_error"
	case status == 404:
		return "not_found_error"
	case status == 413:
		return "request_too_large"
	case status == 429:
		return "rate_limit_error"
	case status == 503 || status == 529:
		return "overloaded_error"
	case status == 504:
		return "timeout_error"
	case status >= 500:
		return "api_error"
	}
	return "invalid_request_error"
}

// ModelsReply returns the answer to GET /v1/models: a list of names in the order given, each created at createdUnix
// (seconds since 1970). Without names the list is empty.
func ModelsReply(names []string, createdUnix int64) *Reply {
	b := append(make([]byte, 0, 32+96*len(names)), `{"object":"list","data":[`...)
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"id":`...)
		b = appendQuoted(b, name)
		b = append(b, `,"object":"model","created":`...)
		b = strconv.AppendInt(b, createdUnix, 10)
		b = append(b, `,"owned_by":"fairlead"}`...)
	}
	b = append(b, "]}"...)
	return &Reply{Status: 200, Headers: jsonHeaders(), Body: b}
}
