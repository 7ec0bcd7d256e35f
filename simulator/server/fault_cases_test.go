package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/simulator/engine"
	"github.com/fairlead/fairlead/simulator/server"
)

// Each test here is a fault that was reported of another simulated engine.

// A prompt as long as the context leaves nothing to generate.
func TestV01NothingLeftToGenerate(t *testing.T) {
	p := engine.Profiles()[0]
	p.MaxModelLen = 100
	f := start(t, server.Options{Profile: p})
	prompt := func(tokens int) string { return strings.Repeat("four", tokens-1) } // and the mark that begins it
	for _, c := range []struct {
		name      string
		tokens    int
		maxTokens int
		status    int
		output    int
	}{
		{"a prompt of the whole context", 100, 1, 400, 0},
		{"a prompt of the whole context, max_tokens 0", 100, 0, 400, 0},
		{"max_tokens 0", 50, 0, 400, 0},
		{"one token left, one wanted", 99, 1, 200, 1},
		{"one token left, two wanted", 99, 2, 400, 0},
	} {
		body, _ := json.Marshal(map[string]any{"prompt": prompt(c.tokens), "max_tokens": c.maxTokens})
		resp, text := do(t, "POST", url(f, 0, "/v1/completions"), string(body))
		if resp.StatusCode != c.status {
			t.Errorf("%s: %d %s", c.name, resp.StatusCode, text)
			continue
		}
		if c.status == 200 && decode(t, text).Usage.Completion != c.output {
			t.Errorf("%s: %s", c.name, text)
		}
	}
	body, _ := json.Marshal(map[string]any{"prompt": prompt(99)})
	if _, text := do(t, "POST", url(f, 0, "/v1/completions"), string(body)); decode(t, text).Usage.Completion != 1 || decode(t, text).Choices[0].Finish != "length" {
		t.Errorf("one token left and no wish: %s", text)
	}
	if g, _ := f.Gauges(0); g.Running != 0 || g.Waiting != 0 {
		t.Errorf("%+v", g)
	}
}

// A tool's parameters may use any keyword of JSON Schema.
func TestV02ToolSchemaKeywords(t *testing.T) {
	f := start(t, server.Options{})
	for _, schema := range []string{
		`{}`, `{"type":"object"}`, `{"type":"object","properties":{"a":{"type":"string","default":"x","pattern":"^[a-z]+$"}}}`,
		`{"type":"object","properties":{"n":{"type":"integer","minimum":1,"exclusiveMaximum":9}}}`,
		`{"anyOf":[{"type":"null"},{"$ref":"#/$defs/a"}],"$defs":{"a":{"type":"array","items":{},"minItems":0}}}`, `true`, `null`,
	} {
		for _, choice := range []string{`"auto"`, `"required"`, `{"type":"function","function":{"name":"f"}}`} {
			body := `{"messages":[{"role":"user","content":"hi"}],"max_tokens":3,"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":` + schema + `}}],"tool_choice":` + choice + `}`
			if resp, text := do(t, "POST", url(f, 0, chat), body); resp.StatusCode != 200 {
				t.Errorf("%s with tool_choice %s: %d %s", schema, choice, resp.StatusCode, text)
			}
		}
	}
}

// The chunk of usage comes when it is asked for, and no other chunk has the member.
func TestV04StreamingUsage(t *testing.T) {
	f := start(t, server.Options{})
	for _, c := range []struct {
		options string
		usage   bool
	}{
		{`,"stream_options":{"include_usage":true}`, true},
		{`,"stream_options":{"include_usage":false}`, false},
		{`,"stream_options":{"include_usage":null}`, false},
		{`,"stream_options":{}`, false},
		{`,"stream_options":null`, false},
		{``, false},
	} {
		_, text := do(t, "POST", url(f, 0, chat), `{"messages":[{"role":"user","content":"hi"}],"max_tokens":4,"stream":true`+c.options+`}`)
		list := events(t, text)
		with := 0
		for i, e := range list {
			if e.Usage != nil {
				with++
				if i != len(list)-1 || len(e.Choices) != 0 || e.Usage.Completion != 4 {
					t.Errorf("%s: usage in event %d of %d: %+v", c.options, i, len(list), e)
				}
			}
		}
		if (with == 1) != c.usage || with > 1 {
			t.Errorf("%s: %d chunks with usage in %s", c.options, with, text)
		}
	}
}

// The last chunk with content, or the answer, says exactly why it ended.
func TestV05FinishReason(t *testing.T) {
	f := start(t, server.Options{OutputMin: 5, OutputMax: 9})
	messages := `"messages":[{"role":"user","content":"tell me"}]`
	tools := `,"tools":[{"type":"function","function":{"name":"look_up","parameters":{}}}],"tool_choice":`
	// The answer is the same each time; its third word is the stop string.
	_, text := do(t, "POST", url(f, 0, chat), `{`+messages+`,"max_tokens":6}`)
	whole := decode(t, text).Choices[0].Message.Content
	words := strings.Split(whole, " ")
	stop, _ := json.Marshal(words[2])
	before, _, _ := strings.Cut(whole, words[2])
	for _, c := range []struct {
		name, more, finish, content string
		tokens                      int
	}{
		{"the limit", `,"max_tokens":3`, "length", whole[:12], 3},
		{"by itself", `,"ignore_eos":false,"max_tokens":100`, "stop", "", 0},
		{"without a limit", ``, "stop", "", 0},
		{"a stop string", `,"max_tokens":6,"stop":` + string(stop), "stop", before, 3},
		{"one of several stop strings", `,"max_tokens":6,"stop":["nowhere",` + string(stop) + `]`, "stop", before, 3},
		{"a stop string that comes with the last token", `,"max_tokens":3,"stop":` + string(stop), "stop", before, 3},
		{"a stop string that never comes", `,"max_tokens":3,"stop":"nowhere"`, "length", whole[:12], 3},
		{"a forced tool", `,"max_tokens":3` + tools + `{"type":"function","function":{"name":"look_up"}}`, "tool_calls", "", 3},
		{"a required tool", `,"max_tokens":3` + tools + `"required"`, "tool_calls", "", 3},
		{"a tool that it may call", `,"max_tokens":3` + tools + `"auto"`, "length", "", 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, text := do(t, "POST", url(f, 0, chat), `{`+messages+c.more+`}`)
			one := decode(t, text)
			if one.Choices[0].Finish != c.finish || c.tokens > 0 && one.Usage.Completion != c.tokens || c.content != "" && one.Choices[0].Message.Content != c.content {
				t.Errorf("unary: %s", text)
			}
			_, streamed := do(t, "POST", url(f, 0, chat), `{`+messages+c.more+`,"stream":true}`)
			var content, arguments string
			var reasons []string
			for line := range strings.Lines(streamed) {
				data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
				if !ok || data == "[DONE]" {
					continue
				}
				var e struct {
					Choices []struct {
						Delta struct {
							Content string
							Calls   []struct {
								Function struct{ Name, Arguments string }
							} `json:"tool_calls"`
						}
						Finish *string `json:"finish_reason"`
					}
				}
				if err := json.Unmarshal([]byte(data), &e); err != nil {
					t.Fatalf("%v in %s", err, data)
				}
				for _, choice := range e.Choices {
					content += choice.Delta.Content
					for _, call := range choice.Delta.Calls {
						arguments += call.Function.Arguments
					}
					if choice.Finish != nil {
						reasons = append(reasons, *choice.Finish)
					}
				}
			}
			if strings.Join(reasons, ",") != c.finish || content != one.Choices[0].Message.Content {
				t.Errorf("streamed: finish_reason %q, content %q; unary %q", reasons, content, one.Choices[0].Message.Content)
			}
			if c.finish == "tool_calls" {
				var in struct{ Text string }
				if err := json.Unmarshal([]byte(arguments), &in); err != nil || len(in.Text) != 12 || !strings.Contains(text, `"name":"look_up"`) {
					t.Errorf("arguments %q, %v; %s", arguments, err, text)
				}
			}
		})
	}
}

// The page counts a stop at the limit as a stop.
func TestV05FinishReasonOnThePage(t *testing.T) {
	f := start(t, server.Options{})
	body := `{"prompt":"hi","max_tokens":1`
	_, text := do(t, "POST", url(f, 0, "/v1/completions"), body+`}`)
	do(t, "POST", url(f, 0, "/v1/completions"), body+`,"stop":"`+decode(t, text).Choices[0].Text[:2]+`"}`)
	_, page := do(t, "GET", url(f, 0, "/metrics"), "")
	_, _, values := readPage(t, page)
	for reason, want := range map[string]float64{"stop": 1, "length": 1} {
		if got := values[`vllm:request_success_total{engine="0",finished_reason="`+reason+`",model_name="`+engine.Profiles()[0].Model+`"}`]; got != want {
			t.Errorf("%s: %v, want %v", reason, got, want)
		}
	}
}

// Many requests at a time, of which clients give some up: nobody is stuck, and nothing is left.
func TestV07Soak(t *testing.T) {
	p := engine.Profiles()[0]
	p.MaxSeqs, p.Blocks = 32, 600
	f := start(t, server.Options{Profile: p, Speed: 20})
	requests := 400
	if testing.Short() {
		requests = 100
	}
	client := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 200, MaxIdleConnsPerHost: 200}}
	defer client.CloseIdleConnections()
	var wg sync.WaitGroup
	for i := range requests {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			body := fmt.Sprintf(`{"prompt":"%s%d","max_tokens":%d,"stream":%v}`, strings.Repeat("four", i%50), i%7, 20+i%60, i%2 == 0)
			req, err := http.NewRequestWithContext(ctx, "POST", url(f, 0, "/v1/completions"), strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			if i%5 == 0 { // gives up
				io.CopyN(io.Discard, resp.Body, 10)
				return
			}
			if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != 200 {
				t.Errorf("request %d: %d %v %.100s", i, resp.StatusCode, err, text)
			}
		})
	}
	wg.Wait()
	until(t, f, 0, func(g engine.Gauges) bool { return g.Running == 0 && g.Waiting == 0 && g.UsedBlocks == 0 })
	_, page := do(t, "GET", url(f, 0, "/metrics"), "")
	_, _, values := readPage(t, page)
	if got := values[`vllm:num_requests_running{engine="0",model_name="`+p.Model+`"}`]; got != 0 {
		t.Errorf("num_requests_running is %v at the end", got)
	}
	if c, _ := f.Counters(0); c.Finished+c.Aborted != int64(requests) {
		t.Errorf("%+v; %d requests came", c, requests)
	}
}

// Several engines with replaced gauges, of which none is given, start.
func TestV08FakeMetricsOfSeveralEngines(t *testing.T) {
	f := start(t, server.Options{Engines: 2, Fake: &server.Fake{}})
	for i := range 2 {
		if resp, page := do(t, "GET", url(f, i, "/metrics"), ""); resp.StatusCode != 200 || !strings.Contains(page, "vllm:num_requests_running{") {
			t.Errorf("engine %d: %d", i, resp.StatusCode)
		}
	}
	running, use := int32(7), 0.25
	f = start(t, server.Options{Fake: &server.Fake{Running: &running, KVUsage: &use}})
	_, page := do(t, "GET", url(f, 0, "/metrics"), "")
	for _, want := range []string{"vllm:num_requests_running{%s} 7.0", "vllm:kv_cache_usage_perc{%s} 0.25", "vllm:num_requests_waiting{%s} 0.0"} {
		want = fmt.Sprintf(want, `engine="0",model_name="`+engine.Profiles()[0].Model+`"`)
		if !strings.Contains(page, want+"\n") {
			t.Errorf("the page lacks %s", want)
		}
	}
}

// The histogram of times to the first token has the time in the queue in it, as clients see it.
func TestV10TTFTUnderQueueing(t *testing.T) {
	p := engine.Profiles()[0]
	p.MaxSeqs = 2
	f := start(t, server.Options{Profile: p, Speed: 10, Faults: server.Faults{Slow: 50}})
	const requests = 20
	var mu sync.Mutex
	var told, seen, queued float64 // seconds of engine time
	var wg sync.WaitGroup
	for range requests {
		wg.Go(func() {
			began := time.Now()
			resp, err := http.Post(url(f, 0, chat), "", strings.NewReader(`{"messages":[{"role":"user","content":"hi"}],"max_tokens":2,"stream":true}`))
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			first := make([]byte, 1)
			io.ReadFull(resp.Body, first)
			took := time.Since(began).Seconds() * 10
			rest, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Error(err)
				return
			}
			list := events(t, string(first)+string(rest))
			mu.Lock()
			defer mu.Unlock()
			sim := list[len(list)-1].Sim
			told += sim.TTFT / 1000
			queued += sim.Queue / 1000
			seen += took
		})
	}
	wg.Wait()
	_, page := do(t, "GET", url(f, 0, "/metrics"), "")
	_, _, values := readPage(t, page)
	labels := `{engine="0",model_name="` + p.Model + `"}`
	sum, count := values["vllm:time_to_first_token_seconds_sum"+labels], values["vllm:time_to_first_token_seconds_count"+labels]
	if count != requests || math.Abs(sum/told-1) > 0.001 {
		t.Errorf("the histogram has %v s in %v requests; the answers tell %v s", sum, count, told)
	}
	// Most of it was spent waiting, and no client saw its first byte sooner than the engine says. How much later depends on
	// the machine.
	if queued < 0.7*sum || seen < 0.95*sum {
		t.Errorf("%v s, of which %v s in the queue; clients saw %v s", sum, queued, seen)
	}
}

// Who has the end of an answer finds it counted.
func TestV11MetricsAreFinalBeforeTheReply(t *testing.T) {
	f := start(t, server.Options{})
	labels := `{engine="0",model_name="` + engine.Profiles()[0].Model + `"}`
	for i := range 30 {
		body := fmt.Sprintf(`{"prompt":"hello","max_tokens":3,"stream":%v}`, i%2 == 0)
		do(t, "POST", url(f, 0, "/v1/completions"), body)
		_, page := do(t, "GET", url(f, 0, "/metrics"), "")
		_, _, values := readPage(t, page)
		n := float64(i + 1)
		for name, want := range map[string]float64{
			"vllm:generation_tokens_total": 3 * n, "vllm:e2e_request_latency_seconds_count": n, "vllm:num_requests_running": 0, "vllm:kv_cache_usage_perc": 0,
		} {
			if got := values[name+labels]; got != want {
				t.Fatalf("after %v requests %s is %v, want %v", n, name, got, want)
			}
		}
	}
}

// The list of models has the served names, and adapters with their path and their base.
func TestV13ModelsList(t *testing.T) {
	f := start(t, server.Options{ServedNames: []string{"a", "b"}, Adapters: []server.Adapter{{Name: "l1", Path: "/ad/l1"}}})
	type model struct {
		ID, Root string
		Parent   *string
	}
	read := func() []string {
		_, text := do(t, "GET", url(f, 0, "/v1/models"), "")
		var list struct{ Data []model }
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			t.Fatal(err)
		}
		var told []string
		for _, m := range list.Data {
			parent := "none"
			if m.Parent != nil {
				parent = *m.Parent
			}
			told = append(told, fmt.Sprintf("%s root=%s parent=%s", m.ID, m.Root, parent))
		}
		return told
	}
	base := engine.Profiles()[0].Model
	want := []string{"a root=" + base + " parent=none", "b root=" + base + " parent=none", "l1 root=/ad/l1 parent=a"}
	if got := read(); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got %q, want %q", got, want)
	}
	// Loaded at run time, and unloaded.
	if resp, text := do(t, "POST", url(f, 0, "/v1/load_lora_adapter"), `{"lora_name":"l2","lora_path":"/ad/l2"}`); resp.StatusCode != 200 || text != "Success: LoRA adapter 'l2' added successfully." {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
	if resp, text := do(t, "POST", url(f, 0, "/v1/load_lora_adapter"), `{"lora_name":"l2","lora_path":"/ad/l2"}`); resp.StatusCode != 400 || !strings.Contains(text, "already been loaded") {
		t.Errorf("a second time: %d %s", resp.StatusCode, text)
	}
	if got := read(); len(got) != 4 || got[3] != "l2 root=/ad/l2 parent=a" {
		t.Errorf("got %q", got)
	}
	if resp, text := do(t, "POST", url(f, 0, chat), chatBody(t, map[string]any{"model": "l2", "max_tokens": 2}, "hi")); resp.StatusCode != 200 {
		t.Errorf("a request for it: %d %s", resp.StatusCode, text)
	}
	if resp, text := do(t, "POST", url(f, 0, "/v1/unload_lora_adapter"), `{"lora_name":"l2"}`); resp.StatusCode != 200 || text != "Success: LoRA adapter 'l2' removed successfully." {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
	if got := read(); len(got) != 3 {
		t.Errorf("got %q", got)
	}
	if resp, _ := do(t, "POST", url(f, 0, chat), chatBody(t, map[string]any{"model": "l2", "max_tokens": 2}, "hi")); resp.StatusCode != 404 {
		t.Errorf("a request for what was unloaded: %d", resp.StatusCode)
	}
}

// An answer without any text is an answer.
func TestV14EmptyAnswer(t *testing.T) {
	f := start(t, server.Options{})
	for _, path := range []string{chat, "/v1/completions"} {
		more := `"prompt":"hi"`
		if path == chat {
			more = `"messages":[{"role":"user","content":"hi"}]`
		}
		// Its first letter is a capital, which no other is.
		_, text := do(t, "POST", url(f, 0, path), `{`+more+`,"max_tokens":4}`)
		whole := decode(t, text).Choices[0]
		first := (whole.Text + whole.Message.Content)[:1]
		resp, text := do(t, "POST", url(f, 0, path), `{`+more+`,"max_tokens":4,"stop":"`+first+`"}`)
		one := decode(t, text)
		if resp.StatusCode != 200 || len(one.Choices) != 1 || one.Choices[0].Text+one.Choices[0].Message.Content != "" || one.Choices[0].Finish != "stop" || one.Usage.Completion != 1 {
			t.Errorf("%s: %d %s", path, resp.StatusCode, text)
		}
		_, text = do(t, "POST", url(f, 0, path), `{`+more+`,"max_tokens":4,"stream":true,"stop":"`+first+`"}`)
		var content string
		for _, e := range events(t, text) {
			for _, choice := range e.Choices {
				content += choice.Text + choice.Delta.Content
			}
		}
		if content != "" {
			t.Errorf("%s, streamed: content %q", path, content)
		}
	}
}
