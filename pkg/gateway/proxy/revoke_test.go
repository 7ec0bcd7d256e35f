package proxy

import (
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// evictor is a queue that lets everybody through, and takes back whom it is told to.
type evictor struct {
	mu     sync.Mutex
	sent   []*plugins.Request
	victim *plugins.Request
	taken  []bool
}

var (
	_ plugins.Queue   = (*evictor)(nil)
	_ plugins.Evictor = (*evictor)(nil)
)

func (*evictor) Phase() plugins.Phase                                        { return plugins.AtAdmit }
func (*evictor) Enter(*plugins.Request) plugins.Verdict                      { return plugins.Verdict{} }
func (*evictor) Attach([]*pool.Pool, reason.Sink)                            {}
func (*evictor) Next(pool.Instant) (*plugins.Request, *reason.Refusal, bool) { return nil, nil, false }
func (*evictor) Fits(*plugins.Cycle, *pool.Books) (bool, *reason.Refusal)    { return true, nil }
func (*evictor) Nobody(*plugins.Request, *reason.Refusal) bool               { return false }
func (*evictor) Leave(*plugins.Request)                                      {}
func (*evictor) Deadline() pool.Instant                                      { return 0 }
func (*evictor) Drain()                                                      {}
func (*evictor) Evicts() bool                                                { return true }

func (q *evictor) Admitted(r *plugins.Request, _ pool.Ref, _ pool.Load) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.sent = append(q.sent, r)
}

func (q *evictor) Evict(pool.Instant) (r *plugins.Request, no *reason.Refusal, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	r, q.victim = q.victim, nil
	return r, &reason.Refusal{ID: reason.Evicted, RetryAfter: 7 * time.Second}, r != nil
}

func (q *evictor) Evicted(_ pool.Instant, _ *plugins.Request, taken bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.taken = append(q.taken, taken)
}

// evict takes the only request back, and reports whether that went well.
func (q *evictor) evict(s *exchange.Scheduler, now pool.Instant) bool {
	q.mu.Lock()
	q.victim = q.sent[0]
	q.mu.Unlock()
	s.Tick(now)
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); runtime.Gosched() {
		q.mu.Lock()
		taken := slices.Clone(q.taken)
		q.mu.Unlock()
		if len(taken) > 0 { // else whoever was dispatching already does it
			return taken[len(taken)-1]
		}
	}
	return false
}

// A request that is taken back is answered with 429, and its engine sees the client go.
func TestRevoke(t *testing.T) {
	for _, size := range []int{10, 200_000} {
		arrived, gone := make(chan struct{}), make(chan struct{})
		e := newEngine(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			close(arrived)
			<-r.Context().Done()
			close(gone)
		})
		q := &evictor{}
		w := newWorld(t, setup{extra: []any{q}}, e.addr)
		type answer struct {
			resp *http.Response
			body string
		}
		answered := make(chan answer)
		go func() {
			resp, body := w.post(prompt(size))
			answered <- answer{resp, body}
		}()
		<-arrived
		if !q.evict(w.s, 1) {
			t.Fatal("it was not taken back")
		}
		a := <-answered
		if a.resp.StatusCode != 429 || !strings.Contains(a.body, `"code":"evicted"`) || a.resp.Header.Get("Retry-After") != "7" {
			t.Errorf("%d %s", a.resp.StatusCode, a.body)
		}
		select {
		case <-gone:
		case <-time.After(10 * time.Second):
			t.Error("the engine goes on with it")
		}
		if o := w.settled(); o.Ending != reason.Evicted {
			t.Errorf("it settled as %v", o.Ending)
		}
		if e.count.Load() != 1 {
			t.Errorf("%d requests reached the engine, want 1", e.count.Load())
		}
	}
}

// Whoever wins, the client gets one whole answer: the engine's or the refusal.
func TestRevokeAgainstTheAnswer(t *testing.T) {
	for i := range 50 {
		q := &evictor{}
		arrived, ready := make(chan struct{}), make(chan struct{})
		e := newEngine(t, func(w http.ResponseWriter, _ *http.Request) {
			close(arrived)
			<-ready
			_, _ = io.WriteString(w, "ok")
		})
		w := newWorld(t, setup{extra: []any{q}}, e.addr)
		go func() {
			<-arrived
			close(ready)
			for range i * 20 {
				runtime.Gosched()
			}
			q.evict(w.s, 1)
		}()
		resp, body := w.post(prompt(10))
		o := w.settled()
		switch resp.StatusCode {
		case 200:
			if body != "ok" || o.Ending != 0 {
				t.Errorf("200 %q, settled as %v", body, o.Ending)
			}
		case 429:
			if !strings.Contains(body, "evicted") || o.Ending != reason.Evicted {
				t.Errorf("429 %q, settled as %v", body, o.Ending)
			}
		default:
			t.Errorf("%d %s", resp.StatusCode, body)
		}
	}
}
