package flow

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/reason"
)

func TestEvictionsNeeded(t *testing.T) {
	for _, row := range []struct {
		name                string
		saturation, ceiling float64
		running, want       int
	}{
		{"at the ceiling one goes", 1, 1, 10, 1},
		{"a little above it", 1.05, 1, 10, 1},
		{"by what three have", 1.3, 1, 10, 2}, // bounded by the most at a time
		{"by what two have", 1.2, 1, 12, 2},
		{"nothing of ours runs", 1, 1, 0, 1},
		{"nothing is used", 0, 0, 3, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := evictionsNeeded(row.saturation, row.ceiling, row.running); got != row.want {
				t.Errorf("got %d, want %d", got, row.want)
			}
		})
	}
}

// evicting makes a world of two endpoints that run two requests each, and takes requests back.
func evicting(t *testing.T, change func(*Settings)) *world {
	return newWorld(t, settings(func(s *Settings) {
		s.Evict = true
		s.Detector = &ConcurrencyDetector{MaxConcurrency: 2, ConcurrencyMode: "requests", MaxTokenConcurrency: 1}
		if change != nil {
			change(s)
		}
	}), 2)
}

// fill brings requests that run, one of each priority.
func (w *world) fill(priorities ...int32) (all []*request) {
	w.t.Helper()
	for _, p := range priorities {
		r := w.come(priority(p))
		if !r.runs {
			w.t.Fatalf("the request of priority %d does not run", p)
		}
		w.c.runs(&r.Request)
		all = append(all, r)
	}
	return all
}

// evict does what the dispatcher does when Next has nobody, and returns the priorities of who was taken back.
func (w *world) evict(taken bool) (went []int32) {
	w.t.Helper()
	for range 100 {
		r, no, ok := w.c.Evict(w.now)
		if !ok {
			return went
		}
		if no.ID != reason.Evicted || no.RetryAfter < time.Second {
			w.t.Fatalf("refused with %v", no)
		}
		if of := r.Owner.(*request); taken {
			w.p.End(w.now, of.booking)
			of.runs = false
			w.c.began(r)
			w.c.Settle(w.now, r, 0, 0)
		}
		w.c.Evicted(w.now, r, taken)
		went = append(went, r.Target.Priority)
		w.dispatch()
	}
	w.t.Fatal("requests are taken back without end")
	return nil
}

func TestEviction(t *testing.T) {
	t.Run("the lowest priority, and of it the newest", func(t *testing.T) {
		w := evicting(t, nil)
		ran := w.fill(-1, -5, -5, -1)
		urgent := w.come(priority(10))
		if got := w.evict(true); fmt.Sprint(got) != "[-5]" {
			t.Errorf("%v went, want one of -5", got)
		}
		if ran[2].runs || !ran[1].runs || !urgent.runs {
			t.Error("another one went, or the urgent one still waits")
		}
		w.wantWaiting(0)
	})
	t.Run("never one that may not be dropped", func(t *testing.T) {
		w := evicting(t, nil)
		w.fill(0, 1, 0, 5)
		w.come(priority(10))
		if got := w.evict(true); got != nil {
			t.Errorf("%v went", got)
		}
	})
	t.Run("nor for one that is no higher", func(t *testing.T) {
		w := evicting(t, nil)
		w.fill(-1, -1, -2, -2)
		w.come(priority(-2))
		if got := w.evict(true); got != nil {
			t.Errorf("%v went for one of -2", got)
		}
		w.come(priority(-1))
		if got := w.evict(true); fmt.Sprint(got) != "[-2]" {
			t.Errorf("%v went for one of -1, want one of -2", got)
		}
	})
	t.Run("nor one whose answer has begun", func(t *testing.T) {
		w := evicting(t, nil)
		for _, r := range w.fill(-1, -1, -1, -1) {
			w.c.began(&r.Request)
		}
		w.come(priority(10))
		if got := w.evict(true); got != nil {
			t.Errorf("%v went", got)
		}
	})
	t.Run("nor while there is room", func(t *testing.T) {
		w := evicting(t, nil)
		w.fill(-1, -1)
		w.come(priority(10))
		if got := w.evict(true); got != nil {
			t.Errorf("%v went", got)
		}
	})
	t.Run("one at a time, and the next when it was seen what that changed", func(t *testing.T) {
		w := evicting(t, nil)
		w.fill(-1, -1, -1, -1)
		for range 3 {
			w.come(priority(10))
		}
		if got := w.evict(true); len(got) != 1 {
			t.Fatalf("%d went at once, want 1", len(got))
		}
		w.wantWaiting(2)
		due := w.c.Deadline()
		if want := w.now + 10_000_000; due != want {
			t.Fatalf("asked again at %v, want %v", due, want)
		}
		w.now = due
		w.dispatch()
		if got := w.evict(true); len(got) != 1 {
			t.Fatalf("%d went in the second round, want 1", len(got))
		}
		w.wantWaiting(1)
	})
	t.Run("at most two at a time, however full", func(t *testing.T) {
		w := evicting(t, func(s *Settings) { s.Ceilings = &StaticLimit{Threshold: 1} })
		w.fill(-1, -1, -1, -1)
		w.members(1) // half of the room goes: a saturation of 2 or more at what is left
		for range 5 {
			w.come(priority(10))
		}
		if got := w.evict(true); len(got) > 2 {
			t.Errorf("%d went at once", len(got))
		}
	})
	t.Run("another one in place of one whose answer began meanwhile", func(t *testing.T) {
		w := evicting(t, nil)
		w.fill(-1, -1, -1, -1)
		w.come(priority(10))
		if got := w.evict(false); len(got) != 4 {
			t.Errorf("%d were tried, want all 4", len(got))
		}
		s := w.c.Stats(w.now).Pools[0].Evictions
		if want := []EvictionStats{{Priority: -1, Issued: 4}}; !slices.Equal(s, want) {
			t.Errorf("counted %+v, want %+v", s, want)
		}
	})
	t.Run("nobody is left in the books of evictions", func(t *testing.T) {
		w := evicting(t, nil)
		ran := w.fill(-1, -2, -3, -4)
		w.come(priority(10))
		w.evict(true)
		for _, r := range ran {
			w.c.began(&r.Request)
		}
		e := &w.c.lines[0].evictions
		if len(e.by) != 0 || e.first(100) != nil {
			t.Errorf("%d are left", len(e.by))
		}
	})
	t.Run("a drain takes nobody back", func(t *testing.T) {
		w := evicting(t, nil)
		w.fill(-1, -1, -1, -1)
		w.come(priority(10))
		w.c.Drain()
		if got := w.evict(true); got != nil {
			t.Errorf("%v went", got)
		}
	})
}

// Samples show late what was taken back: more goes only when they could have.
func TestEvictionWaitsForSamples(t *testing.T) {
	c := NewControl(Settings{Detector: NewUtilizationDetector()})
	if got := c.seenAfter(); got != 500*time.Millisecond {
		t.Errorf("waits %v, want the interval of samples and their age", got)
	}
}

// A request whose answer has begun is not taken back, and one that was taken back has generated nothing.
func TestTheQueueKnowsWhoMayBeTakenBack(t *testing.T) {
	t.Run("its answer has begun", func(t *testing.T) {
		w := evicting(t, nil)
		q := &Queue{EnableEviction: true, Control: w.c}
		all := w.fill(-1, -1, -1, -1)
		for _, r := range all[1:] {
			q.Respond(&r.Request, plugins.FirstByte, nil)
		}
		high := w.come(priority(5))
		if got := w.evict(true); len(got) != 1 || all[0].runs || !high.runs {
			t.Errorf("%d were taken back; the one that has not begun runs: %v", len(got), all[0].runs)
		}
		w.come(priority(5))
		w.now += second
		w.dispatch()
		if got := w.evict(true); len(got) != 0 {
			t.Errorf("%v were taken back whose answers had begun", got)
		}
	})
	for _, r := range []struct {
		name   string
		ending reason.ID
		out    int64
		wants  int64 // what is given back of 500 tokens, each counted twice
	}{
		{"taken back", reason.Evicted, plugins.Unknown, 1000},
		{"ended, nobody said how long it was", 0, plugins.Unknown, 0},
		{"ended, shorter", 0, 200, 600},
	} {
		t.Run(r.name, func(t *testing.T) {
			w := evicting(t, func(s *Settings) { s.DefaultNegative.Fairness = NewTokenDeficit() })
			q := &Queue{EnableEviction: true, Control: w.c}
			all := w.fill(-1, -1, -1, -1)
			x := w.come(priority(-1), tenantIs("a"), tokens(100, 500))
			w.end(all[0])
			if !x.runs {
				t.Fatal("it does not run")
			}
			f := w.c.lines[0].bands[0].flows["a"]
			before := f.deficit
			q.Settle(&x.Request, plugins.Outcome{Ending: r.ending, Prompt: 100, Out: r.out, Total: time.Second})
			if got := f.deficit - before; got != r.wants {
				t.Errorf("%d tokens are given back, want %d", got, r.wants)
			}
		})
	}
}
