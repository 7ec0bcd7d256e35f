package flow

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/pool"
)

// roomy has one endpoint take a request and the others any number.
func (w *world) roomy() {
	w.p.Decide(func(s *pool.Snapshot, b *pool.Books) { b.Limit(0, 1, pool.Instant(time.Hour)) })
}

// The bound holds also where nothing changes between those who go, so that nobody is decided anew.
func TestWhoIsOvertakenIsCountedWithoutADecision(t *testing.T) {
	const most = 5
	w := newWorld(t, choosy(func(s *Settings) {
		s.Detector = &LoadDetector{MaxBacklog: time.Hour, MaxPending: 100, MaxKVUsage: 1}
		s.MostPassed, s.LookAhead = most, 32
	}), 2)
	w.roomy()
	w.come(bestAt(1)) // runs on and on
	var waits []*request
	for range inVain + 2 {
		waits = append(waits, w.come(bestAt(1)))
	}
	for range 3 * most {
		w.come(bestAt(2))
	}
	first := len(w.went)
	for _, x := range waits {
		if !x.runs {
			t.Fatalf("one waits on after %d went before it, want at most %d", first, most)
		}
		before := 0
		for _, r := range w.went[:w.order(x)[0]] {
			if r.Number > x.Number && r.best == 2 {
				before++
			}
		}
		if before > most {
			t.Errorf("%d went before one, want at most %d", before, most)
		}
	}
}

// Many tenants wait for one endpoint; whoever is best at another that is idle is found with the next changes, whatever the order of
// tenants and bands.
func TestAnIdleEndpointIsFoundBehindManyTenants(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*Settings)
		behind int32 // priority of who is best at the idle one
	}{
		{"strict order", func(*Settings) {}, 0},
		{"by tokens", func(s *Settings) { s.Default.Fairness = NewTokenDeficit() }, 0},
		{"by program", func(s *Settings) { s.Default.Fairness = NewProgramAware() }, 0},
		{"a lower band", func(*Settings) {}, -1},
		{"a lower band of a fair one", func(s *Settings) { s.Default.Fairness = NewRoundRobin() }, -1},
		{"weighted bands", func(s *Settings) { s.Weighted = true }, -1},
		{"weighted bands, the other way", func(s *Settings) { s.Weighted = true }, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t, choosy(func(s *Settings) { s.MaxFlows = 1000; row.change(s) }), 3)
			long, busy := w.come(bestAt(1)), w.come(bestAt(2))
			for i := range 3 * looks {
				w.come(bestAt(1), tenantIs(fmt.Sprint("a", 100+i)))
			}
			x := w.come(bestAt(2), tenantIs("z"), priority(row.behind))
			if x.runs {
				t.Fatal("it runs at an endpoint that is full")
			}
			w.end(busy)
			for range 3 {
				w.pass(time.Millisecond)
				w.firstByte(long)
			}
			if !x.runs {
				t.Error("an endpoint is idle, and who is best there waits")
			}
		})
	}
}

// Nobody waits for an endpoint that will take nothing new.
func TestWhoWaitsForAnEndpointThatDrainsIsDecidedAnew(t *testing.T) {
	w := newWorld(t, choosy(nil), 3)
	w.come(bestAt(1))
	w.come(bestAt(2))
	var others []*request
	for i := range inVain + 2 {
		others = append(others, w.come(bestAt(2), tenantIs(fmt.Sprint("b", i))))
	}
	x := w.come(bestAt(1), tenantIs("z"))
	x.Number = 1 // which has the test's picker take the one that has room
	busy := w.come(bestAt(3))
	if !busy.runs || x.decided == 0 {
		t.Fatal("the arrangement is another")
	}
	var m []pool.Endpoint
	for i := range 3 {
		m = append(m, pool.Endpoint{Namespace: "ns", Name: fmt.Sprint("e", i), Draining: i == 0,
			Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)}), 8000)})
	}
	w.p.Update(w.now, m)
	w.dispatch()
	w.end(busy)
	if !x.runs || x.to.ID == 0 {
		t.Errorf("runs %v at %v; want it where there is room, now that its choice drains", x.runs, x.to.ID)
	}
	for _, r := range others {
		if r.runs {
			t.Error("one went whose choice is full and stays")
		}
	}
}

// Who waits for an endpoint to which a new configuration gives more room, or in another order, is asked at once.
func TestWhoWaitsForItsChoiceIsAskedAfterAReload(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*Settings)
		goes   int // how many of the two that wait
	}{
		{"more room", func(s *Settings) {
			s.Detector = &LoadDetector{MaxBacklog: time.Hour, MaxPending: 100, MaxRequests: 2, MaxKVUsage: 1}
		}, 1},
		{"room for all", func(s *Settings) { s.Detector = &LoadDetector{MaxBacklog: time.Hour, MaxPending: 100, MaxKVUsage: 1} }, 2},
		{"no choice", func(s *Settings) { s.LookAhead = 0 }, 1},
		{"a pool without endpoints that are known", func(s *Settings) {
			s.Detector = &ConcurrencyDetector{MaxConcurrency: 100, ConcurrencyMode: "requests", MaxTokenConcurrency: 1}
		}, 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t, choosy(nil), 2)
			w.come(bestAt(1))
			waits := []*request{w.come(bestAt(1)), w.come(bestAt(1), tenantIs("b"))}
			next := NewControl(choosy(row.change))
			next.Inherit(w.c)
			next.Attach([]*pool.Pool{w.p}, w)
			w.c = next
			w.dispatch()
			goes := 0
			for _, r := range waits {
				if r.runs {
					goes++
				}
			}
			if goes != row.goes {
				t.Errorf("%d go, want %d", goes, row.goes)
			}
		})
	}
}

// A tenant of one request keeps its credit while that is decided in vain.
func TestADecisionInVainCostsNoCredit(t *testing.T) {
	w := newWorld(t, choosy(func(s *Settings) { s.Default.Fairness = NewTokenDeficit() }), 3)
	w.come(bestAt(1))
	busy := w.come(bestAt(2))
	x := w.come(bestAt(1), tenantIs("a"))
	credit := func() int64 { return w.c.lines[0].bands[0].flows["a"].deficit }
	was := credit()
	w.end(busy)
	if x.decided < 2 || was <= 0 || credit() != was {
		t.Errorf("after %d decisions the credit is %d, want %d", x.decided, credit(), was)
	}
}
