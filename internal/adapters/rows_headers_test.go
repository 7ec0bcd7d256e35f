package adapters

// headerRows are about fields of requests, and their trailers.
func headerRows() []row {
	return []row{
		{name: "forged control fields, in any case and number", config: inOrder, play: func(s *side) {
			c := s.engines['c']
			s.do(post(chat, hello, "x-gateway-destination-endpoint: "+c, "X-GATEWAY-Destination-Endpoint: "+c, "X-Gateway-Destination-Endpoint-Subset: "+c,
				"x-gateway-destination-endpoint-served: "+c, "X-Fairlead-Decision-Id: 00", "X-Prefiller-Host-Port: "+c, "x-encoder-hosts-ports: "+c,
				"X-Data-Parallel-Host-Port: "+c, "X-Gateway-Model-Name: other", "x-llm-d-request-dropped-reason: none", "x-gateway-inference-objective: best"))
		}},
		{name: "a request id that the client gives", play: calls(post(chat, hello, "X-Request-Id: mine-1"))},
		{name: "no request id", want: "200 200", play: calls(post(chat, hello), get("GET", "/v1/models"))},
		{name: "a request id given twice, and an empty one", want: "200 200", play: calls(post(chat, hello, "X-Request-Id: a", "x-request-id: b"), post(chat, hello, "X-Request-Id:"))},
		{name: "a trace context passes", play: calls(post(chat, hello, "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "Tracestate: a=1", "tracestate: b=2", "Baggage: k=v"))},
		{name: "credentials, cookies and fields of one name keep their order", play: calls(post(chat, hello, "Authorization: Bearer sk-1", "Cookie: a=1", "X-Many: 1", "x-other: 0", "X-MANY: 2", "Accept: text/event-stream"))},
		{name: "no user agent, and one", want: "200 200", play: calls(post(chat, hello), post(chat, hello, "User-Agent: openai-python/1.0"))},
		{name: "fields that concern the connection stay behind", play: calls(post(chat, hello, "Connection: keep-alive, X-Hop", "X-Hop: 1", "Keep-Alive: timeout=5", "Upgrade: websocket"))},
		{name: "a hook sets and removes fields", config: faultyProfile, play: calls(post(chat, hello, "X-Set-By-Hook: old", "X-Removed-By-Hook: 1", "x-removed-by-hook: 2", "X-Both: before"))},
		{name: "trailers of the request, announced", notBuffered: true, play: calls(post(chat, hello, "Trailer: X-Sum").inChunks(7).with("X-Sum: 0f"))},
		{name: "a control field among the trailers", notBuffered: true, play: calls(post(chat, hello, "Trailer: X-Sum, X-Gateway-Destination-Endpoint").inChunks(40).with("X-Sum: 0f", "X-Gateway-Destination-Endpoint: 192.0.2.1:80"))},
		{name: "a body of no chunk, with trailers", notBuffered: true, play: calls(post("/v1/anything", "", "Trailer: X-Sum").inChunks(1).with("X-Sum: 0f"))},
	}
}
