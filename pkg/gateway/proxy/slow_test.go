package proxy

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/reason"
)

// A client that sends its headers byte by byte has a bound, whatever the pace.
func TestHeadersThatTrickleAreNotWaitedFor(t *testing.T) {
	w := newWorld(t, setup{headerTime: 200 * time.Millisecond}, newEngine(t, nil).addr)
	c, r := w.raw("POST /v1/chat")
	stop := make(chan struct{})
	go func() {
		pace := time.NewTicker(20 * time.Millisecond)
		defer pace.Stop()
		for {
			select {
			case <-stop:
				return
			case <-pace.C:
				_, _ = io.WriteString(c, "x")
			}
		}
	}()
	defer close(stop)
	if b, err := io.ReadAll(r); err == nil && len(b) == 0 {
		return // closed without a word
	} else if err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("the connection was not closed: %v, %s", err, b)
	}
}

// A client whose body trickles holds a connection and what it has sent, and nothing of an engine. What it holds is counted.
func TestABodyThatTricklesHoldsNoEngine(t *testing.T) {
	e := newEngine(t, nil)
	w := newWorld(t, setup{reads: plugins.ReadsBody, options: func(o *exchange.Options) { o.MaxHeldBytes = 1000 }}, e.addr)
	body := prompt(600)
	head := "POST " + chatPath + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n"
	var c net.Conn
	var r *bufio.Reader
	var resp *http.Response
	var text string
	for wait := time.Millisecond; wait < 5*time.Second; wait *= 2 {
		c, r = w.raw(head + body[:600])
		_ = c.SetReadDeadline(time.Now().Add(wait)) // for its bytes to come first: else it is the one that is refused
		_, _ = r.Peek(1)
		_ = c.SetReadDeadline(time.Time{})
		if resp, text = w.post(body); resp.StatusCode != 200 {
			break
		}
		w.settled()
		_ = c.Close()
	}
	if resp.StatusCode != 503 || !strings.Contains(text, `"code":"held_bytes_full"`) {
		t.Fatalf("%d %s", resp.StatusCode, text)
	}
	asked := e.count.Load()
	if n := w.pool.Open(); n != 0 {
		t.Errorf("%d bookings stand for a body that has not come", n)
	}
	_, _ = io.WriteString(c, body[600:])
	if resp, err := http.ReadResponse(r, nil); err != nil || resp.StatusCode != 200 {
		t.Errorf("the slow one: %v", err)
	}
	w.settled()
	if n := e.count.Load() - asked; n != 1 {
		t.Errorf("the engine was asked %d times for it", n)
	}
	if resp, _ := w.post(body); resp.StatusCode != 200 {
		t.Errorf("when there is room again: %d", resp.StatusCode)
	}
	w.settled()
}

// An engine that accepts and never answers holds a request until its client leaves; then nothing is left.
func TestAnEngineThatNeverAnswers(t *testing.T) {
	for name, says := range map[string]string{"no byte": "", "half a header": "HTTP/1.1 200 OK\r\nContent-", "half a body": "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"} {
		t.Run(name, func(t *testing.T) {
			reached, gone := make(chan struct{}), make(chan struct{})
			engine := rawEngine(t, func(c net.Conn, r *bufio.Reader) {
				if _, err := readRequest(r); err != nil {
					return
				}
				_, _ = io.WriteString(c, says)
				close(reached)
				_, _ = io.Copy(io.Discard, r) // until the proxy closes
				close(gone)
			})
			w := newWorld(t, setup{reads: plugins.ReadsBody}, engine)
			client, leave := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				r, _ := http.NewRequestWithContext(client, "POST", w.front.URL+chatPath, strings.NewReader(prompt(10)))
				if resp, err := http.DefaultClient.Do(r); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
				}
			}()
			<-reached
			if n := w.pool.Open(); n != 1 {
				t.Errorf("%d bookings stand", n)
			}
			leave()
			<-done
			<-gone
			if o := w.settled(); o.Ending != reason.ClientAborted {
				t.Errorf("ended %v", o.Ending)
			}
		})
	}
}

// A client that does not read its answer slows the engine down, and fills no memory here.
func TestAClientThatDoesNotReadHoldsTheEngineBack(t *testing.T) {
	const all = 64 << 20
	var sent atomic.Int64
	ended := make(chan struct{})
	e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		_, _ = io.Copy(io.Discard, r.Body)
		piece := make([]byte, 64<<10)
		for sent.Load() < all {
			n, err := w.Write(piece)
			sent.Add(int64(n))
			if err != nil {
				return
			}
		}
	})
	w := newWorld(t, setup{reads: plugins.ReadsBody}, e.addr)
	body := prompt(10)
	c, r := w.raw("POST " + chatPath + " HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
	if _, err := r.Peek(1); err != nil {
		t.Fatal(err)
	}
	// The buffers of four sockets fill, and then nothing moves.
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for was := int64(-1); was != sent.Load(); <-look.C {
		was = sent.Load()
	}
	if n := sent.Load(); n > all/2 {
		t.Errorf("the engine could send %d bytes to a client that reads none", n)
	}
	_ = c.Close()
	<-ended
	if o := w.settled(); o.Ending != reason.ClientAborted {
		t.Errorf("ended %v", o.Ending)
	}
}
