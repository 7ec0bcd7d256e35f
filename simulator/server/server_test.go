package server_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/simulator/server"
)

func start(t testing.TB, o server.Options) *server.Fleet {
	t.Helper()
	if o.Speed == 0 {
		o.Speed = 200
	}
	f, err := server.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func url(f *server.Fleet, engine int, path string) string {
	return "http://" + f.Addrs()[engine].String() + path
}

// do sends a request with headers given as name, value, name, value … and returns the answer with its whole body.
func do(t testing.TB, method, url, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	resp, text, err := try(t, method, url, body, headers...)
	if err != nil {
		t.Fatal(err)
	}
	return resp, text
}

func try(t testing.TB, method, url, body string, headers ...string) (*http.Response, string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp, string(text), err
}

type figures struct {
	TTFT   float64 `json:"ttft_ms"`
	Queue  float64 `json:"queue_ms"`
	Cached int     `json:"cached_tokens"`
	Output int     `json:"output_tokens"`
}

type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	Details    struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

type chunk struct {
	ID, Object, Model string
	Choices           []struct {
		Text    string
		Delta   struct{ Role, Content string }
		Message struct{ Role, Content string }
		Finish  string `json:"finish_reason"`
	}
	Usage *usage
	Sim   *figures
	Error *struct {
		Message, Type string
		Code          int
	}
}

func decode(t testing.TB, text string) chunk {
	t.Helper()
	var c chunk
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		t.Fatalf("%v in %q", err, text)
	}
	return c
}

// events returns the decoded events of a stream, which must end with [DONE].
func events(t testing.TB, stream string) []chunk {
	t.Helper()
	var list []chunk
	lines := bufio.NewScanner(strings.NewReader(stream))
	lines.Buffer(nil, 1<<20)
	done := false
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case !ok && lines.Text() != "":
			t.Fatalf("line %q", lines.Text())
		case !ok:
		case done:
			t.Fatalf("%q after [DONE]", data)
		case data == "[DONE]":
			done = true
		default:
			list = append(list, decode(t, data))
		}
	}
	if !done {
		t.Fatalf("the stream has no [DONE]: %q", stream)
	}
	return list
}

func content(list []chunk) string {
	var b strings.Builder
	for _, c := range list {
		for _, choice := range c.Choices {
			b.WriteString(choice.Delta.Content + choice.Text)
		}
	}
	return b.String()
}

const chat = "/v1/chat/completions"

func chatBody(t testing.TB, members map[string]any, messages ...string) string {
	t.Helper()
	var list []map[string]string
	for i, m := range messages {
		list = append(list, map[string]string{"role": []string{"user", "assistant"}[i%2], "content": m})
	}
	body := map[string]any{"model": "llama-3.1-8b", "messages": list}
	for k, v := range members {
		body[k] = v
	}
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(body); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestAChatInOnePiece(t *testing.T) {
	f := start(t, server.Options{})
	body := chatBody(t, map[string]any{"max_tokens": 20}, "hello server")
	resp, text := do(t, "POST", url(f, 0, chat), body, "x-request-id", "r-1")
	got := decode(t, text)
	sum := sha256.Sum256([]byte(body))
	if resp.StatusCode != 200 || got.ID != "chatcmpl-r-1" || got.Object != "chat.completion" || got.Model != "llama-3.1-8b" ||
		got.Choices[0].Message.Role != "assistant" || len(got.Choices[0].Message.Content) != 80 || got.Choices[0].Finish != "length" {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
	// Begin, role "user" and its two marks, 12 bytes of content, end of turn; three tokens of "assistant" and its two marks.
	if got.Usage == nil || got.Usage.Prompt != 1+3+3+1+5 || got.Usage.Completion != 20 || got.Usage.Total != 33 {
		t.Errorf("usage %+v", got.Usage)
	}
	for name, want := range map[string]string{"x-sim-engine": "0", "x-request-id": "r-1", "x-sim-body-sha256": hex.EncodeToString(sum[:])} {
		if resp.Header.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, resp.Header.Get(name), want)
		}
	}
	if got.Sim == nil || got.Sim.TTFT < 6.63 || resp.Header.Get("x-sim-ttft-engine-ms") == "" {
		t.Errorf("figures %+v, header %q", got.Sim, resp.Header.Get("x-sim-ttft-engine-ms"))
	}
}

func TestAStreamSaysTheSameAsOnePiece(t *testing.T) {
	f := start(t, server.Options{})
	members := map[string]any{"max_tokens": 50}
	_, whole := do(t, "POST", url(f, 0, chat), chatBody(t, members, "tell me"))
	members["stream"] = true
	members["stream_options"] = map[string]any{"include_usage": true}
	resp, stream := do(t, "POST", url(f, 0, chat), chatBody(t, members, "tell me"))
	list := events(t, stream)
	if got, want := content(list), decode(t, whole).Choices[0].Message.Content; got != want {
		t.Errorf("streamed %q, in one piece %q", got, want)
	}
	if len(list) != 1+50+1+1 {
		t.Errorf("%d events; want a role, 50 tokens, an end, the usage", len(list))
	}
	last := list[len(list)-1]
	if len(last.Choices) != 0 || last.Usage == nil || last.Usage.Completion != 50 || last.Sim == nil || last.Sim.Output != 50 {
		t.Errorf("last event %+v", last)
	}
	if list[0].Choices[0].Delta.Role != "assistant" || list[len(list)-2].Choices[0].Finish != "length" {
		t.Errorf("first %+v, last but one %+v", list[0], list[len(list)-2])
	}
	if got := resp.Header.Get("content-type"); got != "text/event-stream; charset=utf-8" {
		t.Errorf("content-type %q", got)
	}
}

func TestTheNextTurnHitsPromptAndAnswer(t *testing.T) {
	f := start(t, server.Options{})
	question := strings.Repeat("a question of some length ", 20)
	first := decode(t, second(do(t, "POST", url(f, 0, chat), chatBody(t, map[string]any{"max_tokens": 64}, question))))
	answer := first.Choices[0].Message.Content
	next := decode(t, second(do(t, "POST", url(f, 0, chat), chatBody(t, map[string]any{"max_tokens": 4}, question, answer, "and then?"))))
	// All of the first turn but its last token, whose keys and values were never computed, in whole blocks.
	want := (first.Usage.Total - 1) / 16 * 16
	if next.Usage.Details.Cached != want || next.Sim.Cached != want {
		t.Errorf("cached %d of %d tokens, want %d", next.Usage.Details.Cached, next.Usage.Prompt, want)
	}
}

func second(_ *http.Response, text string) string { return text }
