package adapters

import (
	"fmt"
	"strings"
	"testing"
)

// used checks the usage that was settled, and that the client has exactly this body.
func used(prompt, cached, out int, body string) func(*testing.T, *transcript) {
	return func(t *testing.T, got *transcript) {
		t.Helper()
		last := got.Meter[len(got.Meter)-1]
		if want := fmt.Sprintf("Prompt:%d Cached:%d Out:%d", prompt, cached, out); !strings.Contains(last, want) {
			t.Errorf("%s; want %s", last, want)
		}
		if want := fmt.Sprintf("\n%d bytes of body:\n%s", len(body), body); !strings.HasSuffix(got.Answers[0], want) {
			t.Errorf("the client has %.1000s", got.Answers[0])
		}
	}
}

// reports is a row whose answer reports usage.
func reports(name, path, media string, prompt, cached, out int, pieces ...string) row {
	return row{name: name, config: watched("usage-watcher"), seesBodies: true, answer: stream(media, pieces...),
		play: calls(post(path, `{"model":"m-base","stream":true,"messages":[]}`)), check: used(prompt, cached, out, strings.Join(pieces, ""))}
}

const sse = "text/event-stream"

// unended is a row whose stream has no end of its own.
func unended(r row) row {
	r.want = "200 no_terminator: 1"
	return r
}

func TestS01UsageAndDoneApart(t *testing.T) {
	fault(t, reports("two frames", chat, sse, 7, -1, 3,
		"data: {\"id\":\"1\",\"choices\":[],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3,\"total_tokens\":10}}\n\n", "data: [DONE]\n\n"))
}

func TestS03LineEnds(t *testing.T) {
	const usage = `{"usage":{"prompt_tokens":7,"completion_tokens":3}}`
	fault(t, reports("CRLF, no space", chat, sse, 7, -1, 3, "data:"+usage+"\r\n\r\ndata:[DONE]\r\n\r\n"),
		reports("CR", chat, sse, 7, -1, 3, "data:"+usage+"\r\rdata: [DONE]\r\r"),
		reports("comments between", chat, sse, 7, -1, 3, ": keep-alive\n\n", "data: {}\n\n: keep-alive\n\ndata: "+usage+"\n\n: keep-alive\n\ndata: [DONE]\n\n"),
		reports("two lines of data", chat, sse, 7, -1, 3, "data: {\"usage\":\ndata: {\"prompt_tokens\":7,\"completion_tokens\":3}}\n\ndata: [DONE]\n\n"))
}

func TestS04NoTerminator(t *testing.T) {
	fault(t, unended(reports("the stream ends after its usage", chat, sse, 7, -1, 3, "data: {\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3}}\n\n")))
}

func TestS06StreamOptionsStayAsTheyAre(t *testing.T) {
	var all []call
	for _, options := range []string{`"stream_options":null`, `"stream_options":{}`, `"stream_options":{"include_usage":false}`, `"stream_options":{"include_usage":"yes"}`, `"stream":"true"`} {
		all = append(all, post(chat, `{"model":"m-base","messages":[],`+options+`}`))
	}
	fault(t, untouched("null, partial, badly typed", "", all...))
}

func TestS07ContinuousUsage(t *testing.T) {
	var pieces []string
	for _, usage := range []string{`{"prompt_tokens":5,"completion_tokens":1}`, `{"prompt_tokens":5,"completion_tokens":2}`, `null`, `{"prompt_tokens":5,"completion_tokens":3}`} {
		pieces = append(pieces, `data: {"choices":[],"usage":`+usage+"}\n\n")
	}
	fault(t, reports("the last counts, not the sum", chat, sse, 5, -1, 3, append(pieces, "data: [DONE]\n\n")...))
}

func TestS09AnthropicSplitUsage(t *testing.T) {
	start := func(usage string) string {
		return "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":" + usage + "}}\n\n"
	}
	delta := func(usage string) string {
		return "event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":" + usage + "}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	}
	const first = `{"input_tokens":17,"cache_read_input_tokens":6,"output_tokens":1}`
	fault(t, reports("output in the delta", "/v1/messages", sse, 17, 6, 40, start(first), delta(`{"output_tokens":40}`)),
		reports("both in the delta", "/v1/messages", sse, 17, 6, 40, start(first), delta(`{"input_tokens":17,"output_tokens":40}`)),
		reports("all in the delta", "/v1/messages", sse, 17, 6, 40, start(`{"input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0}`),
			delta(`{"input_tokens":17,"cache_read_input_tokens":6,"output_tokens":40}`)))
}

func TestS10ResponsesTerminalEvents(t *testing.T) {
	for _, last := range []string{"response.completed", "response.incomplete", "response.failed"} {
		fault(t, reports("ends with "+last, "/v1/responses", sse, 9, -1, 2,
			"event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"usage\":null}}\n\n",
			"event: "+last+"\ndata: {\"type\":\""+last+"\",\"response\":{\"usage\":{\"input_tokens\":9,\"output_tokens\":2}}}\n\n"))
	}
}

func TestS12MalformedUsage(t *testing.T) {
	for usage, prompt := range map[string]int{`"none"`: -1, `{"prompt_tokens":"12"}`: 12, `{"prompt_tokens":1e30}`: -1, `{"prompt_tokens":-4}`: -1, `{"prompt_tokens_details":7}`: -1} {
		r := reports("usage is "+usage, chat, "application/json", prompt, -1, -1, `{"usage":`+usage+`}`)
		switch {
		case prompt < 0:
			r.want = "200 usage_missing: 1 usage_rejected: 1"
		}
		fault(t, r)
	}
}

func TestS13CompressedStreams(t *testing.T) {
	const last = "data: {\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":3}}\n\ndata: [DONE]\n\n"
	for name, pieces := range map[string][]string{
		"a member that is flushed for each event": gzippedInPieces("data: {}\n\n", "data: {}\n\n", "data: {}\n\n", last),
		"a member for each event":                 {gzipped("data: {}\n\n"), gzipped(last)},
	} {
		r := reports(name, chat, sse, 7, -1, 3, pieces...)
		body := strings.Join(pieces, "")
		r.answer = func(v *visit) {
			v.w.Header().Set("Content-Encoding", "gzip")
			stream(sse, pieces...)(v)
		}
		counted := used(7, -1, 3, body)
		r.check = func(t *testing.T, got *transcript) {
			t.Helper()
			counted(t, got)
			if !strings.Contains(got.Answers[0], "content-encoding: gzip") {
				t.Errorf("the client has %.300q", got.Answers[0])
			}
		}
		fault(t, r)
	}
}

func TestS15CompressedErrorsStayWhole(t *testing.T) {
	body := gzipped(`{"error":{"message":"too long"}}`)
	fault(t, row{name: "a 400 with its encoding", want: "400", config: renames, answer: status(400, body, "Content-Encoding", "gzip", "Content-Type", "application/json"),
		play: calls(post(chat, `{"model":"m","messages":[]}`)), check: func(t *testing.T, got *transcript) {
			if a := got.Answers[0]; !strings.Contains(a, "content-encoding: gzip") || !strings.HasSuffix(a, body) {
				t.Errorf("the client has %.300q", a)
			}
		}})
}

// answered checks that the client has exactly this body.
func answered(body string) func(*testing.T, *transcript) {
	return func(t *testing.T, got *transcript) {
		t.Helper()
		if !strings.HasSuffix(got.Answers[0], fmt.Sprintf("\n%d bytes of body:\n%s", len(body), body)) {
			t.Errorf("the client has %.600s", got.Answers[0])
		}
	}
}

func TestB17EngineErrorsPass(t *testing.T) {
	const body = `{"object":"error","message":"too long","type":"BadRequestError","code":400}`
	for _, code := range []int{400, 200} {
		fault(t, row{name: fmt.Sprintf("status %d", code), want: fmt.Sprint(code), play: calls(post(chat, hello)), check: answered(body), answer: func(v *visit) {
			v.w.Header().Set("Content-Type", "application/json")
			v.w.WriteHeader(code)
			stream("application/json", body[:20], body[20:50], body[50:])(v)
		}})
	}
}

// The alias of a request is not restored in its answer: no byte of an answer is changed, in any mode.
func TestB19AnswersKeepTheirModel(t *testing.T) {
	const body = `{"id":"1","model": "m-base","choices":[{"message":{"content":"say \"model\":\"m-base\" and \\\"model\\\": \\\"m-base\\\""}}]}`
	fault(t, row{name: "a JSON answer", config: renames, answer: status(200, body, "Content-Type", "application/json"), play: calls(post(chat, `{"model":"m","messages":[]}`)), check: answered(body)},
		row{name: "an event stream", config: renames, answer: stream(sse, "data: "+body[:30], body[30:]+"\n\ndata: [DONE]\n\n"), play: calls(post(chat, `{"model":"m","messages":[]}`)), check: answered("data: " + body + "\n\ndata: [DONE]\n\n")})
}

// A client that leaves is one end of its exchange, with the books at zero: rows of the whole table, under the name of the fault.
func TestS16TheClientLeaves(t *testing.T) {
	wanted := map[string]bool{
		"a client that leaves while its answer streams": true, "a client that leaves before its answer begins": true,
		"a client that leaves in the midst of its body": true,
	}
	for _, r := range rows() {
		if wanted[r.name] {
			delete(wanted, r.name)
			r.check = func(t *testing.T, got *transcript) {
				if got.Booked != 0 || strings.Count(strings.Join(got.Meter, "\n"), "settled") > 1 {
					t.Errorf("%d are booked, counted as %q", got.Booked, got.Meter)
				}
			}
			fault(t, r)
		}
	}
	if len(wanted) > 0 {
		t.Errorf("rows that are gone: %v", wanted)
	}
}

func TestS18ErrorBeforeTheStream(t *testing.T) {
	const body = `{"error":{"message":"maximum context length is 4096 tokens","code":400}}`
	fault(t, row{name: "the engine refuses a stream", want: "400", answer: status(400, body, "Content-Type", "application/json"),
		play: calls(post(chat, `{"model":"m-base","stream":true,"messages":[]}`)), check: answered(body)})
}

func TestS22NoCompletionTokens(t *testing.T) {
	for _, path := range []string{"/v1/embeddings", "/rerank", "/v1/score", "/classify", "/pooling"} {
		fault(t, reports("usage of "+path, path, "application/json", 5, -1, 0, `{"data":[],"usage":{"prompt_tokens":5,"total_tokens":5}}`))
	}
}

func TestS24Pings(t *testing.T) {
	ping := "event: ping\ndata: {\"type\":\"ping\"}\n\n"
	pieces := []string{ping, ping, ping, "event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"input_tokens\":3,\"output_tokens\":4}}\n\n"}
	fault(t, unended(reports("pings are passed on", "/v1/messages", sse, 3, -1, 4, pieces...)))
}
