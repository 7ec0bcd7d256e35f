package pool_test

import (
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/pool"
)

// A doubt lasts while each sample reads the cache as full and shows nobody who waits.
func TestADoubt(t *testing.T) {
	const second = pool.Instant(time.Second)
	type reading struct {
		at      pool.Instant // seconds
		usage   float64
		waiting int32
		answers int // that begin before it
	}
	for _, r := range []struct {
		name     string
		readings []reading
		want     pool.Doubt
	}{
		{"full, and nobody waits", []reading{{1, 0.9, 0, 2}, {2, 1, 0, 3}}, pool.Doubt{Since: second, Answered: 2}},
		{"not full", []reading{{1, 0.89, 0, 0}}, pool.Doubt{}},
		{"nothing is known of its cache", []reading{{1, -1, 0, 0}}, pool.Doubt{}},
		{"nothing is known of who waits", []reading{{1, 1, -1, 0}}, pool.Doubt{}},
		{"one waits", []reading{{1, 1, 0, 2}, {2, 1, 1, 0}}, pool.Doubt{}},
		{"and waits no longer", []reading{{1, 1, 0, 2}, {2, 1, 1, 1}, {3, 1, 0, 1}}, pool.Doubt{Since: 3 * second, Answered: 4}},
		{"it was not full in between", []reading{{1, 1, 0, 2}, {2, 0.5, 0, 1}, {3, 1, 0, 1}}, pool.Doubt{Since: 3 * second, Answered: 4}},
		{"as old as a sample may be", []reading{{1, 1, 0, 2}, {6, 1, 0, 1}}, pool.Doubt{Since: second, Answered: 2}},
		{"who knows what was in between", []reading{{1, 1, 0, 2}, {7, 1, 0, 1}}, pool.Doubt{Since: 7 * second, Answered: 3}},
	} {
		t.Run(r.name, func(t *testing.T) {
			p := pool.New("p", nil)
			p.Update(1, []pool.Endpoint{{Namespace: "ns", Name: "a"}})
			at := p.Snapshot().Slots[0].Ref
			for _, s := range r.readings {
				for range s.answers {
					var h pool.Booking
					p.Decide(func(_ *pool.Snapshot, b *pool.Books) { h = b.Book(at, pool.Load{}, 3600*second) })
					p.FirstByte(s.at*second, h)
				}
				sample := pool.NoSample()
				sample.At, sample.KVUsage, sample.Waiting = s.at*second, s.usage, s.waiting
				p.Observe(s.at*second, at, sample)
			}
			p.Decide(func(_ *pool.Snapshot, b *pool.Books) {
				if b.Doubts[0] != r.want {
					t.Errorf("got %+v, want %+v", b.Doubts[0], r.want)
				}
			})
			p.Update(1, nil)
			p.Update(1, []pool.Endpoint{{Namespace: "ns", Name: "b"}})
			p.Decide(func(_ *pool.Snapshot, b *pool.Books) {
				if b.Doubts[0] != (pool.Doubt{}) {
					t.Errorf("another endpoint has %+v", b.Doubts[0])
				}
			})
		})
	}
}
