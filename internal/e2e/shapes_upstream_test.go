//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// shapes is a model server that has every API of a hosted one, and no model: each path answers in the words of its API. The
// header x-want makes it fail: status=N; once=N (the first time that a key is seen) with after=SECONDS and key=WORD; break,
// in the middle of a stream; reset, before the first byte; sleep; json, for an answer that is JSON.
type shapes struct{ seen sync.Map }

func (s *shapes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	w.Header().Set("X-Body-Sha256", sum(body))
	w.Header().Set("X-Upstream", "shapes")
	var asked struct {
		Stream bool
		Tools  []json.RawMessage
	}
	_ = json.Unmarshal(body, &asked) // forms and sound are no JSON, and ask for neither
	if s.fails(w, r, asked.Stream) {
		return
	}
	anthropic := strings.HasPrefix(r.URL.Path, "/v1/messages")
	switch path := strings.TrimPrefix(r.URL.Path, "/v1/"); {
	case r.URL.Path == "/metrics":
		fmt.Fprint(w, "vllm:num_requests_running{model_name=\"m\"} 50\nvllm:num_requests_waiting{model_name=\"m\"} 0\nvllm:kv_cache_usage_perc{model_name=\"m\"} 0.1\n")
	case path == "chat/completions" && asked.Stream:
		eventStream(w, "", `{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"so "}}]}`,
			`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"be it"},"finish_reason":"stop"}]}`,
			`{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12,"prompt_tokens_details":{"cached_tokens":4}}}`,
			"[DONE]")
	case path == "chat/completions":
		message := `{"role":"assistant","content":"so be it"}`
		if r.Header.Get("X-Want") == "json" {
			message = `{"role":"assistant","content":"{\"name\":\"Ulm\"}"}`
		}
		if asked.Tools != nil {
			message = `{"role":"assistant","content":null,"tool_calls":[{"id":"t","type":"function","function":{"name":"weather","arguments":"{}"}}]}`
		}
		say(w, `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"finish_reason":"stop","message":`+message+`}],"usage":{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}}`)
	case path == "completions" && asked.Stream:
		eventStream(w, "", `{"id":"c","object":"text_completion","created":1,"model":"m","choices":[{"index":0,"text":"upon "}]}`,
			`{"id":"c","object":"text_completion","created":1,"model":"m","choices":[{"index":0,"text":"a time","finish_reason":"stop"}]}`, "[DONE]")
	case path == "completions":
		say(w, `{"id":"c","object":"text_completion","created":1,"model":"m","choices":[{"index":0,"text":"upon a time","finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":3,"total_tokens":4}}`)
	case path == "responses" && asked.Stream:
		eventStream(w, "type", `{"type":"response.created","sequence_number":0,"response":`+response("in_progress", "", "null")+`}`,
			`{"type":"response.output_text.delta","sequence_number":1,"item_id":"i","output_index":0,"content_index":0,"delta":"so be it","logprobs":[]}`,
			`{"type":"response.completed","sequence_number":2,"response":`+response("completed", "so be it", responseUsage)+`}`)
	case path == "responses":
		say(w, response("completed", "so be it", responseUsage))
	case path == "embeddings":
		say(w, `{"object":"list","model":"m","data":[{"object":"embedding","index":0,"embedding":[0.5,-1.0]}],"usage":{"prompt_tokens":2,"total_tokens":2}}`)
	case path == "audio/transcriptions" || path == "audio/translations":
		say(w, `{"text":"`+strconv.Itoa(len(body)/1000)+` kB heard"}`)
	case path == "audio/speech":
		w.Header().Set("Content-Type", "audio/mpeg")
		_, _ = w.Write([]byte(strings.Repeat("\xff\xfb\x90", 30_000)))
	case strings.HasPrefix(path, "images/"):
		say(w, `{"created":1,"data":[{"b64_json":"iVBORw0KGgo="}],"usage":{"input_tokens":1,"output_tokens":1,"total_tokens":2,"input_tokens_details":{"text_tokens":1,"image_tokens":0}}}`)
	case path == "moderations":
		say(w, `{"id":"m","model":"m","results":[{"flagged":false,"categories":{},"category_scores":{},"category_applied_input_types":{}}]}`)
	case path == "messages/count_tokens":
		say(w, `{"input_tokens":21}`)
	case anthropic && asked.Stream:
		eventStream(w, "type", `{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":17,"cache_read_input_tokens":6,"output_tokens":1}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`, `{"type":"ping"}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"so be it"}}`, `{"type":"content_block_stop","index":0}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":40}}`, `{"type":"message_stop"}`)
	case anthropic:
		content := `{"type":"text","text":"so be it"}`
		if asked.Tools != nil {
			content = `{"type":"tool_use","id":"t","name":"weather","input":{}}`
		}
		say(w, `{"id":"m","type":"message","role":"assistant","model":"m","content":[`+content+`],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":17,"cache_read_input_tokens":6,"output_tokens":40}}`)
	default:
		http.NotFound(w, r)
	}
}

const responseUsage = `{"input_tokens":9,"output_tokens":2,"total_tokens":11,"input_tokens_details":{"cached_tokens":0},"output_tokens_details":{"reasoning_tokens":0}}`

func response(status, text, usage string) string {
	output := `[]`
	if text != "" {
		output = `[{"id":"i","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"` + text + `","annotations":[]}]}]`
	}
	return `{"id":"r","object":"response","created_at":1,"status":"` + status + `","model":"m","output":` + output + `,"parallel_tool_calls":true,"tool_choice":"auto","tools":[],"usage":` + usage + `}`
}

func say(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, text)
}

// eventStream writes an event stream, each event flushed; name is the member whose value is the event's name, empty for none.
func eventStream(w http.ResponseWriter, name string, data ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, d := range data {
		if name != "" {
			var members map[string]json.RawMessage
			if json.Unmarshal([]byte(d), &members) == nil {
				fmt.Fprintf(w, "event: %s\n", strings.Trim(string(members[name]), `"`))
			}
		}
		fmt.Fprintf(w, "data: %s\n\n", d)
		_ = http.NewResponseController(w).Flush()
	}
}

// fails fails as the request wants it, and reports whether it did.
func (s *shapes) fails(w http.ResponseWriter, r *http.Request, stream bool) bool {
	want := map[string]string{}
	for part := range strings.SplitSeq(r.Header.Get("X-Want"), ";") {
		k, v, _ := strings.Cut(part, "=")
		want[k] = v
	}
	status, _ := strconv.Atoi(want["status"])
	if once, _ := strconv.Atoi(want["once"]); once > 0 {
		if _, again := s.seen.LoadOrStore(want["key"], true); !again {
			status = once
		}
	}
	switch {
	case status > 0:
		if want["after"] != "" {
			w.Header().Set("Retry-After", want["after"])
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		if strings.HasPrefix(r.URL.Path, "/v1/messages") {
			fmt.Fprintf(w, `{"type":"error","error":{"type":"api_error","message":"the pod's own words, %d"}}`, status)
		} else {
			fmt.Fprintf(w, `{"object":"error","error":{"message":"the pod's own words, %d","type":"x","code":"own_%d"}}`, status, status)
		}
		return true
	case hasKey(want, "sleep"):
		select {
		case <-r.Context().Done():
		case <-time.After(5 * time.Second):
		}
		return true
	case hasKey(want, "break") && stream:
		eventStream(w, "", `{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"so "}}]}`)
		time.Sleep(20 * time.Millisecond)
		panic(http.ErrAbortHandler)
	case hasKey(want, "reset"):
		panic(http.ErrAbortHandler)
	}
	return false
}

func hasKey(m map[string]string, key string) bool { _, ok := m[key]; return ok }
