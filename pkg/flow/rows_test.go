package flow

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// Who is refused is told whether there is nobody to serve or everybody is busy, whatever ended the waiting.
func TestF01StatusMatrix(t *testing.T) {
	narrow := func(s *Settings) { s.Default.MaxRequests, s.DropLate = 1, true }
	for _, r := range []struct {
		name    string
		empty   bool
		run     func(w *world) *request
		status  int // 0: not refused by us
		dropped string
		says    string
	}{
		{"full, queue overflow", false, func(w *world) *request { w.come(); return w.come() }, 429, "rejected-saturated", "1 requests of this priority wait already (maxRequests"},
		{"empty, queue overflow", true, func(w *world) *request { w.come(); return w.come() }, 503, "rejected-no-endpoints", "maxRequests of its band"},
		{"full, time over in the queue", false, func(w *world) *request { x := w.come(); w.pass(time.Minute); return x }, 429, "rejected-ttl-expired", "it waited 1m0s"},
		{"empty, time over in the queue", true, func(w *world) *request { x := w.come(); w.pass(time.Minute); return x }, 503, "rejected-no-endpoints", "it waited 1m0s"},
		{"full, time over before anybody asks", false, func(w *world) *request {
			x := w.come(header("x-llm-d-slo-ttft-ms", "0.000001"))
			w.now += 2
			w.end(w.went[0])
			return x
		}, 429, "rejected-ttl-expired", "its first token was wanted by then"},
		{"empty, time over before anybody asks", true, func(w *world) *request {
			w.c.settings.Default.EmptyTTL = 1
			w.c.Attach([]*pool.Pool{w.p}, w)
			x := w.come()
			w.now++
			w.dispatch()
			return x
		}, 503, "rejected-no-endpoints", "noEndpointRequestTTL"},
		{"full, client goes", false, func(w *world) *request { x := w.come(); w.cancel(x); return x }, 0, "", ""},
		{"empty, client goes", true, func(w *world) *request { x := w.come(); w.cancel(x); return x }, 0, "", ""},
	} {
		t.Run(r.name, func(t *testing.T) {
			n := 1
			if r.empty {
				n = 0
			}
			w := newWorld(t, settings(narrow), n)
			if !r.empty {
				w.come() // fills the endpoint
			}
			x := r.run(w)
			if r.status == 0 {
				if x.no != nil {
					t.Errorf("refused with %v", x.no)
				}
				w.wantWaiting(0)
				w.pass(time.Hour)
				return
			}
			if x.no == nil {
				t.Fatal("it was not refused")
			}
			row := x.no.ID.Row()
			if row.Status != r.status || row.Dropped != r.dropped || !strings.Contains(x.no.Detail, r.says) {
				t.Errorf("got %d %s %q; want %d %s %q", row.Status, row.Dropped, x.no.Detail, r.status, r.dropped, r.says)
			}
			if x.no.RetryAfter < time.Second || x.no.RetryAfter > 30*time.Second {
				t.Errorf("retry after %v", x.no.RetryAfter)
			}
		})
	}

	t.Run("the cause may change while it waits", func(t *testing.T) {
		w := newWorld(t, settings(func(s *Settings) { s.Default.EmptyTTL = 10 * time.Second }), 1)
		w.come()
		x := w.come()
		w.pass(20 * time.Second)
		if !x.held {
			t.Fatal("it did not wait while its pool was full")
		}
		w.members(0)
		if x.no == nil || x.no.ID.Row().Status != 503 {
			t.Errorf("got %v, want 503: it has waited longer than one may for an endpoint", x.no)
		}
	})

	t.Run("who is over before a bound is asked does not count", func(t *testing.T) {
		w := newWorld(t, settings(narrow), 1)
		w.come()
		x := w.come()
		w.now += pool.Instant(time.Minute) // nobody has asked the queue yet
		y := w.come()
		if x.no == nil || !y.held {
			t.Errorf("the first got %v, the second waits: %v", x.no, y.held)
		}
	})

	t.Run("drain", func(t *testing.T) {
		w := newWorld(t, settings(nil), 1)
		w.come()
		w.come()
		w.c.Drain()
		r, no, ok := w.c.Next(w.now)
		if !ok || no != nil || r == nil {
			t.Errorf("got %v, %v, %v: everybody is handed out, to be refused by who runs the queue", r, no, ok)
		}
	})
}

// Between two samples the queue counts what it has sent, so that a burst does not run over the engine.
func TestF02NoOvershootBetweenSamples(t *testing.T) {
	const capacity = 10
	for _, r := range []struct {
		name string
		d    Detector
		most int // requests beyond the capacity, waiting in the engine
	}{
		{"by concurrency", &ConcurrencyDetector{MaxConcurrency: capacity, ConcurrencyMode: "requests", MaxTokenConcurrency: 1}, 0},
		{"by utilization", NewUtilizationDetector(), 5},
		{"by load", &LoadDetector{MaxBacklog: 500 * time.Millisecond, MaxPending: 4, MaxKVUsage: 0.95}, 4},
	} {
		t.Run(r.name, func(t *testing.T) {
			w := newWorld(t, settings(func(s *Settings) { s.Detector = r.d; s.MaxRequests = 2000 }), 1)
			e := w.p.Snapshot().Slots[0].Ref
			var running, waiting []*request // in the engine
			seen, worst := 0, 0
			engine := func() { // takes in what was sent and begins what it has room for
				waiting = append(waiting, w.went[seen:]...)
				seen = len(w.went)
				for len(waiting) > 0 && len(running) < capacity {
					x := waiting[0]
					waiting, running = waiting[1:], append(running, x)
					w.firstByte(x)
				}
				worst = max(worst, len(waiting))
			}
			sample := func() {
				s := pool.NoSample()
				s.At, s.Waiting, s.Running, s.KVUsage = w.now, int32(len(waiting)), int32(len(running)), 0.1
				w.p.Observe(w.now, e, s)
				w.dispatch()
			}
			sample()
			for range 1000 {
				w.come(tokens(10, 10))
			}
			for step := range 4000 {
				w.pass(5 * time.Millisecond)
				engine()
				if step%4 == 0 && len(running) > 0 {
					x := running[0]
					running = running[1:]
					w.end(x)
					engine()
				}
				if step%10 == 0 { // each 50 ms
					sample()
				}
			}
			if worst > r.most {
				t.Errorf("%d requests waited in the engine, at most %d wanted", worst, r.most)
			}
			if done := len(w.went) - len(running) - len(waiting); done < 900 {
				t.Errorf("%d of 1000 are done: the engine stood idle", done)
			}
		})
	}
}

// A flow in which somebody waits is not forgotten, however long that lasts.
func TestF04AFlowIsNotCollectedWhileSomebodyWaits(t *testing.T) {
	w := newWorld(t, settings(func(s *Settings) { s.Default.TTL = 0 }), 1)
	first := w.come()
	x := w.come(tenantIs("a"), priority(3))
	for range 24 { // two hours
		w.pass(5 * time.Minute)
		w.c.mu.Lock()
		w.c.sweep(w.c.lines[0], w.now)
		w.c.mu.Unlock()
	}
	w.end(first)
	if !x.runs {
		t.Error("it does not run though there is room")
	}
}

// A priority that was idle for long is served as itself.
func TestF05APriorityThatWasIdleIsServedAtItsOwn(t *testing.T) {
	w := newWorld(t, settings(func(s *Settings) { s.Default.TTL = 0 }), 1)
	first := w.come()
	w.cancel(w.come(priority(7)))
	w.pass(time.Hour)
	w.cancel(w.come(priority(6))) // the sweep runs
	at0, at7, at9 := w.come(), w.come(priority(7)), w.come(priority(9))
	w.end(first)
	if !at9.runs || at7.runs {
		t.Fatal("the highest did not go first")
	}
	w.end(at9)
	if !at7.runs || at0.runs {
		t.Error("priority 7 was not served before 0")
	}
	bands := func() (all []int32) {
		for _, b := range w.c.Stats(w.now).Pools[0].Bands {
			all = append(all, b.Priority)
		}
		return all
	}
	if !slices.Contains(bands(), 6) {
		t.Fatalf("the bands are %v, want 6 among them, which had somebody lately", bands())
	}
	w.pass(bandIdle)
	w.come() // the sweep runs
	if slices.Contains(bands(), 6) {
		t.Errorf("the bands are %v: an idle one is remembered", bands())
	}
}

func TestIdleBandsAreForgotten(t *testing.T) {
	w := newWorld(t, settings(func(s *Settings) {
		s.Bands = []BandSettings{{Priority: 1, Fairness: NewGlobalStrict(), Ordering: NewFCFS()}}
	}), 1)
	w.come()
	for p := range int32(5) {
		w.cancel(w.come(priority(10 + p)))
	}
	w.pass(bandIdle)
	w.come(priority(2))
	var got []int32
	for _, b := range w.c.Stats(w.now).Pools[0].Bands {
		got = append(got, b.Priority)
	}
	if fmt.Sprint(got) != "[2 1]" {
		t.Errorf("the bands are %v, want that which is configured and that in which somebody waits", got)
	}
}

// Endpoints of which nothing is known yet add room and no load; a pool without endpoints has no room.
func TestF07FreshEndpointsAreRoom(t *testing.T) {
	for _, r := range []struct {
		d     Detector
		wants float64
	}{
		{NewLoadDetector(), 0}, {NewConcurrencyDetector(), 0},
		{NewUtilizationDetector(), 1}, // as llm-d's: it knows nothing but what engines report, and says in refusals that they do not
	} {
		d := r.d
		w := newWorld(t, settings(func(s *Settings) { s.Detector = d }), 3)
		if got := w.c.Stats(w.now).Pools[0].Saturation; got.Value != r.wants || got.Unread != int(3*r.wants) {
			t.Errorf("%T: three fresh endpoints: saturation %+v, want %v", d, got, r.wants)
		}
		w.members(0)
		if got := w.c.Stats(w.now).Pools[0].Saturation.Value; got != 1 {
			t.Errorf("%T: no endpoint: saturation %v, want 1", d, got)
		}
	}
}

// One idle endpoint does not have two overrun ones count as room, and takes all there is to take.
func TestF08AnIdleEndpointHidesNobody(t *testing.T) {
	loads := []int32{20, 20, 0}
	fill := func(w *world) {
		w.p.Decide(func(s *pool.Snapshot, b *pool.Books) {
			for i, n := range loads {
				for range n {
					b.Book(s.Slots[i].Ref, pool.Load{}, pool.Instant(time.Hour))
				}
			}
		})
	}
	t.Run("by concurrency the pool is full", func(t *testing.T) {
		w := newWorld(t, settings(func(s *Settings) {
			s.Detector = &ConcurrencyDetector{MaxConcurrency: 10, ConcurrencyMode: "requests", MaxTokenConcurrency: 1}
		}), 3)
		fill(w)
		if got := w.c.Stats(w.now).Pools[0].Saturation.Value; got != 40.0/30 {
			t.Errorf("saturation %v, want 1.33", got)
		}
		if x := w.come(); !x.held {
			t.Error("it did not wait")
		}
	})
	t.Run("by load each goes where there is room", func(t *testing.T) {
		w := newWorld(t, settings(func(s *Settings) {
			s.Detector, s.Patient = &LoadDetector{MaxBacklog: time.Second, MaxPending: 10, MaxKVUsage: 1}, true
		}), 3)
		fill(w)
		for i := range 12 {
			x := w.come()
			if i < 10 && (!x.runs || x.to.ID != 2) || i >= 10 && !x.held {
				t.Errorf("request %d: runs %v at %d, held %v; ten go to the idle endpoint, the others wait", i, x.runs, x.to.ID, x.held)
			}
		}
	})
}

// The share is that of the tenant, as it was authenticated; what a client invents changes nothing, and takes bounded memory.
func TestF10InventedFairnessIDs(t *testing.T) {
	w := newWorld(t, settings(func(s *Settings) { s.Default.Fairness = NewRoundRobin(); s.MaxRequests = 0; s.Default.MaxRequests = 0 }), 1)
	running := w.come()
	for i := range 100 {
		w.come(tenantIs("honest"))
		w.come(tenantIs("sly"), func(r *request) { r.FairnessID = fmt.Sprint("invented-", i) })
	}
	for range 60 {
		w.end(running)
		running = w.went[len(w.went)-1]
	}
	count := map[string]int{}
	for _, r := range w.went[1:] {
		count[r.Target.Subscription]++
	}
	if count["honest"] != 30 || count["sly"] != 30 {
		t.Errorf("served %v, want 30 each", count)
	}
	for i := range 10_000 { // without authentication, each its own
		w.come(func(r *request) { r.FairnessID = fmt.Sprint("id-", i) })
	}
	if n := len(w.c.lines[0].bands[0].flows); n > 65 {
		t.Errorf("%d flows are kept, at most 64 and the shared one wanted", n)
	}
	if w.noted[reason.FlowsShared] == 0 {
		t.Error("nobody was told that flows are shared")
	}
}

// Under strict sharing a lower band waits as long as a higher one fills the pool, and can be seen to; under weighted sharing it
// is served within the bound.
func TestF11Starvation(t *testing.T) {
	run := func(weighted bool) (*world, *request) {
		w := newWorld(t, settings(func(s *Settings) {
			s.Weighted = weighted
			high, low := s.Default, s.Default
			high.Priority, high.Weight = 10, 9
			low.Priority, low.Weight = 0, 1
			s.Bands = []BandSettings{high, low}
		}), 1)
		running := w.come(priority(10))
		for range 5 {
			w.come(priority(10))
		}
		low := w.come()
		for range 300 { // seconds
			w.pass(time.Second)
			w.come(priority(10))
			if running.runs {
				w.end(running)
			}
			running = w.went[len(w.went)-1]
		}
		return w, low
	}
	t.Run("strict", func(t *testing.T) {
		w, low := run(false)
		if low.no == nil || low.no.ID != reason.QueueTimeout {
			t.Errorf("got %v, want that it waited to its bound", low.no)
		}
		if n := w.c.Stats(w.now).Pools[0].Bands[1].Ended[EvictedTTL]; n != 1 {
			t.Errorf("the band counts %d that waited too long, want 1", n)
		}
	})
	t.Run("weighted", func(t *testing.T) {
		w, low := run(true)
		if low.no != nil || low.at == 0 {
			t.Fatalf("got %v, want that it was served", low.no)
		}
		before := 0
		for _, r := range w.went {
			if r == low {
				break
			}
			before++
		}
		if before > 1+9+6 { // the one that ran, nine to one, and those that came before it
			t.Errorf("%d were served before it", before)
		}
	})
}

// While a pool has no endpoint requests wait, can be seen to, and all go when there is one.
func TestF13ScaleFromZero(t *testing.T) {
	w := newWorld(t, settings(func(s *Settings) { s.Detector, s.MaxRequests = NewLoadDetector(), 5 }), 0)
	var all []*request
	for range 5 {
		all = append(all, w.come())
	}
	w.wantWaiting(5)
	over := w.come()
	if over.no == nil || over.no.ID.Row().Status != 503 || over.no.RetryAfter != 30*time.Second {
		t.Errorf("the sixth got %v, want 503 with Retry-After", over.no)
	}
	w.pass(40 * time.Second)
	w.members(1)
	for i, x := range all {
		if !x.runs || x.at != w.now {
			t.Errorf("request %d: runs %v at %v, want at once", i, x.runs, x.at)
		}
	}
	w.wantWaiting(0)
}

// An endpoint at its ceiling has no room: requests go to the others, and wait when all are, until one ends or nobody tells of
// ceilings any more.
func TestWhoIsAtItsCeilingHasNoRoom(t *testing.T) {
	w := newWorld(t, settings(func(s *Settings) { s.Detector, s.Patient, s.Default.TTL = NewLoadDetector(), true, time.Hour }), 2)
	limit := func(id pool.ID, most int32) {
		w.p.Decide(func(_ *pool.Snapshot, b *pool.Books) { b.Limit(id, most, w.now+pool.Instant(time.Minute)) })
	}
	saturation := func() (got Saturation) {
		w.p.Decide(func(s *pool.Snapshot, b *pool.Books) {
			var m membership
			m.see(s)
			got = NewLoadDetector().Saturation(&View{Now: w.now, Books: b, StaleAfter: w.p.StaleAfter(), Members: m.members, Stages: m.stages})
		})
		return got
	}
	limit(0, 2)
	at := map[pool.ID][]*request{}
	come := func() {
		if x := w.come(); x.runs {
			w.firstByte(x)
			at[x.to.ID] = append(at[x.to.ID], x)
		}
	}
	for range 8 {
		come()
	}
	if len(at[0]) != 2 || len(at[1]) != 6 {
		t.Fatalf("%d and %d at endpoints of which the first has room for two", len(at[0]), len(at[1]))
	}
	limit(1, 6)
	come()
	w.wantWaiting(1)
	if s := saturation(); s.Value != 1 || s.Until != w.now+pool.Instant(time.Minute) {
		t.Errorf("saturation %+v where both are at their ceilings", s)
	}
	w.end(at[0][0])
	w.wantWaiting(0)
	come()
	w.wantWaiting(1)
	w.pass(time.Minute)
	w.wantWaiting(0)
}

// Who may go to an endpoint alone that is full keeps its turn, and others go meanwhile.
func TestF14AHeadWhoseOnlyEndpointIsFull(t *testing.T) {
	w := newWorld(t, settings(func(s *Settings) {
		s.Patient, s.Default.Fairness, s.Detector = true, NewRoundRobin(), &LoadDetector{MaxPending: 1, MaxKVUsage: 1}
	}), 2)
	first, second := w.come(onlyAt(1)), w.come(onlyAt(2))
	a1, a2 := w.come(tenantIs("a"), onlyAt(1)), w.come(tenantIs("a"))
	b1, b2 := w.come(tenantIs("b")), w.come(tenantIs("b"))
	w.end(second)
	if a1.runs || a2.runs || !b1.runs || !a1.held {
		t.Fatalf("a runs %v and %v, b runs %v; b goes while the first of a can go nowhere", a1.runs, a2.runs, b1.runs)
	}
	w.end(first)
	if !a1.runs || a1.to.ID != 0 || b2.runs || a2.runs {
		t.Errorf("a1 %v at %d, a2 %v, b2 %v: a kept its turn", a1.runs, a1.to.ID, a2.runs, b2.runs)
	}
}

// Who finds nobody keeps its turn, and others go meanwhile.
func TestF14AHeadThatCanGoNowhere(t *testing.T) {
	w := newWorld(t, settings(func(s *Settings) { s.Patient = true; s.Default.Fairness = NewRoundRobin() }), 2)
	first, second := w.come(), w.come()
	a1, a2 := w.come(tenantIs("a")), w.come(tenantIs("a"))
	b1, b2 := w.come(tenantIs("b")), w.come(tenantIs("b"))
	w.fails["a"] = true
	w.end(first)
	if a1.runs || !b1.runs || !a1.held {
		t.Fatalf("a runs %v, b runs %v; b goes while a can go nowhere", a1.runs, b1.runs)
	}
	w.fails["a"] = false
	w.end(second)
	if !a1.runs || b2.runs || a2.runs {
		t.Errorf("a1 %v, a2 %v, b2 %v: a kept its turn", a1.runs, a2.runs, b2.runs)
	}
}

// Where tenants are more than are told apart, what may be forgotten is looked for once in a while, and not for each that comes.
func TestManyTenantsAreNotLookedThroughForEach(t *testing.T) {
	w := newWorld(t, settings(func(s *Settings) { s.Default.TTL, s.MaxFlows = 0, 2 }), 1)
	w.come()
	l := w.c.lines[0]
	var names []string
	come := func(id string) {
		x := w.come(tenantIs(id))
		names = append(names, x.Stay.Flow)
		w.cancel(x)
	}
	come("a")
	come("b")
	at := w.now
	come("c") // nothing is to be forgotten
	for _, after := range []pool.Instant{0, second - 1} {
		w.now = at + after
		come("d")
		if l.swept != at {
			t.Fatalf("%v later all are looked through again", time.Duration(after))
		}
	}
	w.now = at + pool.Instant(flowIdle) - second/2
	l.swept = w.now // as if one had just come
	w.now += second / 2
	come("e")
	w.now += second / 2
	come("e")
	if got := fmt.Sprint(names); got != "[a b (others)  (others)  (others)  (others)  e]" {
		t.Errorf("they waited as %s", got)
	}
}

// Two requests may have read the clock in another order than that in which they have their places. The time of who stands behind is not
// over before that of who stands before it; else the queue would hand it out again and again in that instant.
func TestClocksThatAreReadInAnotherOrder(t *testing.T) {
	for _, back := range []pool.Instant{0, 1, second / 2} {
		w := newWorld(t, settings(func(s *Settings) {
			s.Patient, s.Detector, s.LookAhead, s.MostPassed, s.Patience = true, &LoadDetector{MaxPending: 1, MaxKVUsage: 1}, 4, 4, time.Minute
			s.Default.YieldAfter, s.Default.Fairness = time.Second, NewRoundRobin()
		}), 2)
		w.now += second
		w.come(bestAt(1))
		x := w.come(tenantIs("a"), bestAt(1))
		w.now -= back
		y := w.come(tenantIs("b"), bestAt(1))
		w.now += second // b's second is over, that of a is not, if the two were asked
		w.dispatch()
		w.pass(time.Second)
		if !x.held || !y.held {
			t.Fatalf("a runs %v, b runs %v", x.runs, y.runs)
		}
		if a, b := x.Place.(*item), y.Place.(*item); a.at > b.at || !a.yields || !b.yields {
			t.Errorf("a came at %v, and b behind it at %v; they yield: %v, %v", a.at, b.at, a.yields, b.yields)
		}
	}
}
