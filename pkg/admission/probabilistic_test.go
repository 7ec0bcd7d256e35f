package admission

import (
	"fmt"
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

const now = pool.Instant(time.Minute)

// busy says what an endpoint's sample has.
type busy struct {
	waiting, blocks int32
	usage           float64
	age             time.Duration // of the sample; negative: never scraped
	booked          int           // own requests without first byte, booked after the sample
	drains          bool
}

func poolOf(endpoints ...busy) *pool.Pool {
	p := pool.New("one", reason.Discard{})
	var members []pool.Endpoint
	for i, e := range endpoints {
		members = append(members, pool.Endpoint{Namespace: "ns", Name: fmt.Sprint("e", i), Draining: e.drains,
			Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), 8000)})
	}
	p.Update(1, members)
	for i, e := range endpoints {
		ref := p.Snapshot().Slots[p.Snapshot().Members[i]].Ref
		if e.age >= 0 {
			s := pool.NoSample()
			s.At, s.Waiting, s.KVUsage = now-pool.Instant(e.age), e.waiting, e.usage
			if e.blocks > 0 {
				s.Blocks, s.BlockTokens = e.blocks, 16
			}
			p.Observe(now, ref, s)
		}
		p.Decide(func(_ *pool.Snapshot, b *pool.Books) {
			b.At(now)
			for range e.booked {
				b.Book(ref, pool.Load{}, now+pool.Instant(time.Hour))
			}
		})
	}
	return p
}

func TestProbabilisticSaturation(t *testing.T) {
	const never = -1
	for _, row := range []struct {
		name      string
		endpoints []busy
		want      float64
	}{
		{"no endpoint", nil, 0},
		{"idle", []busy{{}, {}}, 0},
		{"half the queue at one of two", []busy{{waiting: 5}, {}}, 0.5},
		{"the fuller of queue and cache", []busy{{waiting: 1, usage: 0.8}}, 1},
		{"beyond full", []busy{{waiting: 10}}, 2},
		{"one idle endpoint does not hide overload", []busy{{waiting: 10}, {waiting: 10}, {}}, 4.0 / 3},
		{"what was sent since the sample counts", []busy{{waiting: 2, booked: 3}}, 1},
		{"never scraped: own requests count", []busy{{age: never, booked: 5}}, 1},
		{"a stale sample does not", []busy{{waiting: 50, age: time.Hour, booked: 5}}, 1},
		{"large endpoints weigh more", []busy{{waiting: 5, blocks: 3000}, {blocks: 1000}}, 0.75},
		{"one size is not known", []busy{{waiting: 5, blocks: 3000}, {}}, 0.5},
		{"who drains is left out", []busy{{waiting: 5}, {drains: true}}, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := NewProbabilistic()
			of := poolOf(row.endpoints...)
			var got float64
			of.Decide(func(s *pool.Snapshot, b *pool.Books) { got = p.saturation(now, s, b, 2*time.Second) })
			if math.Abs(got-row.want) > 1e-9 {
				t.Errorf("got %v, want %v", got, row.want)
			}
		})
	}
}

// Of many requests as many are refused as the formula says, and never one that may not be dropped.
func TestProbabilisticRefuses(t *testing.T) {
	for _, row := range []struct {
		name     string
		priority int32
		waiting  int32 // of 100: saturation in percent
		want     float64
	}{
		{"idle", -1, 0, 0},
		{"at 0.20: 300 · 0.2^5", -1, 20, 0.096},
		{"at 0.30", -1, 30, 0.729},
		{"at 0.32 nobody passes", -1, 32, 1},
		{"full", -5, 100, 1},
		{"priority 0 passes", 0, 100, 0},
		{"and so does a higher one", 7, 100, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := NewProbabilistic()
			p.QueueDepthThreshold = 100
			p.Attach([]*pool.Pool{poolOf(busy{waiting: row.waiting})}, nil)
			const n = 10_000
			refused := 0
			for i := range n {
				r := plugins.Request{Now: now, ID: fmt.Sprintf("%013x", uint64(i)*((1<<52)/n))}
				r.Target.Priority = row.priority
				if v := p.Enter(&r); v.Refusal != nil {
					if v.Refusal.ID != reason.DroppedEarly {
						t.Fatalf("refused with %v", v.Refusal)
					}
					refused++
				}
			}
			if got := float64(refused) / n; math.Abs(got-row.want) > 0.001 {
				t.Errorf("%.3f are refused, want %.3f", got, row.want)
			}
		})
	}
}

func TestProbabilisticDoesNotAllocate(t *testing.T) {
	p := NewProbabilistic()
	p.Attach([]*pool.Pool{poolOf(busy{}, busy{})}, nil)
	r := plugins.Request{Now: now, ID: "8000000000000"}
	r.Target.Priority = -1
	if n := testing.AllocsPerRun(100, func() { p.Enter(&r) }); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
