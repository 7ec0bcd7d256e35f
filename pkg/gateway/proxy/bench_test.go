package proxy

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/pickers"
	"github.com/fairlead/fairlead/pkg/plugins"
)

// BenchmarkRequest is a whole streamed request over real sockets: client, proxy and engine in this process, so that the
// figures to compare are those of one size: the floor without a proxy, httputil.ReverseProxy round robin, and ours, which reads
// the body and decides, at 8 and 64 backends.
func BenchmarkRequest(b *testing.B) {
	answer := []byte(stream())
	engine := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write(answer)
	}
	var backends []string
	for range 64 {
		backends = append(backends, newEngine(b, engine).addr)
	}
	for _, size := range []int{200, 8_000, 100_000} {
		body := prompt(size)
		b.Run(fmt.Sprintf("none/chars=%d", size), func(b *testing.B) { benchmark(b, "http://"+backends[0], body) })
		b.Run(fmt.Sprintf("reverse/chars=%d/backends=8", size), func(b *testing.B) {
			front := httptest.NewServer(roundRobin(backends[:8]))
			defer front.Close()
			benchmark(b, front.URL, body)
		})
		for _, n := range []int{8, 64} {
			b.Run(fmt.Sprintf("fairlead/chars=%d/backends=%d", size, n), func(b *testing.B) {
				w := newWorld(b, setup{reads: plugins.ReadsBody, picker: pickers.NewRandom()}, backends[:n]...)
				benchmark(b, w.front.URL, body)
			})
		}
	}
}

// roundRobin is httputil.ReverseProxy as one would write it.
func roundRobin(backends []string) http.Handler {
	var next atomic.Uint64
	return &httputil.ReverseProxy{
		Transport:     &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true},
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(&url.URL{Scheme: "http", Host: backends[next.Add(1)%uint64(len(backends))]})
			r.SetXForwarded()
		},
	}
}

func benchmark(b *testing.B, target, body string) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16, DisableCompression: true}}
	defer client.CloseIdleConnections()
	send := func() {
		resp, err := client.Post(target+chatPath, "application/json", strings.NewReader(body))
		if err != nil {
			b.Error(err)
			return
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	for range 512 { // connections to every backend
		send()
	}
	before := cpu()
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		send()
	}
	b.StopTimer()
	b.ReportMetric(float64(cpu()-before)/float64(b.N)/1e3, "cpu-µs/op")
}

// cpu returns what CPU time the process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
