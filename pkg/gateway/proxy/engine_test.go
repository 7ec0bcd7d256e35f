package proxy

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/reason"
	"github.com/fairlead/fairlead/simulator/server"
)

// fleet starts simulated engines.
func fleet(t *testing.T, engines int) (f *server.Fleet, addrs []string) {
	t.Helper()
	f, err := server.Start(t.Context(), server.Options{Engines: engines, Speed: 1000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	for _, a := range f.Addrs() {
		addrs = append(addrs, a.String())
	}
	return f, addrs
}

// ask sends a chat completion to the world and returns what came, and the error of reading it.
func (w *world) ask(body string, headers ...string) (resp *http.Response, got string, broken error) {
	w.t.Helper()
	request, _ := http.NewRequest("POST", w.front.URL+chatPath, strings.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(request)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp, string(b), err
}

func llama(stream bool, tokens int, more string) string {
	mode := `"stream":false`
	if stream {
		mode = `"stream":true,"stream_options":{"include_usage":true}`
	}
	return fmt.Sprintf(`{"model":"llama-3.1-8b",%s,"max_tokens":%d,"messages":[{"role":"user","content":"tell me of %s"}]}`, mode, tokens, more)
}

func TestSimulatedEngines(t *testing.T) {
	_, addrs := fleet(t, 2)
	w := newWorld(t, setup{reads: plugins.ReadsBody, wants: plugins.Usage | plugins.Chunks}, addrs...)
	for _, row := range []struct {
		name   string
		stream bool
		fault  string
		status int
		ending reason.ID
		broken bool
		usage  bool
	}{
		{"a completion in one piece", false, "", 200, 0, false, true},
		{"a stream", true, "", 200, 0, false, true},
		{"an engine that answers 503", true, "status=503", 503, 0, false, false},
		{"a reset before the first byte", true, "reset-before", 502, reason.UpstreamBroken, false, false},
		{"a reset in mid-stream", true, "reset-mid", 200, reason.UpstreamBroken, true, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			w.t = t
			w.watch.seen.Reset()
			var headers []string
			if row.fault != "" {
				headers = []string{"x-sim-fault", row.fault}
			}
			resp, got, broken := w.ask(llama(row.stream, 20, row.name), headers...)
			if resp.StatusCode != row.status || (broken != nil) != row.broken {
				t.Errorf("got %d, %v: %s", resp.StatusCode, broken, got)
			}
			if row.stream && row.status == 200 && !row.broken && !strings.HasSuffix(got, "data: [DONE]\n\n") {
				t.Errorf("the stream ends with %q", got[max(len(got)-80, 0):])
			}
			o := w.settled()
			if o.Ending != row.ending {
				t.Errorf("ended %v, want %v", o.Ending, row.ending)
			}
			if row.usage && (o.Out != 20 || o.Prompt <= 0) {
				t.Errorf("usage %d prompt, %d out", o.Prompt, o.Out)
			}
			if row.ending == 0 && w.watch.seen.String() != got {
				t.Errorf("a hook saw %d bytes, the client %d", w.watch.seen.Len(), len(got))
			}
		})
	}
}

func TestManyStreamsAtOnceLeaveTheBooksAtZero(t *testing.T) {
	_, addrs := fleet(t, 4)
	w := newWorld(t, setup{reads: plugins.ReadsBody}, addrs...)
	const streams = 200
	var done sync.WaitGroup
	for i := range streams {
		done.Go(func() {
			fault := []string{"", "reset-before", "reset-mid", "status=500"}[i%4]
			var headers []string
			if fault != "" {
				headers = []string{"x-sim-fault", fault}
			}
			resp, got, broken := w.ask(llama(true, 30, fmt.Sprint(i)), headers...)
			if fault == "" && (resp.StatusCode != 200 || broken != nil || !strings.HasSuffix(got, "data: [DONE]\n\n")) {
				t.Errorf("stream %d: %d, %v, %d bytes", i, resp.StatusCode, broken, len(got))
			}
		})
	}
	done.Wait()
	for range streams {
		<-w.watch.outcome
	}
	if w.pool.Open() != 0 || w.s.Open() != 0 {
		t.Errorf("%d bookings, %d exchanges are open", w.pool.Open(), w.s.Open())
	}
}
