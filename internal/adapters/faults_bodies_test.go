package adapters

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// fault plays rows that hold what was once wrong somewhere, by every way.
func fault(t *testing.T, rows ...row) {
	t.Helper()
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) { r.compare(t) })
	}
}

// arrives checks that an engine got exactly these bodies, each the end of what is kept of a request.
func arrives(bodies ...string) func(*testing.T, *transcript) {
	return func(t *testing.T, got *transcript) {
		t.Helper()
		if len(got.Requests) != len(bodies) {
			t.Fatalf("%d requests arrived, want %d", len(got.Requests), len(bodies))
		}
		for i, body := range bodies {
			if want := fmt.Sprintf("\n%d bytes of body:\n%s", len(body), body); !strings.HasSuffix(got.Requests[i], want) {
				t.Errorf("request %d arrived as\n%.600s\nwant%.600s", i, got.Requests[i], want)
			}
		}
	}
}

// same is arrives for calls whose bodies must arrive as they were sent.
func same(calls ...call) func(*testing.T, *transcript) {
	var bodies []string
	for _, c := range calls {
		bodies = append(bodies, strings.Join(c.pieces, ""))
	}
	return arrives(bodies...)
}

// untouched is a row whose calls arrive as they were sent.
func untouched(name, config string, c ...call) row {
	r := row{name: name, config: config, play: calls(c...), check: same(c...)}
	for range c {
		r.want += " 200"
	}
	r.want = strings.TrimSpace(r.want)
	return r
}

// refused is a row whose answer is an error: want as an outline, and says what its text holds and must not hold.
func refused(name, config, want, says, not string, c ...call) row {
	return row{name: name, config: config, want: want, play: calls(c...), check: func(t *testing.T, got *transcript) {
		t.Helper()
		for _, a := range got.Answers {
			if !strings.Contains(a, says) || not != "" && strings.Contains(a, not) || len(a) > 1500 {
				t.Errorf("the answer is %.1500s", a)
			}
		}
		if kept := strings.Join(got.Records, "\n"); not != "" && strings.Contains(kept, not) {
			t.Errorf("the record is %.1500s", kept)
		}
		if len(got.Requests) > 0 {
			t.Errorf("%d requests arrived", len(got.Requests))
		}
	}}
}

// renames is one pool whose alias m stands for m-base.
const renames = inOrder + `pools:
- name: default
  models:
  - {name: m-base, aliases: [m]}
`

func TestB01IntegersBeyond2To53(t *testing.T) {
	const body = `{"model":"m","prompt":"hi","seed":9007199254740995,"logit_bias":{"50256":-100}}`
	fault(t, row{name: "with a rewrite", config: renames, play: calls(post("/v1/completions", body)),
		check: arrives(strings.Replace(body, `"m"`, `"m-base"`, 1))})
}

func TestB02OrderAndWhitespace(t *testing.T) {
	const body = "{ \"zeta\":1,\n \"model\" : \"NAME\",\"alpha\":[1, 2 ,3] , \"prompt\":\"\\u00e9\\/é\" }"
	plain, alias := strings.Replace(body, "NAME", "m-base", 1), strings.Replace(body, "NAME", "m", 1)
	fault(t, untouched("without a change", renames, post("/v1/completions", plain)),
		row{name: "with a rewrite", config: renames, play: calls(post("/v1/completions", alias)), check: arrives(plain)})
}

func TestB04PromptOfSeveralStrings(t *testing.T) {
	fault(t, untouched("two strings", "", post("/v1/completions", `{"model":"m-base","prompt":["alpha","beta"]}`)))
}

func TestB05PromptOfTokenIDs(t *testing.T) {
	var all []call
	for _, body := range []string{`{"model":"m","prompt":[1,2,3]}`, `{"model":"m","prompt":[[1,2],[3]]}`, `{"model":"m","prompt":[1,-2]}`, `{"model":"m","prompt":[1.5]}`} {
		all = append(all, post("/v1/completions", body))
	}
	all = append(all, post("/v1/embeddings", `{"model":"m","input":[[1,2],[3]]}`))
	fault(t, untouched("ids, nested ids, and what is none", "", all...))
}

func TestB07ContentParts(t *testing.T) {
	const body = `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"what?"},{"type":"image_url","image_url":{"url":"https://img.example/1.png"}},{"type":"audio_url","audio_url":{"url":"a"}},{"type":"novelty","x":[1]}]}]}`
	fault(t, untouched("parts of every kind", "", post(chat, body)))
}

func TestB08ToolsOfThreeHundredKilobytes(t *testing.T) {
	body := `{"model":"m","tools":[{"type":"function","function":{"name":"f1","parameters":` + strings.Repeat(`{"type":"object","properties":{"x":`, 4000) + `{"enum":["` + strings.Repeat(`word","`, 20_000) + `"]}` + strings.Repeat("}}", 4000) + `}}],"messages":[]}`
	r := untouched("a schema that nests deep", "", post(chat, body))
	r.big = true
	fault(t, r)
}

func TestB10AnthropicMessages(t *testing.T) {
	fault(t, untouched("a system text of parts", "", post("/v1/messages", `{"model":"m","system":[{"type":"text","text":"S"}],"max_tokens":5,"messages":[{"role":"user","content":"u"}]}`)))
}

func TestB11MultipartAudio(t *testing.T) {
	file := 3 << 20
	upload := func(model string) string {
		return "--x\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\n" + strings.Repeat("RIFF\x00\xff\r\n", file/8) +
			"\r\n--x\r\ncontent-disposition: form-data; name=\"model\"\r\n\r\n" + model + "\r\n--x--\r\n"
	}
	const path, media = "/v1/audio/transcriptions", "multipart/form-data; boundary=x"
	rename := row{name: "the model behind the file, renamed", config: renames, play: calls(post(path, upload("m")).as(media)), check: arrives(upload("m-base")), big: true}
	broken := untouched("an upload that ends in its headers", "", post(path, "--x\r\ncontent-dispo").as(media))
	file = 200_000
	none := untouched("no boundary", "", post(path, upload("m")).as("multipart/form-data"))
	none.want, none.big = "200 body_unread: 1", true
	file = 1000 // the others are not about its length
	two := refused("a model that nobody serves", renames, "404 model_not_found: 1", `"code":"model_not_found"`, "", post(path, upload("whisper-x")).as(media))
	two.big = true
	fault(t, rename, broken, none, two)
}

func TestB13ErrorsEchoNothing(t *testing.T) {
	for name, body := range map[string]string{
		"an early end of sense":       strings.Repeat(`{"secret":"CANARY`, 120_000),
		"a string without an end":     `{"secret":"` + strings.Repeat("CANARY", 350_000),
		"a key without an end":        `{"` + strings.Repeat("CANARY", 2_000),
		"a number that goes on":       `{"secret":` + strings.Repeat("9", 20_000) + `CANARY`,
		"an escape that is none":      `{"secret":"CANARY\q` + strings.Repeat("CANARY", 2_000),
		"a model that is none":        `{"model":{"a":"` + strings.Repeat("CANARY", 2_000) + `"}}x`,
		"something behind its end":    `{"model":"m","secret":"CANARY"}` + strings.Repeat("CANARY", 2_000),
		"a control character as text": `{"secret":"CANARY` + "\x01" + strings.Repeat("CANARY", 2_000),
	} {
		r := refused(name, "", "400 malformed_json: 1", `"code":"malformed_json"`, "CANARY", post(chat, body))
		r.big = true
		told := r.check
		r.check = func(t *testing.T, got *transcript) {
			t.Helper()
			told(t, got)
			for _, a := range got.Answers {
				if _, text, _ := strings.Cut(a, " bytes of body:\n"); len(text) >= 1000 {
					t.Errorf("the answer's body has %d bytes", len(text))
				}
			}
		}
		fault(t, r)
	}
}

func TestB14MalformedPayloads(t *testing.T) {
	for _, body := range []string{"[]", `"str"`, "null", "123", "", "\ufeff" + `{"model":"m","messages":[]}`} {
		fault(t, refused(fmt.Sprintf("%.12q on a known path", body), "", "400 malformed_json: 1", `"type":"invalid_request_error"`, "", post(chat, body)))
		r := untouched(fmt.Sprintf("%.12q on an unknown path", body), "", post("/v2/novelty", body))
		if strings.HasPrefix(body, "\ufeff") {
			r.want = "200 body_unread: 1"
		}
		fault(t, r)
	}
}

func TestB16HopByHopFields(t *testing.T) {
	fault(t, row{name: "an answer with fields of its connection, in chunks and with a trailer", answer: func(v *visit) {
		status(200, "{}", "Connection", "x-hop", "X-Hop", "1", "Server", "uvicorn", "Trailer", "X-T")(v)
		_ = http.NewResponseController(v.w).Flush() // the length is not known: chunks
		v.w.Header().Set("X-T", "7")
	}, play: calls(post(chat, hello)), check: func(t *testing.T, got *transcript) {
		if a := got.Answers[0]; strings.Contains(a, "x-hop") || strings.Count(a, "server: uvicorn") != 1 || !strings.Contains(a, "trailer x-t: 7") {
			t.Errorf("the answer is %s", a)
		}
	}})
}

func TestX02ModelIsNoString(t *testing.T) {
	for name, value := range map[string]string{"number": `123`, "null": `null`, "list": `["m"]`, "object": `{"a":1}`, "empty": `""`, "10 kB": `"` + strings.Repeat("m", 10_000) + `"`, "a NUL": `"m\u0000"`} {
		r := refused("a model that is "+name, "", "400 invalid_model: 1", `"code":"invalid_model"`, "mmmmmmmm", post(chat, `{"model":`+value+`,"messages":[]}`))
		r.big = true
		fault(t, r)
	}
	fault(t, untouched("on an unknown path it is not looked at", "", post("/v2/novelty", `{"model":123}`)),
		untouched("the last of two counts", "", post(chat, `{"model":123,"model":"m","messages":[]}`)))
}

func TestX03EscapedModel(t *testing.T) {
	fault(t, untouched("key and value", renames, post(chat, `{"\u006dodel":"m-\u0062ase","messages":[]}`)),
		row{name: "an alias", config: renames, play: calls(post(chat, `{"\u006dodel":"\u006d","messages":[]}`)), check: arrives(`{"\u006dodel":"m-base","messages":[]}`)},
		refused("another model", renames, "404 model_not_found: 1", `"code":"model_not_found"`, "", post(chat, `{"\u006dodel":"\u0078","messages":[]}`)))
}

func TestX09AmbiguousPaths(t *testing.T) {
	for _, path := range []string{"/v1/models/../chat/completions", "/v1/chat/completions%00", "/v1/%2e%2e/chat/completions", "/v1/chat%5Ccompletions"} {
		fault(t, refused("refused: "+path, "", "400 ambiguous_path: 1", `"code":"ambiguous_path"`, "", post(path, hello)))
	}
	for _, path := range []string{"/v1//chat/completions", "/v1/chat%2Fcompletions", "/V1/Chat/Completions"} {
		r := untouched("metered: "+path, "", post(path, hello))
		bytes := r.check
		r.check = func(t *testing.T, got *transcript) {
			t.Helper()
			bytes(t, got)
			if !strings.Contains(got.Meter[0], "chat.completions") || !strings.Contains(got.Requests[0], "POST "+path+",") {
				t.Errorf("counted as %s, sent as %.80s", got.Meter[0], got.Requests[0])
			}
		}
		fault(t, r)
	}
}

func TestP13QueryStrings(t *testing.T) {
	fault(t, row{name: "a beta of Anthropic's", play: calls(post("/v1/messages?beta=true", `{"model":"m","max_tokens":5,"messages":[]}`)), check: func(t *testing.T, got *transcript) {
		if !strings.Contains(got.Meter[0], ", messages,") || !strings.Contains(got.Requests[0], "POST /v1/messages?beta=true,") {
			t.Errorf("counted as %s, sent as %.80s", got.Meter[0], got.Requests[0])
		}
	}})
}

func TestP14SubPaths(t *testing.T) {
	fault(t, untouched("each has its kind", "", post(chat+"/render", hello), post("/openai/v1/chat/completions", hello), post(chat+"/", hello)),
		refused("an error below Anthropic's path is in its shape", renames, "404 model_not_found: 1", `{"type":"error","error":{"type":"not_found_error"`, "",
			post("/team/v1/messages/render", `{"model":"nobody","messages":[]}`)))
}

func TestP17GRPCLengthNear2To32(t *testing.T) {
	const path = "/vllm.grpc.engine.VllmEngine/Generate"
	fault(t, refused("three bytes of four billion", "", "200 malformed_body: 1", "grpc-status: 3", "", post(path, "\x00\xff\xff\xff\xfdabc").as("application/grpc")),
		untouched("a good one", "", post(path, "\x00\x00\x00\x00\x03\x1a\x01a").as("application/grpc")))
	compressed := untouched("a compressed one", "", post(path, "\x01\x00\x00\x00\x03abc").as("application/grpc"))
	compressed.want = "200 body_unread: 1"
	fault(t, compressed)
}

func TestCompressedRequests(t *testing.T) {
	alias, name := `{"model":"m","messages":[]}`, `{"model":"m-base","messages":[]}`
	fault(t, untouched("gzip of a known model", renames, post(chat, gzipped(name), "Content-Encoding: gzip")),
		refused("gzip of a model that nobody serves", renames, "404 model_not_found: 1", `"code":"model_not_found"`, "", post(chat, gzipped(`{"model":"x","messages":[]}`), "Content-Encoding: gzip")),
		refused("gzip of an alias", renames, "400 body_sealed: 1", `"code":"body_sealed"`, "", post(chat, gzipped(alias), "Content-Encoding: gzip")),
		refused("gzip of broken JSON", "", "400 malformed_json: 1", `"code":"malformed_json"`, "", post(chat, gzipped(`{"model"`), "Content-Encoding: gzip")))
	for _, coding := range []string{"zstd", "br", "deflate"} {
		r := untouched(coding+" passes by load", "", post(chat, "not read", "Content-Encoding: "+coding))
		r.want = "200 body_unread: 1"
		fault(t, r)
	}
	bomb := post(chat, gzipped(`{"model":"m-base","x":"`+strings.Repeat("0", 16<<20)+`"}`), "Content-Encoding: gzip")
	r := untouched("a bomb passes by load", "", bomb)
	r.want, r.big = "200 body_unread: 1", true
	fault(t, r)
}
