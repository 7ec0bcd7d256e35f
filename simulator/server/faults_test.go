package server_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fairlead/fairlead/simulator/engine"
	"github.com/fairlead/fairlead/simulator/server"
)

// background sends a request whose answer nobody waits for, and returns the function that hangs up.
func background(t testing.TB, url, body string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		req, err := http.NewRequestWithContext(ctx, "POST", url, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return
		}
		defer resp.Body.Close()
		io.Copy(io.Discard, resp.Body)
	})
	return func() { cancel(); wg.Wait() }
}

// until polls the gauges of an engine, for as long as ten seconds.
func until(t testing.TB, f *server.Fleet, i int, ok func(engine.Gauges) bool) {
	t.Helper()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		g, _ := f.Gauges(i)
		if ok(g) {
			return
		}
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatalf("after 10 s the gauges are %+v", g)
		}
	}
}

func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
}

func TestFaultsOfARequest(t *testing.T) {
	f := start(t, server.Options{})
	body := chatBody(t, map[string]any{"max_tokens": 9, "stream": true}, "hello")
	t.Run("status", func(t *testing.T) {
		resp, text := do(t, "POST", url(f, 0, chat), body, "x-sim-fault", "status=503")
		if e := decode(t, text).Error; resp.StatusCode != 503 || e == nil || e.Code != 503 {
			t.Errorf("%d %s", resp.StatusCode, text)
		}
	})
	t.Run("reset before the first byte", func(t *testing.T) {
		if _, _, err := try(t, "POST", url(f, 0, chat), body, "x-sim-fault", "reset-before"); err == nil || !isReset(err) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("reset in the middle of a stream", func(t *testing.T) {
		resp, text, err := try(t, "POST", url(f, 0, chat), body, "x-sim-fault", "reset-mid")
		if resp == nil || resp.StatusCode != 200 || err == nil || !isReset(err) || strings.Count(text, "data: ") != 3 || strings.Contains(text, "[DONE]") {
			t.Errorf("want the role and 2 tokens and then a reset; got %v, %q", err, text)
		}
	})
	t.Run("reset in the middle of an answer in one piece", func(t *testing.T) {
		resp, _, err := try(t, "POST", url(f, 0, chat), chatBody(t, map[string]any{"max_tokens": 9}, "hello"), "x-sim-fault", "reset-mid")
		if resp == nil || resp.StatusCode != 200 || err == nil || !isReset(err) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("hang", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		req, _ := http.NewRequestWithContext(ctx, "POST", url(f, 0, chat), strings.NewReader(body))
		req.Header.Set("x-sim-fault", "hang")
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
			t.Error("a hanging request was answered")
		}
	})
	t.Run("unknown", func(t *testing.T) {
		for _, fault := range []string{"hangs", "status=200", "status=", "status=503x"} {
			if resp, text := do(t, "POST", url(f, 0, chat), body, "x-sim-fault", fault); resp.StatusCode != 400 || !strings.Contains(text, "reset-mid") {
				t.Errorf("%q: %d %s", fault, resp.StatusCode, text)
			}
		}
	})
	if g, _ := f.Gauges(0); g.Running != 0 || g.Waiting != 0 || g.UsedBlocks != 0 {
		until(t, f, 0, func(g engine.Gauges) bool { return g.Running == 0 && g.Waiting == 0 && g.UsedBlocks == 0 })
	}
}

func TestFaultsOfAnEngine(t *testing.T) {
	f := start(t, server.Options{Engines: 2})
	body := chatBody(t, map[string]any{"max_tokens": 9}, "hello")
	set := func(t *testing.T, faults string) {
		t.Helper()
		// Through the other engine's port, as must be done for one that refuses.
		if resp, text := do(t, "POST", url(f, 1, "/sim/faults?engine=0"), faults); resp.StatusCode != 200 {
			t.Fatalf("%d %s", resp.StatusCode, text)
		}
	}
	t.Run("status", func(t *testing.T) {
		set(t, `{"status":500}`)
		if resp, _ := do(t, "POST", url(f, 0, chat), body); resp.StatusCode != 500 {
			t.Errorf("got %d", resp.StatusCode)
		}
		if resp, _ := do(t, "POST", url(f, 1, chat), body); resp.StatusCode != 200 {
			t.Errorf("the other engine: got %d", resp.StatusCode)
		}
		if resp, _ := do(t, "GET", url(f, 0, "/health"), ""); resp.StatusCode != 200 {
			t.Errorf("health: got %d", resp.StatusCode)
		}
		set(t, `{}`)
		if resp, _ := do(t, "POST", url(f, 0, chat), body); resp.StatusCode != 200 {
			t.Errorf("healthy again: got %d", resp.StatusCode)
		}
	})
	t.Run("slow", func(t *testing.T) {
		set(t, `{"slow":3}`)
		// 3 times (6.63 ms + 12 tokens of 31 µs + 5.2 µs), and some attention.
		if got := decode(t, second(do(t, "POST", url(f, 0, chat), body))).Sim.TTFT; got < 21.02 || got > 21.05 {
			t.Errorf("TTFT is %v ms", got)
		}
		set(t, `{}`)
	})
	t.Run("hang, and go on", func(t *testing.T) {
		set(t, `{"hang":true}`)
		answered := make(chan string, 1)
		go func() {
			_, text, err := try(t, "POST", url(f, 0, chat), body)
			if err != nil {
				text = err.Error()
			}
			answered <- text
		}()
		until(t, f, 0, func(g engine.Gauges) bool { return g.Waiting == 1 })
		if _, page := do(t, "GET", url(f, 0, "/metrics"), ""); !strings.Contains(page, `vllm:num_requests_waiting{engine="0",model_name="meta-llama/Llama-3.1-8B-Instruct"} 1.0`) {
			t.Error("the page of a hanging engine does not show who waits")
		}
		select {
		case text := <-answered:
			t.Fatalf("answered while hanging: %s", text)
		default:
		}
		set(t, `{}`)
		if got := decode(t, <-answered); got.Usage == nil || got.Usage.Completion != 9 {
			t.Errorf("%+v", got)
		}
	})
	t.Run("stale metrics", func(t *testing.T) {
		set(t, `{"staleMetrics":true}`)
		_, before := do(t, "GET", url(f, 0, "/metrics"), "")
		do(t, "POST", url(f, 0, chat), body)
		if _, after := do(t, "GET", url(f, 0, "/metrics"), ""); after != before {
			t.Error("the frozen page moved")
		}
		set(t, `{}`)
		if _, after := do(t, "GET", url(f, 0, "/metrics"), ""); after == before {
			t.Error("the page is still frozen")
		}
	})
	t.Run("reset after chunks", func(t *testing.T) {
		set(t, `{"resetAfterChunks":5}`)
		_, text, err := try(t, "POST", url(f, 0, chat), chatBody(t, map[string]any{"max_tokens": 9, "stream": true}, "hello"))
		if err == nil || strings.Count(text, "data: ") != 6 {
			t.Errorf("want the role and 5 tokens and a reset; got %v, %q", err, text)
		}
		set(t, `{}`)
	})
	t.Run("refuse", func(t *testing.T) {
		set(t, `{"refuse":true}`)
		c, err := net.Dial("tcp", f.Addrs()[0].String())
		if err == nil { // the connection may be reset before Dial returns
			defer c.Close()
			io.WriteString(c, "GET /health HTTP/1.1\r\nhost: a\r\n\r\n")
			if _, err := bufio.NewReader(c).ReadByte(); err == nil {
				t.Error("a refusing engine answers")
			}
		}
		if _, _, err := try(t, "POST", url(f, 0, chat), body); err == nil {
			t.Error("a connection that was idle still works")
		}
		set(t, `{}`)
		if resp, _ := do(t, "POST", url(f, 0, chat), body); resp.StatusCode != 200 {
			t.Errorf("after refusing: got %d", resp.StatusCode)
		}
	})
	t.Run("bad ones are refused and change nothing", func(t *testing.T) {
		set(t, `{"slow":2}`)
		for _, faults := range []string{`{"slow":-1}`, `{"status":404}`, `{"unknown":1}`, `[`, `{"resetAfterChunks":-1}`} {
			if resp, text := do(t, "POST", url(f, 0, "/sim/faults"), faults); resp.StatusCode != 400 {
				t.Errorf("%s: %d %s", faults, resp.StatusCode, text)
			}
		}
		if _, text := do(t, "GET", url(f, 0, "/sim/faults"), ""); !strings.HasPrefix(text, `{"slow":2,`) {
			t.Errorf("faults are %s", text)
		}
		if _, text := do(t, "GET", url(f, 0, "/sim/faults?engine=all"), ""); !strings.HasPrefix(text, `[{"slow":2,`) || !strings.Contains(text, `},{"slow":0,`) {
			t.Errorf("faults of all are %s", text)
		}
		if resp, _ := do(t, "GET", url(f, 0, "/sim/faults?engine=2"), ""); resp.StatusCode != 400 {
			t.Errorf("an engine that does not exist: %d", resp.StatusCode)
		}
		set(t, `{}`)
	})
}

func TestStopAndRestart(t *testing.T) {
	f := start(t, server.Options{Speed: 1, Faults: server.Faults{Slow: 1000}})
	addr := f.Addrs()[0]
	got := make(chan error, 1)
	go func() {
		_, _, err := try(t, "POST", url(f, 0, chat), chatBody(t, map[string]any{"max_tokens": 9}, "hello"))
		got <- err
	}()
	until(t, f, 0, func(g engine.Gauges) bool { return g.Running == 1 })
	if err := f.Stop(0); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err == nil {
		t.Error("a request to an engine that was killed got an answer")
	}
	if _, running := f.Gauges(0); running {
		t.Error("the engine still runs")
	}
	if _, _, err := try(t, "GET", url(f, 0, "/health"), ""); err == nil {
		t.Error("a dead engine answers")
	}
	if err := f.Stop(0); err != nil {
		t.Errorf("a second stop: %v", err)
	}
	if err := f.Restart(0); err != nil {
		t.Fatal(err)
	}
	if f.Addrs()[0] != addr {
		t.Errorf("the address changed from %v to %v", addr, f.Addrs()[0])
	}
	if resp, _ := do(t, "POST", url(f, 0, chat), chatBody(t, map[string]any{"max_tokens": 2}, "hello")); resp.StatusCode != 200 {
		t.Errorf("after the restart: %d", resp.StatusCode)
	}
	if c, _ := f.Counters(0); c.Finished != 1 {
		t.Errorf("counters after the restart: %+v", c)
	}
	if err := f.Restart(0); err == nil {
		t.Error("an engine that runs was restarted")
	}
}

func TestAClientThatLeavesFreesItsBlocks(t *testing.T) {
	f := start(t, server.Options{Speed: 1})
	for _, stream := range []bool{true, false} {
		body := chatBody(t, map[string]any{"max_tokens": 100_000, "stream": stream}, "hello")
		stop := background(t, url(f, 0, chat), body)
		until(t, f, 0, func(g engine.Gauges) bool { return g.Running == 1 && g.UsedBlocks > 0 })
		stop()
		until(t, f, 0, func(g engine.Gauges) bool { return g.Running == 0 && g.UsedBlocks == 0 })
	}
	if c, _ := f.Counters(0); c.Aborted != 2 || c.Finished != 0 {
		t.Errorf("counters %+v", c)
	}
}

func TestAFixedStream(t *testing.T) {
	f := start(t, server.Options{})
	var stored bytes.Buffer
	for i := range 40 {
		stored.WriteString("data: {\"n\":")
		stored.WriteString(strings.Repeat("9", i%7+1))
		stored.WriteString("}\r\n\n")
	}
	want := stored.String()
	if resp, _ := do(t, "GET", url(f, 0, "/anything"), "", "x-sim-fixed-sse", "1"); resp.StatusCode != 404 {
		t.Errorf("without a stored stream: %d", resp.StatusCode)
	}
	if _, text := do(t, "POST", url(f, 0, "/sim/sse"), want); !strings.Contains(text, "\"stored\":") {
		t.Fatal(text)
	}
	for offset := 1; offset < len(want); offset++ {
		resp, text := do(t, "POST", url(f, 0, chat), "not even JSON", "x-sim-fixed-sse", "1", "x-sim-split-at", itoa(offset))
		if text != want || resp.Header.Get("x-sim-body-sha256") == "" || resp.ContentLength != -1 || len(resp.Trailer) != 0 {
			t.Fatalf("split at %d: %q", offset, text)
		}
	}
	// The pieces are chunks of their own on the wire.
	for _, c := range []struct {
		name, value, wire string
	}{
		{"x-sim-split-at", "5", "5\r\ndata:\r\n"},
		{"x-sim-chunk", "3", "3\r\ndat\r\n3\r\na: \r\n"},
	} {
		if raw := rawAnswer(t, f, "GET /x HTTP/1.1\r\nhost: a\r\nconnection: close\r\nx-sim-fixed-sse: 1\r\n"+c.name+": "+c.value+"\r\nx-sim-gap: 1ms\r\n\r\n"); !strings.Contains(raw, "\r\n\r\n"+c.wire) {
			t.Errorf("%s: %s: %.300q", c.name, c.value, raw)
		}
	}
	if _, text, err := try(t, "GET", url(f, 0, "/x"), "", "x-sim-fixed-sse", "1", "x-sim-chunk", "10", "x-sim-fault", "reset-mid"); err == nil || text != want[:20] {
		t.Errorf("reset after two writes: %v, %q", err, text)
	}
	for _, bad := range [][2]string{{"x-sim-split-at", "0"}, {"x-sim-split-at", "100000"}, {"x-sim-chunk", "0"}, {"x-sim-chunk", "a"}, {"x-sim-gap", "1h"}, {"x-sim-gap", "-1ms"}} {
		if resp, _ := do(t, "GET", url(f, 0, "/x"), "", "x-sim-fixed-sse", "1", bad[0], bad[1]); resp.StatusCode != 400 {
			t.Errorf("%v: %d", bad, resp.StatusCode)
		}
	}
}

// rawAnswer sends bytes to the first engine and returns all that comes back until it closes.
func rawAnswer(t testing.TB, f *server.Fleet, request string) string {
	t.Helper()
	c, err := net.Dial("tcp", f.Addrs()[0].String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
