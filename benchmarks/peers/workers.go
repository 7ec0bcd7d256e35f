package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

// model is the name under which the workers serve.
const model = "fake-model"

// counts is how many requests the workers took: those that generate, and all others but health checks and metrics pages.
type counts struct {
	Generate int64 `json:"generate"`
	Other    int64 `json:"other"`
}

// workers are model servers without a model: each answers after delay with tokens streamed one by one. Beside generation
// they answer what routers ask of vLLM and SGLang servers, since a router that asks more costs more.
type workers struct {
	delay           time.Duration
	tokens          int
	generate, other atomic.Int64
}

// serveWorkers serves n workers on consecutive ports from first, and their counts on control, until ctx ends.
func serveWorkers(ctx context.Context, first, n, control int) error {
	w := &workers{delay: 5 * time.Millisecond, tokens: 8}
	failed := make(chan error, n+1)
	serve := func(port int, h http.Handler) error {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return err
		}
		s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
		context.AfterFunc(ctx, func() { _ = s.Close() })
		go func() { failed <- s.Serve(l) }()
		return nil
	}
	mux := w.mux()
	for i := range n {
		if err := serve(first+i, mux); err != nil {
			return err
		}
	}
	err := serve(control, http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(rw).Encode(counts{w.generate.Load(), w.other.Load()})
	}))
	if err != nil {
		return err
	}
	fmt.Println("serving")
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	}
}

func (w *workers) mux() http.Handler {
	mux := http.NewServeMux()
	say := func(v any) http.HandlerFunc {
		text, err := json.Marshal(v)
		if err != nil {
			panic(err) // the values below are constants
		}
		return func(rw http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			rw.Header().Set("Content-Type", "application/json")
			_, _ = rw.Write(text)
		}
	}
	counted := func(h http.HandlerFunc) http.HandlerFunc {
		return func(rw http.ResponseWriter, r *http.Request) {
			w.other.Add(1)
			h(rw, r)
		}
	}
	mux.HandleFunc("POST /v1/chat/completions", w.answer)
	mux.HandleFunc("POST /v1/completions", w.answer)
	mux.HandleFunc("GET /health", say(map[string]string{"status": "ok"}))
	mux.HandleFunc("GET /v1/models", say(map[string]any{"object": "list", "data": []any{map[string]any{"id": model, "object": "model", "owned_by": "nobody", "max_model_len": 131072}}}))
	mux.HandleFunc("GET /version", say(map[string]string{"version": "0.26.0"}))
	for _, path := range []string{"/server_info", "/get_server_info", "/get_model_info", "/model_info"} {
		mux.HandleFunc("GET "+path, say(map[string]any{"model_path": model, "served_model_name": model, "is_generation": true}))
	}
	mux.HandleFunc("GET /metrics", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/plain; version=0.0.4")
		fmt.Fprintf(rw, "vllm:num_requests_running{model_name=%[1]q} 1\nvllm:num_requests_waiting{model_name=%[1]q} 0\nvllm:kv_cache_usage_perc{model_name=%[1]q} 0.2\n", model)
	})
	ids := map[string]any{"prompt_token_ids": []int{1, 2, 3}, "token_ids": []int{1, 2, 3}, "tokens": []int{1, 2, 3}, "count": 3, "max_model_len": 131072}
	mux.HandleFunc("POST /tokenize", counted(say(ids)))
	mux.HandleFunc("POST /v1/chat/completions/render", counted(say(ids)))
	mux.HandleFunc("POST /v1/completions/render", counted(say(ids)))
	mux.HandleFunc("/", counted(http.NotFound))
	return mux
}

// answer streams a chat completion.
func (w *workers) answer(rw http.ResponseWriter, r *http.Request) {
	w.generate.Add(1)
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return
	}
	time.Sleep(w.delay)
	rw.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(rw)
	for i := range w.tokens {
		fmt.Fprintf(rw, "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":%q,\"choices\":[{\"index\":0,\"delta\":{\"content\":\"word%d \"},\"finish_reason\":null}]}\n\n", model, i)
		_ = flush.Flush()
	}
	fmt.Fprintf(rw, "data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":%q,\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":%d,\"total_tokens\":%d}}\n\ndata: [DONE]\n\n", model, w.tokens, 9+w.tokens)
}
