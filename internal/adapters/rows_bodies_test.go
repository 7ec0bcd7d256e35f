package adapters

import (
	"bytes"
	"compress/gzip"
	"strings"
)

func gzipped(s string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(s))
	_ = z.Close()
	return b.String()
}

// gzippedInPieces compresses texts as one stream that is flushed after each.
func gzippedInPieces(texts ...string) (pieces []string) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for i, s := range texts {
		_, _ = z.Write([]byte(s))
		_ = z.Flush()
		if i == len(texts)-1 {
			_ = z.Close()
		}
		pieces = append(pieces, b.String())
		b.Reset()
	}
	return pieces
}

// bodyRows are forms of request bodies: each API, each framing, and what is not JSON.
func bodyRows() []row {
	const escapes = `{"model":"m\u002dbase","messages":[{"role":"user","content":"a \"b\" \\ \/ \u00e4 \ud83d\ude00 \n"}],"stop":["\u0001"]}`
	const odd = ` { "b" : 1e400 , "model" : "m-base" , "seed" : 9007199254740993 , "x" : 0.1000000000000000055511151231257827 , "messages" : [ ] , "a" : { "a" : 1 , "a" : 2 } } `
	const image = `{"model":"m-base","tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],"messages":[{"role":"system","content":"be brief"},{"role":"user","content":[{"type":"text","text":"what is this?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]},{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":"42"}]}`
	parts := "--x\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\nwhisper\r\n--x\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\nRIFF" +
		string([]byte{0, 255}) + "\r\n--x--\r\n"
	return []row{
		{name: "a chat completion with its length", play: calls(post(chat, hello))},
		{name: "a chat completion in one chunk", play: calls(post(chat, hello).inChunks(1 << 20))},
		{name: "a chat completion in chunks of one byte", play: calls(post(chat, hello).inChunks(1))},
		{name: "chunk boundaries inside escapes and surrogates", play: calls(post(chat, escapes).inChunks(13, 1, 2, 3, 5, 1))},
		{name: "escapes in the model's name and in the prompt", play: calls(post(chat, escapes))},
		{name: "big integers, long fractions, duplicate and unknown keys", play: calls(post(chat, odd))},
		{name: "a duplicate model counts as its last", config: oneTable,
			play: calls(post(chat, `{"model":"nobody","messages":[],"model":"meta-llama/Llama-3.1-8B-Instruct"}`))},
		{name: "unicode that is not escaped", play: calls(post(chat, `{"model":"m-base","messages":[{"role":"user","content":"日本語 עברית 😀 \u2028"}],"user":"ü"}`))},
		{name: "tools, an image, a tool's result and a null", play: calls(post(chat, image))},
		{name: "200 kB with their length", big: true, play: calls(post(chat, prompt(200_000)))},
		{name: "200 kB in odd chunks", big: true, play: calls(post(chat, prompt(200_000)).inChunks(1, 61_999, 7, 30_000))},
		{name: "a body in two writes", notBuffered: true, play: func(s *side) {
			c := post(chat, "")
			c.pieces = []string{hello[:20], hello[20:]}
			r := s.open(c, 1)
			r.rest(1)
			r.answer()
		}},
		{name: "a POST with a length of zero to an unknown path", play: calls(post("/v1/anything", ""))},
		{name: "a chunked body without bytes to an unknown path", play: calls(post("/v1/anything", "").inChunks(1))},
		{name: "a POST without a length", play: calls(get("POST", "/v1/anything", "Content-Type: application/json"))},
		{name: "text on the path of chat completions", want: "200 body_unread: 1", play: calls(post(chat, "say hello").as("text/plain"))},
		{name: "JSON that is compressed", play: calls(post(chat, gzipped(hello), "Content-Encoding: gzip"))},
		{name: "an upload of several parts", play: calls(post("/v1/audio/transcriptions", parts).as(`multipart/form-data; boundary="x"`))},
		{name: "JSON with a model on an unknown path", play: calls(post("/v2/novelty", `{"model":"m-base","payload":[1,2,3]}`))},
		{name: "broken JSON on an unknown path", want: "200 body_unread: 1", play: calls(post("/v2/novelty", `{"model":"m-base",,}`))},
		{name: "JSON of another content type with +json", play: calls(post(chat, hello).as("application/vnd.api+json; charset=utf-8"))},
		{name: "no content type at all", play: calls(call{"POST", chat, nil, []string{hello}, lengthy, nil})},
		{name: "a completion of a string", play: calls(post("/v1/completions", `{"model":"m-base","prompt":"once upon","max_tokens":5,"n":2}`))},
		{name: "a completion of token ids", play: calls(post("/v1/completions", `{"model":"m-base","prompt":[1,15043,3186,29991],"max_tokens":0}`))},
		{name: "a completion of several prompts", play: calls(post("/v1/completions", `{"model":"m-base","prompt":["one","two"]}`))},
		{name: "a response with instructions", play: calls(post("/v1/responses", `{"model":"m-base","instructions":"be kind","input":[{"role":"user","content":[{"type":"input_text","text":"hi"}]}],"max_output_tokens":9}`))},
		{name: "a message of Anthropic's API", play: calls(post("/v1/messages", `{"model":"m-base","max_tokens":16,"system":[{"type":"text","text":"be brief"}],"messages":[{"role":"user","content":"hi"}]}`))},
		{name: "embeddings of two texts", play: calls(post("/v1/embeddings", `{"model":"m-base","input":["a","b"]}`))},
		{name: "a rerank, a score and a classification", want: "200 200 200", play: calls(
			post("/v1/rerank", `{"model":"m-base","query":"q","documents":["a","b"]}`),
			post("/score", `{"model":"m-base","text_1":"a","text_2":["b"]}`),
			post("/classify", `{"model":"m-base","input":"a"}`))},
		{name: "tokens in, tokens out", play: calls(post("/inference/v1/generate", `{"model":"m-base","token_ids":[1,2,3],"sampling_params":{"max_tokens":3}}`))},
		{name: "a path below a known one", want: "200 200", play: calls(post(chat+"/render", hello), post("/proxy/prefix"+chat+"/?a=%20b&c", hello))},
		{name: "three turns of a conversation stay where their prefix is cached", want: "200 200 200", big: true, play: func(s *side) {
			turns := []string{prompt(2000)}
			for _, more := range []string{"and then?", "why?"} {
				last := turns[len(turns)-1]
				turns = append(turns, strings.TrimSuffix(last, "]}")+`,{"role":"assistant","content":"so"},{"role":"user","content":"`+more+`"}]}`)
			}
			for _, turn := range turns {
				s.do(post(chat, turn))
			}
		}},
	}
}
