package adapters

import (
	"io"
	"net/http"
	"strings"
)

// answerRows are forms of answers.
func answerRows() []row {
	streaming := `{"model":"m-base","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]}`
	return []row{
		{name: "an event stream", answer: stream("text/event-stream", events(false)...), play: calls(post(chat, streaming))},
		{name: "an event stream with usage", answer: stream("text/event-stream; charset=utf-8", events(true)...), play: calls(post(chat, streaming))},
		{name: "an event stream with usage that a hook wants", config: watched("usage-watcher"), seesBodies: true, answer: stream("text/event-stream", events(true)...), play: calls(post(chat, streaming))},
		{name: "an event stream without usage though a hook wants it", want: "200 usage_missing: 1", config: watched("usage-watcher"), seesBodies: true, answer: stream("text/event-stream", events(false)...), play: calls(post(chat, streaming))},
		{name: "an event stream whose chunks a hook wants", config: watched("chunk-watcher"), seesBodies: true, answer: stream("text/event-stream", events(true)...), play: calls(post(chat, streaming))},
		{name: "a JSON answer whose usage a hook wants", config: watched("usage-watcher"), seesBodies: true, play: calls(post(chat, hello))},
		{name: "a JSON answer of 300 kB whose chunks a hook wants", config: watched("chunk-watcher"), seesBodies: true,
			answer: status(200, `{"x":"`+strings.Repeat("y", 300_000)+`"}`, "Content-Type", "application/json"), play: calls(post(chat, hello))},
		{name: "a 500 of the engine passes", want: "500", answer: status(500, `{"error":{"message":"out of memory"}}`, "Content-Type", "application/json"), play: calls(post(chat, hello))},
		{name: "a 429 of the engine passes with its Retry-After", want: "429", answer: status(429, "slow down", "Retry-After", "7", "Content-Type", "text/plain"), play: calls(post(chat, hello))},
		{name: "a 404 of the engine passes", want: "404", answer: status(404, `{"detail":"Not Found"}`, "Content-Type", "application/json"), play: calls(get("GET", "/v1/files/7"))},
		{name: "an answer without content", want: "204", answer: status(204, ""), play: calls(get("DELETE", "/v1/responses/resp_1"))},
		{name: "an answer of length zero", answer: status(200, "", "Content-Length", "0"), play: calls(post(chat, hello))},
		{name: "an answer not modified", want: "304", answer: status(304, "", "Etag", `"1"`), play: calls(get("GET", "/v1/files/7", `If-None-Match: "1"`))},
		{name: "a chunked answer without bytes", answer: func(v *visit) { _ = http.NewResponseController(v.w).Flush() }, play: calls(post(chat, hello))},
		{name: "an answer that is compressed stays so", answer: status(200, gzipped("{}"), "Content-Encoding", "gzip", "Vary", "Accept-Encoding"), play: calls(post(chat, hello, "Accept-Encoding: gzip, br"))},
		{name: "an answer without content type", answer: func(v *visit) {
			v.w.Header()["Content-Type"] = nil
			_, _ = io.WriteString(v.w, "<html>")
		}, play: calls(post(chat, hello))},
		{name: "several fields of one name, and some that concern the connection", answer: status(200, "{}", "Set-Cookie", "a=1", "Set-Cookie", "b=2", "X-Ratelimit-Left", "3",
			"Connection", "X-Internal", "X-Internal", "1", "Keep-Alive", "timeout=5"), play: calls(post(chat, hello))},
		{name: "an engine's copy of our header is replaced", answer: status(200, "{}", "X-Fairlead-Decision-Id", "forged", "X-Fairlead-Decision-Id", "twice"), play: calls(post(chat, hello))},
		{name: "trailers of the answer, announced and not", answer: func(v *visit) {
			v.w.Header().Set("Trailer", "X-Sum")
			_, _ = io.WriteString(v.w, "data: 1\n\n")
			_ = http.NewResponseController(v.w).Flush()
			v.w.Header().Set("X-Sum", "0f")
			v.w.Header().Set(http.TrailerPrefix+"X-Late", "yes")
		}, play: calls(post(chat, hello))},
		{name: "an engine that answers before it has the whole body", config: quick, early: true, answer: func(v *visit) {
			first := make([]byte, len(hello)-10)
			if _, err := io.ReadFull(v.r.Body, first); err != nil {
				v.side.t.Error(err)
			}
			_ = http.NewResponseController(v.w).EnableFullDuplex()
			_, _ = io.WriteString(v.w, "early ")
			_ = http.NewResponseController(v.w).Flush()
			if v.clientHasSome() {
				rest, err := io.ReadAll(v.r.Body)
				v.note(append(first, rest...), err)
				_, _ = io.WriteString(v.w, "late")
			}
		}, play: func(s *side) {
			c := post(chat, "", "Engine-Reads: itself")
			c.framing, c.pieces = chunked, []string{hello[:len(hello)-10], hello[len(hello)-10:]}
			r := s.open(c, 1)
			go func() {
				<-r.gotByte
				r.rest(1)
			}()
			r.answer()
		}},
	}
}
