package telemetry

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// served is a transport without sockets: it answers for every endpoint, and keeps when it was asked.
type served struct {
	mu     sync.Mutex
	asked  map[string][]time.Time // by host
	answer func(ctx context.Context, host string) (string, error)
	now    int // requests in flight
	most   int
}

func (e *served) RoundTrip(r *http.Request) (*http.Response, error) {
	e.mu.Lock()
	if e.asked == nil {
		e.asked = map[string][]time.Time{}
	}
	e.asked[r.URL.Host] = append(e.asked[r.URL.Host], time.Now())
	e.now++
	e.most = max(e.most, e.now)
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		e.now--
		e.mu.Unlock()
	}()
	page, err := "vllm:num_requests_waiting 3\n", error(nil)
	if e.answer != nil {
		page, err = e.answer(r.Context(), r.URL.Host)
	}
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(page)), Request: r}, nil
}

func (e *served) times(host string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.asked[host])
}

// totals returns how many hosts were asked, and how many requests were in flight at most.
func (e *served) totals() (hosts, most int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.asked), e.most
}

// counts is a sink that keeps all.
type counts struct {
	mu    sync.Mutex
	notes map[reason.ID][]string
}

func (c *counts) Note(id reason.ID, detail string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.notes == nil {
		c.notes = map[reason.ID][]string{}
	}
	c.notes[id] = append(c.notes[id], detail)
}

func (c *counts) of(id reason.ID) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.notes[id]
}

func members(n int) []pool.Endpoint {
	m := make([]pool.Endpoint, n)
	for i := range m {
		m[i] = pool.Endpoint{Namespace: "default", Name: fmt.Sprintf("pod-%d", i), Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 8000)}
	}
	return m
}

// start runs a poller within the bubble of a test, and stops it when the test ends.
func start(t *testing.T, o Options) {
	t.Helper()
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
}

// stopwatch begins at one hour, so that no instant of a test is 0.
func stopwatch() func() pool.Instant {
	began := time.Now().Add(-time.Hour)
	return func() pool.Instant { return pool.Instant(time.Since(began)) }
}

func sample(p *pool.Pool, id pool.ID) (s pool.Sample) {
	p.Decide(func(_ *pool.Snapshot, b *pool.Books) { s = b.Samples[id] })
	return s
}

func TestPollerAsksEachEndpointAboutOnceAnInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &served{}
		p := pool.New("a", nil)
		p.Update(0, members(50))
		start(t, Options{Pools: []*pool.Pool{p}, Clock: stopwatch(), Transport: e})
		time.Sleep(60 * time.Second)
		synctest.Wait()
		e.mu.Lock()
		defer e.mu.Unlock()
		if len(e.asked) != 50 {
			t.Fatalf("%d endpoints were asked", len(e.asked))
		}
		together := map[time.Time]int{}
		for host, at := range e.asked {
			if n := len(at); n < 54 || n > 68 {
				t.Errorf("%s was asked %d times in a minute", host, n)
			}
			for i, x := range at {
				if i > 1 { // the second page is early by intention
					if gap := x.Sub(at[i-1]); gap < 899*time.Millisecond || gap > 1101*time.Millisecond {
						t.Errorf("%s: %v between pages %d and %d", host, gap, i-1, i)
					}
				}
				if i > 0 {
					together[x.Truncate(10*time.Millisecond)]++
				}
			}
		}
		for at, n := range together { // 50 a second make one in two hundredths
			if n > 15 {
				t.Errorf("%d endpoints were asked within the same 10 ms at %v", n, at)
			}
		}
		if s := sample(p, 7); s.Waiting != 3 || s.At == 0 {
			t.Errorf("sample %+v", s)
		}
	})
}

func TestM07OneThatHangsDelaysNobodyForTenMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &served{answer: func(ctx context.Context, host string) (string, error) {
			if host == "10.0.0.13:8000" {
				<-ctx.Done()
				return "", ctx.Err()
			}
			return "vllm:num_requests_waiting 1\n", nil
		}}
		var sink counts
		p := pool.New("a", nil)
		p.Update(0, members(50))
		clock := stopwatch()
		start(t, Options{Pools: []*pool.Pool{p}, Clock: clock, Transport: e, Sink: &sink})
		goroutines := 0
		for second := range 600 {
			time.Sleep(time.Second)
			synctest.Wait()
			if second == 60 {
				goroutines = runtime.NumGoroutine()
			}
			for id := range pool.ID(50) {
				s := sample(p, id)
				if state := s.State(clock(), 1200*time.Millisecond); id == 13 && state != pool.Never || id != 13 && state != pool.Fresh {
					t.Fatalf("endpoint %d: %v", id, state)
				}
			}
		}
		if n := runtime.NumGoroutine(); n > goroutines+10 {
			t.Errorf("%d goroutines became %d", goroutines, n)
		}
		if _, most := e.totals(); most > 51 { // all others answer at once; at the start they are asked together
			t.Errorf("%d requests at the same time", most)
		}
		failed := sink.of(reason.ScrapeFailed)
		if n := len(failed); n < 500 || n > 700 {
			t.Errorf("%d failures in 600 s", n)
		}
		if want := `pool "a": default/pod-13 at 10.0.0.13:8000: no whole page within 800ms`; failed[0] != want {
			t.Errorf("noted %q, want %q", failed[0], want)
		}
	})
}

func TestPollerKeepsTheLastSampleOfOneThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dead atomic.Bool
		e := &served{answer: func(context.Context, string) (string, error) {
			if dead.Load() {
				return "", fmt.Errorf("dial: %w", syscall.ECONNREFUSED)
			}
			return "vllm:num_requests_waiting 5\nvllm:num_requests_running -1\n", nil
		}}
		var sink counts
		p := pool.New("a", nil)
		p.Update(0, members(1))
		clock := stopwatch()
		var mu sync.Mutex
		var scrapes []Scrape
		keep := func(s Scrape) {
			mu.Lock()
			defer mu.Unlock()
			scrapes = append(scrapes, s)
		}
		start(t, Options{Pools: []*pool.Pool{p}, Clock: clock, Transport: e, Sink: &sink, Scraped: keep})
		time.Sleep(2500 * time.Millisecond)
		synctest.Wait()
		s := sample(p, 0)
		if s.State(clock(), p.StaleAfter()) != pool.Fresh || s.Waiting != 5 || s.Running != -1 {
			t.Fatalf("alive: %+v", s)
		}
		if n := sink.of(reason.ScrapeRejected); len(n) == 0 || !strings.HasSuffix(n[0], "vllm:num_requests_running is negative: -1") {
			t.Errorf("rejected: %q", n)
		}
		dead.Store(true)
		time.Sleep(7 * time.Second)
		synctest.Wait()
		s = sample(p, 0)
		if s.State(clock(), p.StaleAfter()) != pool.Stale || s.Waiting != 5 || s.Refused <= s.At || s.Refused > s.At+pool.Instant(2*time.Second) {
			t.Errorf("dead: %+v", s)
		}
		mu.Lock()
		last := scrapes[len(scrapes)-1]
		if last.Err == nil || last.Endpoint.Name != "pod-0" || scrapes[0].Err != nil || scrapes[0].Bytes == 0 || scrapes[0].Rejected != 1 {
			t.Errorf("first scrape %+v, last %+v", scrapes[0], last)
		}
		mu.Unlock()
		dead.Store(false)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		s = sample(p, 0)
		if s.State(clock(), p.StaleAfter()) != pool.Fresh || s.Refused != 0 {
			t.Errorf("alive again: %+v", s)
		}
	})
}

func TestPollerFollowsTheMembership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &served{}
		one, two := pool.New("one", nil), pool.New("two", nil)
		start(t, Options{Pools: []*pool.Pool{one, two}, Clock: stopwatch(), Transport: e})
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if n, _ := e.totals(); n != 0 {
			t.Fatalf("nobody is there, and %d were asked", n)
		}
		m := members(2)
		one.Update(1, m[:1])
		two.Update(1, m[1:])
		time.Sleep(101 * time.Millisecond)
		synctest.Wait()
		for host := range map[string]bool{"10.0.0.0:8000": true, "10.0.0.1:8000": true} {
			if e.times(host) != 1 {
				t.Errorf("%s joined 101 ms ago and was asked %d times", host, e.times(host))
			}
		}
		one.Update(2, nil)
		time.Sleep(101 * time.Millisecond)
		synctest.Wait()
		left, stayed := e.times("10.0.0.0:8000"), e.times("10.0.0.1:8000")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := e.times("10.0.0.0:8000"); n != left {
			t.Errorf("it left and was asked %d times", n-left)
		}
		if n := e.times("10.0.0.1:8000") - stayed; n < 9 || n > 11 {
			t.Errorf("it stayed and was asked %d times in 10 s", n)
		}
	})
}

func TestPollerDropsAnAnswerToSomebodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &served{answer: func(ctx context.Context, _ string) (string, error) {
			select {
			case <-time.After(500 * time.Millisecond):
				return "vllm:num_requests_waiting 9\n", nil
			case <-ctx.Done():
				return "", ctx.Err()
			}
		}}
		p := pool.New("a", nil)
		m := members(2)
		p.Update(0, m[:1])
		start(t, Options{Pools: []*pool.Pool{p}, Clock: stopwatch(), Transport: e})
		time.Sleep(100 * time.Millisecond)
		p.Update(1, m[1:]) // takes the slot of the one that is being asked
		time.Sleep(420 * time.Millisecond)
		synctest.Wait()
		if s := sample(p, 0); s.At != 0 {
			t.Errorf("the new endpoint has the old one's sample: %+v", s)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if s := sample(p, 0); s.Waiting != 9 {
			t.Errorf("the new endpoint has no sample: %+v", s)
		}
	})
}

func TestPollerBoundsRequestsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &served{answer: func(context.Context, string) (string, error) {
			time.Sleep(100 * time.Millisecond)
			return "vllm:num_requests_waiting 9\n", nil
		}}
		p := pool.New("a", nil)
		p.Update(0, members(40))
		start(t, Options{Pools: []*pool.Pool{p}, Clock: stopwatch(), Transport: e, Concurrency: 5})
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if asked, most := e.totals(); asked != 40 || most != 5 {
			t.Errorf("%d were asked, %d at the same time", asked, most)
		}
	})
}

func TestPollerSeesARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var process atomic.Int64
		process.Store(1000)
		e := &served{answer: func(context.Context, string) (string, error) {
			return fmt.Sprintf("vllm:num_requests_waiting 9\nprocess_start_time_seconds %d\n", process.Load()), nil
		}}
		p := pool.New("a", nil)
		p.Update(0, members(1))
		start(t, Options{Pools: []*pool.Pool{p}, Clock: stopwatch(), Transport: e})
		time.Sleep(3 * time.Second)
		synctest.Wait()
		before := p.Snapshot().Slots[0].Ref
		process.Add(1)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if after := p.Snapshot().Slots[0].Ref; after.ID != before.ID || after.Incarnation != before.Incarnation+1 {
			t.Errorf("from %v to %v", before, after)
		}
		if s := sample(p, 0); s.ProcessStart != 1001 || s.Waiting != 9 {
			t.Errorf("sample %+v", s)
		}
	})
}

func TestNewRefuses(t *testing.T) {
	clock := func() pool.Instant { return 1 }
	tests := []struct {
		name string
		o    Options
		want string
	}{
		{"no clock", Options{}, "telemetry: no clock is given"},
		{"an interval of 1 ms", Options{Clock: clock, Interval: time.Millisecond}, "telemetry: interval is 1ms; at least 50ms"},
		{"a negative interval", Options{Clock: clock, Interval: -5 * time.Second}, "telemetry: interval is -5s; at least 50ms"},
		{"a negative timeout", Options{Clock: clock, Timeout: -1}, "telemetry: timeout is -1ns; more than 0"},
		{"a negative bound", Options{Clock: clock, Concurrency: -1}, "telemetry: concurrency is -1; at least 1"},
		{"a negative page", Options{Clock: clock, MaxPage: -1}, "telemetry: the bound of a page is -1 bytes; at least 1"},
		{"a blank in the path", Options{Clock: clock, Path: "/metrics "}, `telemetry: path is "/metrics "; it begins with / and has no blanks, like /metrics`},
		{"a relative path", Options{Clock: clock, Path: "metrics"}, `telemetry: path is "metrics"; it begins with / and has no blanks, like /metrics`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := New(tt.o); err == nil || err.Error() != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}
