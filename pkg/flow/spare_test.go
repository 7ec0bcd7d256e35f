package flow

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fairlead/fairlead/pkg/pool"
)

// What is kept of full endpoints is at every look what asking about each of them would say, whatever was booked, sampled, ended or
// became old since.
func TestTheSpareAgreesWithAskingAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := pool.Options{StaleAfter: 20 * time.Millisecond}.New("p", nil)
		one := func(name string, of ...int) int32 { return int32(rapid.SampledFrom(of).Draw(t, name)) }
		d := &LoadDetector{MaxBacklog: time.Duration(one("maxBacklog", 3, 3, 0)) * time.Millisecond, MaxPending: one("maxPending", 2, 2, 0),
			MaxRequests: one("maxRequests", 0, 3), MaxKVUsage: 0.8, AtHand: one("atHand", 0, 2)}
		var spares [2]spare // as of two configurations, which look at different times
		var m membership
		var open []pool.Booking
		now := second
		draw := func(name string, below int) int { return rapid.IntRange(0, below-1).Draw(t, name) }
		list := func() {
			var all []pool.Endpoint
			for i := range 1 + draw("members", 5) {
				all = append(all, pool.Endpoint{Namespace: "ns", Name: fmt.Sprint("e", i), Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)}), 8000)})
			}
			p.Update(now, all)
		}
		list()
		member := func() pool.Ref {
			s := p.Snapshot()
			return s.Slots[rapid.SampledFrom(s.Members).Draw(t, "member")].Ref
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				p.Decide(func(s *pool.Snapshot, b *pool.Books) {
					m.see(s)
					v := &View{Now: now, Books: b, StaleAfter: p.StaleAfter(), Members: m.members, Stages: m.stages}
					for i := range spares {
						if i > 0 && draw("looks", 400) > 0 {
							continue
						}
						k := &spares[i]
						k.look(d, v, s)
						full := 0
						for _, id := range s.Members {
							if fill, _ := d.fill(v, id); d.HasRoom(v, id) != (fill < 1) {
								t.Fatalf("endpoint %d has room: %v, and is filled by %v", id, d.HasRoom(v, id), fill)
							}
							if d.HasRoom(v, id) != k.has(id) {
								t.Fatalf("endpoint %d has room: %v, kept is %v", id, d.HasRoom(v, id), k.has(id))
							}
							if !k.has(id) {
								full++
							}
						}
						if full != len(k.full) {
							t.Fatalf("%d are full, kept are %d", full, len(k.full))
						}
					}
				})
			},
			"time passes": func(t *rapid.T) { now += pool.Instant(draw("ms", 10)) * pool.Instant(time.Millisecond) },
			"much time":   func(t *rapid.T) { now += pool.Instant(draw("s", 40)) * second },
			"members":     func(*rapid.T) { list() },
			"book": func(t *rapid.T) {
				to, l := member(), pool.Load{UncachedPrefill: int64(draw("prompt", 100)), Decode: int64(draw("answer", 300))}
				p.Decide(func(_ *pool.Snapshot, b *pool.Books) {
					b.At(now)
					open = append(open, b.Book(to, l, now+pool.Instant(draw("deadline", 50))*pool.Instant(time.Millisecond)))
				})
			},
			"sample": func(t *rapid.T) {
				of := member()
				p.Observe(now, of, pool.Sample{At: now - pool.Instant(draw("late", 3)), Waiting: int32(draw("waiting", 4)) - 1, Blocks: 64, BlockTokens: 16,
					KVUsage: float64(draw("usage", 11)) / 10, ProcessStart: float64(1 + draw("process", 20)/19)})
			},
			"ceiling": func(t *rapid.T) {
				of := member()
				p.Decide(func(_ *pool.Snapshot, b *pool.Books) {
					b.Limit(of.ID, int32(draw("most", 3)), now+pool.Instant(draw("until", 30))*pool.Instant(time.Millisecond))
				})
			},
			"first byte": func(t *rapid.T) {
				if len(open) > 0 {
					p.FirstByte(now, rapid.SampledFrom(open).Draw(t, "booking"))
				}
			},
			"progress": func(t *rapid.T) {
				if len(open) > 0 {
					p.Progress(now, rapid.SampledFrom(open).Draw(t, "booking"), int64(draw("tokens", 500)))
				}
			},
			"move": func(t *rapid.T) {
				if len(open) > 0 {
					p.Move(now, rapid.SampledFrom(open).Draw(t, "booking"), member(), pool.Load{UncachedPrefill: int64(draw("prompt", 100))})
				}
			},
			"end": func(t *rapid.T) {
				if len(open) > 0 {
					p.End(now, rapid.SampledFrom(open).Draw(t, "booking"))
				}
			},
			"limit": func(t *rapid.T) {
				of := member()
				p.Decide(func(_ *pool.Snapshot, b *pool.Books) {
					b.Limit(of.ID, int32(draw("most", 4)), now+pool.Instant(draw("for", 20))*pool.Instant(time.Millisecond))
				})
			},
			"expire": func(*rapid.T) { p.Expire(now) },
		})
	})
}

// An endpoint that has no memory for more is full when enough wait inside: by first bytes, or by what runs there, where headers come at
// once.
func TestMemoryIsShortOnlyWithWorkAtHand(t *testing.T) {
	for _, r := range []struct {
		name             string
		usage            float64
		running, waiting int32 // as the engine counts
		own, answered    int   // requests that are open, and how many of these have a first byte
		room             bool
	}{
		{"nobody waits", 0.97, 9, 0, 9, 9, true},
		{"enough have no first byte", 0.97, 9, 0, 9, 5, false},
		{"one fewer", 0.97, 9, 0, 9, 6, true},
		{"headers came at once", 0.97, 9, 4, 13, 13, false},
		{"headers came at once, of some since the sample", 0.97, 9, 1, 13, 13, false},
		{"one fewer", 0.97, 9, 1, 12, 12, true},
		{"some ended since, and others began", 0.97, 9, 6, 12, 12, true},
		{"memory for more", 0.9, 9, 9, 18, 0, true},
		{"others' wait, too", 0.97, 9, 4, 0, 0, false},
		{"others' run", 0.97, 90, 0, 9, 9, true},
	} {
		t.Run(r.name, func(t *testing.T) {
			p := pool.New("p", nil)
			p.Update(second, []pool.Endpoint{{Namespace: "ns", Name: "e", Addr: netip.MustParseAddrPort("192.0.2.1:8000")}})
			to := p.Snapshot().Slots[0].Ref
			p.Observe(second, to, pool.Sample{At: second, Running: r.running, Waiting: r.waiting, KVUsage: r.usage, Blocks: 1000, BlockTokens: 16})
			for i := range r.own {
				var h pool.Booking
				p.Decide(func(_ *pool.Snapshot, b *pool.Books) {
					b.At(second)
					h = b.Book(to, pool.Load{UncachedPrefill: 1}, 3600*second)
				})
				if i < r.answered {
					p.FirstByte(second, h)
				}
			}
			d := &LoadDetector{MaxKVUsage: 0.95, AtHand: 4}
			p.Decide(func(s *pool.Snapshot, b *pool.Books) {
				v := &View{Now: second, Books: b, StaleAfter: p.StaleAfter(), Members: s.Members, Stages: []Stage{StageDecode}}
				if got := d.HasRoom(v, 0); got != r.room {
					t.Errorf("has room: %v, want %v", got, r.room)
				}
				if full := d.Saturation(v).Value >= 1; full == r.room {
					t.Errorf("full: %v, want %v", full, !r.room)
				}
			})
		})
	}
}
