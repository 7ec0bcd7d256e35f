package exchange_test

import (
	"cmp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// stage answers with its verdicts in turn, then passes.
type stage struct {
	phase    plugins.Phase
	verdicts []plugins.Verdict
	panics   bool
	entered  int
	r        *plugins.Request
}

func (s *stage) Phase() plugins.Phase { return s.phase }

func (s *stage) Enter(r *plugins.Request) plugins.Verdict {
	if s.panics {
		panic("out of order")
	}
	s.r = r
	s.entered++
	if s.entered <= len(s.verdicts) {
		return s.verdicts[s.entered-1]
	}
	return plugins.Verdict{}
}

type dropAll struct{}

func (dropAll) Filter(c *plugins.Cycle, keep plugins.Bits) {
	for i := range c.Candidates {
		keep.Clear(i)
	}
}

type panicker struct{}

func (panicker) Filter(*plugins.Cycle, plugins.Bits) { panic("out of order") }

func TestAStageHoldsUntilItIsWoken(t *testing.T) {
	for phase := plugins.AtHeaders; phase <= plugins.AtAdmit; phase++ {
		t.Run(phase.String(), func(t *testing.T) {
			until := pool.Instant(10 * time.Second)
			asks := &stage{phase: phase, verdicts: []plugins.Verdict{{Until: until, Late: reason.LookupTimeout}, {Until: until, Late: reason.LookupTimeout}}}
			w := newWorld(t, nil, nil, instance("asks", asks))
			x := w.begin()
			a := x.Headers(w.now, post("/v1/chat/completions"), proxied, false)
			if phase != plugins.AtHeaders {
				a = x.Body(w.now, []byte(chat), true)
			}
			if a.Do != exchange.Hold {
				t.Fatalf("got %v, want hold", a.Do)
			}
			if a := x.Resume(w.now); a.Do != exchange.Hold {
				t.Fatalf("got %v for a wake without cause, want hold", a.Do)
			}
			asks.r.Wake()
			<-w.woken
			a = x.Resume(w.now)
			if phase == plugins.AtHeaders {
				if a.Do != exchange.Continue {
					t.Fatalf("got %v, want continue", a.Do)
				}
				a = x.Body(w.now, []byte(chat), true)
			}
			if a.Do != exchange.Forward {
				t.Errorf("got %v after the answer came, want forward", a.Do)
			}
		})
	}
}

func TestAHoldEndsAtItsDeadline(t *testing.T) {
	hold := plugins.Verdict{Until: pool.Instant(3 * time.Second), Late: reason.LookupTimeout}
	w := newWorld(t, nil, nil, instance("asks", &stage{phase: plugins.AtDescribe, verdicts: []plugins.Verdict{hold, hold}}))
	x := w.begin()
	x.Headers(w.now, post("/v1/chat/completions"), proxied, false)
	x.Body(w.now, []byte(chat), true)
	if next := w.s.Tick(w.now); next != hold.Until {
		t.Fatalf("the next deadline is %v, want %v", next, hold.Until)
	}
	w.now = hold.Until
	w.s.Tick(w.now)
	<-w.woken
	a := x.Resume(w.now)
	if a.Do != exchange.Reply || a.Reply.Status != 503 {
		t.Fatalf("got %v, want 503", a.Do)
	}
	w.wantNoted(reason.LookupTimeout, 1)
	w.wantOpen(0)
}

func TestAQueueThatWaitsTooLongRefuses(t *testing.T) {
	hold := plugins.Verdict{Until: pool.Instant(3 * time.Second), Late: reason.QueueTimeout}
	w := newWorld(t, nil, nil, instance("queue", &stage{phase: plugins.AtAdmit, verdicts: []plugins.Verdict{hold, hold}}))
	x := w.begin()
	x.Headers(w.now, post("/v1/chat/completions"), proxied, false)
	x.Body(w.now, []byte(chat), true)
	w.now = hold.Until
	w.s.Tick(w.now)
	if a := x.Resume(w.now); a.Do != exchange.Reply || a.Reply.Status != 429 {
		t.Fatalf("got %v, want 429", a.Do)
	}
}

// oneAtATime is a queue that lets one request run and the others wait in order.
type oneAtATime struct {
	mu      sync.Mutex
	waiting []*plugins.Request
	limit   int32
	late    *reason.Refusal // of whom Next hands out
	patient bool            // whose decision left nobody waits
	drains  bool
	left    int
}

func (q *oneAtATime) Phase() plugins.Phase { return plugins.AtAdmit }

func (q *oneAtATime) Enter(r *plugins.Request) plugins.Verdict {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, w := range q.waiting {
		if w == r {
			return plugins.Verdict{Until: plugins.Forever}
		}
	}
	q.waiting = append(q.waiting, r)
	slices.SortFunc(q.waiting, func(a, b *plugins.Request) int { return cmp.Compare(a.Number, b.Number) }) // who did not fit stays ahead
	return plugins.Verdict{Until: plugins.Forever}
}

func (q *oneAtATime) Next(pool.Instant) (*plugins.Request, *reason.Refusal, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.drains && len(q.waiting) > 0 {
		q.limit = 1
	}
	if len(q.waiting) == 0 || q.limit <= 0 {
		return nil, nil, false
	}
	r := q.waiting[0]
	q.waiting = q.waiting[1:]
	return r, q.late, true
}

func (q *oneAtATime) Fits(_ *plugins.Cycle, books *pool.Books) (bool, *reason.Refusal) {
	n := int32(0)
	for _, r := range books.Requests {
		n += r
	}
	if n >= q.limit {
		q.mu.Lock()
		q.limit = 0 // full: nobody else needs to be asked until somebody ends
		q.mu.Unlock()
		return false, nil
	}
	return true, nil
}

func (q *oneAtATime) Attach([]*pool.Pool, reason.Sink)                  {}
func (q *oneAtATime) Admitted(*plugins.Request, pool.Ref, pool.Load)    {}
func (q *oneAtATime) Suits(*plugins.Cycle, []plugins.Leg) bool          { return true }
func (q *oneAtATime) Nobody(r *plugins.Request, _ *reason.Refusal) bool { return q.patient }
func (q *oneAtATime) Drain()                                            { q.drains = true }

func (q *oneAtATime) Leave(r *plugins.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.left++
	q.waiting = slices.DeleteFunc(q.waiting, func(w *plugins.Request) bool { return w == r })
}

func (q *oneAtATime) Deadline() pool.Instant {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return 0
	}
	return pool.Instant(time.Hour)
}

func (q *oneAtATime) Settle(*plugins.Request, plugins.Outcome) {
	q.mu.Lock()
	q.limit = 1
	q.mu.Unlock()
}

func TestTheQueueLetsGoWhenCapacityIsFreed(t *testing.T) {
	q := &oneAtATime{limit: 1}
	w := newWorld(t, nil, nil, instance("queue", q))
	var all []*exchange.Exchange
	for range 3 {
		x := w.begin()
		x.Headers(w.now, post("/v1/chat/completions"), proxied, false)
		if a := x.Body(w.now, []byte(chat), true); a.Do != exchange.Hold {
			t.Fatalf("got %v, want hold", a.Do)
		}
		all = append(all, x)
	}
	for i, x := range all {
		w.wantOpen(1)
		a := x.Resume(w.now)
		if a.Do != exchange.Forward {
			t.Fatalf("request %d: got %v, want forward", i, a.Do)
		}
		for _, later := range all[i+1:] {
			if a := later.Resume(w.now); a.Do != exchange.Hold {
				t.Fatalf("request %d: a later one got %v, want hold", i, a.Do)
			}
		}
		x.Response(w.now, nil, a.To[0], true) // frees, and the next is decided at this same instant
	}
	w.wantOpen(0)
}

func TestVirtualTimeTellsWhoAsks(t *testing.T) {
	asks := &stage{phase: plugins.AtAdmit}
	w := newWorld(t, nil, nil, instance("asks", asks))
	x := w.begin()
	s := openai.NewSummary()
	s.Complete = true
	said := exchange.Said{FairnessID: "team-a", Objective: "chat", Priority: -3, Headers: openai.Headers{{Name: "x-llm-d-slo-ttft-ms", Value: "200"}}}
	if a := x.Described(w.now, s, said); a.Do != exchange.Forward {
		t.Fatalf("got %v, want forward", a.Do)
	}
	if r := asks.r; r.FairnessID != "team-a" || r.Objective != "chat" || r.Target.Priority != -3 || r.Headers.Get("x-llm-d-slo-ttft-ms") != "200" {
		t.Errorf("the stage saw %q, %q, priority %d, headers %v", r.FairnessID, r.Objective, r.Target.Priority, r.Headers)
	}
}

func (w *world) queued() *exchange.Exchange {
	w.t.Helper()
	x := w.begin()
	x.Headers(w.now, post("/v1/chat/completions"), proxied, false)
	if a := x.Body(w.now, []byte(chat), true); a.Do != exchange.Hold {
		w.t.Fatalf("got %v, want hold", a.Do)
	}
	return x
}

func TestTheQueueRefusesWhomItHandsOutLate(t *testing.T) {
	q := &oneAtATime{late: &reason.Refusal{ID: reason.QueueTimeout, RetryAfter: 7 * time.Second}}
	w := newWorld(t, nil, nil, instance("queue", q))
	x := w.queued()
	if len(w.alarm.at) == 0 || w.alarm.at[len(w.alarm.at)-1] != pool.Instant(time.Hour) {
		t.Errorf("the edge was told of %v, want the queue's deadline", w.alarm.at)
	}
	if next := w.s.Tick(w.now); next != pool.Instant(time.Hour) {
		t.Errorf("the next deadline is %v, want the queue's", next)
	}
	q.limit = 1
	w.s.Tick(w.now)
	a := x.Resume(w.now)
	if a.Do != exchange.Reply || a.Reply.Status != 429 || a.Reply.Headers.Get("retry-after") != "7" {
		t.Fatalf("got %v %v, want 429 with retry-after 7", a.Do, a.Reply)
	}
	w.wantNoted(reason.QueueTimeout, 1)
	if next := w.s.Tick(w.now); next != 0 {
		t.Errorf("the next deadline is %v though nobody waits", next)
	}
}

func TestAClientThatGoesLeavesTheQueue(t *testing.T) {
	q := &oneAtATime{}
	w := newWorld(t, nil, nil, instance("queue", q))
	w.queued().End(w.now, exchange.Ending{ByClient: true})
	if q.left != 1 || len(q.waiting) != 0 {
		t.Errorf("left was said %d times and %d wait; want 1 and 0", q.left, len(q.waiting))
	}
	w.wantNoted(reason.ClientAborted, 1)
}

func TestADrainRefusesWhoWaits(t *testing.T) {
	q := &oneAtATime{}
	w := newWorld(t, nil, nil, instance("queue", q))
	x := w.queued()
	w.s.Drain()
	w.s.Tick(w.now)
	if a := x.Resume(w.now); a.Do != exchange.Reply || a.Reply.Status != 503 {
		t.Fatalf("got %v, want 503", a.Do)
	}
	w.wantNoted(reason.ShuttingDown, 1)
}

func TestANewSampleAndANewEndpointHaveTheQueueAsked(t *testing.T) {
	q := &oneAtATime{}
	w := newWorld(t, nil, nil, instance("queue", q))
	p := w.pools[0]
	p.Update(w.now, nil)
	if n := len(w.alarm.at); n != 0 {
		t.Errorf("the edge was woken %d times though nobody waits", n)
	}
	w.queued()
	before := len(w.alarm.at)
	p.Update(w.now, []pool.Endpoint{{Namespace: "ns", Name: "a", Addr: address(0, 0)}})
	p.Observe(w.now, p.Snapshot().Slots[0].Ref, pool.Sample{At: w.now})
	if n := len(w.alarm.at) - before; n != 2 {
		t.Errorf("the edge was woken %d times, want 2", n)
	}
}

func TestADecisionThatLeavesNobodyMayWait(t *testing.T) {
	q := &oneAtATime{limit: 1, patient: true}
	w := newWorld(t, nil, nil, instance("queue", q), instance("drops", dropAll{}))
	x := w.begin()
	x.Headers(w.now, post("/v1/chat/completions"), proxied, false)
	q.limit = 0 // held at once, and tried later
	x.Body(w.now, []byte(chat), true)
	q.limit, q.patient = 1, false
	w.s.Tick(w.now)
	if a := x.Resume(w.now); a.Do != exchange.Reply || a.Reply.Status != 429 {
		t.Fatalf("got %v, want 429", a.Do)
	}
	w.wantNoted(reason.AllFiltered, 1)
}
