package adapters

import (
	"io"
	"net/http"
)

// failureRows are about engines and clients that fail.
func failureRows() []row {
	begin := func(v *visit) {
		v.w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(v.w, "data: 1\n\n")
		_ = http.NewResponseController(v.w).Flush()
	}
	midway := func(v *visit) {
		begin(v)
		if v.clientHasSome() {
			v.breakOff()
		}
	}
	untilLeft := func(v *visit) { <-v.r.Context().Done() }
	return []row{
		{name: "a dead primary, and the first fallback serves", want: "200 fallback_served: 1", config: inOrder, endpoints: "xbc", play: calls(post(chat, hello))},
		{name: "two dead, and the last of the list serves", want: "200 200 fallback_served: 2", config: inOrder, endpoints: "xyc", play: calls(post(chat, hello), post(chat, hello))},
		{name: "a dead primary and 200 kB", want: "200 fallback_served: 1", config: inOrder, endpoints: "xbc", big: true, play: calls(post(chat, prompt(200_000)))},
		{name: "a dead primary and an event stream", want: "200 fallback_served: 1", config: inOrder, endpoints: "xb", answer: stream("text/event-stream", events(true)...), play: calls(post(chat, hello))},
		{name: "a dead primary and a request without body", want: "200 fallback_served: 1", config: inOrder, endpoints: "xb", play: calls(get("GET", "/v1/models"))},
		{name: "all of the list are dead", want: "503 upstream_unreachable: 1", config: inOrder, endpoints: "xyz", play: calls(post(chat, hello))},
		{name: "the only endpoint is dead", want: "503 503 upstream_unreachable: 2", config: inOrder, endpoints: "x", play: calls(post(chat, hello), get("GET", "/v1/models"))},
		{name: "an engine that breaks off before it answers", want: "502 upstream_broken: 1", config: inOrder, answer: (*visit).breakOff, play: calls(post(chat, hello))},
		{name: "an engine that breaks off in the midst of its answer", want: "200 upstream_broken: 1", config: inOrder, answer: midway, play: calls(post(chat, hello))},
		{name: "a client that leaves in the midst of its body", want: "200 client_aborted: 1", play: func(s *side) {
			c := post(chat, "", "Gate-Headers: tell")
			c.framing, c.pieces = chunked, []string{hello[:30], hello[30:]}
			r := s.open(c, 1)
			<-s.plugins.held
			r.leave()
			s.settle()
			s.do(post(chat, hello))
		}},
		{name: "a client that leaves in the midst of a body of known length", want: "client_aborted: 1", play: func(s *side) {
			c := post(chat, "", "Gate-Headers: tell")
			c.pieces = []string{hello[:30], hello[30:]}
			r := s.open(c, 1)
			<-s.plugins.held
			r.leave()
		}},
		{name: "a client that leaves in the midst of its body, after the decision", want: "client_aborted: 1", config: quick, early: true, play: func(s *side) {
			c := post(chat, "")
			c.framing, c.pieces = chunked, []string{hello[:30], hello[30:]}
			r := s.open(c, 1)
			<-s.arrived
			r.leave()
		}},
		{name: "a client that leaves while its answer streams", want: "200 client_aborted: 1", config: inOrder, answer: func(v *visit) { begin(v); untilLeft(v) }, play: func(s *side) {
			s.open(post(chat, hello), 1).begunAndLeft()
		}},
		{name: "a client that leaves before its answer begins", want: "client_aborted: 1", config: inOrder, answer: untilLeft, play: func(s *side) {
			r := s.open(post(chat, hello), 1)
			<-s.taken
			r.leave()
		}},
	}
}
