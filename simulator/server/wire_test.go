package server_test

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/fairlead/fairlead/simulator/engine"
	"github.com/fairlead/fairlead/simulator/server"
)

func itoa(n int) string { return strconv.Itoa(n) }

func TestBadRequests(t *testing.T) {
	f := start(t, server.Options{MaxBodyBytes: 4 << 20})
	messages := `"messages":[{"role":"user","content":"hi"}]`
	for _, c := range []struct {
		name, path, body string
		status           int
		want             string
	}{
		{"malformed JSON", chat, `{"model":`, 400, "parsing the body"},
		{"bytes behind the JSON", chat, `{` + messages + `}}`, 400, "parsing the body"},
		{"no body", chat, ``, 400, "parsing the body"},
		{"bad UTF-8", chat, `{"model":"` + "\xff" + `"}`, 400, "not valid UTF-8"},
		{"a body that is no object", chat, `[1]`, 400, "parsing the body"},
		{"null", chat, `null`, 400, "must be a JSON object"},
		{"an unknown model", chat, `{"model":"gpt-9",` + messages + `}`, 404, "The model `gpt-9` does not exist."},
		{"no messages", chat, `{"model":"llama-3.1-8b"}`, 400, "messages is required"},
		{"messages of another type", chat, `{"messages":"hi"}`, 400, "messages is required"},
		{"a message without a role", chat, `{"messages":[{"content":"hi"}]}`, 400, "role"},
		{"a message that is no object", chat, `{"messages":[null]}`, 400, "must be an object"},
		{"content of another type", chat, `{"messages":[{"role":"user","content":1}]}`, 400, "a string or a list of parts"},
		{"no prompt", "/v1/completions", `{}`, 400, "prompt is required"},
		{"a prompt of another type", "/v1/completions", `{"prompt":{}}`, 400, "prompt must be"},
		{"an empty list of prompts", "/v1/completions", `{"prompt":[]}`, 400, "prompt must be"},
		{"an empty list of token ids", "/v1/completions", `{"prompt":[[]]}`, 400, "non-negative"},
		{"a list of something else", "/v1/completions", `{"prompt":[null]}`, 400, "non-negative"},
		{"several prompts", "/v1/completions", `{"prompt":["a","b"]}`, 400, "one prompt per request"},
		{"negative token ids", "/v1/completions", `{"prompt":[[-1]]}`, 400, "non-negative"},
		{"max_tokens 0", chat, `{"max_tokens":0,` + messages + `}`, 400, "at least 1, got 0"},
		{"max_tokens that is no integer", chat, `{"max_tokens":1.5,` + messages + `}`, 400, "max_tokens has a wrong type: 1.5"},
		{"max_tokens beyond the context", chat, `{"max_tokens":131072,` + messages + `}`, 400, "'max_tokens' is too large: 131072"},
		{"max_completion_tokens beyond the context", chat, `{"max_completion_tokens":9000000000,` + messages + `}`, 400, "'max_completion_tokens' is too large"},
		{"a prompt beyond the context", "/v1/completions", `{"prompt":"` + strings.Repeat("four", 131_072) + `"}`, 400, "maximum context length is 131072"},
		{"two choices", chat, `{"n":2,` + messages + `}`, 400, "one choice per request"},
		{"stream options without a stream", chat, `{"stream_options":{},` + messages + `}`, 400, "only be defined when"},
		{"a body beyond the bound", chat, strings.Repeat(" ", 4<<20+1), 413, "larger than 4194304 bytes"},
		{"an unknown path", "/v1/audio/speech", `{}`, 404, "Not Found"},
		{"no input to embed", "/v1/embeddings", `{}`, 400, "input must be a string"},
		{"an embedding of no length", "/v1/embeddings", `{"input":"a","dimensions":0}`, 400, "dimensions is 0; 1 to 8192"},
		{"an embedding in an unknown format", "/v1/embeddings", `{"input":"a","encoding_format":"hex"}`, 400, `encoding_format is "hex"`},
		{"an embedding by an unknown model", "/v1/embeddings", `{"input":"a","model":"gpt-9"}`, 404, "does not exist"},
		{"a message without max_tokens", "/v1/messages", `{` + messages + `}`, 400, "max_tokens is required"},
		{"a response to nothing", "/v1/responses", `{}`, 400, "input is required"},
		{"an empty stop string", chat, `{"stop":["a",""],` + messages + `}`, 400, "cannot contain an empty string"},
		{"a stop that is no string", chat, `{"stop":1,` + messages + `}`, 400, "stop must be a string or a list"},
		{"a tool required where there is none", chat, `{"tool_choice":"required",` + messages + `}`, 400, "`tools` must be set"},
		{"tokens that are none", "/detokenize", `{"tokens":["a"]}`, 400, "non-negative integers"},
		{"an adapter without a path", "/v1/load_lora_adapter", `{"lora_name":"a"}`, 400, "must be provided"},
		{"an adapter that is not loaded", "/v1/unload_lora_adapter", `{"lora_name":"a"}`, 404, "cannot be found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			resp, text := do(t, "POST", url(f, 0, c.path), c.body)
			e := decode(t, text).Error
			if resp.StatusCode != c.status || e == nil || e.Code != c.status || !strings.Contains(e.Message, c.want) {
				t.Errorf("%d %s; want %d with %q", resp.StatusCode, text, c.status, c.want)
			}
			if resp.Header.Get("x-sim-engine") != "0" || resp.Header.Get("content-type") != "application/json" {
				t.Errorf("headers %v", resp.Header)
			}
		})
	}
	if resp, _ := do(t, "GET", url(f, 0, chat), ""); resp.StatusCode != 405 {
		t.Errorf("GET of chat completions: %d", resp.StatusCode)
	}
	if c, _ := f.Counters(0); c.Finished != 0 || c.Steps != 0 {
		t.Errorf("bad requests reached the engine: %+v", c)
	}
}

func TestAcceptedForms(t *testing.T) {
	f := start(t, server.Options{OutputMin: 5, OutputMax: 9, ServedNames: []string{"alias"}})
	for _, c := range []struct {
		name, path, body string
		model, finish    string
		prompt           int
		least, most      int
	}{
		{"a text prompt", "/v1/completions", `{"prompt":"12345678","max_tokens":3}`, "alias", "length", 3, 3, 3},
		{"token ids", "/v1/completions", `{"prompt":[1,2,3],"max_tokens":3}`, "alias", "length", 4, 3, 3},
		{"one list of token ids", "/v1/completions", `{"prompt":[[1,2,3]],"max_tokens":3}`, "alias", "length", 4, 3, 3},
		{"one text in a list", "/v1/completions", `{"prompt":["12345"],"max_tokens":3}`, "alias", "length", 3, 3, 3},
		{"the full name", "/v1/completions", `{"model":"meta-llama/Llama-3.1-8B-Instruct","prompt":"a","max_tokens":1}`, "meta-llama/Llama-3.1-8B-Instruct", "length", 2, 1, 1},
		{"the alias", "/v1/completions", `{"model":"alias","prompt":"a","max_tokens":1}`, "alias", "length", 2, 1, 1},
		{"the last of two keys counts, and case matters", "/v1/completions", `{"max_tokens":1,"Max_Tokens":9,"max_tokens":2,"prompt":"a"}`, "alias", "length", 2, 2, 2},
		{"without a limit the answer ends by itself", "/v1/completions", `{"prompt":"a"}`, "alias", "stop", 2, 5, 9},
		{"ignore_eos false lets it end below the limit", "/v1/completions", `{"prompt":"a","max_tokens":50,"ignore_eos":false}`, "alias", "stop", 2, 5, 9},
		{"and at the limit", "/v1/completions", `{"prompt":"a","max_tokens":4,"ignore_eos":false}`, "alias", "length", 2, 4, 4},
		{"min_tokens holds it back", "/v1/completions", `{"prompt":"a","min_tokens":40}`, "alias", "stop", 2, 40, 40},
		{"null members are absent ones", "/v1/completions", `{"prompt":"a","max_tokens":null,"model":null,"stream":null,"stream_options":null}`, "alias", "stop", 2, 5, 9},
		{"content parts", chat, `{"messages":[{"role":"user","content":[{"type":"text","text":"12345678"}]}],"max_completion_tokens":2}`, "alias", "length", 1 + 3 + 2 + 1 + 5, 2, 2},
		{"an image is its JSON", chat, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"a"}}]}],"max_tokens":2}`, "alias", "length", 1 + 3 + 1 + 11 + 1 + 5, 2, 2},
		{"tool calls without content", chat, `{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":null,"tool_calls":[]}],"max_tokens":2}`, "alias", "length", 1 + 5 + 7 + 1 + 5, 2, 2},
		{"tools", chat, `{"tools":[{}],"messages":[{"role":"user","content":"hi"}],"max_tokens":2}`, "alias", "length", 1 + 4 + 1 + 1 + 5 + 5, 2, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			resp, text := do(t, "POST", url(f, 0, c.path), c.body)
			got := decode(t, text)
			if resp.StatusCode != 200 || got.Usage == nil {
				t.Fatalf("%d %s", resp.StatusCode, text)
			}
			if got.Model != c.model || got.Choices[0].Finish != c.finish || got.Usage.Prompt != c.prompt || got.Usage.Completion < c.least || got.Usage.Completion > c.most {
				t.Errorf("%s; want model %s, finish %s, %d prompt tokens, %d to %d generated", text, c.model, c.finish, c.prompt, c.least, c.most)
			}
		})
	}
}

func TestTheAnswerDependsOnSeedAndPromptAlone(t *testing.T) {
	ask := func(seed uint64, body string) string {
		f := start(t, server.Options{Seed: seed})
		return decode(t, second(do(t, "POST", url(f, 0, "/v1/completions"), body))).Choices[0].Text
	}
	base := ask(1, `{"prompt":"a","max_tokens":30}`)
	if again := ask(1, `{"prompt":"a","max_tokens":30}`); again != base {
		t.Errorf("%q, then %q", base, again)
	}
	if longer := ask(1, `{"prompt":"a","max_tokens":40}`); !strings.HasPrefix(longer, base) {
		t.Errorf("with a higher limit %q does not go on from %q", longer, base)
	}
	for name, other := range map[string]string{
		"another server's seed": ask(2, `{"prompt":"a","max_tokens":30}`),
		"another prompt":        ask(1, `{"prompt":"b","max_tokens":30}`),
		"a client's seed":       ask(1, `{"prompt":"a","max_tokens":30,"seed":7}`),
	} {
		if other == base {
			t.Errorf("%s changes nothing", name)
		}
	}
	if strings.TrimSpace(base) != base || len(base) != 120 {
		t.Errorf("%q: want 120 bytes that no client trims", base)
	}
}

func TestSaltAndAdapterPartTheCache(t *testing.T) {
	f := start(t, server.Options{Adapters: []server.Adapter{{Name: "lora"}}})
	text := strings.Repeat("four", 100)
	cached := func(members map[string]any) int {
		members["max_tokens"] = 1
		return decode(t, second(do(t, "POST", url(f, 0, chat), chatBody(t, members, text)))).Usage.Details.Cached
	}
	for _, c := range []struct {
		name    string
		members map[string]any
	}{
		{"plain", map[string]any{}},
		{"salted", map[string]any{"cache_salt": "a"}},
		{"with another salt", map[string]any{"cache_salt": "b"}},
		{"for an adapter", map[string]any{"model": "lora"}},
	} {
		if first, then := cached(c.members), cached(c.members); first != 0 || then != 96 {
			t.Errorf("%s: cached %d tokens and then %d, want 0 and 96", c.name, first, then)
		}
	}
	if resp, _ := do(t, "POST", url(f, 0, "/reset_prefix_cache"), ""); resp.StatusCode != 200 {
		t.Errorf("reset: %d", resp.StatusCode)
	}
	if got := cached(map[string]any{}); got != 0 {
		t.Errorf("after the reset %d tokens are cached", got)
	}
}

func TestEveryBodyIsSummed(t *testing.T) {
	f := start(t, server.Options{})
	big := strings.Repeat("0123456789abcdef", 20<<16) // 20 MiB
	for _, c := range []struct {
		name, method, path, body string
		chunked                  bool
	}{
		{"an unknown path", "POST", "/unknown", "a body", false},
		{"no body", "POST", "/unknown", "", false},
		{"PUT", "PUT", "/unknown", "a body", false},
		{"GET with a body", "GET", "/health", "a body", false},
		{"20 MiB", "POST", "/unknown", big, false},
		{"20 MiB that are read as a request", "POST", chat, big, false},
		{"20 MiB in chunks", "POST", chat, big, true},
		{"chunks", "POST", "/v1/completions", `{"prompt":"a","max_tokens":1}`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var body io.Reader = strings.NewReader(c.body)
			if c.chunked {
				body = io.MultiReader(body) // hides the length
			}
			req, err := http.NewRequestWithContext(t.Context(), c.method, url(f, 0, c.path), body)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			sum := sha256.Sum256([]byte(c.body))
			if got, want := resp.Header.Get("x-sim-body-sha256"), hex.EncodeToString(sum[:]); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
	if resp, _ := do(t, "GET", url(f, 0, "/health"), ""); resp.Header.Get("x-sim-body-sha256") != "" || resp.StatusCode != 200 {
		t.Errorf("a GET without a body: %d %v", resp.StatusCode, resp.Header)
	}
}

func TestHeadersAreToldOnDemand(t *testing.T) {
	f := start(t, server.Options{})
	resp, _ := do(t, "GET", url(f, 0, "/health"), "", "x-secret", "s", "x-sim-echo-headers", "1")
	if got := resp.Header.Get("x-sim-saw-headers"); got != "accept-encoding,host,user-agent,x-secret,x-sim-echo-headers" {
		t.Errorf("saw %q", got)
	}
	if resp, _ := do(t, "GET", url(f, 0, "/health"), "", "x-secret", "s"); resp.Header.Get("x-sim-saw-headers") != "" {
		t.Error("headers were told without being asked for")
	}
}

func TestAFullQueueIs503(t *testing.T) {
	profile := engine.Profiles()[0]
	profile.MaxSeqs = 1
	f := start(t, server.Options{Profile: profile, Speed: 1, Engine: engine.Options{MaxWaiting: 1}, Faults: server.Faults{Slow: 1000}})
	for i := range 2 {
		defer background(t, url(f, 0, chat), chatBody(t, map[string]any{"max_tokens": 5}, "hello"))()
		until(t, f, 0, func(g engine.Gauges) bool { return int(g.Running+g.Waiting) == i+1 })
	}
	resp, text := do(t, "POST", url(f, 0, chat), chatBody(t, map[string]any{"max_tokens": 5}, "hello"))
	if e := decode(t, text).Error; resp.StatusCode != 503 || e == nil || e.Type != "Service Unavailable" {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
	_, page := do(t, "GET", url(f, 0, "/metrics"), "")
	if !strings.Contains(page, `reason="max_num_queued_reqs"} 1.0`) {
		t.Error("the rejection is not counted")
	}
}

func TestManyStreamsAtOnce(t *testing.T) {
	const streams = 500
	f := start(t, server.Options{Speed: 20})
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	var wg sync.WaitGroup
	errs := make(chan string, streams)
	for i := range streams {
		wg.Go(func() {
			body := `{"prompt":"stream ` + itoa(i) + `","max_tokens":60,"stream":true,"stream_options":{"include_usage":true}}`
			resp, err := client.Post(url(f, 0, "/v1/completions"), "application/json", strings.NewReader(body))
			if err != nil {
				errs <- err.Error()
				return
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			if err != nil || strings.Count(string(text), "data: ") != 60+1+1+1 || !strings.HasSuffix(string(text), "data: [DONE]\n\n") {
				errs <- string(text)
			}
		})
	}
	wg.Wait()
	close(errs)
	for e := range errs {
		t.Fatalf("a stream is broken: %.300s", e)
	}
	g, _ := f.Gauges(0)
	if c, _ := f.Counters(0); c.Finished != streams || c.GenerationTokens != 60*streams || g.UsedBlocks != 0 {
		t.Errorf("%+v, %+v", c, g)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, c := range []struct {
		name    string
		options server.Options
		want    string
	}{
		{"ports beyond the last", server.Options{Engines: 2, Port: 65_535}, "ports 65535 to 65536"},
		{"a name as bind address", server.Options{Bind: "localhost"}, "is no IP address"},
		{"negative speed", server.Options{Speed: -1}, "speed is -1"},
		{"a bad fault", server.Options{Faults: server.Faults{Status: 200}}, "status is 200"},
		{"too many engines", server.Options{Engines: 5000}, "5000 engines"},
		{"a profile without blocks", server.Options{Profile: engine.Profile{Model: "m", BlockTokens: 16}}, "Blocks is 0"},
	} {
		f, err := server.Start(t.Context(), c.options)
		if err == nil {
			f.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", c.name, err, c.want)
		}
	}
}
