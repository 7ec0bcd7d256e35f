package openai

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// reading is all that a Summary says of a body, comparable.
type reading struct {
	Model, ModelRaw   string
	Stream, Usage     bool
	MaxTokens, N      int64
	Salt              string
	Prompt            []string
	PromptBytes       int64
	PromptTokens      int64
	Multimodal, Known bool
}

func digest(sum *Summary) reading {
	return reading{sum.Model, string(sum.AppendSpan(nil, sum.ModelSpan)), sum.Stream, sum.IncludeUsage, sum.MaxTokens, sum.N,
		sum.Salt, segments(sum), sum.PromptBytes, sum.PromptTokens, sum.Multimodal, true}
}

// raw is a JSON value; object and list decode one level of it with encoding/json, for which the last of equal names wins.
type raw = json.RawMessage

func object(v raw) (map[string]raw, bool) {
	var m map[string]raw
	return m, first(v) == '{' && json.Unmarshal(v, &m) == nil
}

func array(v raw) ([]raw, bool) {
	var l []raw
	return l, first(v) == '[' && json.Unmarshal(v, &l) == nil
}

func first(v raw) byte {
	if v = bytes.TrimSpace(v); len(v) == 0 {
		return 0
	}
	return bytes.TrimSpace(v)[0]
}

func text(v raw) string {
	var s string
	_ = json.Unmarshal(v, &s)
	return s
}

func inside(v raw) string { return string(v[1 : len(v)-1]) }

func number(v raw) int64 {
	if c := first(v); c != '-' && (c < '0' || c > '9') || len(v) > 64 {
		return Unknown
	}
	if n, err := strconv.ParseInt(string(v), 10, 64); err == nil && n >= 0 && n < math.MaxInt64-1000 {
		return n
	}
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || f < 0 || f >= math.MaxInt64 || f != math.Trunc(f) {
		return Unknown
	}
	return int64(f)
}

// slow is the obvious reading of a request by encoding/json.
type slow struct {
	reading
	textual bool
	tokens  int64
}

func (r *slow) add(kind, s string, opaque, media bool) {
	if s == "" {
		return
	}
	r.Prompt = append(r.Prompt, kind+" "+s)
	r.Multimodal = r.Multimodal || media
	if !opaque {
		r.PromptBytes += int64(len(s))
	}
}

// reference reads body, which is valid JSON, as the Scanner should.
func reference(api API, body []byte) reading {
	r := slow{reading: reading{MaxTokens: Unknown, N: 1, PromptTokens: Unknown, Known: true}}
	top, ok := object(body)
	if !ok {
		return r.reading
	}
	has := func(name string, apis ...API) (raw, bool) {
		v, ok := top[name]
		for _, a := range apis {
			if a == api {
				return v, ok
			}
		}
		return v, ok && len(apis) == 0
	}
	if first(top["model"]) == '"' {
		r.Model, r.ModelRaw = text(top["model"]), string(top["model"])
	}
	r.Stream = string(top["stream"]) == "true"
	limits := []raw{top["max_tokens"], top["max_completion_tokens"], top["max_output_tokens"]}
	n := top["n"]
	if api == Generate {
		params, _ := object(top["sampling_params"])
		limits = append(limits, params["max_tokens"])
		n = params["n"]
	}
	for _, l := range limits {
		if v := number(l); v >= 0 && (r.MaxTokens == Unknown || v < r.MaxTokens) {
			r.MaxTokens = v
		}
	}
	if api == Other || api == Models {
		return r.reading
	}
	r.N = max(1, number(n))
	if first(top["cache_salt"]) == '"' {
		r.Salt = text(top["cache_salt"])
	}
	options, _ := object(top["stream_options"])
	r.Usage = string(options["include_usage"]) == "true"

	if v, ok := has("system", Messages); ok {
		r.system(v)
	}
	if v, ok := has("instructions", Responses); ok {
		r.system(v)
	}
	templated := []API{ChatCompletions, Responses, Messages, Embeddings, Classify}
	for _, t := range []struct {
		name string
		apis []API
	}{
		{"tools", templated}, {"functions", []API{ChatCompletions}}, {"tool_choice", templated},
		{"function_call", []API{ChatCompletions}}, {"chat_template", templated},
		{"chat_template_kwargs", append(templated, Rerank, Score)}, {"documents", templated},
		{"reasoning", []API{ChatCompletions, Responses}}, {"reasoning_effort", []API{ChatCompletions}},
		{"thinking", []API{ChatCompletions, Messages}}, {"mm_processor_kwargs", append(templated, Rerank, Score)},
	} {
		if v, ok := has(t.name, t.apis...); ok && string(v) != "null" {
			r.add("tools", string(v), false, false)
		}
	}
	for _, l := range []struct {
		name string
		apis []API
	}{
		{"query", []API{Rerank, Score}}, {"queries", []API{Rerank, Score}}, {"text_1", []API{Rerank, Score}},
		{"data_1", []API{Rerank, Score}}, {"token_ids", []API{Generate}}, {"prompt_token_ids", []API{Generate}},
		{"prompt", []API{Completions}}, {"input", []API{Embeddings, Classify, Rerank, Score}},
	} {
		if v, ok := has(l.name, l.apis...); ok {
			r.list(v)
		}
	}
	if v, ok := has("prompt_embeds", Completions); ok && string(v) != "null" {
		r.add("media", string(v), true, false)
	}
	if v, ok := has("features", Generate); ok && string(v) != "null" {
		r.add("media", string(v), true, true)
	}
	if v, ok := has("messages", ChatCompletions, Messages, Embeddings, Classify); ok {
		r.messages(v, false)
	}
	if v, ok := has("input", Responses); ok {
		r.messages(v, true)
	}
	for _, name := range []string{"text_2", "data_2", "documents", "items"} {
		if v, ok := has(name, Rerank, Score); ok {
			r.list(v)
		}
	}
	if r.tokens > 0 && !r.textual {
		r.PromptTokens = r.tokens
	}
	return r.reading
}

// value adds a value that is a text or else raw, and nothing for null.
func (r *slow) value(kind string, v raw) {
	switch {
	case string(v) == "null":
	case first(v) == '"':
		r.add(kind, inside(v), false, false)
	default:
		r.add("part", string(v), false, false)
	}
}

func (r *slow) system(v raw) {
	r.textual = true
	l, ok := array(v)
	if !ok {
		r.value("system", v)
		return
	}
	for _, p := range l {
		r.part("system", p)
	}
}

func (r *slow) list(v raw) {
	l, ok := array(v)
	if !ok {
		r.textual = r.textual || string(v) != "null"
		r.value("text", v)
		return
	}
	var texts, numbers, lists, other int
	tokens := int64(0)
	for _, e := range l {
		switch first(e) {
		case '"', '{':
			texts++
		case '[':
			lists++
			ids, _ := array(e)
			for _, id := range ids {
				if c := first(id); c != '-' && (c < '0' || c > '9') {
					other++
				}
			}
			tokens += int64(len(ids))
		case 't', 'f', 'n':
			other++
		default:
			numbers++
		}
	}
	switch {
	case other > 0 || texts > 0 && numbers > 0 || texts > 0 && lists > 0 || numbers > 0 && lists > 0:
		r.textual = true
		r.add("part", string(v), false, false)
	case numbers > 0:
		r.tokens += int64(numbers)
		r.add("tokens", string(v), false, false)
	case lists > 0:
		r.tokens += tokens
		for _, e := range l {
			r.add("tokens", string(e), false, false)
		}
	case texts > 0:
		r.textual = true
		for _, e := range l {
			r.value("text", e)
		}
	}
}

func (r *slow) messages(v raw, items bool) {
	r.textual = true
	l, ok := array(v)
	if !ok {
		r.value("text", v)
		return
	}
	for _, e := range l {
		m, ok := object(e)
		if !ok {
			r.value("text", e)
			continue
		}
		if items {
			if typ, ok := m["type"]; ok && string(typ) != "null" && text(typ) != "message" {
				parts, _ := array(m["output"])
				inner, _ := array(m["content"])
				r.add("part", string(e), false, anyMedia(parts) || foreignMedia(inner))
				continue
			}
		}
		extras := []raw{m["tool_calls"], m["function_call"], m["reasoning_content"], m["reasoning"], m["refusal"], m["audio"]}
		content := m["content"]
		parts, isList := array(content)
		empty := first(m["role"]) != '"' && (len(content) == 0 || string(content) == "null" || isList && onlyNull(parts))
		for _, x := range extras {
			empty = empty && (len(x) == 0 || string(x) == "null")
		}
		if empty {
			out, _ := array(m["output"])
			r.add("part", string(e), false, items && anyMedia(out))
			continue
		}
		if first(m["role"]) == '"' {
			r.add("role", inside(m["role"]), false, false)
		}
		if isList {
			for _, p := range parts {
				r.part("text", p)
			}
		} else if len(content) > 0 {
			r.value("text", content)
		}
		for _, x := range extras {
			if len(x) > 0 && string(x) != "null" {
				r.add("part", string(x), false, false)
			}
		}
	}
}

func onlyNull(l []raw) bool {
	for _, p := range l {
		if string(p) != "null" {
			return false
		}
	}
	return true
}

// anyMedia reports whether one of these parts is of a media type.
func anyMedia(parts []raw) bool {
	for _, p := range parts {
		o, _ := object(p)
		if first(o["type"]) == '"' && classOf([]byte(text(o["type"]))) == mediaClass {
			return true
		}
	}
	return false
}

// foreignMedia reports whether one of an item's parts is or holds media.
func foreignMedia(parts []raw) bool {
	for _, p := range parts {
		var r slow
		if r.part("text", p); r.Multimodal {
			return true
		}
	}
	return false
}

func (r *slow) part(kind string, v raw) {
	o, ok := object(v)
	if !ok {
		r.value(kind, v)
		return
	}
	class := noClass
	if first(o["type"]) == '"' {
		class = classOf([]byte(text(o["type"])))
	}
	if class == textClass && first(o["text"]) == '"' {
		r.add(kind, inside(o["text"]), false, false)
		return
	}
	media := class == mediaClass
	if class == noClass {
		for _, name := range strings.Fields("image_url image_embeds audio_url input_audio video_url") {
			media = media || len(o[name]) > 0 && string(o[name]) != "null"
		}
	}
	inner, _ := array(o["content"])
	if media {
		r.add("media", string(v), true, true)
		return
	}
	r.add("part", string(v), false, anyMedia(inner))
}

var scanSeeds = []struct {
	api  API
	body string
}{
	{ChatCompletions, `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"h\u00e9 é\n"},{"type":"image_url","image_url":{"url":"x"}}]},{"role":"assistant","tool_calls":[{"id":"1"}],"content":null}],"tools":[{}],"stream":true,"stream_options":{"include_usage":true},"max_tokens":1e2,"n":2,"cache_salt":"s"}`},
	{Completions, `{"prompt":[[1,2],[3]],"max_tokens":-1,"prompt_embeds":"AA"}`},
	{Completions, ` { "prompt" : ["a", "b" ] , "model":"\ud83d\ude00\ud800" } `},
	{Responses, `{"input":[{"type":"message","role":"user","content":"q"},{"type":"function_call_output","output":[{"type":"input_image"}]}],"instructions":"i","max_output_tokens":5}`},
	{Messages, `{"system":[{"type":"text","text":"S"}],"messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"image"}]}]}],"thinking":{}}`},
	{Embeddings, `{"input":[1,2,"x"],"messages":["a",null,{}]}`},
	{Rerank, `{"query":{"text":"q"},"documents":["a",{"b":1}]}`},
	{Score, `{"text_1":"a","text_2":["b"],"queries":[],"items":null}`},
	{Classify, `{"input":"\"\\\/\b\f\n\r\t"}`},
	{Generate, `{"token_ids":[1,2],"features":{"a":[0.5,-1.5E-7]},"sampling_params":{"max_tokens":7,"n":3}}`},
	{Other, `[true,false,null,-0,1.5,{"a":{"b":[[]]}}]`},
	{Other, "{\"a\":\"\xff\"}"},
	{Models, ``},
}
