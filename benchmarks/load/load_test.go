package load_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead/fairlead/benchmarks/load"
	"github.com/fairlead/fairlead/benchmarks/report"
	"github.com/fairlead/fairlead/benchmarks/workload"
	"github.com/fairlead/fairlead/simulator/fleet"
	"github.com/fairlead/fairlead/simulator/scenarios"
)

// pipes is a listener whose connections are in memory, so that a bubble's clock stands still while they work.
type pipes struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// against runs a workload against a handler in a bubble.
func against(t *testing.T, handler http.HandlerFunc, text string, change func(*load.Options)) (r *load.Result) {
	t.Helper()
	return during(t, context.Background(), handler, text, change)
}

func during(t *testing.T, ctx context.Context, handler http.HandlerFunc, text string, change func(*load.Options)) *load.Result {
	t.Helper()
	spec, err := workload.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	source, err := workload.New(spec, 1)
	if err != nil {
		t.Fatal(err)
	}
	l := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	var serving sync.WaitGroup
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		serving.Add(1)
		defer serving.Done()
		body, _ := io.ReadAll(req.Body) // a server that has read all notices when the client goes
		req.Body = io.NopCloser(bytes.NewReader(body))
		handler(w, req)
	})}
	go s.Serve(l)
	transport := &http.Transport{MaxIdleConnsPerHost: 1000, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		here, there := net.Pipe()
		select {
		case l.conns <- there:
			return here, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
	o := load.Options{URL: "http://engine", Model: "m", Source: source, Client: &http.Client{Transport: transport}}
	if change != nil {
		change(&o)
	}
	r, err := load.Run(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	transport.CloseIdleConnections()
	s.Close()
	serving.Wait()
	return r
}

// tokens streams n of them, each after a pause, and usage.
func tokens(w http.ResponseWriter, n int, pause time.Duration) {
	w.Header().Set("content-type", "text/event-stream")
	for i := range n {
		time.Sleep(pause)
		fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":\"t%d \"}}]}\n\n", i)
		w.(http.Flusher).Flush()
	}
	fmt.Fprintf(w, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":100,\"completion_tokens\":%d,\"prompt_tokens_details\":{\"cached_tokens\":64}}}\n\ndata: [DONE]\n\n", n)
}

const steady = "duration: 2s\narrivals: {type: constant, rate: 20}\nindependent: {input: 100, output: 10}\n"

func TestAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := against(t, func(w http.ResponseWriter, _ *http.Request) { tokens(w, 10, 20*time.Millisecond) }, steady, nil)
		if len(r.Outcomes) < 38 || r.Cut != "" || r.Invalid() != "" {
			t.Fatalf("%d requests, cut %q, invalid %q", len(r.Outcomes), r.Cut, r.Invalid())
		}
		for i := range r.Outcomes {
			o := &r.Outcomes[i]
			ttft, _ := o.TTFT()
			itl, _ := o.ITL()
			if o.Status != fleet.Completed || ttft != 20*time.Millisecond || itl != 20*time.Millisecond || o.Generated != 10 || o.Cached != 64 || o.Prompt != 100 {
				t.Fatalf("request %d: %+v, TTFT %v, ITL %v", i, o, ttft, itl)
			}
		}
	})
}

// A client that cannot keep up says so, and does not make the server look better than it is: latency counts from when a
// request was due.
func TestZ01ClientTooSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := against(t, func(w http.ResponseWriter, _ *http.Request) { tokens(w, 1, 10*time.Millisecond) },
			"requests: 1000\narrivals: {type: constant, rate: 5000}\nindependent: {input: 20, output: 1}\n", func(o *load.Options) { o.MaxOpen = 10 })
		// Ten at a time, each 10 ms: 1000 a second, where 5000 are due. The last is due after 200 ms and sent after a second.
		if r.Invalid() == "" {
			t.Error("the run counts as valid")
		}
		last := &r.Outcomes[len(r.Outcomes)-1]
		ttft, _ := last.TTFT()
		if delay := r.Delays[len(r.Delays)-1]; delay < 0.7 || delay > 0.9 || ttft.Seconds() < delay {
			t.Errorf("the last request was sent %.3f s late, and its TTFT is %v; want 0.8 s, and the TTFT beyond", delay, ttft)
		}
		l := report.LifecycleOf(r.Outcomes, scenarios.Targets{})
		l.Observed(r.Delays, r.Messages, r.Invalid())
		if l.LoadSummary.ScheduleDelay == nil || l.LoadSummary.ScheduleDelay.P99 < 0.7 || l.LoadSummary.Invalid == "" {
			t.Errorf("the report says %+v", l.LoadSummary)
		}
	})
}

// failure is a server that fails, and what is said of it.
type failure struct {
	name      string
	handler   http.HandlerFunc
	class     string
	generated int32
	says      string
}

// An answer without a token is a failure of its own class, and has no TTFT.
func TestZ04ZeroTokenSuccess(t *testing.T) {
	failures(t, []failure{
		{"a stream with [DONE] alone is no success", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("content-type", "text/event-stream")
			io.WriteString(w, "data: [DONE]\n\n")
		}, "no_output", 0, "without a token"},
		{"neither is a role alone", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("content-type", "text/event-stream")
			io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\ndata: [DONE]\n\n")
		}, "no_output", 0, "without a token"},
	})
}

// An answer that breaks off, or is none, is a failure; what came of it is kept.
func TestZ05BrokenStream(t *testing.T) {
	failures(t, []failure{
		{"a stream that closes after 3 of 10 chunks", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("content-type", "text/event-stream")
			for i := range 3 {
				fmt.Fprintf(w, "data: {\"choices\":[{\"delta\":{\"content\":\"t%d \"}}]}\n\n", i)
			}
		}, "broken", 3, "t0 t1 t2"},
		{"a stream that is reset", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("content-type", "text/event-stream")
			fmt.Fprint(w, "data: {\"choices\":[{\"delta\":{\"content\":\"part\"}}]}\n\n")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, "broken", 1, "part"},
		{"a page of HTML with status 200", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("content-type", "text/html")
			io.WriteString(w, "<html>sign in</html>")
		}, "not_a_stream", 0, "sign in"},
		{"HTML in a stream", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("content-type", "text/event-stream")
			io.WriteString(w, "data: <html>\n\n")
		}, "broken", 0, "<html>"},
		{"an error within the stream", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("content-type", "text/event-stream")
			io.WriteString(w, "data: {\"error\":{\"message\":\"gone\"}}\n\n")
		}, "error_event", 0, "gone"},
		{"a refusal", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "full", http.StatusServiceUnavailable) }, "http_503", 0, "full"},
	})
}

func failures(t *testing.T, rows []failure) {
	for _, tt := range rows {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := against(t, tt.handler, "requests: 3\narrivals: {type: constant, rate: 20}\nindependent: {input: 100, output: 10}\n", nil)
				for i := range r.Outcomes {
					if o := &r.Outcomes[i]; o.Status != fleet.Failed || o.Reason != tt.class || o.Generated != tt.generated {
						t.Errorf("request %d: %s %q after %d tokens, want %q after %d", i, o.Status, o.Reason, o.Generated, tt.class, tt.generated)
					}
					if _, ok := r.Outcomes[i].TTFT(); ok != (tt.generated > 0) {
						t.Errorf("request %d has a TTFT: %v", i, ok)
					}
				}
				if m := r.Messages[tt.class]; len(m) != 3 || !strings.Contains(m[0], tt.says) {
					t.Errorf("messages %q, want %q in each", r.Messages, tt.says)
				}
			})
		})
	}
}

// Every request of a trace is pinned to its recorded length.
func TestZ07RecordedOutputLengths(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.jsonl")
	text := `{"timestamp": 0, "input_length": 100, "output_length": 5, "hash_ids": [1]}` + "\n" + `{"timestamp": 100, "input_length": 100, "output_length": 500, "hash_ids": [2]}` + "\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var got []string
		against(t, func(w http.ResponseWriter, req *http.Request) {
			var b struct {
				Max    int  `json:"max_tokens"`
				Min    int  `json:"min_tokens"`
				Ignore bool `json:"ignore_eos"`
			}
			json.NewDecoder(req.Body).Decode(&b)
			mu.Lock()
			got = append(got, fmt.Sprint(b))
			mu.Unlock()
			tokens(w, 1, 0)
		}, "trace: {format: mooncake, file: "+path+"}\nblockTokens: 512\n", nil)
		if want := []string{"{5 5 true}", "{500 500 true}"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// Requests of several streams with one length are all different, and what is shared is shared to the byte.
func TestZ08NoDuplicatePrompts(t *testing.T) {
	prompts := func(text string) []string {
		spec, err := workload.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		source, err := workload.New(spec, 1)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for i := uint64(0); ; i++ {
			if _, ok := source.Peek(); !ok {
				return out
			}
			out = append(out, load.Prompt(i, source.Pop(), source.BlockTokens()))
		}
	}
	text := "blockTokens: 16\nrequests: 400\narrivals: {type: poisson, rate: 5}\nstreams:\n"
	for i := range 4 {
		text += fmt.Sprintf("- {name: w%d, share: 0.25, independent: {input: 100, output: 16}}\n", i)
	}
	seen := map[string]bool{}
	for _, p := range prompts(text) {
		if seen[p] || len(p) != 400 {
			t.Fatalf("a prompt of %d bytes, seen before: %v; want 400 bytes, each once", len(p), seen[p])
		}
		seen[p] = true
	}
	shared := prompts("blockTokens: 16\nrequests: 50\narrivals: {type: poisson, rate: 5}\nsharedPrefix: {groups: 1, system: 160, question: 40, output: 5}\n")
	for _, p := range shared[1:] {
		if p[:640] != shared[0][:640] {
			t.Fatal("the system text is not the same to the byte")
		}
		if p[640:] == shared[0][640:] {
			t.Fatal("two questions are the same")
		}
	}
}

// A server that refuses everything, and one that never answers: the report is whole, and says null where nothing was
// measured.
func TestZ10NothingCompletes(t *testing.T) {
	for name, tt := range map[string]struct {
		handler http.HandlerFunc
		class   string
	}{
		"503 to all": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "full", http.StatusServiceUnavailable) }, "http_503"},
		"no answer":  {func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() }, "timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := against(t, tt.handler, "requests: 5\narrivals: {type: constant, rate: 20}\nindependent: {input: 100, output: 10}\n", func(o *load.Options) { o.Timeout = 2 * time.Second })
				l := report.LifecycleOf(r.Outcomes, scenarios.Targets{TTFT: time.Second})
				l.Observed(r.Delays, r.Messages, r.Invalid())
				text, err := json.Marshal(l)
				if err != nil {
					t.Fatal(err)
				}
				for _, want := range []string{
					`"time_to_first_token":null`, `"request_latency":null`, `"successes":{"count":0,`, `"failures":{"count":5,`, `"` + tt.class + `":{"count":5,`, `"goodput_percentage":0,`,
				} {
					if !strings.Contains(string(text), want) {
						t.Errorf("no %s in\n%s", want, text)
					}
				}
			})
		})
	}
}

// A timeout, an early stop and an interrupt each leave a report of what there was, with failures by class.
func TestZ11PartialRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n atomic.Int32
		r := against(t, func(w http.ResponseWriter, req *http.Request) {
			if n.Add(1)%4 == 0 {
				<-req.Context().Done()
				return
			}
			tokens(w, 2, 50*time.Millisecond)
		}, steady, func(o *load.Options) { o.Timeout = 2 * time.Second })
		classes := map[string]int{}
		for i := range r.Outcomes {
			classes[r.Outcomes[i].Reason]++
		}
		if classes["timeout"] < 9 || classes[""] < 28 || len(classes) != 2 {
			t.Errorf("%v; want a quarter of about 40 to time out and the others to be answered", classes)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := against(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 500) }, "duration: 100s\narrivals: {type: constant, rate: 20}\nindependent: {input: 100, output: 10}\n",
			func(o *load.Options) { o.StopIfErrors = 0.05 })
		if n := len(r.Outcomes); n < 20 || n > 25 || !strings.Contains(r.Cut, "failed") {
			t.Errorf("%d requests, cut %q; want an end after 20", n, r.Cut)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithTimeout(context.Background(), time.Second)
		defer stop()
		r := during(t, ctx, func(w http.ResponseWriter, _ *http.Request) { tokens(w, 10, 20*time.Millisecond) }, steady, nil)
		statuses := map[fleet.Status]int{}
		for i := range r.Outcomes {
			statuses[r.Outcomes[i].Status]++
		}
		if r.Cut != "interrupted" || statuses[fleet.Completed] < 14 || statuses[fleet.Unfinished] < 3 || statuses[fleet.Failed] > 0 {
			t.Errorf("cut %q, %v; want what was done by half time, and what ran then unfinished", r.Cut, statuses)
		}
	})
}

// The last session token of a session goes with its next request, and never with another session's.
func TestZ13SessionHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		last := map[string]string{} // by what the session's prompts begin with
		r := against(t, func(w http.ResponseWriter, req *http.Request) {
			var b struct {
				Messages []struct{ Content string }
			}
			json.NewDecoder(req.Body).Decode(&b)
			mu.Lock()
			session := b.Messages[0].Content[:100]
			if came := req.Header.Get("x-session-token"); came != last[session] {
				t.Errorf("a session sends %q, and was last given %q", came, last[session])
			}
			last[session] = fmt.Sprintf("%s-%d", session[:4], len(b.Messages[0].Content))
			w.Header().Set("x-session-token", last[session])
			mu.Unlock()
			tokens(w, 2, 100*time.Millisecond)
		}, "blockTokens: 16\nrequests: 2\narrivals: {type: constant, rate: 10}\nconversation: {turns: 4, input: 50, output: 2, wait: 1}\n", func(o *load.Options) { o.SessionHeader = "x-session-token" })
		if len(r.Outcomes) != 8 {
			t.Fatalf("%d requests, want 2 sessions of 4 turns", len(r.Outcomes))
		}
	})
}

func TestTargetsAreURLs(t *testing.T) {
	if _, err := load.Run(context.Background(), load.Options{URL: "localhost:8080"}); err == nil || !strings.Contains(err.Error(), "http://") {
		t.Errorf("%v; want what a URL is", err)
	}
}
