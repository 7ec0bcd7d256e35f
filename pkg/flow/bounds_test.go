package flow

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// notes returns how often a reason was noted of a request.
func notes(r *request, id reason.ID) (n int) {
	for _, one := range r.TakeNotes() {
		if one.ID == id {
			n++
		}
	}
	return n
}

// A refusal names the parameter that bounds the waiting, and what made it so long where that is not work.
func TestARefusalNamesItsBound(t *testing.T) {
	three := 3 * time.Second
	for _, r := range []struct {
		name  string
		set   func(*Settings)
		says  string
		never string // what it must not say
		noted int    // of full_unread
	}{
		{"that of all", func(s *Settings) { s.Default.TTL = three }, "it waited 3s (defaultRequestTTL)", "metrics", 0},
		{"that of its band", func(s *Settings) { s.Default.TTL, s.Default.OwnTTL = three, true }, "it waited 3s (requestTTL of its band)", "defaultRequestTTL", 0},
		{"nobody tells how full endpoints are", func(s *Settings) { s.Default.TTL, s.Detector = three, NewUtilizationDetector() },
			"it waited 3s (defaultRequestTTL); 1 of its pool's 1 endpoints count as full, since their metrics are missing or stale", "", 1},
	} {
		t.Run(r.name, func(t *testing.T) {
			w := newWorld(t, settings(r.set), 1)
			x := w.come()
			if x.runs {
				x = w.come()
			}
			if !x.held {
				t.Fatal("it does not wait")
			}
			if got := w.noted[reason.FullUnread]; got != r.noted {
				t.Errorf("full_unread is noted %d times, want %d", got, r.noted)
			}
			w.pass(three)
			if x.no == nil || x.no.ID != reason.QueueTimeout || x.no.Detail != r.says && !strings.Contains(x.no.Detail, r.says) || r.never != "" && strings.Contains(x.no.Detail, r.never) {
				t.Errorf("got %v, want %q", x.no, r.says)
			}
		})
	}
}

// A time to wait beyond all time is no deadline.
func TestBoundsOfTimeDoNotOverflow(t *testing.T) {
	w := newWorld(t, settings(func(s *Settings) {
		s.Default.TTL, s.Default.EmptyTTL, s.Default.YieldAfter = math.MaxInt64, math.MaxInt64, math.MaxInt64
		s.Default.Ordering = NewEDF()
		s.Detector, s.Patient, s.LookAhead, s.MostPassed, s.Patience = &LoadDetector{MaxPending: 1, MaxKVUsage: 1}, true, 8, 8, math.MaxInt64
	}), 2)
	first := w.come(bestAt(1))
	x := w.come(bestAt(1))
	if got := w.c.Deadline(); !x.held || got != plugins.Forever {
		t.Errorf("it waits: %v; the deadline is %v, want none", x.held, got)
	}
	w.pass(time.Hour)
	w.end(first)
	if !x.runs {
		t.Error("it does not run though there is room")
	}
}

// What is due first goes first where requests came under different bounds, and those without one go last.
func TestEarliestDeadlineFirst(t *testing.T) {
	var edf EDF
	at := second
	if a, b, c := edf.Key(nil, at, time.Minute), edf.Key(nil, at+second, 10*time.Second), edf.Key(nil, at, 0); !(b < a && a < c) {
		t.Errorf("keys %d, %d, %d", a, b, c)
	}
}

// A target that is none is noted by whoever would have gone by it, and by nobody else.
func TestATargetThatIsNoneIsNoted(t *testing.T) {
	bySLO := func(s *Settings) { s.Default.Ordering = NewSLODeadline() }
	drops := func(s *Settings) { s.DropLate = true }
	for _, r := range []struct {
		name, value string
		set         func(*Settings)
		noted       int
	}{
		{"no number, for the order", "soon", bySLO, 1},
		{"no number, for those that are late", "soon", drops, 1},
		{"no number, for nobody", "soon", nil, 0},
		{"below 0", "-1", drops, 1},
		{"more than a day", "86400001", bySLO, 1},
		{"a day", "86400000", bySLO, 0},
		{"a part of a millisecond", "0.25", drops, 0},
	} {
		t.Run(r.name, func(t *testing.T) {
			w := newWorld(t, settings(r.set), 1)
			w.come()
			if got := notes(w.come(header("x-llm-d-slo-ttft-ms", r.value)), reason.TargetIgnored); got != r.noted {
				t.Errorf("noted %d times, want %d", got, r.noted)
			}
		})
	}
	t.Run("a part of a millisecond is a deadline", func(t *testing.T) {
		w := newWorld(t, settings(drops), 1)
		first := w.come()
		x := w.come(header("x-llm-d-slo-ttft-ms", "0.25"))
		w.pass(time.Millisecond)
		w.end(first)
		if x.no == nil || x.no.ID != reason.QueueTimeout {
			t.Errorf("got %v", x.no)
		}
	})
}

// Where an empty pool is not waited for, who comes to one is not held, and who waits already waits on.
func TestAnEmptyPoolThatIsNotWaitedFor(t *testing.T) {
	w := newWorld(t, settings(func(s *Settings) { s.HoldEmpty, s.Default.EmptyTTL = false, 5*time.Second }), 1)
	w.come()
	waits := w.come()
	w.members(0)
	r := &request{tokens: 100}
	r.Prepare(w.built, nil)
	r.Now, r.PoolIndex, r.Owner = w.now, 0, r
	if v := w.c.Enter(w.now, &r.Request); v != (plugins.Verdict{}) || r.Place != nil {
		t.Errorf("it is held: %+v", v)
	}
	w.pass(4 * time.Second)
	if !waits.held {
		t.Fatalf("who waited already got %v", waits.no)
	}
	w.pass(time.Second)
	if waits.no == nil || waits.no.ID != reason.NoEndpoint {
		t.Errorf("who waited already got %v, want 503 after noEndpointRequestTTL", waits.no)
	}
	held := newWorld(t, settings(nil), 0)
	if x := held.come(); !x.held {
		t.Errorf("where it is waited for it got %v", x.no)
	}
}

// Who went in the window before counts for Retry-After beside who went in this one.
func TestRetryAfterLooksBackTwoWindows(t *testing.T) {
	var d drain
	for i := range 20 { // two a second
		d.count(60*second + second/2*pool.Instant(i))
	}
	if got := d.rate(60*second + 11*second); got < 1.5 || got > 2.5 {
		t.Errorf("%.2f go per second, want 2: those of the window before count", got)
	}
	if got := d.rate(60*second + 40*second); got != 0 {
		t.Errorf("%.2f go per second, long after the last", got)
	}
}
