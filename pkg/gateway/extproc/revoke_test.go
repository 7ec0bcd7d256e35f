package extproc

import (
	"errors"
	"fmt"
	"io"
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
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.taken[len(q.taken)-1]
}

// A request is taken back while no message is outstanding; Envoy takes the answer all the same (reference: internal/e2e).
func TestRevoke(t *testing.T) {
	for _, row := range []struct {
		request, response bodyMode
		tokens            []string
	}{
		{duplex, none, nil}, {duplex, duplex, nil}, {buffered, none, nil}, {streamed, none, []string{TokenOverride}},
	} {
		t.Run(fmt.Sprintf("%v %v %v", row.request, row.response, row.tokens), func(t *testing.T) {
			q := &evictor{}
			g := newRig(t, rigOptions{queue: q})
			gw := g.open(row.tokens...)
			gw.headers(row.request, row.response)
			if row.request == buffered {
				gw.recv()
			}
			gw.body(chat, true)
			if row.request == buffered {
				gw.recv()
			} else {
				gw.answerTo()
			}
			if !q.evict(g.scheduler, 1) {
				t.Fatal("it was not taken back")
			}
			m := gw.recv().GetImmediateResponse()
			if m == nil || m.GetStatus().GetCode() != 429 || m.GetDetails() != "evicted" {
				t.Fatalf("got %v, want 429 evicted", m)
			}
			if _, err := gw.io.Recv(); !errors.Is(err, io.EOF) {
				t.Errorf("the stream ended with %v, want OK", err)
			}
			if o := g.outcome(); o.Ending != reason.Evicted {
				t.Errorf("it settled as %v", o.Ending)
			}
			g.zero()
		})
	}
	t.Run("an answer that crosses the refusal", func(t *testing.T) {
		q := &evictor{}
		g := newRig(t, rigOptions{queue: q})
		gw := g.open()
		gw.headers(duplex, none)
		gw.body(chat, true)
		gw.answerTo()
		gw.responseHeaders("10.0.0.1:8000", false)
		gw.recv()
		if q.evict(g.scheduler, 1) {
			t.Error("it was taken back though its answer had begun")
		}
	})
}
