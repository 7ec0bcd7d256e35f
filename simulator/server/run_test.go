package server_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/simulator/server"
)

func TestRunServesUntilItsContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx, server.Options{Engines: 2, Speed: 50, Out: w}); w.Close() }()
	var urls []string
	lines := bufio.NewScanner(r)
	for len(urls) < 2 && lines.Scan() {
		if _, url, ok := strings.Cut(lines.Text(), ": http"); ok {
			urls = append(urls, "http"+url)
		}
	}
	for _, url := range urls {
		if resp, _ := do(t, "GET", url+"/health", ""); resp.StatusCode != 200 {
			t.Errorf("%s: %d", url, resp.StatusCode)
		}
	}
	// An answer under way is not cut.
	answer := make(chan string, 1)
	go func() {
		_, text, err := try(t, "POST", urls[0]+chat, chatBody(t, map[string]any{"max_tokens": 1000, "stream": true}, "hello"))
		if err != nil {
			text = err.Error()
		}
		answer <- text
	}()
	for {
		_, page := do(t, "GET", urls[0]+"/metrics", "")
		if strings.Contains(page, `vllm:num_requests_running{engine="0",model_name="meta-llama/Llama-3.1-8B-Instruct"} 1.0`) {
			break
		}
	}
	cancel()
	if text := <-answer; !strings.HasSuffix(text, "data: [DONE]\n\n") {
		t.Errorf("the answer was cut: %.200q", text)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := http.Get(urls[1] + "/health"); err == nil {
		t.Error("the second engine still answers")
	}
}

func TestCloseLeavesNoGoroutine(t *testing.T) {
	http.DefaultClient.CloseIdleConnections()
	before := runtime.NumGoroutine()
	f, err := server.Start(t.Context(), server.Options{Engines: 3})
	if err != nil {
		t.Fatal(err)
	}
	var stops []func()
	for i := range 3 {
		for _, fault := range []string{"", "hang"} {
			ctx, cancel := context.WithCancel(t.Context())
			req, err := http.NewRequestWithContext(ctx, "POST", url(f, i, chat), strings.NewReader(chatBody(t, map[string]any{"max_tokens": 100_000, "stream": true}, "hello")))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("x-sim-fault", fault)
			done := make(chan struct{})
			go func() {
				defer close(done)
				if resp, err := http.DefaultClient.Do(req); err == nil {
					io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			}()
			stops = append(stops, func() { <-done; cancel() })
		}
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	for _, stop := range stops {
		stop()
	}
	http.DefaultClient.CloseIdleConnections()
	deadline := time.Now().Add(5 * time.Second)
	for runtime.NumGoroutine() > before {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<16)
			t.Fatalf("%d goroutines, %d before\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
		}
		runtime.Gosched()
	}
}
