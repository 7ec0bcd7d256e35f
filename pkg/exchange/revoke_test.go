package exchange_test

import (
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// evicting is a queue that lets everybody through, and takes back who is on its list.
type evicting struct {
	oneAtATime
	sent    []*plugins.Request
	victims []*plugins.Request
	taken   []bool
	ended   []reason.ID
}

func (q *evicting) Enter(*plugins.Request) plugins.Verdict { return plugins.Verdict{} }
func (q *evicting) Fits(c *plugins.Cycle, _ *pool.Books) (bool, *reason.Refusal) {
	q.sent = append(q.sent, c.Request)
	return true, nil
}
func (q *evicting) Settle(_ *plugins.Request, o plugins.Outcome) { q.ended = append(q.ended, o.Ending) }
func (q *evicting) Evicts() bool                                 { return true }

func (q *evicting) Evict(pool.Instant) (r *plugins.Request, no *reason.Refusal, ok bool) {
	if len(q.victims) == 0 {
		return nil, nil, false
	}
	r, q.victims = q.victims[0], q.victims[1:]
	return r, &reason.Refusal{ID: reason.Evicted, RetryAfter: 7 * time.Second}, true
}

func (q *evicting) Evicted(_ pool.Instant, _ *plugins.Request, taken bool) {
	q.taken = append(q.taken, taken)
}

// A request is taken back at every point of its life; only between its dispatch and its answer that is possible.
func TestRevoke(t *testing.T) {
	blind := exchange.Via{Adapter: "ext_proc"}
	answered := func(w *world, x *exchange.Exchange) {
		x.Response(w.now, openai.Headers{{Name: ":status", Value: "200"}}, address(0, 0), false)
	}
	for _, row := range []struct {
		name  string
		via   exchange.Via
		then  func(w *world, x *exchange.Exchange) // before it is to be taken back
		taken bool
		noted reason.ID
	}{
		{"on its way", proxied, nil, true, reason.Evicted},
		{"under a gateway that shows headers alone", static, nil, true, reason.Evicted},
		{"its answer has begun", proxied, answered, false, 0},
		{"it has ended", proxied, func(w *world, x *exchange.Exchange) {
			answered(w, x)
			x.End(w.now, exchange.Ending{Clean: true})
		}, false, 0},
		{"its client has gone", proxied, func(w *world, x *exchange.Exchange) { x.End(w.now, exchange.Ending{ByClient: true}) }, false, 0},
		{"its gateway shows nothing more of it", blind, func(w *world, x *exchange.Exchange) { x.End(w.now, exchange.Ending{}) }, false, reason.NotRevocable},
	} {
		t.Run(row.name, func(t *testing.T) {
			q := &evicting{}
			w := newWorld(t, nil, nil, instance("queue", q))
			x, a := w.forwarded(row.via)
			if !a.Revocable {
				t.Error("the adapter is not told that it may be woken")
			}
			if row.then != nil {
				row.then(w, x)
			}
			before := w.open()
			for len(w.woken) > 0 {
				<-w.woken
			}
			q.victims = q.sent
			w.s.Tick(w.now)
			if len(q.taken) != 1 || q.taken[0] != row.taken {
				t.Fatalf("the queue heard %v, want %v", q.taken, row.taken)
			}
			if row.noted != 0 {
				w.wantNoted(row.noted, 1)
			}
			got := x.Resume(w.now)
			if !row.taken {
				w.wantOpen(before)
				if got.Do != exchange.Ignore {
					t.Errorf("the adapter is told to %v", got.Do)
				}
				return
			}
			w.wantOpen(0)
			if len(w.woken) != 1 {
				t.Error("nobody is woken")
			}
			if len(q.ended) != 1 || q.ended[0] != reason.Evicted || w.outcome(x) != "evicted" {
				t.Errorf("it settled as %v", q.ended)
			}
			for what, a := range map[string]exchange.Action{
				"resumed": got, "answered": x.Response(w.now, openai.Headers{{Name: ":status", Value: "200"}}, address(0, 0), false),
				"failed": x.Failed(w.now, a.To[0], reason.UpstreamBroken),
			} {
				if a.Do != exchange.Reply || a.Reply.Status != 429 || a.Reply.Headers.Get("retry-after") != "7" ||
					a.Reply.Headers.Get("x-llm-d-request-dropped-reason") != "evicted-priority" {
					t.Errorf("%s: got %v %+v, want 429", what, a.Do, a.Reply)
				}
			}
			x.End(w.now, exchange.Ending{ByClient: true})
			if len(q.ended) != 1 {
				t.Errorf("it settled %d times", len(q.ended))
			}
			w.s.Tick(w.now + pool.Instant(time.Hour))
			w.wantNoted(reason.BookingExpired, 0)
		})
	}
}

// A request may be taken back after the queue let it go, and before its adapter has fetched that.
func TestRevokeBeforeItWasFetched(t *testing.T) {
	q := &evictsHeld{}
	w := newWorld(t, nil, nil, instance("queue", q))
	x := w.queued()
	q.limit = 1
	w.s.Tick(w.now)
	w.wantOpen(1)
	q.victims = []*plugins.Request{q.last}
	w.s.Tick(w.now)
	w.wantOpen(0)
	if a := x.Resume(w.now); a.Do != exchange.Reply || a.Reply.Status != 429 {
		t.Errorf("got %v, want the refusal and nothing sent", a.Do)
	}
}

// evictsHeld is evicting, and holds whom it lets go.
type evictsHeld struct {
	evicting
	last *plugins.Request
}

func (q *evictsHeld) Enter(r *plugins.Request) plugins.Verdict {
	q.last = r
	return q.oneAtATime.Enter(r)
}

func TestWithoutEvictionNobodyIsRevocable(t *testing.T) {
	w := newWorld(t, nil, nil, instance("queue", &oneAtATime{limit: 1}))
	x := w.queued()
	w.s.Tick(w.now)
	if a := x.Resume(w.now); a.Do != exchange.Forward || a.Revocable {
		t.Errorf("got %v, revocable %v", a.Do, a.Revocable)
	}
}
