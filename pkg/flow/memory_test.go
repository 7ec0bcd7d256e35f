package flow

import (
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// byMemory has requests wait where memory is short and two are at hand.
func byMemory(change func(*Settings)) Settings {
	return settings(func(s *Settings) {
		s.Detector, s.Patient, s.Default.TTL = &LoadDetector{MaxKVUsage: 0.95, AtHand: 2}, true, 0
		s.LookAhead, s.MostPassed, s.Patience = 8, 8, time.Minute
		if change != nil {
			change(s)
		}
	})
}

// sample brings a reading of an endpoint of 64,000 tokens, as of so long ago.
func (w *world) sample(at int, age time.Duration, usage float64, waiting, running int32) {
	s := pool.NoSample()
	s.At, s.KVUsage, s.Waiting, s.Running, s.Blocks, s.BlockTokens = w.now-pool.Instant(age), usage, waiting, running, 4000, 16
	w.p.Observe(w.now, w.p.Snapshot().Slots[at].Ref, s)
	w.dispatch()
}

// An engine that tells no longer is not empty for that: its last reading is gone by for a minute, with what came and went since.
func TestAnOldReadingOfACache(t *testing.T) {
	for _, r := range []struct {
		name string
		age  time.Duration
		ends int // of two that run there, of 10,000 tokens each
		size int32
		room bool
	}{
		{"fresh", time.Second, 0, 4000, false},
		{"stale", 6 * time.Second, 0, 4000, false},
		{"as old as may be", time.Minute, 0, 4000, false},
		{"older", time.Minute + 1, 0, 4000, true},
		{"stale, and one has ended since", 6 * time.Second, 1, 4000, true},
		{"stale, of a cache of which nobody knows how large it is", 6 * time.Second, 0, -1, true},
		{"fresh, of such a cache", time.Second, 0, -1, false},
	} {
		t.Run(r.name, func(t *testing.T) {
			w := newWorld(t, byMemory(nil), 1)
			w.now = 100 * second
			var runs []*request
			for range 2 {
				runs = append(runs, w.come(tokens(10_000, 0)))
			}
			s := pool.NoSample()
			s.At, s.KVUsage, s.Waiting, s.Running, s.Blocks, s.BlockTokens = w.now+1, 0.97, 0, 0, r.size, 16
			w.now++
			w.p.Observe(w.now, w.p.Snapshot().Slots[0].Ref, s)
			w.now += pool.Instant(r.age)
			for _, x := range runs[:r.ends] {
				w.p.End(w.now, x.booking)
				w.p.Decide(func(_ *pool.Snapshot, b *pool.Books) { b.Book(x.to, pool.Load{}, w.now+3600*second) }) // two are at hand all the time
			}
			if x := w.come(); x.runs != r.room {
				t.Errorf("it goes: %v, want %v", x.runs, r.room)
			}
		})
	}
}

// Answers are foreseen: half of what those that run are expected to have is still to come.
func TestAnswersAreForeseen(t *testing.T) {
	for _, r := range []struct {
		name   string
		usage  float64 // of 64,000 tokens, with four answers at hand
		answer int64   // of each
		room   bool
	}{
		{"they fit", 0.5, 14_399, true}, // 0.5 + 28,798/64,000 is below 0.95
		{"they do not", 0.5, 14_400, false},
		{"the engine is fuller", 0.6, 11_200, false},
		{"and they are shorter", 0.6, 11_199, true},
	} {
		t.Run(r.name, func(t *testing.T) {
			w := newWorld(t, byMemory(nil), 1)
			w.now = 100 * second
			w.p.Decide(func(s *pool.Snapshot, b *pool.Books) {
				for range 4 {
					b.Book(s.Slots[0].Ref, pool.Load{Decode: r.answer}, w.now+3600*second)
				}
			})
			w.now++
			w.sample(0, 0, r.usage, 0, 0)
			if x := w.come(); x.runs != r.room {
				t.Errorf("it goes: %v, want %v", x.runs, r.room)
			}
		})
	}
}

// Who waits for memory of which nobody tells goes after a minute, though nothing else happens.
func TestAReadingThatIsGoneByNoLongerMakesRoom(t *testing.T) {
	w := newWorld(t, byMemory(nil), 2)
	w.now = 100 * second
	for range 4 {
		w.come()
	}
	w.sample(0, 0, 0.97, 0, 0)
	w.sample(1, 30*time.Second, 0.97, 0, 0)
	x, y := w.come(onlyAt(1)), w.come(tenantIs("b"), onlyAt(2))
	if !x.held || !y.held {
		t.Fatalf("the first runs %v, the second %v", x.runs, y.runs)
	}
	w.pass(30 * time.Second)
	if x.runs || y.runs {
		t.Fatalf("before the minute is over the first runs %v, the second %v", x.runs, y.runs)
	}
	w.pass(1)
	if x.runs || !y.runs {
		t.Errorf("a minute after the second's reading the first runs %v, the second %v", x.runs, y.runs)
	}
	w.pass(30 * time.Second)
	if !x.runs {
		t.Error("a minute after the first's reading it waits")
	}
}

// A gauge that stands at full while nobody waits inside the engine, and answers begin, is not believed, until one waits.
func TestAGaugeThatIsStuck(t *testing.T) {
	begin := func(w *world, n int) {
		for range n {
			x := w.come()
			if !x.runs {
				return
			}
			w.firstByte(x)
			w.end(x)
		}
	}
	for _, r := range []struct {
		name    string
		seconds int // for which it is stuck
		answers int // that begin in each of the first eight
		waiting int32
		more    int // that go between two samples before one waits; 2 are at hand
	}{
		{"for long, while answers begin", 20, 1, 0, 8},
		{"not for so long", 19, 1, 0, 2},
		{"for long, and nothing begins", 20, 0, 0, 2},
		{"one waits inside", 20, 1, 1, 2},
	} {
		t.Run(r.name, func(t *testing.T) {
			w := newWorld(t, byMemory(nil), 1)
			w.now = 100 * second
			w.sample(0, 0, 1, 0, 0)
			for i := range r.seconds {
				w.now += second
				if i < doubtAnswers {
					begin(w, r.answers)
				}
				w.sample(0, 0, 1, r.waiting*int32(i%2), 0)
			}
			var all []*request
			for range 20 {
				all = append(all, w.come())
			}
			went := 0
			for _, x := range all {
				if x.runs {
					went++
				}
			}
			if went != r.more {
				t.Errorf("%d went, want %d", went, r.more)
			}
			noted := min(went, max(r.more-2, 0))
			if got := w.noted[reason.MemoryDoubted]; got != noted {
				t.Errorf("memory_doubted is noted %d times, want %d", got, noted)
			}
			stats := w.c.Stats(w.now).Pools[0]
			if got := strings.Join(stats.ShortOfMemory, " "); got != "ns/e0" || stats.Saturation.Short != 1 || stats.Doubted != nil {
				t.Errorf("short of memory are %q, %d; doubted %q", got, stats.Saturation.Short, stats.Doubted)
			}
			w.now += second
			w.sample(0, 0, 1, 0, int32(went)) // they run by now
			if r.more > 2 && !all[went].runs {
				t.Error("the next one waits though none does inside")
			}
			w.sample(0, 0, 1, 3, int32(went))
			more := w.come()
			if more.runs {
				t.Error("one goes though some wait inside")
			}
		})
	}
}

// A doubt is seen, and who waits too long is told of memory.
func TestMemoryIsSeen(t *testing.T) {
	w := newWorld(t, byMemory(func(s *Settings) { s.Default.TTL = 3 * time.Second }), 2)
	w.now = 100 * second
	for range 4 {
		w.come()
	}
	w.sample(0, 0, 0.97, 0, 0)
	w.sample(1, 0, 0.97, 0, 0)
	x := w.come()
	w.pass(3 * time.Second)
	if want := "it waited 3s (defaultRequestTTL); 2 of its pool's 2 endpoints have no memory for more, as their KV usage tells"; x.no == nil || x.no.Detail != want {
		t.Errorf("got %v, want %q", x.no, want)
	}
	for range 21 {
		w.now += second
		for _, to := range w.p.Snapshot().Slots {
			var h pool.Booking
			w.p.Decide(func(_ *pool.Snapshot, b *pool.Books) { h = b.Book(to.Ref, pool.Load{}, w.now+3600*second) })
			w.p.FirstByte(w.now, h)
			w.p.End(w.now, h)
		}
		w.sample(0, 0, 0.97, 0, 0)
		w.sample(1, 0, 0.97, 1, 0)
	}
	stats := w.c.Stats(w.now).Pools[0]
	if strings.Join(stats.ShortOfMemory, " ") != "ns/e1" || strings.Join(stats.Doubted, " ") != "ns/e0" {
		t.Errorf("short of memory are %q, doubted %q", stats.ShortOfMemory, stats.Doubted)
	}
}

// An engine that does not tell how many run there is judged by first bytes alone.
func TestAtHandWhereNobodyTellsWhatRuns(t *testing.T) {
	w := newWorld(t, byMemory(nil), 1)
	w.now = 100 * second
	for range 5 {
		w.firstByte(w.come())
	}
	w.sample(0, 0, 0.97, 0, -1)
	if x := w.come(); !x.runs {
		t.Error("it waits though nobody does inside")
	}
}

// When time alone makes room is known where nothing else is in its way, and then of the last thing that is.
func TestWhenAnEndpointOpens(t *testing.T) {
	const none = pool.Instant(0)
	for _, r := range []struct {
		name     string
		d        LoadDetector
		requests int     // of a backlog of 3 s in all
		usage    float64 // of a sample of this instant; -1: there is none
		ceiling  int32   // for 2 s; 0: there is none
		full     bool
		wants    pool.Instant // from now on
	}{
		{"room", LoadDetector{}, 2, 0.5, 0, false, none},
		{"memory", LoadDetector{}, 2, 1, 0, true, 60*second + 1},
		{"a ceiling", LoadDetector{}, 2, -1, 2, true, 2 * second},
		{"a ceiling above", LoadDetector{}, 2, -1, 3, false, none},
		{"a backlog", LoadDetector{MaxBacklog: time.Second}, 3, -1, 0, true, 2*second + 1},
		{"a backlog as long as may be", LoadDetector{MaxBacklog: 3 * time.Second}, 3, -1, 0, true, 1},
		{"a backlog and a ceiling", LoadDetector{MaxBacklog: 2 * time.Second}, 3, -1, 3, true, 2 * second},
		{"a backlog, a ceiling and memory", LoadDetector{MaxBacklog: 2 * time.Second}, 3, 1, 3, true, 60*second + 1},
		{"as many as may run", LoadDetector{MaxRequests: 2}, 2, -1, 0, true, none},
		{"as many as may run, and a ceiling", LoadDetector{MaxRequests: 2}, 2, -1, 2, true, none},
		{"fewer than may run, and a ceiling", LoadDetector{MaxRequests: 3}, 2, -1, 2, true, 2 * second},
		{"as many as may be pending, and memory", LoadDetector{MaxPending: 2}, 2, 1, 0, true, none},
		{"fewer than may be pending, and memory", LoadDetector{MaxPending: 3}, 2, 1, 0, true, 60*second + 1},
	} {
		t.Run(r.name, func(t *testing.T) {
			p := pool.Options{PrefillPerToken: time.Second}.New("p", nil)
			now := 100 * second
			p.Update(now, []pool.Endpoint{{Namespace: "ns", Name: "a"}})
			at := p.Snapshot().Slots[0].Ref
			s := pool.NoSample()
			if s.KVUsage = r.usage; r.usage >= 0 {
				s.At, s.Blocks, s.BlockTokens = now, 1000, 16
				p.Observe(now, at, s)
			}
			r.d.MaxKVUsage = 0.95
			p.Decide(func(snapshot *pool.Snapshot, b *pool.Books) {
				b.At(now)
				for i := range r.requests {
					b.Book(at, pool.Load{UncachedPrefill: int64(i / (r.requests - 1) * 3)}, now+3600*second)
				}
				b.Limit(at.ID, r.ceiling, now+2*second)
				v := &View{Now: now, Books: b, StaleAfter: 5 * time.Second, Members: snapshot.Members, Stages: []Stage{StageDecode}}
				fill, opens := r.d.fill(v, at.ID)
				if opens != 0 {
					opens -= now
				}
				if fill >= 1 != r.full || opens != r.wants {
					t.Errorf("it is filled by %v and opens after %v ns; want full %v, and %v", fill, opens, r.full, r.wants)
				}
				if opens > 0 {
					for _, late := range []pool.Instant{-1, 0} {
						v.Now = now + opens + late
						if got := r.d.HasRoom(v, at.ID); got != (late == 0) {
							t.Errorf("%v ns from then it has room: %v", late, got)
						}
					}
				}
			})
		})
	}
}
