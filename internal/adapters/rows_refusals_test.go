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
		{name: "malformed JSON is refused with its offset", play: calls(post(chat, `{"model":"m-base","messages":[,]}`))},
		{name: "malformed JSON on Anthropic's path is refused in its shape", play: calls(post("/v1/messages", `{"model" "m"}`))},
		{name: "malformed JSON in chunks", play: calls(post(chat, `{"model":"m-base","messages":[}`).inChunks(4))},
		{name: "JSON that ends too early", play: calls(post(chat, hello[:40]))},
		{name: "more after the JSON's end", play: calls(post(chat, hello+"x"))},
		{name: "bytes that are no UTF-8", play: calls(post(chat, notUTF8))},
		{name: "a list in place of an object", play: calls(post(chat, `[1,2]`))},
		{name: "a chat completion of no bytes", play: calls(post(chat, ""))},
		{name: "a chunked chat completion of no bytes", play: calls(post(chat, "").inChunks(1))},
		{name: "no model where there are several pools", config: twoPools, endpoints: "a|b", play: calls(
			post(chat, `{"messages":[]}`), get("GET", "/v1/files"), post(chat, "hello").as("text/plain"))},
		{name: "a model that nobody serves", config: twoPools, endpoints: "a|b", play: calls(post(chat, `{"model":"gpt-9","messages":[]}`))},
		{name: "a model with a name longer than a message repeats", config: oneTable, big: true, play: calls(post(chat, `{"model":"`+strings.Repeat("ü", 3000)+`"}`))},
		{name: "a body whose length says that it is too long", options: atMost(50), play: calls(post(chat, hello))},
		{name: "a chunked body that becomes too long", options: atMost(50), play: calls(post(chat, hello).inChunks(30))},
		{name: "a body of exactly the limit", options: atMost(int64(len(hello))), play: calls(post(chat, hello), post(chat, hello).inChunks(9))},
		{name: "nobody is left by a filter", config: strings.Replace(labelled, "LETTER", "q", 1), play: calls(post(chat, hello), get("GET", "/v1/models"))},
		{name: "a pool without endpoints", endpoints: "-", play: calls(post(chat, hello), post("/v1/messages", `{"model":"m-base"}`))},
		{name: "a pool whose endpoints all drain", endpoints: "AB", play: calls(post(chat, hello))},
		{name: "a replica that drains", world: func(s *side) { s.scheduler.Drain() }, play: calls(post(chat, hello), get("GET", "/v1/models"))},
		{name: "a describer that panics", config: faultyProfile, play: calls(post(chat, hello, "Fault: describer"), post(chat, hello))},
		{name: "a filter that panics", config: faultyProfile, play: calls(post(chat, hello, "Fault: filter"), post(chat, hello))},
		{name: "a scorer that panics", config: faultyProfile, play: calls(post(chat, hello, "Fault: scorer"), post(chat, hello))},
		{name: "a picker that panics, and one that picks nobody", config: faultyProfile, play: calls(post(chat, hello, "Fault: picker"), post(chat, hello, "Fault: nobody"))},
		{name: "stages that panic", play: calls(post(chat, hello, "Gate-Headers: panic"), post(chat, hello, "Gate-Resolve: panic"), post(chat, hello, "Gate-Admit: panic"))},
		{name: "a scorer that is no number, and a hook that panics, cost the request nothing", config: faultyProfile, play: calls(post(chat, hello, "Fault: nan"), post(chat, hello, "Fault: hook"))},
		{name: "a queue that is full", play: calls(post(chat, hello, "Gate-Admit: full"), post("/v1/messages", hello, "Gate-Admit: full"))},
		{name: "a stage at the headers that forbids before the body is read", play: calls(post(chat, hello, "Gate-Headers: forbid"), get("HEAD", "/v1/models", "Gate-Headers: forbid"))},
		{name: "a stage that answers by itself", play: calls(post(chat, hello, "Gate-Resolve: answer"))},
		{name: "a stage that resolves to a pool that is not there", play: calls(post(chat, hello, "Gate-Resolve: elsewhere"))},
		{name: "a client that expects to be told to continue is refused without", options: atMost(50), play: func(s *side) {
			r := s.open(post(chat, hello, "Expect: 100-continue"), 0)
			r.answer()
		}},
	}
}
