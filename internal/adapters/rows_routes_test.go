package adapters

import (
	"strings"
	"time"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/pool"
)

// routeRows are about where a request goes, and under which name.
func routeRows() []row {
	return []row{
		{name: "an alias shorter than the model's name", config: oneTable, play: calls(post(chat, `{"model":"llama","messages":[]}`))},
		{name: "an alias longer than the model's name, in a chunked body", config: oneTable, play: calls(post(chat, `{"messages":[],"model":"`+longAlias+`","n":1}`).inChunks(6, 1, 11))},
		{name: "an alias with escapes", config: oneTable, play: calls(post(chat, `{"model":"k\u00e4se \"q\"","messages":[]}`))},
		{name: "an alias as the last of two models", config: oneTable, play: calls(post(chat, `{"model":"llama","messages":[],"model":"`+longAlias+`"}`))},
		{name: "an alias in 100 kB", config: oneTable, big: true, play: calls(post(chat, strings.Replace(prompt(100_000), "m-base", "llama", 1)))},
		{name: "an alias behind 100 kB", config: oneTable, big: true, play: calls(post(chat, `{"messages":[{"role":"user","content":"`+strings.Repeat("x", 100_000)+`"}],"model":"llama"}`).inChunks(40_000))},
		{name: "an alias at a dead primary", want: "200 fallback_served: 1", config: oneTable, endpoints: "xb", play: calls(post(chat, `{"model":"llama","messages":[]}`))},
		{name: "a session's token comes with the answer and leads back", want: "200 200 200", config: sticky, endpoints: "abc", play: calls(post(chat, hello),
			post(chat, hello, "X-Session-Token: ZGVmYXVsdC9i"), post(chat, hello, "X-Session-Token: bm93aGVyZS9i"))},
		{name: "a profile by header, and one that nobody has", want: "200 400 profile_not_found: 1", config: sticky, endpoints: "abc", play: calls(
			post(chat, hello, "EPP-Profile: any"), post(chat, hello, "EPP-Profile: some"))},
		{name: "no model where there is one pool", config: oneTable, play: calls(post(chat, `{"messages":[]}`))},
		{name: "two pools by model and by alias", want: "200 200 200 200", config: twoPools, endpoints: "a|bc", play: calls(
			post(chat, `{"model":"m-base","messages":[]}`), post(chat, `{"model":"chat","messages":[]}`),
			post("/v1/embeddings", `{"model":"BAAI\/bge-m3","input":"x"}`), post("/v1/embeddings", `{"input":"x","model":"embed"}`))},
		{name: "a list of models of ours", want: "200 200", config: twoPools, endpoints: "a|b", play: calls(get("GET", "/v1/models"), get("GET", "/v1/models/?limit=3"))},
		{name: "a list of models of the engine's", play: calls(get("GET", "/v1/models"))},
		{name: "one model of the engine's", config: oneTable, play: calls(get("GET", "/v1/models/llama"))},
		{name: "HEAD of the list of models", answer: status(200, "", "Content-Length", "812", "Content-Type", "application/json"), play: calls(get("HEAD", "/v1/models"))},
		{name: "DELETE, OPTIONS, PUT and PATCH", want: "200 200 200 200 body_unread: 1", play: calls(get("DELETE", "/v1/responses/resp_1"), get("OPTIONS", chat, "Origin: http://ui"),
			call{"PUT", "/v1/files/7", []string{"Content-Type: application/octet-stream"}, []string{string([]byte{0, 1})}, lengthy, nil},
			call{"PATCH", "/v1/batches/7", []string{"Content-Type: application/json"}, []string{`{"model":"m-base"}`}, lengthy, nil})},
		{name: "a path with escapes, doubled slashes and a bare question mark", want: "200 200", play: calls(post("/v1//chat%2Fx/completions?", hello), get("GET", "/%7Euser/a;b=c?q=%C3%A4&&"))},
		{name: "a label that one endpoint has", want: "200 200", config: strings.Replace(labelled, "LETTER", "b", 1), play: calls(post(chat, hello), post(chat, hello))},
		{name: "an endpoint that drains takes nothing", config: inOrder, endpoints: "Abc", play: calls(post(chat, hello))},
		{name: "endpoints of which samples are known, stale and unknown", want: "200 200 stale_sample: 2", world: func(s *side) {
			s.observe('c', pool.Sample{Waiting: 0, Running: 1, KVUsage: 0.9, Blocks: 1000, BlockTokens: 16})
			s.pass(20 * time.Second)
			s.observe('a', pool.Sample{Waiting: 5, Running: 2, KVUsage: 0.25, Blocks: 1000, BlockTokens: 16})
		}, play: calls(post(chat, hello), post(chat, hello))},
		{name: "ties are broken by the number of the request", want: "200 200 200 200", play: calls(post(chat, hello), post("/v1/completions", `{"model":"m-base","prompt":"x"}`), get("GET", "/v1/models"), post(chat, prompt(300)))},
		{name: "a request that is steered, in conformance runs", want: "200 503 no_endpoint: 1", options: func(o *exchange.Options) { o.Conformance = true }, play: func(s *side) {
			s.do(post(chat, hello, "Test-Epp-Endpoint-Selection: "+s.engines['b']+","+s.engines['c']))
			s.do(post(chat, hello, "test-epp-endpoint-selection: 192.0.2.1"))
		}},
		{name: "a client that steers is not heard", config: inOrder, play: func(s *side) {
			s.do(post(chat, hello, "Test-Epp-Endpoint-Selection: "+s.engines['c']))
		}},
		{name: "a decision before the body's end", config: quick, early: true, play: func(s *side) {
			c := post(chat, "")
			c.framing, c.pieces = chunked, []string{`{"model":"m-base","messages":`, `[{"role":"user","content":"hi"}]}`}
			r := s.open(c, 1)
			<-s.arrived
			r.rest(1)
			r.answer()
		}},
		{name: "a decision before the end of a body whose length is known, with an alias", config: quick, early: true, play: func(s *side) {
			c := post(chat, "")
			c.pieces = []string{`{"model":"m","messages":`, `[{"role":"user","content":"` + strings.Repeat("y", 70_000) + `"}]}`}
			r := s.open(c, 1)
			<-s.arrived
			r.rest(1)
			r.answer()
		}},
	}
}
