package server_test

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/simulator/server"
)

// sent returns the events of a stream with names: name and data.
func sent(t *testing.T, stream string) (names []string, data []map[string]any) {
	t.Helper()
	for block := range strings.SplitSeq(strings.TrimSpace(stream), "\n\n") {
		name, rest, ok := strings.Cut(block, "\n")
		body, ok2 := strings.CutPrefix(rest, "data: ")
		if !ok || !ok2 || !strings.HasPrefix(name, "event: ") {
			t.Fatalf("block %q is no event with a name", block)
		}
		var d map[string]any
		if err := json.Unmarshal([]byte(body), &d); err != nil {
			t.Fatalf("%v in %q", err, body)
		}
		names, data = append(names, strings.TrimPrefix(name, "event: ")), append(data, d)
		if d["type"] != names[len(names)-1] {
			t.Errorf("event %s has type %v", names[len(names)-1], d["type"])
		}
	}
	return names, data
}

func TestResponses(t *testing.T) {
	f := start(t, server.Options{})
	type response struct {
		Object, Status string
		Incomplete     *struct{ Reason string } `json:"incomplete_details"`
		Output         []struct {
			Content []struct{ Type, Text string }
		}
		Usage struct {
			In      int `json:"input_tokens"`
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"input_tokens_details"`
			Out   int `json:"output_tokens"`
			Total int `json:"total_tokens"`
		}
	}
	body := `"input":[{"role":"user","content":[{"type":"input_text","text":"` + strings.Repeat("tell", 40) + `"}]},{"type":"function_call_output","call_id":"c","output":"4"}],"instructions":"be brief","max_output_tokens":5`
	_, text := do(t, "POST", url(f, 0, "/v1/responses"), `{`+body+`}`, "x-request-id", "r1")
	var r response
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	if r.Object != "response" || r.Status != "incomplete" || r.Incomplete.Reason != "max_output_tokens" || len(r.Output[0].Content[0].Text) != 20 || r.Usage.Out != 5 || r.Usage.Total != r.Usage.In+5 || !strings.Contains(text, `"id":"resp_r1"`) {
		t.Errorf("%s", text)
	}
	_, stream := do(t, "POST", url(f, 0, "/v1/responses"), `{`+body+`,"stream":true}`)
	names, data := sent(t, stream)
	want := "response.created response.in_progress response.output_item.added response.content_part.added" +
		strings.Repeat(" response.output_text.delta", 5) + " response.output_text.done response.content_part.done response.output_item.done response.completed"
	if strings.Join(names, " ") != want {
		t.Errorf("events %q", names)
	}
	var told string
	for i, d := range data {
		if d["sequence_number"] != float64(i) {
			t.Errorf("event %d has number %v", i, d["sequence_number"])
		}
		if delta, ok := d["delta"].(string); ok {
			told += delta
		}
	}
	last, _ := json.Marshal(data[len(data)-1]["response"])
	var end response
	if err := json.Unmarshal(last, &end); err != nil || told != r.Output[0].Content[0].Text || end.Output[0].Content[0].Text != told {
		t.Errorf("streamed %q, unary %q, at the end %s", told, r.Output[0].Content[0].Text, last)
	}
	if end.Usage.Details.Cached == 0 {
		t.Errorf("the second time nothing was cached: %s", last)
	}
}

func TestMessages(t *testing.T) {
	f := start(t, server.Options{})
	body := `"system":"be brief","messages":[{"role":"user","content":"` + strings.Repeat("tell", 40) + `"}],"max_tokens":5`
	var m struct {
		ID, Type string
		Content  []struct{ Type, Text string }
		Stop     string `json:"stop_reason"`
		Usage    struct {
			In     int `json:"input_tokens"`
			Out    int `json:"output_tokens"`
			Cached int `json:"cache_read_input_tokens"`
		}
	}
	_, text := do(t, "POST", url(f, 0, "/v1/messages"), `{`+body+`}`)
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatal(err)
	}
	if m.Type != "message" || m.Stop != "max_tokens" || len(m.Content[0].Text) != 20 || m.Usage.Out != 5 {
		t.Errorf("%s", text)
	}
	_, stream := do(t, "POST", url(f, 0, "/v1/messages"), `{`+body+`,"stream":true}`)
	names, data := sent(t, stream)
	if want := "message_start content_block_start" + strings.Repeat(" content_block_delta", 5) + " content_block_stop message_delta message_stop"; strings.Join(names, " ") != want {
		t.Errorf("events %q", names)
	}
	var told string
	for _, d := range data {
		if delta, ok := d["delta"].(map[string]any); ok && delta["text"] != nil {
			told += delta["text"].(string)
		}
	}
	if told != m.Content[0].Text {
		t.Errorf("streamed %q, unary %q", told, m.Content[0].Text)
	}
	stop, _ := json.Marshal(m.Content[0].Text[5:8])
	_, text = do(t, "POST", url(f, 0, "/v1/messages"), `{`+body+`,"stop_sequences":[`+string(stop)+`]}`)
	if !strings.Contains(text, `"stop_reason":"stop_sequence","stop_sequence":`+string(stop)) {
		t.Errorf("%s", text)
	}
	_, text = do(t, "POST", url(f, 0, "/v1/messages/count_tokens"), `{`+body+`}`)
	if want := `{"input_tokens":` + itoa(m.Usage.In) + `,"context_management":{"original_input_tokens":` + itoa(m.Usage.In) + `}}`; text != want {
		t.Errorf("got %s, want %s", text, want)
	}
}

// What /tokenize gives for a text, given as a prompt, hits what the text left in the cache.
func TestTokenize(t *testing.T) {
	f := start(t, server.Options{})
	prompt := strings.Repeat("some words ", 40)
	_, text := do(t, "POST", url(f, 0, "/tokenize"), `{"prompt":"`+prompt+`"}`)
	var tokens struct {
		Count  int
		Max    int `json:"max_model_len"`
		Tokens []uint32
	}
	if err := json.Unmarshal([]byte(text), &tokens); err != nil || tokens.Count != len(tokens.Tokens) || tokens.Count != 1+len(prompt)/4 || tokens.Max != 131_072 {
		t.Fatalf("%v in %s", err, text)
	}
	do(t, "POST", url(f, 0, "/v1/completions"), `{"prompt":"`+prompt+`","max_tokens":1}`)
	// The mark that begins a text is among the tokens, and each prompt is given one more.
	ids, _ := json.Marshal(tokens.Tokens[1:])
	_, text = do(t, "POST", url(f, 0, "/v1/completions"), `{"prompt":`+string(ids)+`,"max_tokens":1}`)
	if u := decode(t, text).Usage; u.Details.Cached != (u.Prompt-1)/16*16 || u.Prompt != tokens.Count {
		t.Errorf("%s; want all but the last block cached", text)
	}
	ids, _ = json.Marshal(tokens.Tokens)
	if _, text = do(t, "POST", url(f, 0, "/detokenize"), `{"tokens":`+string(ids)+`}`); text != `{"prompt":"`+prompt+`"}` {
		t.Errorf("%s", text)
	}
	_, text = do(t, "POST", url(f, 0, "/tokenize"), chatBody(t, nil, "hello"))
	if err := json.Unmarshal([]byte(text), &tokens); err != nil {
		t.Fatal(err)
	}
	_, text = do(t, "POST", url(f, 0, chat), chatBody(t, map[string]any{"max_tokens": 1}, "hello"))
	if got := decode(t, text).Usage.Prompt; got != tokens.Count {
		t.Errorf("a chat has %d tokens, /tokenize says %d", got, tokens.Count)
	}
}

func TestEmbeddings(t *testing.T) {
	f := start(t, server.Options{})
	var e struct {
		Data []struct {
			Index     int
			Embedding []float64
		}
		Model string
		Usage usage
	}
	resp, text := do(t, "POST", url(f, 0, "/v1/embeddings"), `{"input":["hello","hello","other"],"dimensions":8}`)
	if err := json.Unmarshal([]byte(text), &e); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%d %v in %s", resp.StatusCode, err, text)
	}
	if len(e.Data) != 3 || len(e.Data[2].Embedding) != 8 || e.Data[2].Index != 2 || e.Usage.Prompt != 9 || e.Usage.Total != 9 {
		t.Fatalf("%s", text)
	}
	var square float64
	same, other := true, true
	for i, v := range e.Data[0].Embedding {
		square += v * v
		same = same && v == e.Data[1].Embedding[i]
		other = other && v == e.Data[2].Embedding[i]
	}
	if math.Abs(square-1) > 1e-5 || !same || other {
		t.Errorf("length² %v, equal texts equal %v, other texts equal %v", square, same, other)
	}
	var packed struct {
		Data []struct{ Embedding string }
	}
	_, text = do(t, "POST", url(f, 0, "/v1/embeddings"), `{"input":"hello","encoding_format":"base64"}`)
	if err := json.Unmarshal([]byte(text), &packed); err != nil {
		t.Fatal(err)
	}
	if raw, err := base64.StdEncoding.DecodeString(packed.Data[0].Embedding); err != nil || len(raw) != 4*64 {
		t.Errorf("%d bytes, %v", len(raw), err)
	}
	if c, _ := f.Counters(0); c.Finished != 4 {
		t.Errorf("%+v; want each input computed", c)
	}
}

func TestMetricsOffCrashAndRestart(t *testing.T) {
	f := start(t, server.Options{Engines: 2})
	do(t, "POST", url(f, 0, "/sim/faults"), `{"metricsOff":true}`)
	if resp, _ := do(t, "GET", url(f, 0, "/metrics"), ""); resp.StatusCode != 404 {
		t.Errorf("metrics off: %d", resp.StatusCode)
	}
	if resp, _ := do(t, "GET", url(f, 1, "/metrics"), ""); resp.StatusCode != 200 {
		t.Errorf("the other engine: %d", resp.StatusCode)
	}
	if resp, text := do(t, "POST", url(f, 1, "/sim/crash?engine=0"), ""); resp.StatusCode != 200 || text != `{"stopped":true}` {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
	if _, _, err := try(t, "GET", url(f, 0, "/health"), ""); err == nil {
		t.Error("the crashed engine answers")
	}
	if resp, text := do(t, "POST", url(f, 1, "/sim/restart?engine=0"), ""); resp.StatusCode != 200 || text != `{"running":true}` {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
	if resp, _ := do(t, "GET", url(f, 0, "/metrics"), ""); resp.StatusCode != 200 {
		t.Errorf("restarted: %d; it is healthy", resp.StatusCode)
	}
	// An engine that kills itself cuts the connection.
	if _, _, err := try(t, "POST", url(f, 0, "/sim/crash"), ""); err == nil {
		t.Error("an engine answered its own crash")
	}
	if resp, _ := do(t, "POST", url(f, 1, "/sim/crash?engine=7"), ""); resp.StatusCode != 400 {
		t.Errorf("no such engine: %d", resp.StatusCode)
	}
}
