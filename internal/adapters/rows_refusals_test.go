package adapters

import (
	"strings"

	"github.com/fairlead/fairlead/pkg/exchange"
)

func atMost(bytes int64) func(*exchange.Options) {
	return func(o *exchange.Options) { o.MaxBodyBytes = bytes }
}

// refusalRows are answers of our own.
func refusalRows() []row {
	notUTF8 := `{"model":"m-base","messages":[{"role":"user","content":"` + string([]byte{0xff, 0xfe}) + `"}]}`
	return []row{
		{name: "malformed JSON is refused with its offset", want: "400 malformed_json: 1", play: calls(post(chat, `{"model":"m-base","messages":[,]}`))},
		{name: "malformed JSON on Anthropic's path is refused in its shape", want: "400 malformed_json: 1", play: calls(post("/v1/messages", `{"model" "m"}`))},
		{name: "malformed JSON in chunks", want: "400 malformed_json: 1", play: calls(post(chat, `{"model":"m-base","messages":[}`).inChunks(4))},
		{name: "JSON that ends too early", want: "400 malformed_json: 1", play: calls(post(chat, hello[:40]))},
		{name: "more after the JSON's end", want: "400 malformed_json: 1", play: calls(post(chat, hello+"x"))},
		{name: "bytes that are no UTF-8", want: "400 malformed_json: 1", play: calls(post(chat, notUTF8))},
		{name: "a list in place of an object", want: "400 malformed_json: 1", play: calls(post(chat, `[1,2]`))},
		{name: "a chat completion of no bytes", want: "400 malformed_json: 1", play: calls(post(chat, ""))},
		{name: "a chunked chat completion of no bytes", want: "400 malformed_json: 1", play: calls(post(chat, "").inChunks(1))},
		{name: "no model where there are several pools", want: "400 400 400 model_required: 3 body_unread: 1", config: twoPools, endpoints: "a|b", play: calls(
			post(chat, `{"messages":[]}`), get("GET", "/v1/files"), post(chat, "hello").as("text/plain"))},
		{name: "a model that nobody serves", want: "404 model_not_found: 1", config: twoPools, endpoints: "a|b", play: calls(post(chat, `{"model":"gpt-9","messages":[]}`))},
		{name: "a model with a name longer than a message repeats", want: "404 model_not_found: 1", config: oneTable, big: true, play: calls(post(chat, `{"model":"`+strings.Repeat("ü", 500)+`"}`))},
		{name: "a body whose length says that it is too long", want: "413 body_too_large: 1", options: atMost(50), play: calls(post(chat, hello))},
		{name: "a chunked body that becomes too long", want: "413 body_too_large: 1", options: atMost(50), play: calls(post(chat, hello).inChunks(30))},
		{name: "a body that becomes too long after the decision", want: "413 body_too_large: 1", config: quick, options: atMost(100), early: true, play: func(s *side) {
			c := post(chat, "")
			c.framing, c.pieces = chunked, []string{`{"model":"m-base","messages":`, `[{"role":"user","content":"` + strings.Repeat("y", 200) + `"}]}`}
			r := s.open(c, 1)
			<-s.arrived
			r.rest(1)
			r.answer()
		}},
		{name: "a body of exactly the limit", want: "200 200", options: atMost(int64(len(hello))), play: calls(post(chat, hello), post(chat, hello).inChunks(9))},
		{name: "a tunnel is not opened", want: "405 unsupported_method: 1", play: calls(get("CONNECT", "models.example:443"))},
		{name: "nobody is left by a filter", want: "503 503 no_endpoint: 2", config: strings.Replace(labelled, "LETTER", "q", 1), play: calls(post(chat, hello), get("GET", "/v1/models"))},
		{name: "a pool without endpoints", want: "503 503 no_endpoint: 2", endpoints: "-", play: calls(post(chat, hello), post("/v1/messages", `{"model":"m-base"}`))},
		{name: "a pool whose endpoints all drain", want: "503 no_endpoint: 1", endpoints: "AB", play: calls(post(chat, hello))},
		{name: "a replica that drains", want: "503 503 shutting_down: 2", world: func(s *side) { s.scheduler.Drain() }, play: calls(post(chat, hello), get("GET", "/v1/models"))},
		{name: "a describer that panics", want: "500 200 plugin_panic: 1", config: faultyProfile, play: calls(post(chat, hello, "Fault: describer"), post(chat, hello))},
		{name: "a filter that panics", want: "500 200 plugin_panic: 1", config: faultyProfile, play: calls(post(chat, hello, "Fault: filter"), post(chat, hello))},
		{name: "a scorer that panics", want: "500 200 plugin_panic: 1", config: faultyProfile, play: calls(post(chat, hello, "Fault: scorer"), post(chat, hello))},
		{name: "a picker that panics, and one that picks nobody", want: "500 500 plugin_panic: 2", config: faultyProfile, play: calls(post(chat, hello, "Fault: picker"), post(chat, hello, "Fault: nobody"))},
		{name: "stages that panic", want: "500 500 500 plugin_panic: 3", play: calls(post(chat, hello, "Gate-Headers: panic"), post(chat, hello, "Gate-Resolve: panic"), post(chat, hello, "Gate-Admit: panic"))},
		{name: "a scorer that is no number, and a hook that panics, cost the request nothing", want: "200 200 score_not_finite: 1 hook_panic: 1", config: faultyProfile, play: calls(post(chat, hello, "Fault: nan"), post(chat, hello, "Fault: hook"))},
		{name: "a queue that is full", want: "429 429 queue_full: 2", play: calls(post(chat, hello, "Gate-Admit: full"), post("/v1/messages", hello, "Gate-Admit: full"))},
		{name: "a stage at the headers that forbids before the body is read", want: "403 403 forbidden_header: 2", play: calls(post(chat, hello, "Gate-Headers: forbid"), get("HEAD", "/v1/models", "Gate-Headers: forbid"))},
		{name: "a stage that answers by itself", play: calls(post(chat, hello, "Gate-Resolve: answer"))},
		{name: "a stage that resolves to a pool that is not there", want: "500 internal: 1", play: calls(post(chat, hello, "Gate-Resolve: elsewhere"))},
		{name: "a client that expects to be told to continue is refused without", want: "413 body_too_large: 1", options: atMost(50), play: func(s *side) {
			r := s.open(post(chat, hello, "Expect: 100-continue"), 0)
			r.answer()
		}},
	}
}
