package telemetry

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// one returns a target at a server, and the pool it belongs to.
func one(t testing.TB, server string, o Options) (*target, *pool.Pool) {
	t.Helper()
	addr := netip.MustParseAddrPort(strings.TrimPrefix(server, "http://"))
	p := pool.New("a", nil)
	p.Update(0, []pool.Endpoint{{Namespace: "default", Name: "x", Addr: addr}})
	o.Pools, o.Clock = []*pool.Pool{p}, stopwatch()
	poller, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(poller.client.CloseIdleConnections)
	return poller.target(poller.identify(0, &p.Snapshot().Slots[0])), p
}

func TestPages(t *testing.T) {
	const page = "vllm:num_requests_waiting 3\n"
	tests := []struct {
		name   string
		serve  func(w http.ResponseWriter, r *http.Request)
		failed string // part of what is noted; empty for a sample
		want   Outcome
	}{
		{"a page", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, page) }, "", OK},
		{"a page of just the limit", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, page, strings.Repeat("#", 1000-len(page))) }, "", OK},
		{"a page of one byte more", func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, page, strings.Repeat("#", 1001-len(page)))
		}, "the page is longer than 1000 bytes", TooLong},
		{"a page without end", func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := fmt.Fprint(w, strings.Repeat(page, 1000)); err != nil {
					return
				}
			}
		}, "the page is longer than 1000 bytes", TooLong},
		{"a page that is not asked for", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "<html>hello</html>") }, "none of the series of engine vllm", NoSeries},
		{"an empty page", func(w http.ResponseWriter, r *http.Request) {}, "none of the series of engine vllm", NoSeries},
		{"an error", func(w http.ResponseWriter, r *http.Request) { http.Error(w, page, 500) }, "status is 500; 200 expected", BadStatus},
		{"a redirection on the same host", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/elsewhere" {
				fmt.Fprint(w, page)
				return
			}
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		}, "", OK},
		{"a redirection to another host is not followed", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.2:1/metrics", http.StatusFound)
		}, `status is 302 and leads to "http://127.0.0.2:1/metrics"; redirects are followed on the same host, 3 times`, Redirected},
		{"a redirection without end", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/again", http.StatusTemporaryRedirect)
		}, `status is 307 and leads to "/again"`, Redirected},
		{"protobuf", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited")
			fmt.Fprint(w, page)
		}, `content-type is "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"; text is read`, BadContent},
		{"OpenMetrics", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/openmetrics-text; version=1.0.0; charset=utf-8")
			fmt.Fprint(w, "# TYPE vllm:num_requests_waiting gauge\n"+page+"# EOF\n")
		}, "", OK},
		{"an encoding", func(w http.ResponseWriter, r *http.Request) {
			if e := r.Header.Get("Accept-Encoding"); e != "" {
				t.Errorf("asked for %q", e)
			}
			w.Header().Set("Content-Encoding", "gzip")
			fmt.Fprint(w, page)
		}, `content-encoding is "gzip"`, BadContent},
		{"a page that breaks off", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "vllm:num_requests_waiting 3")
		}, "unexpected EOF", Unreachable},
		{"a page that stops", func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, page)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, "no whole page within 300ms", TimedOut},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(tt.serve))
			defer server.Close()
			var sink counts
			timeout := time.Minute
			if tt.want == TimedOut {
				timeout = 300 * time.Millisecond
			}
			var outcomes []Outcome
			target, p := one(t, server.URL, Options{
				Sink: &sink, MaxPage: 1000, Interval: 2 * time.Minute, Timeout: timeout,
				Scraped: func(s Scrape) { outcomes = append(outcomes, s.Outcome) },
			})
			target.once(t.Context())
			failed := strings.Join(sink.of(reason.ScrapeFailed), "")
			if s := sample(p, 0); (s.Waiting == 3) != (tt.failed == "") {
				t.Errorf("sample %+v", s)
			}
			if !strings.Contains(failed, tt.failed) || (tt.failed == "") != (failed == "") {
				t.Errorf("noted %q, want %q in it", failed, tt.failed)
			}
			if len(outcomes) != 1 || outcomes[0] != tt.want {
				t.Errorf("outcome %v, want %v", outcomes, tt.want)
			}
		})
	}
}

func TestConnectionsAreKept(t *testing.T) {
	var mu sync.Mutex
	from := map[string]int{}
	page := capture(t, "vllm-0.32.0")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		from[r.RemoteAddr]++
		mu.Unlock()
		w.Write(page)
	}))
	defer server.Close()
	target, p := one(t, server.URL, Options{Timeout: 10 * time.Second})
	for range 20 {
		target.once(t.Context())
	}
	if len(from) != 1 {
		t.Errorf("20 pages over %d connections", len(from))
	}
	if s := sample(p, 0); s.Blocks != 65536 {
		t.Errorf("sample %+v", s)
	}
}
