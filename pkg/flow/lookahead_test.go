package flow

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// choosy are settings of a pool whose endpoints take one request each, and whose requests wait for the endpoint of their choice.
func choosy(change func(*Settings)) Settings {
	return settings(func(s *Settings) {
		s.Detector = &LoadDetector{MaxBacklog: time.Hour, MaxPending: 100, MaxRequests: 1, MaxKVUsage: 1}
		s.Patient, s.LookAhead, s.MostPassed, s.Patience = true, 8, 100, time.Hour
		if change != nil {
			change(s)
		}
	})
}

// order returns the places of requests among those that went.
func (w *world) order(all ...*request) (places []int) {
	for _, r := range all {
		places = append(places, slices.Index(w.went, r))
	}
	return places
}

// A request whose choice is full waits for it, though another endpoint has room, and goes in the instant in which it has.
func TestARequestWaitsForTheEndpointOfItsChoice(t *testing.T) {
	w := newWorld(t, choosy(nil), 2)
	first := w.come(bestAt(1))
	x := w.come(bestAt(1))
	if !x.held || x.decided != 2 {
		t.Fatalf("held %v, decided %d times; want it to wait, decided when it came and when it had its place", x.held, x.decided)
	}
	w.wantWaiting(1)
	w.pass(3 * time.Second)
	w.end(first)
	if !x.runs || x.to.ID != 0 || x.at != w.now {
		t.Errorf("runs %v at %v, want it at its choice in the instant of the end", x.runs, x.to.ID)
	}
	w.wantWaiting(0)
}

// Who is behind it goes where there is room.
func TestThoseBehindAreAsked(t *testing.T) {
	for _, r := range []struct {
		name   string
		behind set
	}{{"of the same tenant", tenantIs("")}, {"of another", tenantIs("other")}} {
		t.Run(r.name, func(t *testing.T) {
			w := newWorld(t, choosy(func(s *Settings) { s.Default.Fairness = NewTokenDeficit() }), 2)
			first := w.come(bestAt(1))
			a, b := w.come(bestAt(1)), w.come(bestAt(1))
			c := w.come(bestAt(2), r.behind)
			if a.runs || b.runs || !c.runs {
				t.Errorf("run %v %v %v, want the last alone, whose choice has room", a.runs, b.runs, c.runs)
			}
			w.end(first)
			w.end(a)
			if got := w.order(a, b); !slices.Equal(got, []int{2, 3}) {
				t.Errorf("the two went at places %v", got)
			}
			w.wantWaiting(0)
		})
	}
}

// The bound of being overtaken: as many of the same tenant as may, and then it takes any room.
func TestARequestIsOvertakenSoOftenAndNoMore(t *testing.T) {
	const most = 5
	w := newWorld(t, choosy(func(s *Settings) { s.MostPassed = most }), 2)
	w.come(bestAt(1)) // runs on and on
	other := w.come(bestAt(2))
	x := w.come(bestAt(1))
	for range 20 {
		w.come(bestAt(2))
	}
	for range most + 1 {
		w.pass(10 * time.Millisecond)
		w.end(other)
		other = w.went[len(w.went)-1]
	}
	if got := w.order(x)[0]; got != 2+most || x.to.ID != 1 {
		t.Errorf("it went at place %d to endpoint %d; want that after %d others, to any room", got, x.to.ID, most)
	}
}

// The bound of waiting for a choice, which time alone ends.
func TestPatienceEnds(t *testing.T) {
	w := newWorld(t, choosy(func(s *Settings) { s.Patience = 2 * time.Second }), 2)
	w.come(bestAt(1))
	w.pass(500 * time.Millisecond)
	came := w.now
	x := w.come(bestAt(1))
	w.pass(1999 * time.Millisecond)
	if x.runs {
		t.Fatal("it went before its patience ended")
	}
	w.pass(2 * time.Millisecond)
	if !x.runs || x.at != came+2*second || x.to.ID != 1 {
		t.Errorf("runs %v at %v after %v; want it at any endpoint after 2 s", x.runs, x.to.ID, time.Duration(x.at-came))
	}
}

// Patience begins with the turn, not with the wait for it: a pool that is full has nobody choose.
func TestPatienceBeginsWithTheTurn(t *testing.T) {
	w := newWorld(t, choosy(func(s *Settings) { s.Patience = 2 * time.Second }), 2)
	w.come(bestAt(1))
	other := w.come(bestAt(2))
	x := w.come(bestAt(1))
	w.pass(5 * time.Second)
	w.end(other)
	w.pass(1999 * time.Millisecond)
	if x.runs {
		t.Fatal("it went before its patience ended")
	}
	w.pass(2 * time.Millisecond)
	if !x.runs || x.to.ID != 1 {
		t.Errorf("runs %v at %v; want it at any endpoint 2 s after its turn came", x.runs, x.to.ID)
	}
}

// Who has waited for too long goes behind those that can be in time, and among each other they keep their order.
func TestWhoIsLateGoesBehind(t *testing.T) {
	w := newWorld(t, settings(func(s *Settings) { s.Default.YieldAfter = time.Second }), 1)
	runs := w.come()
	a, b := w.come(), w.come()
	w.pass(1500 * time.Millisecond)
	c, d := w.come(), w.come()
	w.pass(100 * time.Millisecond)
	for range 5 {
		w.end(runs)
		runs = w.went[len(w.went)-1]
	}
	if got := w.order(c, d, a, b); !slices.Equal(got, []int{1, 2, 3, 4}) {
		t.Errorf("they went at places %v, want those that came last, then those that were late, each in their order", got)
	}
	w.wantWaiting(0)
}

// Who is late by its own header too is refused, though its turn does not come while later ones do; one whose time has not passed waits.
func TestWhoIsLateByItsHeaderIsRefusedWhereItYields(t *testing.T) {
	for _, r := range []struct {
		name    string
		drops   bool
		ms      string
		refused time.Duration // at most; 0: never
	}{
		{"before it yields", true, "500", 2500 * time.Millisecond},
		{"after it has yielded", true, "5000", 6500 * time.Millisecond},
		{"not within this minute", true, "90000", 0},
		{"where the late are served", false, "500", 0},
	} {
		t.Run(r.name, func(t *testing.T) {
			w := newWorld(t, settings(func(s *Settings) { s.Default.YieldAfter, s.Default.TTL, s.DropLate = time.Second, 0, r.drops }), 1)
			runs := w.come()
			came := w.now
			x := w.come(header("x-llm-d-slo-ttft-ms", r.ms))
			w.pass(1100 * time.Millisecond)
			for range 100 { // there is always one that can be in time
				w.come()
				w.pass(500 * time.Millisecond)
				w.end(runs)
				runs = w.went[len(w.went)-1]
			}
			if slices.Contains(w.went, x) {
				t.Fatal("it went before those that can be in time")
			}
			if r.refused == 0 {
				if x.no != nil {
					t.Errorf("refused with %v, want it to wait", x.no)
				}
				w.wantWaiting(1)
				return
			}
			w.wantWaiting(0)
			if x.no == nil || x.no.ID != reason.QueueTimeout || !strings.Contains(x.no.Detail, "its first token was wanted by then") {
				t.Fatalf("got %v, want it refused for its header", x.no)
			}
			if after := time.Duration(x.at - came); after > r.refused {
				t.Errorf("refused after %v, want at most %v", after, r.refused)
			}
		})
	}
}

// Who comes is asked where fewer than are looked at can be in time, however many are late.
func TestManyThatAreLateHideNobody(t *testing.T) {
	w := newWorld(t, choosy(func(s *Settings) { s.Default.YieldAfter, s.Default.TTL = time.Second, 0 }), 2)
	for range 21 {
		w.come(bestAt(1))
	}
	w.pass(1500 * time.Millisecond)
	if x := w.come(bestAt(2)); !x.runs {
		t.Error("it waits behind 20 that are late, though its choice has room")
	}
	w.wantWaiting(20)
}

// Who comes back from a decision in vain after it has become late has the place of one that is late.
func TestWhoBecomesLateAtItsTurn(t *testing.T) {
	w := newWorld(t, settings(func(s *Settings) { s.Default.YieldAfter = time.Second }), 1)
	first := w.come()
	w.come(tokens(1, 1))
	w.pass(900 * time.Millisecond)
	b := w.come()
	w.p.End(w.now, first.booking)
	r, _, ok := w.c.Next(w.now) // its turn
	if !ok {
		t.Fatal("nobody goes though there is room")
	}
	a := r.Owner.(*request)
	w.now += 200 * pool.Instant(time.Millisecond)
	a.Place.(*item).band.yield(w.now)
	w.c.bar(w.now, w.c.mine[0], &a.Request, a.Place.(*item), false)
	w.dispatch()
	if a.runs || !b.runs {
		t.Errorf("run %v and %v, want the one that is in time", a.runs, b.runs)
	}
}

// The room that is not of their choice is left by those that are late to those that are not; time alone ends that.
func TestWhoIsLateTakesNoRoomOfOthers(t *testing.T) {
	w := newWorld(t, choosy(func(s *Settings) { s.Patience, s.Default.YieldAfter = time.Second, 3*time.Second }), 2)
	w.come(bestAt(1))
	other := w.come(bestAt(2))
	x := w.come(bestAt(1))
	w.pass(2500 * time.Millisecond)
	w.end(other) // its turn comes, and its choice is full
	other = w.come(bestAt(2))
	w.pass(time.Second) // it is late, and its patience has ended
	y := w.come(bestAt(1))
	w.end(other)
	if x.runs || y.runs {
		t.Fatalf("run %v and %v, want that both wait: the late one for the other, that for its choice", x.runs, y.runs)
	}
	w.pass(1001 * time.Millisecond) // the patience of the other
	if x.runs || !y.runs || y.to.ID != 1 {
		t.Errorf("run %v and %v, want the one in time at any endpoint", x.runs, y.runs)
	}
	z := w.come(bestAt(1))
	w.end(y)
	w.cancel(z)
	if !x.runs {
		t.Error("the late one does not go though no other waits")
	}
}

// A choice that has room by time alone is seen to have it.
func TestAChoiceHasRoomByTimeAlone(t *testing.T) {
	w := newWorld(t, choosy(func(s *Settings) {
		s.Detector = &LoadDetector{MaxBacklog: 100 * time.Millisecond, MaxPending: 100, MaxKVUsage: 1}
	}), 2)
	w.come(bestAt(1), tokens(10_000, 1)) // 310 ms
	x := w.come(bestAt(1), tokens(10, 1))
	w.pass(200 * time.Millisecond)
	if x.runs {
		t.Fatal("it went into a backlog of more than 100 ms")
	}
	w.pass(20 * time.Millisecond)
	if !x.runs {
		t.Error("nobody saw that there is room")
	}
}

// However many wait in vain, of however many tenants, a change costs no more decisions than may be made.
func TestDecisionsInVainAreBounded(t *testing.T) {
	w := newWorld(t, choosy(func(s *Settings) { s.Default.Fairness, s.Default.MaxRequests, s.MaxFlows = NewTokenDeficit(), 0, 1000 }), 3)
	w.come(bestAt(1))
	w.come(bestAt(1))
	busy := w.come(bestAt(2))
	var all []*request
	for i := range 300 {
		all = append(all, w.come(bestAt(1), tenantIs(string(rune('a'+i%20)))))
	}
	decided := func() (n int) {
		for _, r := range all {
			n += r.decided
		}
		return n
	}
	before := decided()
	w.pass(time.Millisecond)
	w.end(busy)
	if n := decided() - before; n == 0 || n > inVain {
		t.Errorf("%d decisions in vain, want at most %d", n, inVain)
	}
	for range 100 {
		w.dispatch() // without a change
	}
	if n := decided() - before; n > inVain {
		t.Errorf("%d decisions in vain without a change, want at most %d", n, inVain)
	}
}

// With a look-ahead of 0 there is no choice but among endpoints with room.
func TestWithoutLookAheadAnyRoomIsTaken(t *testing.T) {
	w := newWorld(t, choosy(func(s *Settings) { s.LookAhead = 0 }), 2)
	w.come(bestAt(1))
	if x := w.come(bestAt(1)); !x.runs || x.to.ID != 1 {
		t.Errorf("runs %v at %v, want it at the other endpoint", x.runs, x.to.ID)
	}
}

// The one behind those that were passed over is found in a heap of any shape.
func TestTheNextInAHeap(t *testing.T) {
	f := &Flow{}
	var sorted []*item
	for i := range 200 {
		it := &item{turn: turn{yields: i%3 == 0, key: pool.Instant(i * 7919 % 200), seq: uint64(i)}}
		f.push(it)
		sorted = append(sorted, it)
	}
	slices.SortFunc(sorted, func(a, b *item) int {
		if a.yields != b.yields {
			return map[bool]int{true: 1, false: -1}[a.yields]
		}
		return int(a.key - b.key)
	})
	next := func() *item {
		return f.next(&rules{Settings: Settings{LookAhead: 256}, rooms: NewLoadDetector()}, 0, nil, true)
	}
	if next() != sorted[0] {
		t.Fatal("the first is not the first")
	}
	for i := range 199 {
		f.seeks = search{passed: i + 1, last: sorted[i].turn}
		if got := next(); got != sorted[i+1] {
			t.Fatalf("behind %d stands %v, want %v", i, got, sorted[i+1])
		}
	}
	f.seeks = search{passed: 200, last: sorted[199].turn}
	if next() != nil {
		t.Error("there is one behind the last")
	}
	f.seeks.passed = 3
	f.found(sorted[3])
	for i, it := range sorted[:5] {
		if want := int32(1); (it.passed == want) != (i < 4) {
			t.Errorf("place %d was overtaken %d times", i, it.passed)
		}
	}
}
