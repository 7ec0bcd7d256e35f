package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"unicode/utf8"

	"github.com/fairlead/fairlead/simulator/engine"
)

// shape is one of the APIs that generate.
type shape uint8

const (
	completions shape = iota
	chat
	responses
	messages
)

// generation is a request for tokens, understood.
type generation struct {
	shape        shape
	stream       bool
	includeUsage bool
	stopped      string // the stop string that ended it; empty for none
	tool         string // the function that it must call; empty for none
	textEnd      int64  // bytes of its text: what stands behind a stop string is not told
	model        string // as answers call it
	id           string // as answers call the request
	finish       string // finish_reason
	maxTokens    int32  // what the client asked for, or what is left of the context
	answer       answer
	request      engine.Request
}

// parse understands a body of an API that generates. Members are told by their exact names, and of
// duplicates the last one counts, as the engine's JSON reader has it. Unknown ones are ignored, and so is what does not
// change how much is computed: temperature and its kin, tools beyond their text.
func (h *host) parse(body []byte, shape shape, models *modelTable, maxModelLen int32) (*generation, *apiError) {
	if !utf8.Valid(body) {
		return nil, badRequest("", "There was an error parsing the body: it is not valid UTF-8.")
	}
	if !json.Valid(body) {
		var any json.RawMessage
		return nil, badRequest("", fmt.Sprintf("There was an error parsing the body: %v.", json.Unmarshal(body, &any)))
	}
	given := members(body)
	if given == nil {
		return nil, badRequest("", "There was an error parsing the body: it must be a JSON object.")
	}
	var wish struct {
		model, salt           string
		stream                bool
		maxTokens, completion *int64
		response              *int64
		minTokens, seed, n    *int64
		ignoreEOS             *bool
	}
	for _, m := range [...]struct {
		name string
		into any
	}{
		{"model", &wish.model},
		{"cache_salt", &wish.salt},
		{"stream", &wish.stream},
		{"max_tokens", &wish.maxTokens},
		{"max_completion_tokens", &wish.completion},
		{"max_output_tokens", &wish.response},
		{"min_tokens", &wish.minTokens},
		{"seed", &wish.seed},
		{"n", &wish.n},
		{"ignore_eos", &wish.ignoreEOS},
	} {
		raw := given[m.name]
		if raw == nil || string(raw) == "null" {
			continue
		}
		if json.Unmarshal(raw, m.into) != nil {
			return nil, badRequest(m.name, fmt.Sprintf("%s has a wrong type: %.40s", m.name, raw))
		}
	}
	g := &generation{shape: shape, stream: wish.stream, model: wish.model}
	adapter, ok := models.find(wish.model)
	if !ok {
		return nil, &apiError{http.StatusNotFound, "NotFoundError", "model", fmt.Sprintf("The model `%s` does not exist.", wish.model)}
	}
	if g.model == "" {
		g.model = models.base
	}
	g.request.Adapter = adapter
	if raw := given["stream_options"]; raw != nil && string(raw) != "null" {
		options := members(raw)
		if options == nil {
			return nil, badRequest("stream_options", fmt.Sprintf("stream_options has a wrong type: %.40s", raw))
		}
		if !wish.stream {
			return nil, badRequest("stream_options", "Stream options can only be defined when `stream=True`.")
		}
		if raw := options["include_usage"]; raw != nil && string(raw) != "null" && json.Unmarshal(raw, &g.includeUsage) != nil {
			return nil, badRequest("stream_options", "include_usage must be a boolean.")
		}
	}
	if wish.n != nil && *wish.n != 1 {
		return nil, badRequest("n", fmt.Sprintf("n is %d; this simulated engine gives one choice per request.", *wish.n))
	}

	tokens, refused := promptTokens(given, shape, len(body))
	if refused != nil {
		return nil, refused
	}
	if len(tokens) >= int(maxModelLen) {
		return nil, badRequest("input_tokens", fmt.Sprintf("This model's maximum context length is %d tokens. However, your request has %d input tokens. Please reduce the length of the input messages.", maxModelLen, len(tokens)))
	}
	g.request.Prompt = int32(len(tokens))

	chain := engine.NewChain(models.root, models.adapter(adapter), wish.salt, h.fleet.options.Profile.BlockTokens)
	hashes := make([]uint64, 0, len(tokens)/int(h.fleet.options.Profile.BlockTokens)+32)
	hashes = chain.Append(hashes, tokens)
	var seed uint64
	if wish.seed != nil {
		seed = uint64(*wish.seed)
	}
	g.answer = newAnswer(h.fleet.options.Seed, seed, chain.Digest())

	limit, param := wish.maxTokens, "max_tokens"
	switch {
	case shape == responses:
		limit, param = wish.response, "max_output_tokens"
	case shape == chat && wish.completion != nil:
		limit, param = wish.completion, "max_completion_tokens"
	case shape == messages && limit == nil:
		return nil, badRequest("max_tokens", "max_tokens is required.")
	}
	if g.tool, refused = forcedTool(given, shape); refused != nil {
		return nil, refused
	}
	if refused := g.setOutput(limit, param, wish.minTokens, wish.ignoreEOS, maxModelLen, h.fleet.options); refused != nil {
		return nil, refused
	}
	if refused := g.stopAt(given); refused != nil {
		return nil, refused
	}
	if g.tool != "" {
		g.finish = "tool_calls"
	}
	// The answer's blocks are cached as they fill, so that the next turn finds them.
	var some [256]uint32
	for at := int32(0); at < g.request.Output; at += int32(len(some)) {
		hashes = chain.Append(hashes, g.answer.appendTokens(some[:0], at, min(at+int32(len(some)), g.request.Output)))
	}
	g.request.Hashes = hashes
	return g, nil
}

// setOutput decides how long the answer is: as long as the client allows, since a benchmark asks for so many tokens to get
// so many (ignore_eos), but with an explicit "ignore_eos": false, or without a limit, as long as the answer is by itself.
func (g *generation) setOutput(limit *int64, param string, least *int64, ignoreEOS *bool, maxModelLen int32, o Options) *apiError {
	room := maxModelLen - g.request.Prompt
	g.maxTokens = room
	if limit != nil {
		switch {
		case *limit < 1:
			return badRequest(param, fmt.Sprintf("%s must be at least 1, got %d.", param, *limit))
		case *limit > int64(room):
			return badRequest(param, fmt.Sprintf("'%s' is too large: %d. This model's maximum context length is %d tokens and your request has %d input tokens.", param, *limit, maxModelLen, g.request.Prompt))
		}
		g.maxTokens = int32(*limit)
	}
	g.request.Output, g.finish = g.maxTokens, "length"
	if limit != nil && (ignoreEOS == nil || *ignoreEOS) || limit == nil && ignoreEOS != nil && *ignoreEOS {
		return nil
	}
	natural := g.answer.length(o.OutputMin, o.OutputMax)
	if least != nil {
		natural = int32(max(int64(natural), min(*least, int64(room))))
	}
	if natural < g.maxTokens {
		g.request.Output, g.finish = natural, "stop"
	}
	return nil
}

// promptTokens renders what the model reads. bodyBytes guides the first allocation.
func promptTokens(given map[string]json.RawMessage, shape shape, bodyBytes int) ([]uint32, *apiError) {
	tokens := make([]uint32, 0, bodyBytes/bytesPerToken+16)
	tokens = append(tokens, tokenBegin)
	var first []byte // of the system, outside the list of messages
	var list []json.RawMessage
	switch shape {
	case completions:
		raw := given["prompt"]
		if raw == nil {
			return nil, badRequest("prompt", "prompt is required.")
		}
		return appendPrompt(tokens, raw)
	case responses:
		first = given["instructions"]
		raw := given["input"]
		if whole, ok := text(raw); ok && len(whole) > 0 {
			list = []json.RawMessage{append(append([]byte(`{"role":"user","content":`), raw...), '}')}
		} else if list, _ = elements(raw); len(list) == 0 {
			return nil, badRequest("input", "input is required, a string or a list of at least one item.")
		}
	case messages:
		first = given["system"]
		fallthrough
	default:
		list, _ = elements(given["messages"])
	}
	if len(list) == 0 {
		return nil, badRequest("messages", "messages is required, a list of at least one message.")
	}
	if tools := given["tools"]; tools != nil && string(tools) != "null" {
		tokens = appendRole(tokens, []byte("tools"))
		tokens = appendText(tokens, tools)
		tokens = append(tokens, tokenTurn)
	}
	if len(first) > 0 && string(first) != "null" {
		tokens = appendRole(tokens, []byte("system"))
		var refused *apiError
		if tokens, refused = appendContent(tokens, first); refused != nil {
			return nil, refused
		}
		tokens = append(tokens, tokenTurn)
	}
	for _, raw := range list {
		var refused *apiError
		if tokens, refused = appendMessage(tokens, raw); refused != nil {
			return nil, refused
		}
	}
	return appendRole(tokens, []byte("assistant")), nil
}
