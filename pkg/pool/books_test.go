package pool

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/reason"
)

// of returns a pool with n endpoints, and their refs.
func of(n int, o Options) (*Pool, []Ref) {
	p := o.New("a", nil)
	members := make([]Endpoint, n)
	for i := range members {
		members[i] = Endpoint{Namespace: "n", Name: fmt.Sprint("e", i), Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 8000)}
	}
	p.Update(0, members)
	refs := make([]Ref, n)
	s := p.Snapshot()
	for i := range refs {
		refs[i] = s.Slots[i].Ref
	}
	return p, refs
}

// book books one leg at an instant.
func book(p *Pool, now Instant, to Ref, l Load, deadline Instant) (h Booking) {
	p.Decide(func(_ *Snapshot, b *Books) {
		b.At(now)
		h = b.Book(to, l, deadline)
	})
	return h
}

// row is what the books say of endpoint 0.
func row(p *Pool) (r struct {
	Requests, NoFirstByte, AfterSample int32
	Prefill, Decode                    int64
	Ends                               Instant
}) {
	p.Decide(func(_ *Snapshot, b *Books) {
		r.Requests, r.NoFirstByte, r.AfterSample = b.Requests[0], b.NoFirstByte[0], b.AfterSample[0]
		r.Prefill, r.Decode, r.Ends = b.PrefillTokens[0], b.DecodeTokens[0], b.BacklogEnds[0]
	})
	return r
}

func TestBacklogEnds(t *testing.T) {
	// One token costs one unit. Each row is a story over one endpoint; want is BacklogEnds after it.
	tests := []struct {
		name  string
		story func(p *Pool, e Ref)
		want  Instant
	}{
		{"nothing booked", func(p *Pool, e Ref) {}, 0},
		{"one booking ends after its tokens", func(p *Pool, e Ref) { book(p, 100, e, Load{UncachedPrefill: 50, Decode: 0}, 1000) }, 150},
		{"the next one waits for it", func(p *Pool, e Ref) {
			book(p, 100, e, Load{UncachedPrefill: 50, Decode: 0}, 1000)
			book(p, 110, e, Load{UncachedPrefill: 30, Decode: 0}, 1000)
		}, 180},
		{"after a pause it begins anew", func(p *Pool, e Ref) {
			book(p, 100, e, Load{UncachedPrefill: 50, Decode: 0}, 1000)
			book(p, 200, e, Load{UncachedPrefill: 30, Decode: 0}, 1000)
		}, 230},
		{"an engine that is faster than thought: the rest from now", func(p *Pool, e Ref) {
			h := book(p, 100, e, Load{UncachedPrefill: 50, Decode: 0}, 1000)
			book(p, 100, e, Load{UncachedPrefill: 30, Decode: 0}, 1000) // 180
			p.FirstByte(110, h)
		}, 140},
		{"an engine as fast as thought: the rest as it stood, since part of it may be done", func(p *Pool, e Ref) {
			h := book(p, 100, e, Load{UncachedPrefill: 50, Decode: 0}, 1000)
			book(p, 100, e, Load{UncachedPrefill: 30, Decode: 0}, 1000) // 180
			p.FirstByte(155, h)
		}, 180},
		{"an engine that is slower than thought: the rest from now", func(p *Pool, e Ref) {
			h := book(p, 100, e, Load{UncachedPrefill: 50, Decode: 0}, 1000)
			book(p, 100, e, Load{UncachedPrefill: 30, Decode: 0}, 1000) // 180
			p.FirstByte(300, h)
		}, 330},
		{"with nothing left it ends now", func(p *Pool, e Ref) { p.End(120, book(p, 100, e, Load{UncachedPrefill: 50, Decode: 0}, 1000)) }, 120},
		{"late, with nothing left, it ends now", func(p *Pool, e Ref) { p.End(900, book(p, 100, e, Load{UncachedPrefill: 50, Decode: 0}, 1000)) }, 900},
		{"what was moved away is gone", func(p *Pool, e Ref) {
			h := book(p, 100, e, Load{UncachedPrefill: 50, Decode: 0}, 1000)
			p.Move(120, h, p.Snapshot().Slots[1].Ref, Load{UncachedPrefill: 50, Decode: 0})
		}, 120},
		{"a cost of its own, from the next booking on", func(p *Pool, e Ref) {
			p.SetPrefillPerToken(e, 3)
			book(p, 100, e, Load{UncachedPrefill: 50, Decode: 0}, 1000)
		}, 250},
		{"the default cost again", func(p *Pool, e Ref) {
			p.SetPrefillPerToken(e, 3)
			p.SetPrefillPerToken(e, 0)
			book(p, 100, e, Load{UncachedPrefill: 50, Decode: 0}, 1000)
		}, 150},
		{"more tokens than time", func(p *Pool, e Ref) {
			p.SetPrefillPerToken(e, time.Duration(1)<<40)
			book(p, 100, e, Load{UncachedPrefill: MaxTokens * 2, Decode: 0}, 1000)
		}, 1<<63 - 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, refs := of(2, Options{PrefillPerToken: 1})
			tt.story(p, refs[0])
			if got := row(p).Ends; got != tt.want {
				t.Errorf("ends at %d, want %d", got, tt.want)
			}
		})
	}
}

func TestAfterSample(t *testing.T) {
	asked := func(at Instant) Sample {
		s := NoSample()
		s.At = at
		return s
	}
	tests := []struct {
		name  string
		story func(p *Pool, e Ref)
		want  int32
	}{
		{"without a sample all count", func(p *Pool, e Ref) {
			book(p, 10, e, Load{}, 1000)
			book(p, 20, e, Load{}, 1000)
		}, 2},
		{"booked before the sample was asked for, it does not", func(p *Pool, e Ref) {
			book(p, 10, e, Load{}, 1000)
			p.Observe(30, e, asked(20))
		}, 0},
		{"booked while the page was on its way, it does", func(p *Pool, e Ref) {
			book(p, 25, e, Load{}, 1000)
			p.Observe(30, e, asked(20))
		}, 1},
		{"booked at the same instant, it does", func(p *Pool, e Ref) {
			book(p, 20, e, Load{}, 1000)
			p.Observe(30, e, asked(20))
		}, 1},
		{"the next sample takes it", func(p *Pool, e Ref) {
			book(p, 25, e, Load{}, 1000)
			p.Observe(30, e, asked(20))
			p.Observe(50, e, asked(40))
		}, 0},
		{"an old page that comes late changes nothing", func(p *Pool, e Ref) {
			book(p, 10, e, Load{}, 1000)
			p.Observe(30, e, asked(20))
			book(p, 31, e, Load{}, 1000)
			p.Observe(40, e, asked(5))
		}, 1},
		{"the first byte takes it", func(p *Pool, e Ref) { p.FirstByte(20, book(p, 10, e, Load{}, 1000)) }, 0},
		{"the first byte takes it once", func(p *Pool, e Ref) {
			h := book(p, 10, e, Load{}, 1000)
			book(p, 10, e, Load{}, 1000)
			p.FirstByte(20, h)
			p.FirstByte(21, h)
			p.End(22, h)
		}, 1},
		{"moved here after the sample, it counts although it was booked before", func(p *Pool, e Ref) {
			h := book(p, 10, p.Snapshot().Slots[1].Ref, Load{}, 1000)
			p.Observe(30, e, asked(20))
			p.Move(40, h, e, Load{})
		}, 1},
		{"moved here after its first byte, it does not", func(p *Pool, e Ref) {
			h := book(p, 10, p.Snapshot().Slots[1].Ref, Load{}, 1000)
			p.FirstByte(20, h)
			p.Move(40, h, e, Load{})
		}, 0},
		{"a decision that does not say when is as of the last thing heard", func(p *Pool, e Ref) {
			p.Observe(50, e, asked(20))
			p.Decide(func(_ *Snapshot, b *Books) { b.Book(e, Load{}, 1000) })
			p.Observe(60, e, asked(45))
		}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, refs := of(2, Options{})
			tt.story(p, refs[0])
			if got := row(p).AfterSample; got != tt.want {
				t.Errorf("%d, want %d", got, tt.want)
			}
		})
	}
}

func TestBookingsAndRestarts(t *testing.T) {
	p, refs := of(1, Options{})
	e := refs[0]
	say := func(at Instant, process float64) {
		s := NoSample()
		s.At, s.ProcessStart = at, process
		p.Observe(at, p.Snapshot().Slots[0].Ref, s)
	}
	say(10, 1)
	old := book(p, 15, e, Load{UncachedPrefill: 100, Decode: 100}, 1000)
	say(20, 1)
	same := book(p, 20, e, Load{UncachedPrefill: 10, Decode: 10}, 1000)
	since := book(p, 25, e, Load{UncachedPrefill: 1, Decode: 1}, 1000)
	say(30, 0) // a page without it
	if p.Snapshot().Slots[0].Ref != e {
		t.Fatal("a page that does not say when its process started counts as a restart")
	}
	say(31, 1)
	version := p.Snapshot().Version
	late := book(p, 35, e, Load{UncachedPrefill: 1000, Decode: 1000}, 1000)
	say(40, 2)
	now := p.Snapshot().Slots[0].Ref
	if now.ID != e.ID || now.Incarnation != e.Incarnation+1 || p.Snapshot().Version != version+1 {
		t.Fatalf("after the restart %v of snapshot %d; it was %v of %d", now, p.Snapshot().Version, e, version)
	}
	// Those that the sample of 31 saw are gone with the process. The one of 35 may have reached the new one.
	for _, h := range []Booking{old, same, since} {
		if p.FirstByte(50, h) || p.End(50, h) {
			t.Errorf("%v survived", h)
		}
	}
	if r := row(p); r.Requests != 1 || r.Prefill != 1000 {
		t.Errorf("books %+v", r)
	}
	if id, ok := p.Snapshot().Lookup(p.Snapshot().Slots[0].Addr); !ok || id != 0 {
		t.Errorf("lookup: %v %v", id, ok)
	}
	if h := book(p, 60, e, Load{}, 1000); h != (Booking{}) {
		t.Errorf("the old incarnation could be booked: %v", h)
	}
	p.Observe(70, e, Sample{At: 70})
	if s := sampleOf(p, 0); s.At != 40 {
		t.Errorf("a page of the old incarnation counted: %+v", s)
	}
	if !p.End(80, late) || row(p).Requests != 0 {
		t.Errorf("books %+v", row(p))
	}

	// At the same instant as the sample is not before it.
	say(100, 2)
	kept := book(p, 100, p.Snapshot().Slots[0].Ref, Load{}, 1000)
	say(110, 3)
	if !p.End(120, kept) {
		t.Error("a booking at the instant of the last sample was dropped")
	}
}

func TestRestartsAreNoticed(t *testing.T) {
	type says struct{ process, tokens float64 }
	tests := []struct {
		name  string
		pages []says
		want  uint32 // restarts
	}{
		{"the same process", []says{{5, 10}, {5, 20}, {5, 20}}, 0},
		{"another process", []says{{5, 10}, {6, 20}}, 1},
		{"an earlier start is another process, too", []says{{5, 10}, {4, 20}}, 1},
		{"the start counts where it is known", []says{{5, 10}, {5, 3}}, 0},
		{"without a start, fewer tokens", []says{{-1, 10}, {-1, 3}}, 1},
		{"without a start, as many tokens", []says{{-1, 10}, {-1, 10}}, 0},
		{"a page without either", []says{{5, 10}, {-1, -1}, {5, 20}}, 0},
		{"a page without either, and then another process", []says{{5, 10}, {-1, -1}, {6, 0}}, 1},
		{"a page without tokens, and then fewer", []says{{-1, 10}, {-1, -1}, {-1, 3}}, 1},
		{"nothing is ever said", []says{{-1, -1}, {-1, -1}}, 0},
		{"twice", []says{{5, 10}, {6, 0}, {6, 5}, {7, 0}}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, refs := of(1, Options{})
			for i, page := range tt.pages {
				s := NoSample()
				s.At, s.ProcessStart, s.PromptTokens = Instant(i+1), page.process, page.tokens
				p.Observe(s.At, p.Snapshot().Slots[0].Ref, s)
			}
			if got := p.Snapshot().Slots[0].Incarnation - refs[0].Incarnation; got != tt.want {
				t.Errorf("%d restarts, want %d", got, tt.want)
			}
		})
	}
}

func sampleOf(p *Pool, id ID) (s Sample) {
	p.Decide(func(_ *Snapshot, b *Books) { s = b.Samples[id] })
	return s
}

func TestDeadlinesComeInOrder(t *testing.T) {
	p, refs := of(3, Options{})
	random := rand.New(rand.NewPCG(1, 2))
	type booked struct {
		h        Booking
		deadline Instant
	}
	var open []booked
	for range 2000 {
		d := Instant(1 + random.IntN(500))
		open = append(open, booked{book(p, 0, refs[random.IntN(3)], Load{UncachedPrefill: 1, Decode: 1}, d), d})
	}
	random.Shuffle(len(open), func(i, j int) { open[i], open[j] = open[j], open[i] })
	for _, b := range open[:1000] { // out of the middle of the heap
		p.End(0, b.h)
	}
	open = open[1000:]
	slices.SortFunc(open, func(a, b booked) int { return int(a.deadline - b.deadline) })
	for now := Instant(0); now <= 500; now++ {
		due := 0
		for due < len(open) && open[due].deadline <= now {
			due++
		}
		open = open[due:]
		var first Instant
		if len(open) > 0 {
			first = open[0].deadline
		}
		if ended, next := p.Expire(now); ended != due || next != first {
			t.Fatalf("at %d: %d ended, next %d; want %d, next %d", now, ended, next, due, first)
		}
	}
}

type noted []string

func (n *noted) Note(id reason.ID, detail string) { *n = append(*n, id.String()+" "+detail) }

func TestExpireNotesEach(t *testing.T) {
	var sink noted
	p := New("a", &sink)
	p.Update(0, []Endpoint{{Namespace: "n", Name: "x", Addr: address(1)}})
	book(p, 1, p.Snapshot().Slots[0].Ref, Load{}, 10)
	book(p, 1, p.Snapshot().Slots[0].Ref, Load{}, 11)
	p.Expire(10)
	if len(sink) != 1 || sink[0] != "booking_expired n/x" {
		t.Errorf("noted %q", sink)
	}
}

func TestLoadsAreBounded(t *testing.T) {
	p, refs := of(1, Options{})
	a := book(p, 1, refs[0], Load{UncachedPrefill: -5, Decode: 1 << 62}, 1000)
	b := book(p, 1, refs[0], Load{UncachedPrefill: 1 << 62, Decode: -5}, 1000)
	if r := row(p); r.Prefill != MaxTokens || r.Decode != MaxTokens {
		t.Errorf("books %+v", r)
	}
	p.Progress(2, a, -1)
	p.Progress(2, b, 1<<62)
	if r := row(p); r.Decode != MaxTokens {
		t.Errorf("books %+v", r)
	}
}

func TestAPanicWithinDecideReleasesTheLock(t *testing.T) {
	p, refs := of(1, Options{})
	func() {
		defer func() { recover() }()
		p.Decide(func(_ *Snapshot, b *Books) {
			b.Book(refs[0], Load{}, 10)
			panic("plugin")
		})
	}()
	if ended, _ := p.Expire(10); ended != 1 || row(p).Requests != 0 {
		t.Errorf("%d ended, books %+v", ended, row(p))
	}
}

func TestBookingAllocatesNothing(t *testing.T) {
	p, refs := of(8, Options{})
	var warm []Booking
	for range 1000 {
		warm = append(warm, book(p, 1, refs[0], Load{}, 100))
	}
	for _, h := range warm {
		p.End(2, h)
	}
	now := Instant(3)
	var h Booking
	decide := func(_ *Snapshot, b *Books) {
		b.At(now)
		h = b.Book(refs[3], Load{UncachedPrefill: 100, Decode: 100}, now+1000)
	}
	s := NoSample()
	if n := testing.AllocsPerRun(1000, func() {
		now++
		p.Decide(decide)
		p.FirstByte(now, h)
		p.Progress(now, h, 7)
		p.Move(now, h, refs[4], Load{UncachedPrefill: 1, Decode: 1})
		s.At = now
		p.Observe(now, refs[3], s)
		p.End(now, h)
		p.Expire(now)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A storm of everything at once: run it with -race. In the end all is zero.
func TestBooksReturnToZeroAfterAStorm(t *testing.T) {
	p, _ := of(20, Options{})
	members := func(n int) (m []Endpoint) {
		for i := range n {
			m = append(m, Endpoint{Namespace: "n", Name: fmt.Sprint("e", i), Addr: address(i)})
		}
		return m
	}
	var storm sync.WaitGroup
	for g := range 8 {
		storm.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 1))
			for i := range 3000 {
				now := Instant(1 + i)
				var h Booking
				p.Decide(func(s *Snapshot, b *Books) {
					if len(s.Members) != len(s.byAddr) || len(b.Requests) != len(s.Slots) {
						t.Error("snapshot and books do not belong together")
					}
					b.At(now)
					if len(s.Members) > 0 {
						h = b.Book(s.Slots[s.Members[random.IntN(len(s.Members))]].Ref, Load{UncachedPrefill: 10, Decode: 10}, now+Instant(random.IntN(2000)))
					}
				})
				switch random.IntN(5) {
				case 0:
					p.FirstByte(now, h)
				case 1:
					if s := p.Snapshot(); len(s.Members) > 0 {
						p.Move(now, h, s.Slots[s.Members[0]].Ref, Load{UncachedPrefill: 5, Decode: 5})
					}
				case 2:
					p.Expire(now)
				case 3:
					if s := p.Snapshot(); len(s.Members) > 0 {
						p.Observe(now, s.Slots[s.Members[0]].Ref, Sample{At: now, ProcessStart: float64(1 + i/1000)})
					}
				}
				if random.IntN(10) > 0 {
					p.End(now, h)
				}
				if i%100 == 0 && g == 0 {
					p.Update(now, members(random.IntN(30)))
				}
			}
		})
	}
	storm.Wait()
	p.Expire(1 << 40)
	p.Decide(func(s *Snapshot, b *Books) {
		for i := range s.Slots {
			if b.Requests[i] != 0 || b.NoFirstByte[i] != 0 || b.AfterSample[i] != 0 || b.PrefillTokens[i] != 0 || b.DecodeTokens[i] != 0 {
				t.Errorf("slot %d: %d %d %d %d %d", i, b.Requests[i], b.NoFirstByte[i], b.AfterSample[i], b.PrefillTokens[i], b.DecodeTokens[i])
			}
		}
	})
	if p.Open() != 0 {
		t.Errorf("%d are open", p.Open())
	}
}

// BenchmarkDecide is the critical section with 16 goroutines: look at every endpoint's books, book the least loaded, then
// first byte and end.
func BenchmarkDecide(b *testing.B) {
	for _, n := range []int{8, 100} {
		b.Run(fmt.Sprintf("endpoints=%d", n), func(b *testing.B) {
			p, _ := of(n, Options{})
			b.ReportAllocs()
			b.SetParallelism(8) // times GOMAXPROCS: 16 on two cores
			b.RunParallel(func(pb *testing.PB) {
				var h Booking
				now := Instant(1)
				choose := func(s *Snapshot, k *Books) {
					best := s.Members[0]
					for _, id := range s.Members {
						if k.Requests[id] < k.Requests[best] {
							best = id
						}
					}
					k.At(now)
					h = k.Book(s.Slots[best].Ref, Load{UncachedPrefill: 100, Decode: 100}, now+1e9)
				}
				for pb.Next() {
					now++
					p.Decide(choose)
					p.FirstByte(now, h)
					p.End(now, h)
				}
			})
		})
	}
}
