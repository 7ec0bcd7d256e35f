package flow

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

func TestEachBoundRefusesBeyondIt(t *testing.T) {
	for _, r := range []struct {
		name string
		set  func(*Settings)
		sets []set
		says string
	}{
		{"requests of a band", func(s *Settings) { s.Default.MaxRequests = 2 }, nil, "maxRequests of its band"},
		{"bytes of a band", func(s *Settings) { s.Default.MaxBytes = 299 }, []set{bytes(100)}, "maxBytes of its band"},
		{"requests", func(s *Settings) { s.MaxRequests = 2 }, nil, "(maxRequests)"},
		{"bytes", func(s *Settings) { s.MaxBytes = 299 }, []set{bytes(100)}, "(maxBytes)"},
	} {
		t.Run(r.name, func(t *testing.T) {
			w := newWorld(t, settings(r.set), 1)
			first := w.come()
			a, b, over := w.come(r.sets...), w.come(r.sets...), w.come(r.sets...)
			if !a.held || !b.held || over.no == nil || over.no.ID != reason.QueueFull || !strings.Contains(over.no.Detail, r.says) {
				t.Errorf("held %v, %v; then %v", a.held, b.held, over.no)
			}
			w.wantWaiting(2)
			w.end(first)
			if c := w.come(r.sets...); !c.held {
				t.Errorf("got %v when there is room again", c.no)
			}
		})
	}
	t.Run("a band of its own", func(t *testing.T) {
		w := newWorld(t, settings(func(s *Settings) { s.Default.MaxRequests = 1 }), 1)
		w.come()
		w.come()
		if x := w.come(priority(1)); !x.held {
			t.Errorf("another priority is refused: %v", x.no)
		}
	})
	t.Run("bands", func(t *testing.T) {
		w := newWorld(t, settings(func(s *Settings) { s.MaxBands = 2 }), 1)
		w.come()
		for p := range int32(2) {
			w.come(priority(p))
		}
		if x := w.come(priority(2)); x.no == nil || !strings.Contains(x.no.Detail, "maxPriorityBands") {
			t.Errorf("got %v", x.no)
		}
	})
}

func TestHigherBandsGoFirst(t *testing.T) {
	w := newWorld(t, settings(nil), 1)
	w.come()
	for _, p := range []int32{0, 5, -3, 5, 1} {
		w.come(priority(p))
	}
	w.run(6, nil)
	got := ""
	for _, r := range w.went[1:] {
		got += fmt.Sprint(r.Target.Priority, " ")
	}
	if got != "5 5 1 0 -3 " {
		t.Errorf("went %s", got)
	}
	w.wantWaiting(0)
}

// When room for several is made at once, several go at once, at that instant.
func TestSeveralGoAtOnce(t *testing.T) {
	w := newWorld(t, settings(nil), 1)
	w.come()
	for range 4 {
		w.come()
	}
	w.pass(time.Second)
	w.members(4)
	if n := len(w.went); n != 4 {
		t.Fatalf("%d run, want 4", n)
	}
	for _, r := range w.went[1:] {
		if r.at != w.now {
			t.Errorf("it went at %v, room was made at %v", r.at, w.now)
		}
	}
}

// Nobody waits, no deadline: the edge keeps no timer. Whoever waits has one.
func TestNoTimerWithoutWaiters(t *testing.T) {
	w := newWorld(t, settings(nil), 1)
	for range 3 {
		if due := w.c.Deadline(); due != 0 {
			t.Fatalf("deadline %v though nobody waits", due)
		}
		a := w.come()
		if due := w.c.Deadline(); due != 0 {
			t.Fatalf("deadline %v though who came has gone", due)
		}
		b := w.come()
		if due := w.c.Deadline(); due != w.now+pool.Instant(time.Minute) {
			t.Fatalf("deadline %v, want that of who waits", due)
		}
		w.end(a)
		w.end(b)
	}
}

// A pool that is full by the time that prompts take has room again though nothing happens.
func TestRoomByTimeAlone(t *testing.T) {
	w := newWorld(t, settings(func(s *Settings) {
		s.Detector, s.Patient = &LoadDetector{MaxBacklog: 100 * time.Millisecond, MaxPending: 100, MaxKVUsage: 1}, true
	}), 1)
	w.come(tokens(10_000, 1)) // 310 ms
	x := w.come(tokens(10, 1))
	w.pass(200 * time.Millisecond)
	if x.runs {
		t.Fatal("it went into a backlog of more than 100 ms")
	}
	w.pass(20 * time.Millisecond)
	if !x.runs || x.at > w.now {
		t.Errorf("runs %v", x.runs)
	}
}

func TestCeilings(t *testing.T) {
	for _, r := range []struct {
		name       string
		of         Ceilings
		saturation float64
		priorities []int32
		wants      []float64
	}{
		{"one for all", &StaticLimit{Threshold: 0.7}, 0.5, []int32{2, 1}, []float64{0.7, 0.7}},
		{"holdback by rank", &Holdback{Domain: "rank", MinCeiling: 0.5, MaxCeiling: 1}, 0, []int32{100, 1, 0}, []float64{1, 0.75, 0.5}},
		{"holdback by value", &Holdback{Domain: "value", MinCeiling: 0.5, MaxCeiling: 1}, 0, []int32{100, 25, 0}, []float64{1, 0.625, 0.5}},
		{"holdback down to nothing", &Holdback{Domain: "rank", MinCeiling: 0, MaxCeiling: 1}, 0, []int32{100, 1, 0}, []float64{1, 0.5, 0.001}},
		{"holdback of one band", &Holdback{Domain: "value", MinCeiling: 0.5, MaxCeiling: 0.9}, 0, []int32{7}, []float64{0.9}},
		{"reflective below the limits", NewSoftReflective(), 0.3, []int32{2, 1, 0}, []float64{1, 1, 1}},
		{"reflective while the pool is full", NewSoftReflective(), 1, []int32{2, 1, 0}, []float64{1, 0, 0}},
		{"reflective, one band", NewSoftReflective(), 0.9, []int32{0}, []float64{1}},
	} {
		t.Run(r.name, func(t *testing.T) {
			out := make([]float64, len(r.priorities))
			r.of.Ceilings(r.saturation, r.priorities, out)
			if fmt.Sprint(out) != fmt.Sprint(r.wants) {
				t.Errorf("got %v, want %v", out, r.wants)
			}
		})
	}
	t.Run("reflective opens in turn", func(t *testing.T) {
		p, out, open := NewSoftReflective(), make([]float64, 3), 0
		for range 300 {
			p.Ceilings(0.75, []int32{2, 1, 0}, out) // 1 of round(0.75/0.25) = 3
			if out[1] != out[2] || out[0] != 1 {
				t.Fatalf("got %v: bands at their limit open together", out)
			}
			open += int(out[1])
		}
		if open != 100 {
			t.Errorf("open in %d of 300 calls, want 100", open)
		}
	})
}

// A band that is closed in turn is asked for again though nothing happens.
func TestABandThatIsClosedInTurnIsAskedForAgain(t *testing.T) {
	w := newWorld(t, settings(func(s *Settings) {
		s.Ceilings = NewSoftReflective()
		s.Detector = &ConcurrencyDetector{MaxConcurrency: 4, ConcurrencyMode: "requests", MaxTokenConcurrency: 1}
		s.Bands = []BandSettings{{Priority: 5, Fairness: NewGlobalStrict(), Ordering: NewFCFS()}}
	}), 1)
	for range 3 {
		w.come(priority(5))
	}
	x := w.come()
	w.pass(10 * time.Millisecond)
	if !x.runs {
		t.Error("the lower band was never open at a saturation of 0.75")
	}
}

// A band to which nothing is left but an idle pool has that.
func TestHoldbackDownToNothing(t *testing.T) {
	w := newWorld(t, settings(func(s *Settings) {
		s.Ceilings = &Holdback{Domain: "rank", MinCeiling: 0, MaxCeiling: 1}
		high := s.Default
		high.Priority = 1
		s.Bands = []BandSettings{high}
	}), 2)
	first := w.come(priority(1))
	low := w.come(priority(-1))
	if !first.runs || !low.held {
		t.Fatalf("the first runs %v, the low one waits %v", first.runs, low.held)
	}
	w.end(first)
	if !low.runs {
		t.Error("the low one waits though the pool is idle")
	}
}

func TestHoldbackKeepsRoomForTheHighest(t *testing.T) {
	w := newWorld(t, settings(func(s *Settings) {
		s.Ceilings = &Holdback{Domain: "rank", MinCeiling: 0.5, MaxCeiling: 1}
		s.Detector = &ConcurrencyDetector{MaxConcurrency: 10, ConcurrencyMode: "requests", MaxTokenConcurrency: 1}
		s.Bands = []BandSettings{{Priority: 5, Fairness: NewGlobalStrict(), Ordering: NewFCFS()}, {Priority: 0, Fairness: NewGlobalStrict(), Ordering: NewFCFS()}}
	}), 1)
	low := 0
	for range 10 {
		if w.come().runs {
			low++
		}
	}
	if low != 5 {
		t.Errorf("%d of the lowest run, want half of ten", low)
	}
	for range 5 {
		if x := w.come(priority(5)); !x.runs {
			t.Error("there was no room for the highest")
		}
	}
}

func TestRetryAfterIsTheTimeInWhichTheQueueDrains(t *testing.T) {
	w := newWorld(t, settings(func(s *Settings) { s.Default.MaxRequests = 9 }), 1)
	running := w.come()
	for range 9 {
		w.come()
	}
	if x := w.come(); x.no.RetryAfter != 30*time.Second {
		t.Errorf("retry after %v while nobody goes, want the most", x.no.RetryAfter)
	}
	for range 60 { // two in a second
		w.pass(500 * time.Millisecond)
		w.end(running)
		running = w.went[len(w.went)-1]
		w.come()
	}
	if x := w.come(); x.no == nil || x.no.RetryAfter < 4*time.Second || x.no.RetryAfter > 6*time.Second {
		t.Errorf("got %v, want about 5 s for ten at two in a second", x.no)
	}
}

// Whatever comes, goes, is refused or cancelled: the totals are those of the bands, and return to zero.
func TestTotalsReturnToZero(t *testing.T) {
	w := newWorld(t, settings(func(s *Settings) {
		s.Default.Fairness, s.Default.MaxRequests, s.MaxBytes = NewTokenDeficit(), 7, 3000
	}), 2)
	var all []*request
	state := uint64(1)
	draw := func(n uint64) uint64 { state = state*6364136223846793005 + 1442695040888963407; return state >> 33 % n }
	for range 5000 {
		switch draw(5) {
		case 0, 1:
			all = append(all, w.come(priority(int32(draw(3))-1), tenantIs(string(rune('a'+draw(4)))), bytes(int64(draw(300))), tokens(int64(draw(5000)), 50)))
		case 2:
			w.pass(time.Duration(draw(20)) * time.Second)
		case 3:
			if len(all) > 0 {
				if x := all[draw(uint64(len(all)))]; x.held {
					w.cancel(x)
				}
			}
		case 4:
			for _, x := range all {
				if x.runs {
					w.end(x)
					break
				}
			}
		}
		waits := int64(0)
		for _, x := range all {
			if x.held {
				waits++
			}
		}
		w.wantWaiting(waits)
		if t.Failed() {
			return
		}
	}
	for _, x := range all {
		if x.runs {
			w.end(x)
		}
	}
	for _, x := range all {
		if x.runs {
			w.end(x)
		}
	}
	w.pass(time.Hour)
	w.wantWaiting(0)
}

// heard is a watcher.
type heard []Stay

func (h *heard) Left(_ *plugins.Request, s Stay) { *h = append(*h, s) }

func TestTheWatcherHearsHowEachStayEnded(t *testing.T) {
	w := newWorld(t, settings(func(s *Settings) { s.Default.MaxRequests = 2 }), 1)
	h := &heard{}
	w.c.Watch(h)
	first := w.come(tenantIs("a"))
	w.come(tenantIs("a"))
	gone := w.come(tenantIs("b"))
	w.come(tenantIs("c"))
	w.pass(time.Second)
	w.cancel(gone)
	w.end(first)
	w.come(tenantIs("d"), priority(3))
	w.pass(time.Minute)
	w.members(0)
	w.come(tenantIs("e"))
	w.pass(time.Minute)
	var got []string
	for _, s := range *h {
		got = append(got, fmt.Sprint(s.Flow, " ", s.Priority, " ", s.Outcome, " ", s.Waited))
	}
	want := "a 0 Dispatched 0s|c 0 RejectedCapacity 0s|b 0 EvictedContextCancelled 1s|a 0 Dispatched 1s|d 3 EvictedTTL 1m0s|e 0 EvictedNoEndpoints 1m0s"
	if s := strings.Join(got, "|"); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
}
