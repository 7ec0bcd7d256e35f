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

// A tenant that offers ten times as much as another keeps none of its requests out, and is served no more, also where the queue is full
// all the time.
func TestAFullQueueIsSharedBetweenTenants(t *testing.T) {
	for _, r := range []struct {
		name string
		set  func(*Settings)
	}{
		{"requests of a band", func(s *Settings) { s.Default.MaxRequests = 20 }},
		{"bytes of a band", func(s *Settings) { s.Default.MaxBytes = 2000 }},
		{"all requests", func(s *Settings) { s.MaxRequests = 20 }},
		{"all bytes", func(s *Settings) { s.MaxBytes = 2000 }},
	} {
		t.Run(r.name, func(t *testing.T) {
			w := newWorld(t, settings(func(s *Settings) { s.Default.Fairness, s.Default.TTL = NewRoundRobin(), 0; r.set(s) }), 2)
			var running []*request
			seen := 0
			for range 200 {
				for range 10 {
					w.come(tenantIs("loud"), bytes(100), tokens(100, 10))
				}
				w.come(tenantIs("quiet"), bytes(100), tokens(100, 10))
				running, seen = append(running, w.went[seen:]...), len(w.went)
				for _, x := range running {
					w.end(x)
				}
				running = running[:0]
				running, seen = append(running, w.went[seen:]...), len(w.went)
			}
			served := map[string]int{}
			for _, x := range w.went {
				served[x.Target.Subscription]++
			}
			if served["quiet"] < 195 || served["loud"] < 195 || served["loud"] > 210 {
				t.Errorf("served %v of 200 and 2000", served)
			}
			for _, x := range w.refused {
				if x.Target.Subscription == "quiet" {
					t.Fatalf("the quiet one got %v", x.no)
				}
			}
			w.wantWaiting(18) // two have just gone
		})
	}
}

// Who gives way to whom, when a bound is reached.
func TestWhoGivesWay(t *testing.T) {
	const waits = reason.ID(0)
	band := func(most int64) func(*Settings) { return func(s *Settings) { s.Default.MaxRequests = most } }
	all := func(most int64) func(*Settings) {
		return func(s *Settings) { s.MaxRequests, s.DefaultNegative = most, s.Default }
	}
	size := func(most int64) func(*Settings) { return func(s *Settings) { s.Default.MaxBytes = most } }
	for _, r := range []struct {
		name  string
		set   func(*Settings)
		come  string // those that come while the endpoint is busy: a tenant, its priority and bytes if they are not 0
		left  string // those that wait in the end, by number from 1 on
		ids   string // numbers of those that gave way
		last  reason.ID
		wants string // what the last one, or who gave way last, is told
	}{
		{"a tenant that has none waiting", band(3), "a a a b", "1 2 4", "3", waits, "3 requests of this priority wait already (maxRequests of its band), and its tenant has the most of them"},
		{"one after the other, until all have one", band(3), "a a a b c", "1 4 5", "3 2", waits, ""},
		{"more tenants than places", band(3), "a a a b c d", "1 4 5", "3 2", reason.QueueFull, "3 requests of this priority wait already (maxRequests of its band)"},
		{"one that has its share", band(4), "a a a b b b", "1 2 4 5", "3", reason.QueueFull, ""},
		{"one that has less than another, though more than its share", band(6), "a a a b c d b", "1 2 4 5 6 7", "3", waits, ""},
		{"the one that has most", band(3), "a a a a", "1 2 3", "", reason.QueueFull, ""},
		{"no change for the sake of one more", band(3), "a a b b", "1 2 3", "", reason.QueueFull, ""},
		{"who has no tenant is one", band(3), "- - - b", "1 2 4", "3", waits, ""},
		{"where no tenants are told apart", func(s *Settings) { s.Default.MaxRequests, s.Default.Fairness = 3, NewGlobalStrict() }, "a a a b", "1 2 3", "", reason.QueueFull, ""},
		{"tenants beyond the number that is told apart are one", func(s *Settings) { s.Default.MaxRequests, s.MaxFlows = 4, 1 }, "a a b c d", "1 3 4 2", "", reason.QueueFull, ""},

		{"who has a flow where no more are told apart", func(s *Settings) { s.Default.MaxRequests, s.MaxFlows = 3, 2 }, "a a b b", "1 2 3", "", reason.QueueFull, ""},

		{"a body that is a share", size(300), "a::100 a::100 a::100 b::150", "1 4", "3 2", waits, "300 bytes of requests of this priority may wait (maxBytes of its band), and its tenant has the most of them"},
		{"a body that is more than a share: nobody gives way", size(300), "a::100 a::100 a::100 b::151", "1 2 3", "", reason.QueueFull, "300 bytes"},
		{"of several tenants that have more than their share", size(400), "a::100 a::100 b::100 b::100 c::130", "1 3 5", "2 4", waits, ""},
		{"a body larger than all that may wait", size(300), "a::100 b::301", "1", "", reason.QueueFull, ""},
		{"two bounds, of which one refuses it", func(s *Settings) { s.Default.MaxRequests, s.Default.MaxBytes = 3, 300 }, "a::100 a::100 a::100 b::151", "1 2 3", "", reason.QueueFull, "300 bytes"},
		{"two bounds that are both reached", func(s *Settings) { s.Default.MaxRequests, s.Default.MaxBytes = 3, 300 }, "a::100 a::100 a::100 b::150", "1 4", "3 2", waits, "300 bytes"},
		{"who has the most bytes, and not the most requests", size(300), "a::1 a::1 a::1 b::147 b::147 c::9", "1 2 3 4 6", "5", waits, ""},

		{"a higher priority, when all places are taken", all(3), "a:0 a:-1 a:-2 a:5", "4 1 2", "3", waits, "3 requests wait already (maxRequests), and one of another priority goes before it"},
		{"until the lower ones are none", all(3), "a:0 a:-1 a:-2 a:5 a:5 a:5", "4 5 6", "3 2 1", waits, ""},
		{"and of its own priority then", all(3), "a:5 a:5 a:5 b:5", "1 2 4", "3", waits, "3 requests wait already (maxRequests), and its tenant has the most of them"},
		{"nobody gives way to a lower one", all(3), "a:0 a:0 a:0 b:-1", "1 2 3", "", reason.QueueFull, "3 requests wait already (maxRequests)"},
		{"who has most of the lower ones", all(5), "a:0 b:0 a:0 b:0 b:0 c:1", "6 1 2 3 4", "5", waits, ""},
		{"bytes of lower ones", func(s *Settings) { s.MaxBytes = 300 }, "a:0:100 a:0:100 a:0:100 b:7:250", "4", "3 2 1", waits, ""},
		{"bytes of lower ones, and of its own", func(s *Settings) { s.MaxBytes = 300 }, "a:0:50 a:7:100 a:7:100 b:7:125", "4 2", "1 3", waits, ""},
		{"bytes of lower ones that do not do", func(s *Settings) { s.MaxBytes = 300 }, "a:0:50 a:7:100 a:7:100 b:7:201", "2 3 1", "", reason.QueueFull, ""},
		{"lower ones without bytes keep their places", func(s *Settings) { s.MaxBytes = 300 }, "a:0 a:7:150 a:7:150 b:7:140", "2 4 1", "3", waits, ""},
		{"where tenants are not told apart, priorities are", func(s *Settings) { s.MaxRequests, s.Default.Fairness = 2, NewGlobalStrict() }, "a:0 a:0 b:0", "1 2", "", reason.QueueFull, ""},
		{"and a higher one has its place", func(s *Settings) { s.MaxRequests, s.Default.Fairness = 2, NewGlobalStrict() }, "a:0 a:0 b:1", "3 1", "2", waits, ""},

		{"bands that share by weight", func(s *Settings) { s.MaxRequests, s.Weighted = 3, true }, "a:0 a:0 a:0 b:-1", "1 2 4", "3", waits, "one of another priority goes before it"},
		{"a higher one that has its weight", func(s *Settings) { s.MaxRequests, s.Weighted = 3, true }, "a:0 a:0 b:1 b:1", "3 1 2", "", reason.QueueFull, ""},
		{"the heaviest of several bands", func(s *Settings) { s.MaxRequests, s.Weighted = 6, true }, "a:0 b:1 b:1 b:1 c:2 c:2 d:3", "1 2 3 5 6 7", "4", waits, ""},
		{"three times the weight", func(s *Settings) {
			s.MaxRequests, s.Weighted = 4, true
			heavy := s.Default
			heavy.Priority, heavy.Weight = 1, 3
			s.Bands = append(s.Bands, heavy)
		}, "a:0 a:0 a:0 a:0 b:1 b:1 b:1 b:1", "5 6 7 1", "4 3 2", reason.QueueFull, ""},
		{"tenants within a band that has its weight", func(s *Settings) { s.MaxRequests, s.Weighted = 4, true }, "a:0 a:0 b:1 b:1 c:1", "3 5 1 2", "4", waits, "its tenant has the most of them"},
	} {
		t.Run(r.name, func(t *testing.T) {
			w := newWorld(t, settings(func(s *Settings) {
				s.Default.Fairness, s.DefaultNegative.Fairness = NewRoundRobin(), NewRoundRobin()
				r.set(s)
			}), 1)
			w.come()
			var all []*request
			for _, one := range strings.Fields(r.come) {
				var p int32
				var n int64
				id, rest, _ := strings.Cut(one, ":")
				if at, size, ok := strings.Cut(rest, ":"); ok {
					fmt.Sscan(at, &p)
					fmt.Sscan(size, &n)
				} else {
					fmt.Sscan(rest, &p)
				}
				w.now++
				all = append(all, w.come(tenantIs(strings.Trim(id, "-")), priority(p), bytes(n)))
			}
			numbers := func(list []*request) (text []string) {
				for _, x := range list {
					text = append(text, fmt.Sprint(slices.Index(all, x)+1))
				}
				return text
			}
			last := all[len(all)-1]
			var gave []*request
			told := ""
			for _, x := range w.refused {
				if x.no.ID == reason.GaveWay {
					gave = append(gave, x)
					told = x.no.Detail
				}
			}
			if last.no != nil {
				told = last.no.Detail
			}
			if got := strings.Join(numbers(gave), " "); got != r.ids {
				t.Errorf("%s gave way, want %s", got, r.ids)
			}
			if (last.no == nil) != (r.last == waits) || last.no != nil && last.no.ID != r.last || !strings.Contains(told, r.wants) {
				t.Errorf("the last got %v, and %q was said; want %v, %q", last.no, told, r.last, r.wants)
			}
			var left []*request
			for _, b := range w.c.lines[0].bands {
				for it := b.first; it != nil; it = it.next {
					left = append(left, it.r.Owner.(*request))
				}
			}
			if got := strings.Join(numbers(left), " "); !sameSet(got, r.left) {
				t.Errorf("%s wait, want %s", got, r.left)
			}
			w.wantWaiting(int64(len(left)))
		})
	}
}

func sameSet(a, b string) bool {
	x, y := strings.Fields(a), strings.Fields(b)
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}

// Of a tenant that gives way the one goes that came last, of those that are late already.
func TestWhoIsLateGivesWayFirst(t *testing.T) {
	w := newWorld(t, settings(func(s *Settings) {
		s.Default.Fairness, s.Default.MaxRequests, s.Default.YieldAfter = NewRoundRobin(), 4, time.Second
	}), 1)
	w.come()
	var all []*request
	for range 2 {
		all = append(all, w.come(tenantIs("a")))
	}
	w.now += second
	for range 2 {
		all = append(all, w.come(tenantIs("a")))
	}
	for i, want := range []int{1, 0, 3} {
		w.come(tenantIs(fmt.Sprint("b", i)))
		if got := slices.IndexFunc(all, func(x *request) bool { return x == w.refused[len(w.refused)-1] }); got != want || len(w.refused) != i+1 {
			t.Fatalf("newcomer %d has number %d give way, want %d", i, got, want)
		}
	}
}

// Who is being decided keeps its place: another gives way, and where there is none nobody does.
func TestWhoIsBeingDecidedGivesNotWay(t *testing.T) {
	for _, places := range []int64{1, 2} {
		w := newWorld(t, settings(func(s *Settings) { s.MaxRequests, s.DefaultNegative = places, s.Default }), 1)
		first := w.come()
		var low []*request
		for range places {
			low = append(low, w.come(priority(-1)))
		}
		w.p.End(w.now, first.booking)
		if r, _, ok := w.c.Next(w.now); !ok || r != &low[0].Request {
			t.Fatal("the first does not go")
		}
		high := &request{}
		high.Prepare(w.built, nil)
		high.Owner, high.PoolIndex, high.Target.Priority = high, 0, 1
		v := w.c.Enter(w.now, &high.Request)
		if places == 1 && (v.Refusal == nil || v.Refusal.ID != reason.QueueFull) || places == 2 && (v.Refusal != nil || v.Until == 0) {
			t.Errorf("of %d places the newcomer got %+v", places, v)
		}
		w.decide(low[0])
		if w.dispatch(); !low[0].runs {
			t.Error("who was being decided does not run")
		}
	}
}

// Where there is nobody to wait for, who gives way is told that.
func TestWhoGivesWayInAnEmptyPool(t *testing.T) {
	w := newWorld(t, settings(func(s *Settings) { s.MaxRequests = 1 }), 0)
	x := w.come()
	w.now += second
	w.come(priority(1))
	if x.no == nil || x.no.ID != reason.NoEndpoint || !strings.HasPrefix(x.no.Detail, "its pool has none, it waited 1s; 1 requests wait already (maxRequests), and one of another") {
		t.Errorf("it got %v", x.no)
	}
}

// The bounds of all are those of all pools: the tenant that holds most gives way wherever it waits, and none has more than another for
// waiting at two.
func TestPlacesAreSharedOverAllPools(t *testing.T) {
	w := newWorld(t, settings(func(s *Settings) { s.MaxRequests, s.Default.Fairness = 6, NewRoundRobin() }), 0)
	other := pool.New("q", w)
	w.c.Attach([]*pool.Pool{w.p, other}, w)
	come := func(at int, id string, p int32) *request {
		r := &request{}
		r.Prepare(w.built, nil)
		r.Owner, r.PoolIndex, r.Target.Subscription, r.Target.Priority, r.Now = r, at, id, p, w.now
		w.now++
		w.advance(r)
		w.dispatch()
		return r
	}
	var hog []*request
	for range 6 {
		hog = append(hog, come(0, "a", 0))
	}
	b, c := come(1, "b", 0), come(1, "a", 1)
	if !b.held || !c.held || hog[5].no == nil || hog[4].no == nil || hog[3].no != nil {
		t.Errorf("b waits %v, a of a higher priority %v; of a the last two got %v and %v", b.held, c.held, hog[5].no, hog[4].no)
	}
	if d := come(0, "d", -1); d.no == nil {
		t.Error("a lower priority has taken a place")
	}
}

// What gave way is counted, and told.
func TestGivingWayIsCounted(t *testing.T) {
	w, h := newWorld(t, settings(func(s *Settings) { s.MaxRequests = 1 }), 1), &heard{}
	w.come()
	w.c.Watch(h)
	w.come(tenantIs("a"))
	w.now += second
	w.come(tenantIs("b"), priority(1))
	if last := (*h)[len(*h)-1]; len(*h) != 1 || last.Outcome != GaveWay || last.Why != reason.GaveWay || last.Flow != "a" || last.Waited != time.Second || last.Outcome.String() != "EvictedOther" {
		t.Errorf("heard %+v", last)
	}
}
