//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/openai"
)

// TestUsageWithoutBodies: with usage.yaml the picker knows the token usage of every answer that reports it, equal to what the
// client has, though no part of an answer's body visits it.
func TestUsageWithoutBodies(t *testing.T) {
	w := newWorld(t, options{envoy: "usage.yaml"})
	const stream = `,"stream":true,"stream_options":{"include_usage":true}`
	anthropic := "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"" + modelName +
		"\",\"content\":[],\"stop_reason\":null,\"usage\":{\"input_tokens\":17,\"cache_read_input_tokens\":6,\"output_tokens\":1}}}\n\n" +
		"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hi\"}}\n\n" +
		"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":40}}\n\n" +
		"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	w.store([]byte(anthropic))
	completion := func(more string) []byte {
		return fmt.Appendf(nil, `{"model":%q,"prompt":"%s","max_tokens":9%s}`, modelName, strings.Repeat("word ", 200), more)
	}
	for _, tt := range []struct {
		name string
		call call
		api  openai.API
	}{
		{"a chat", call{body: chat(1, 2000, `,"max_tokens":7`)}, openai.ChatCompletions},
		{"a chat with cached tokens", call{body: chat(1, 2000, `,"max_tokens":5`)}, openai.ChatCompletions},
		{"a streamed chat", call{body: chat(2, 2000, `,"max_tokens":30`+stream)}, openai.ChatCompletions},
		{"a completion", call{path: "/v1/completions", body: completion("")}, openai.Completions},
		{"a streamed completion", call{path: "/v1/completions", body: completion(stream)}, openai.Completions},
		{"a streamed message of Anthropic's", call{path: "/v1/messages", body: chat(3, 100, `,"stream":true`), fixed: true}, openai.Messages},
	} {
		t.Run(tt.name, func(t *testing.T) {
			kinds := []string{"prompt", "cached", "completion"}
			before := map[string]float64{}
			for _, kind := range kinds {
				before[kind] = w.metric(`fairlead_tokens_total{kind="` + kind + `"`)
			}
			r := w.do(tt.call)
			if r.err != nil || r.status != 200 {
				t.Fatalf("status %d, error %v: %s", r.status, r.err, r.body)
			}
			u := openai.NewUsageReader(tt.api, r.header.Get("Content-Type"), "")
			u.Feed(r.body)
			u.Close()
			if u.Usage().Prompt <= 0 {
				t.Fatalf("the client was told no usage: %s", r.body)
			}
			want := fmt.Sprint(u.Usage().Prompt, max(u.Usage().Cached, 0), u.Usage().Out)
			w.booksZero(time.Now(), 2*time.Second)
			got := ""
			for deadline := time.Now().Add(5 * time.Second); got != want && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
				var sums []any
				for _, kind := range kinds {
					sums = append(sums, w.metric(`fairlead_tokens_total{kind="`+kind+`"`)-before[kind])
				}
				got = fmt.Sprint(sums...)
			}
			if got != want {
				t.Errorf("the picker counted %s tokens (prompt, cached, completion); the client was told %s", got, want)
			}
		})
	}
	if n := w.metric(`fairlead_ext_proc_messages_total{kind="response_body"}`); n != 0 {
		t.Errorf("%v messages with parts of answers' bodies", n)
	}
	if n := w.metric(`fairlead_reasons_total{reason="usage_partial"}`); n != 0 {
		t.Errorf("usage was partial %v times", n)
	}
	var list struct{ Data []struct{ Created int64 } }
	if r := w.do(call{path: "/v1/models", get: true}); json.Unmarshal(bytes.TrimSpace(r.body), &list) != nil || len(list.Data) != 1 || time.Since(time.Unix(list.Data[0].Created, 0)) > time.Hour {
		t.Errorf("models: %s", r.body)
	}
}

// TestRefusalsInTheShapeOfTheirClients: what the picker refuses reaches a client in the shape that it decodes, also through a
// gateway that makes answers to gRPC of its own.
func TestRefusalsInTheShapeOfTheirClients(t *testing.T) {
	w := newWorld(t, options{envoy: "override.yaml"})
	r := w.do(call{h2: true, path: "/vllm.grpc.engine.VllmEngine/Generate", body: []byte("\x00\xff\xff\xff\xfdabc"), headers: []string{"Content-Type", "application/grpc", "Te", "trailers"}})
	if r.err != nil || r.status != 200 || r.header.Get("Grpc-Status") != "3" || !strings.HasPrefix(r.header.Get("Grpc-Message"), "malformed_body: ") {
		t.Errorf("gRPC: status %d, error %v, %v, %s", r.status, r.err, r.header, r.body)
	}
	r = w.do(call{path: "/v1/messages/render", body: []byte(`{"model":"nobody"}`)})
	if r.status != 404 || !strings.HasPrefix(string(r.body), `{"type":"error","error":{"type":"not_found_error"`) {
		t.Errorf("Anthropic: status %d, error %v, %s", r.status, r.err, r.body)
	}
	r = w.do(call{path: "/v1/chat/completions", body: []byte(`{"model":7}`)})
	if r.status != 400 || !strings.Contains(string(r.body), `"code":"invalid_model"`) {
		t.Errorf("OpenAI: status %d, error %v, %s", r.status, r.err, r.body)
	}
}
