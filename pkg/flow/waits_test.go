package flow

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/reason"
)

// The time for which one may wait for room runs while there is an endpoint to wait for; that for an endpoint is all its time.
func TestATimeToWaitCountsWhatItIsFor(t *testing.T) {
	const sec = time.Second
	for _, r := range []struct {
		name       string
		room, none time.Duration // the bounds
		steps      string        // seconds for which the pool is full (f) or empty (e)
		id         reason.ID     // 0: it waits still
		says       string
	}{
		{"a short wait for room begins with the first endpoint", 5 * sec, 60 * sec, "e30 f4", 0, ""},
		{"and ends as one that began there", 5 * sec, 60 * sec, "e30 f5", reason.QueueTimeout, "it waited 5s (defaultRequestTTL), and 30s without an endpoint in its pool"},
		{"what it waited for room counts when there is room to wait for again", 5 * sec, 60 * sec, "f3 e20 f1", 0, ""},
		{"in sum", 5 * sec, 60 * sec, "f3 e20 f2", reason.QueueTimeout, "it waited 5s (defaultRequestTTL), and 20s without"},
		{"an endpoint that comes and goes", 5 * sec, 60 * sec, "f1 e1 f1 e1 f1 e1 f1 e1 f1", reason.QueueTimeout, "it waited 5s (defaultRequestTTL), and 4s without"},
		{"room alone", 5 * sec, 60 * sec, "f5", reason.QueueTimeout, "it waited 5s (defaultRequestTTL)"},
		{"an endpoint alone", 5 * sec, 60 * sec, "e60", reason.NoEndpoint, "it waited 1m0s for the pool's first (noEndpointRequestTTL)"},
		{"both", 60 * sec, 25 * sec, "f20 e5", reason.NoEndpoint, "it waited 25s (noEndpointRequestTTL): 20s for room, and 5s without an endpoint in its pool"},
		{"longer for room than for an endpoint, when there is none", 60 * sec, 10 * sec, "f20 e0", reason.NoEndpoint, "it waited 20s (noEndpointRequestTTL): 20s for room, and 0s without"},
		{"an endpoint comes and goes, without a bound for room", 0, 6 * sec, "e2 f2 e2", reason.NoEndpoint, "it waited 6s (noEndpointRequestTTL): 2s for room, and 4s without"},
	} {
		t.Run(r.name, func(t *testing.T) {
			steps := strings.Fields(r.steps)
			n := 1
			if steps[0][0] == 'e' {
				n = 0
			}
			w := newWorld(t, settings(func(s *Settings) {
				s.Default.TTL, s.Default.EmptyTTL, s.Ceilings = r.room, r.none, shut{}
			}), n)
			x := w.come()
			for _, step := range steps {
				var kind byte
				var seconds int
				if _, err := fmt.Sscanf(step, "%c%d", &kind, &seconds); err != nil {
					t.Fatal(err)
				}
				w.members(map[byte]int{'f': 1, 'e': 0}[kind])
				if x.no != nil && step != steps[len(steps)-1] {
					t.Fatalf("before %s it got %v", step, x.no)
				}
				w.pass(time.Duration(seconds) * sec)
			}
			switch {
			case r.id == 0:
				if !x.held {
					t.Errorf("got %v, want that it waits", x.no)
				}
			case x.no == nil || x.no.ID != r.id || !strings.HasPrefix(x.no.Detail, r.says):
				t.Errorf("got %v, want %q", x.no, r.says)
			}
		})
	}
}

// shut has nobody go.
type shut struct{}

func (shut) Ceilings(_ float64, _ []int32, out []float64) { clear(out) }

// An instant before the last one takes nothing back.
func TestAVacancyNeverFalls(t *testing.T) {
	var v vacancy
	v.see(10*second, true)
	v.see(14*second, true)
	v.see(12*second, true) // as told by somebody who read the clock before
	if got := v.at(14 * second); got != 4*second {
		t.Errorf("%v s without an endpoint, want 4", got/second)
	}
	v.see(11*second, false)
	v.see(20*second, true)
	if got := v.at(21 * second); got != 5*second {
		t.Errorf("%v s without an endpoint, want 5", got/second)
	}
}

// A client that goes between its turn and its decision has gone; that its request was refused is said of one that was.
func TestHowAStayEndedThatWasHandedOut(t *testing.T) {
	for _, r := range []struct {
		name string
		no   reason.ID
		want Outcome
	}{
		{"the client goes", 0, Cancelled},
		{"its decision refuses it", reason.AllFiltered, RejectedOther},
		{"the process ends", reason.ShuttingDown, Cancelled},
	} {
		t.Run(r.name, func(t *testing.T) {
			w := newWorld(t, settings(nil), 1)
			h := &heard{}
			first := w.come()
			x := w.come()
			w.c.Watch(h)
			w.p.End(w.now, first.booking)
			if got, no, ok := w.c.Next(w.now); !ok || no != nil || got != &x.Request {
				t.Fatalf("handed out %v %v", got, no)
			}
			x.Refused = r.no
			w.c.Leave(w.now, &x.Request)
			if len(*h) != 1 || (*h)[0].Outcome != r.want {
				t.Errorf("it is counted as %+v, want %v", *h, r.want)
			}
			w.wantWaiting(0)
			if x.Place != nil {
				t.Error("it has its place still")
			}
		})
	}
}

// Who leaves while others are told that their waiting is over is not told, and they are, in their order.
func TestThoseWhoseWaitingIsOverMayLeave(t *testing.T) {
	for leaves := range 4 {
		w := newWorld(t, settings(nil), 1)
		w.come()
		var all []*request
		for range 3 {
			all = append(all, w.come())
		}
		w.now += 60 * second
		var told []*plugins.Request
		for i := 0; ; i++ {
			if i == 1 && leaves < 3 {
				w.c.Leave(w.now, &all[leaves].Request) // the first was told and is refused, the others are still to be told
			}
			r, no, ok := w.c.Next(w.now)
			if !ok {
				break
			}
			if no == nil || no.ID != reason.QueueTimeout {
				t.Fatalf("handed out with %v", no)
			}
			told = append(told, r)
		}
		want := 3
		if leaves == 1 || leaves == 2 {
			want = 2
		}
		if len(told) != want || told[0] != &all[0].Request || told[want-1] == &all[leaves%3].Request && leaves > 0 && leaves < 3 {
			t.Errorf("where %d leaves, %d were told, want %d", leaves, len(told), want)
		}
		for _, x := range all {
			w.c.Leave(w.now, &x.Request)
		}
		if s := w.c.Stats(w.now); s.Places != 0 || w.c.Deadline() != 0 {
			t.Errorf("%d places are left, the deadline is %v", s.Places, w.c.Deadline())
		}
	}
}
