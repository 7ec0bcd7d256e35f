package flow

import (
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/plugins"
)

// laidOut has a queue lay out its bands, and returns what was laid out.
func laidOut(t *testing.T, q *Queue) *Settings {
	t.Helper()
	spec := plugins.Spec{
		Plugins: []plugins.PluginSpec{instance("picker", pickFirst{}), instance("handler", handle{}), instance("turns", NewRoundRobin()),
			instance("edf", NewEDF()), instance("queue", q)},
		Profiles: []plugins.ProfileSpec{{Name: "p", Plugins: []plugins.RefSpec{{Ref: "picker"}}}},
		Pools:    []plugins.PoolSpec{{Name: "p", Profiles: []string{"p"}, Handler: "handler"}},
	}
	if _, err := plugins.Build(spec, nil); err != nil {
		t.Fatal(err)
	}
	return &q.Control.settings
}

// What is said of a band goes before what its template says, and that of a priority below 0 before what is said of all.
func TestBandsFollowTheirTemplates(t *testing.T) {
	three, nine := 3*time.Second, 9*time.Second
	q := NewQueue()
	q.DefaultPriorityBand = QueueDefaults{MaxRequests: 10, MaxBytes: 1000, FairnessPolicyRef: "turns", RequestTTL: &nine, Weight: 2}
	q.DefaultNegativePriorityBand = QueueDefaults{MaxRequests: 20, OrderingPolicyRef: "edf"}
	q.PriorityBands = []QueueBand{
		{Priority: 5, QueueDefaults: QueueDefaults{RequestTTL: &three, MaxRequests: 30}},
		{Priority: -5, QueueDefaults: QueueDefaults{MaxBytes: 40}},
	}
	s := laidOut(t, q)
	band := func(p int32) BandSettings {
		for _, b := range s.Bands {
			if b.Priority == p {
				return b
			}
		}
		return s.like(p)
	}
	type row struct {
		MaxRequests, MaxBytes int64
		TTL                   time.Duration
		own, turns, edf       bool
		Weight                float64
	}
	for p, want := range map[int32]row{
		5:  {30, 1000, three, true, true, false, 2},
		0:  {10, 1000, nine, true, true, false, 2},
		7:  {10, 1000, nine, true, true, false, 2},
		-5: {20, 40, nine, true, true, true, 2},
		-7: {20, 1000, nine, true, true, true, 2},
	} {
		b := band(p)
		_, turns := b.Fairness.(*RoundRobin)
		_, edf := b.Ordering.(*EDF)
		if got := (row{b.MaxRequests, b.MaxBytes, b.TTL, b.OwnTTL, turns, edf, b.Weight}); got != want {
			t.Errorf("priority %d: got %+v, want %+v", p, got, want)
		}
	}
	plain := laidOut(t, NewQueue())
	if b := plain.Default; b.MaxRequests != bandRequests || b.MaxBytes != bandBytes || b.TTL != time.Minute || b.OwnTTL || b.Weight != 1 {
		t.Errorf("where nothing is said: %+v", b)
	}
}

// An empty pool is waited for as long as a full one, unless somebody says otherwise, and for a minute where that is without end.
func TestHowLongAnEmptyPoolIsWaitedFor(t *testing.T) {
	five, none := 5*time.Second, time.Duration(0)
	for _, r := range []struct {
		name  string
		all   time.Duration
		empty *time.Duration
		wants time.Duration
	}{
		{"as long as a full one", 30 * time.Second, nil, 30 * time.Second},
		{"a minute where that is without end", 0, nil, time.Minute},
		{"as is said", 30 * time.Second, &five, five},
		{"without end, as is said", 30 * time.Second, &none, 0},
	} {
		t.Run(r.name, func(t *testing.T) {
			q := NewQueue()
			q.DefaultRequestTTL, q.NoEndpointRequestTTL = r.all, r.empty
			if got := laidOut(t, q).Default.EmptyTTL; got != r.wants {
				t.Errorf("%v, want %v", got, r.wants)
			}
		})
	}
}
