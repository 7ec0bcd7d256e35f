package openai

import (
	"strconv"
	"time"
)

// headerDropped tells llm-d's tools why a request was not served.
const headerDropped = "x-llm-d-request-dropped-reason"

// ErrorReply returns a refusal in the shape that clients of api decode.
//
// On Anthropic's Messages it is {"type":"error","error":{"type","message","code"}}, elsewhere OpenAI's
// {"error":{"message","type","param":null,"code"}}. The type follows from status, as in the official clients; code is
// stable and ours, also where Anthropic has no such member. RetryAfter is sent in whole seconds, rounded up; 0 or less
// sends none. Dropped is the value of x-llm-d-request-dropped-reason; empty sends none.
func ErrorReply(api API, status int, code, message string, retryAfter time.Duration, dropped string) *Reply {
	b := make([]byte, 0, 96+len(message)+len(code))
	if api == Messages {
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
