package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

func TestADeadEndpointFallsBack(t *testing.T) {
	for _, size := range []int{10, 100_000} {
		for _, reads := range []plugins.Reads{plugins.ReadsBody, plugins.ReadsHeaders} {
			e := newEngine(t, nil)
			w := newWorld(t, setup{reads: reads}, dead(t), dead(t), e.addr)
			resp, body := w.post(prompt(size))
			if resp.StatusCode != 200 || resp.Header.Get("X-Body") != hash([]byte(prompt(size))) {
				t.Fatalf("%d %s", resp.StatusCode, body)
			}
			if o := w.settled(); o.Ending != 0 || o.ServedNamed != "ns/e002" {
				t.Errorf("ended %v, served by %q", o.Ending, o.ServedNamed)
			}
			if n := w.noted.count(reason.FallbackServed); n != 1 {
				t.Errorf("%d times noted that a fallback served, want once", n)
			}
			doc, _ := w.s.Decision(w.s.Decisions()[0])
			if n := len(doc.Record.Transport); n != 2 {
				t.Errorf("the record tells of %d failures, want 2: %v", n, doc.Record.Transport)
			}
		}
	}
}

func TestAllEndpointsDead(t *testing.T) {
	w := newWorld(t, setup{reads: plugins.ReadsBody}, dead(t), dead(t), dead(t), dead(t))
	resp, body := w.post(prompt(10))
	if resp.StatusCode != 503 || !strings.Contains(body, `"code":"upstream_unreachable"`) || !strings.Contains(body, "3 of 3 endpoints tried") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
	if strings.Contains(body, "127.0.0.1") || strings.Contains(body, "refused") {
		t.Errorf("the reply tells of the inside: %s", body)
	}
	if o := w.settled(); o.Ending != reason.UpstreamUnreachable {
		t.Errorf("ended %v", o.Ending)
	}
}

func TestARequestThatWasWrittenIsNeverRepeated(t *testing.T) {
	for name, hard := range map[string]bool{"closed": false, "reset": true} {
		t.Run(name, func(t *testing.T) {
			var got atomic.Int64
			broken := rawEngine(t, func(c net.Conn, r *bufio.Reader) {
				if _, err := readRequest(r); err != nil {
					return
				}
				got.Add(1)
				if hard {
					_ = c.(*net.TCPConn).SetLinger(0)
				}
			})
			second := newEngine(t, nil)
			w := newWorld(t, setup{reads: plugins.ReadsBody}, broken, second.addr)
			for _, size := range []int{10, 100_000} {
				resp, body := w.post(prompt(size))
				if resp.StatusCode != 502 || !strings.Contains(body, `"code":"upstream_broken"`) {
					t.Errorf("%d %s", resp.StatusCode, body)
				}
				if o := w.settled(); o.Ending != reason.UpstreamBroken {
					t.Errorf("ended %v", o.Ending)
				}
			}
			if got.Load() != 2 || second.count.Load() != 0 {
				t.Errorf("2 requests were sent %d + %d times", got.Load(), second.count.Load())
			}
		})
	}
}

// An engine that answers once on each connection, and closes it on the second request without an answer: a POST may have
// been processed, whatever its headers promise; a GET may go out again.
func TestKeptConnectionsThatCloseOnTheNextRequest(t *testing.T) {
	var requests atomic.Int64
	at := rawEngine(t, func(c net.Conn, r *bufio.Reader) {
		for first := true; ; first = false {
			if _, err := readRequest(r); err != nil {
				return
			}
			requests.Add(1)
			if !first {
				return
			}
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
	})
	w := newWorld(t, setup{reads: plugins.ReadsBody}, at)
	for _, row := range []struct {
		method, body string
		status       int
		sent         int64
	}{
		{"POST", prompt(10), 502, 1},
		{"POST", "", 502, 1},
		{"DELETE", "", 502, 1},
		{"GET", "", 200, 2},
	} {
		t.Run(fmt.Sprintf("%s with %d bytes", row.method, len(row.body)), func(t *testing.T) {
			send := func() *http.Response {
				request, _ := http.NewRequest(row.method, w.front.URL+"/v1/thing", strings.NewReader(row.body))
				request.Header.Set("Idempotency-Key", "k") // net/http repeats such a POST if it has no body
				resp, err := http.DefaultClient.Do(request)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				return resp
			}
			w.proxy.transport.CloseIdleConnections()
			if resp := send(); resp.StatusCode != 200 {
				t.Fatalf("the first request got %d", resp.StatusCode)
			}
			before := requests.Load()
			if resp := send(); resp.StatusCode != row.status {
				t.Errorf("got %d, want %d", resp.StatusCode, row.status)
			}
			if n := requests.Load() - before; n != row.sent {
				t.Errorf("the engine got it %d times, want %d", n, row.sent)
			}
		})
	}
}

// brittle is a connection whose writes fail once it is told to, before the kernel takes a byte: a kept connection that the
// peer has reset, seen by the writer before the reader.
type brittle struct {
	net.Conn
	broken *atomic.Bool
}

func (b brittle) Write(p []byte) (int, error) {
	if b.broken.Load() {
		return 0, net.ErrClosed
	}
	return b.Conn.Write(p)
}

func TestAKeptConnectionThatTakesNoByteIsReplaced(t *testing.T) {
	var broken atomic.Pointer[atomic.Bool]
	e := newEngine(t, nil)
	w := newWorld(t, setup{reads: plugins.ReadsBody, proxy: func(o *Options) {
		o.Transport.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, address)
			b := new(atomic.Bool)
			broken.Store(b)
			return brittle{c, b}, err
		}
	}}, e.addr, dead(t))
	for i := range 3 {
		for _, size := range []int{10, 300_000} {
			resp, body := w.post(prompt(size))
			if resp.StatusCode != 200 || resp.Header.Get("X-Body") != hash([]byte(prompt(size))) {
				t.Fatalf("request %d of %d bytes: %d %s", i, size, resp.StatusCode, body)
			}
			broken.Load().Store(true)
		}
	}
	if e.count.Load() != 6 || w.noted.count(reason.FallbackServed) != 0 {
		t.Errorf("6 requests were sent %d times, %d fell back", e.count.Load(), w.noted.count(reason.FallbackServed))
	}
}

func TestAHoldWaitsForItsWake(t *testing.T) {
	released := make(chan *plugins.Request, 1)
	var open atomic.Bool
	hold := &stage{phase: plugins.AtAdmit, reads: plugins.ReadsBody, enter: func(r *plugins.Request) plugins.Verdict {
		if open.Load() {
			return plugins.Verdict{}
		}
		select {
		case released <- r:
		default:
		}
		return plugins.Verdict{Until: r.Now + pool.Instant(time.Hour), Late: reason.QueueTimeout}
	}}
	e := newEngine(t, nil)
	w := newWorld(t, setup{reads: plugins.ReadsBody, extra: []any{hold}}, e.addr)

	t.Run("the client goes away", func(t *testing.T) {
		c, _ := w.raw("POST " + chatPath + " HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: " + fmt.Sprint(len(prompt(10))) + "\r\n\r\n" + prompt(10))
		<-released
		_ = c.Close()
		w.noted.wait(t, reason.ClientAborted)
	})
	t.Run("it is let go", func(t *testing.T) {
		go func() {
			r := <-released
			r.Wake() // without cause
			open.Store(true)
			r.Wake()
		}()
		if resp, body := w.post(prompt(10)); resp.StatusCode != 200 {
			t.Errorf("%d %s", resp.StatusCode, body)
		}
	})
}

func TestAClientThatBreaksOffItsBody(t *testing.T) {
	for _, reads := range []plugins.Reads{plugins.ReadsBody, plugins.ReadsHeaders} {
		arrived, gone := make(chan bool, 1), make(chan bool, 1)
		e := newEngine(t, func(_ http.ResponseWriter, r *http.Request) {
			arrived <- true
			_, err := io.ReadAll(r.Body)
			gone <- err != nil
		})
		w := newWorld(t, setup{reads: reads}, e.addr)
		c, _ := w.raw("POST /v1/thing HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n" + strings.Repeat("x", 500_000))
		if reads == plugins.ReadsHeaders {
			<-arrived
		}
		_ = c.Close()
		w.noted.wait(t, reason.ClientAborted)
		w.settled() // the reason is noted a moment before the exchange is over
		if reads == plugins.ReadsHeaders && !<-gone {
			t.Error("the engine took half a body for a whole one")
		}
		if w.pool.Open() != 0 || w.s.Open() != 0 {
			t.Errorf("%d bookings, %d exchanges are open", w.pool.Open(), w.s.Open())
		}
	}
}

func TestAPanicOfTheHandlerEndsTheExchange(t *testing.T) {
	e := newEngine(t, nil)
	w := newWorld(t, setup{reads: plugins.ReadsBody, proxy: func(o *Options) {
		o.Observe = func(time.Duration) { panic("observed") }
	}}, e.addr)
	if resp, err := http.Post(w.front.URL+chatPath, "application/json", strings.NewReader(prompt(10))); err == nil {
		t.Errorf("got %s", resp.Status)
	}
	w.settled()
	if w.noted.count(reason.Internal) != 1 {
		t.Error("nobody was told")
	}
}

func TestStagesMayReplyAtAnyPoint(t *testing.T) {
	answer := &stage{phase: plugins.AtHeaders, reads: plugins.ReadsHeaders, enter: func(*plugins.Request) plugins.Verdict {
		return plugins.Verdict{Reply: openai.ModelsReply([]string{"m-base"}, 1)}
	}}
	w := newWorld(t, setup{extra: []any{answer}}, dead(t))
	for _, method := range []string{"GET", "HEAD"} {
		request, _ := http.NewRequest(method, w.front.URL+"/v1/models", nil)
		resp, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "application/json" || (method == "GET") != strings.Contains(string(body), "m-base") {
			t.Errorf("%s: %d %v %s", method, resp.StatusCode, resp.Header, body)
		}
	}
}

func TestConformanceAddsWhoServed(t *testing.T) {
	e := newEngine(t, nil)
	w := newWorld(t, setup{reads: plugins.ReadsBody, options: func(o *exchange.Options) { o.Conformance = true }}, e.addr)
	if resp, _ := w.post(prompt(10)); resp.Header.Get(exchange.HeaderTestServed) != e.addr {
		t.Errorf("%v", resp.Header)
	}
}
