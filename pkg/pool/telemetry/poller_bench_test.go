//go:build unix

package telemetry

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/pool"
)

// serverVariable makes this test binary a server of metrics pages, so that its work is not taken for the poller's.
const serverVariable = "FAIRLEAD_TELEMETRY_TEST_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(serverVariable) == "" {
		os.Exit(m.Run())
	}
	page, err := os.ReadFile("testdata/vllm-0.32.0.txt")
	if err != nil {
		panic(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write(page) }))
	fmt.Println(server.URL)
	io.Copy(io.Discard, os.Stdin) // until the parent closes it, or dies
}

func elsewhere(b *testing.B) netip.AddrPort {
	b.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), serverVariable+"=1")
	in, err := command.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := command.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		in.Close()
		command.Wait()
	})
	var url string
	if _, err := fmt.Fscanln(out, &url); err != nil {
		b.Fatal(err)
	}
	return netip.MustParseAddrPort(strings.TrimPrefix(url, "http://"))
}

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkHundredEndpoints polls 100 endpoints at the default interval for three seconds and reports the share of a core
// that it takes: the budget is 0.1. The pages are whole ones of vLLM 0.32 (55 kB), served by another process.
func BenchmarkHundredEndpoints(b *testing.B) {
	addr := elsewhere(b)
	p := pool.New("a", nil)
	m := members(100)
	for i := range m { // 100 endpoints that one server stands for
		m[i].Metrics = addr
	}
	p.Update(0, m)
	for b.Loop() {
		var pages, failed atomic.Int64
		poller, err := New(Options{Pools: []*pool.Pool{p}, Clock: stopwatch(), Scraped: func(s Scrape) {
			pages.Add(1)
			if s.Err != nil {
				failed.Add(1)
			}
		}, Transport: &http.Transport{MaxIdleConnsPerHost: 100, DisableCompression: true, ReadBufferSize: 32 << 10}})
		if err != nil {
			b.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(b.Context(), 3*time.Second)
		began, spent := time.Now(), cpu()
		poller.Run(ctx)
		cancel()
		took := time.Since(began)
		spent = cpu() - spent
		b.ReportMetric(float64(spent)/float64(took), "cores")
		b.ReportMetric(float64(spent.Microseconds())/float64(pages.Load()), "cpu-us/page")
		b.ReportMetric(float64(pages.Load())/took.Seconds(), "pages/s")
		if failed.Load() > 0 {
			b.Errorf("%d of %d pages failed", failed.Load(), pages.Load())
		}
	}
}

// BenchmarkPage is one page over HTTP, client side.
func BenchmarkPage(b *testing.B) {
	target, _ := one(b, "http://"+elsewhere(b).String(), Options{Timeout: 10 * time.Second})
	target.once(b.Context())
	b.ReportAllocs()
	for b.Loop() {
		target.once(b.Context())
	}
}
