package kvindex

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/fairlead/fairlead/pkg/pool"
)

// membership is a snapshot of endpoints with these incarnations; 0 is a vacant slot.
func membership(version uint64, incarnations ...uint32) *pool.Snapshot {
	s := &pool.Snapshot{Version: version}
	for i, n := range incarnations {
		ref := pool.Ref{ID: pool.ID(i), Incarnation: n}
		s.Slots = append(s.Slots, pool.Endpoint{Ref: ref})
		if n != 0 {
			s.Members = append(s.Members, ref.ID)
		}
	}
	return s
}

func uniform(n int) *pool.Snapshot {
	return membership(1, slices.Repeat([]uint32{1}, n)...)
}

// claimed writes a chain on behalf of a request that runs.
func claimed(x *Approximate, to pool.Ref, chain []uint64, cacheTokens int64) Claim {
	c := x.Claim(to, chain, 64, cacheTokens, 0, 0, 0)
	x.Write(c)
	return c
}

// What the index holds is what a slow one holds that writes each claim when it is made, and forgets at once what is released.
func TestApproximateAgainstAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const slots, capacity = 5, 40
		x := &Approximate{}
		incarnations := make([]uint32, slots)
		model := make([]*slow, slots)
		renew := func(i int) { incarnations[i]++; model[i] = &slow{entry: map[uint64]uint32{}} }
		for i := range slots {
			renew(i)
		}
		version := uint64(1)
		t.Repeat(map[string]func(*rapid.T){
			"credit": func(t *rapid.T) {
				i := rapid.IntRange(0, slots-1).Draw(t, "endpoint")
				ref := pool.Ref{ID: pool.ID(i), Incarnation: incarnations[i]}
				chain := path(t, 60)
				model[i].put(chain, capacity)
				switch rapid.IntRange(0, 2).Draw(t, "how") {
				case 0:
					x.Credit(ref, chain, 64, capacity*64)
				case 1:
					x.Release(claimed(x, ref, chain, capacity*64))
				case 2:
					c := x.Claim(ref, chain, 64, capacity*64, 0, 0, 0)
					x.Confirm(c)
					x.Release(c)
				}
			},
			"renew": func(t *rapid.T) {
				renew(rapid.IntRange(0, slots-1).Draw(t, "endpoint"))
				version++
			},
			"": func(t *rapid.T) {
				s := membership(version, incarnations...)
				chain, got := path(t, 60), make([]int32, slots)
				x.Match(s, s.Members, chain, got)
				for i := range slots {
					if want := model[i].depth(chain); int(got[i]) != want {
						t.Fatalf("endpoint %d: got %d blocks, want %d", i, got[i], want)
					}
					if held := x.Blocks(s.Slots[i].Ref); held != len(model[i].order) {
						t.Fatalf("endpoint %d holds %d blocks, want %d", i, held, len(model[i].order))
					}
				}
			},
		})
	})
}

func TestAStaleCreditIsRefused(t *testing.T) {
	x := &Approximate{}
	x.Credit(pool.Ref{ID: 0, Incarnation: 2}, chain(1, 10), 64, 6400)
	old := claimed(x, pool.Ref{ID: 0, Incarnation: 1}, chain(2, 10), 6400)
	x.TakeBack(old)
	x.Confirm(old)
	x.Release(old)
	if n := x.Blocks(pool.Ref{ID: 0, Incarnation: 2}); n != 10 {
		t.Errorf("the newer incarnation holds %d blocks, want 10", n)
	}
}

func TestWhoLeavesIsForgotten(t *testing.T) {
	x := &Approximate{}
	x.Credit(pool.Ref{ID: 1, Incarnation: 1}, chain(1, 1000), 64, 64000)
	if n := x.Held(); n != 1000 {
		t.Errorf("%d blocks are held, want 1000", n)
	}
	s := membership(2, 1, 0)
	x.Match(s, s.Members, nil, make([]int32, 2))
	if x.holders[1].held.nodes != nil || x.Held() != 0 {
		t.Error("the table of an endpoint that left is kept")
	}
}

// Writes, matches, retirements and take-backs from many goroutines; the race detector and the bound are the judges.
func TestConcurrentUse(t *testing.T) {
	const slots, capacity, workers, rounds = 8, 100, 16, 300
	x := &Approximate{}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(w)))
			out := make([]int32, slots)
			for i := range rounds {
				incarnation := uint32(i/50 + 1)
				s := membership(uint64(incarnation), slices.Repeat([]uint32{incarnation}, slots)...)
				ref := s.Slots[rng.IntN(slots)].Ref
				c := chain(rng.Uint64N(20), 1+rng.IntN(150))
				claim := x.Claim(ref, c, 64, capacity*64, 0, 0, pool.Instant(i+5))
				x.Match(s, s.Members, c, out)
				x.Write(claim)
				x.Match(s, s.Members, c, out)
				switch rng.IntN(4) {
				case 0:
					x.TakeBack(claim)
				case 1:
					x.Follow(claim, s.Slots[rng.IntN(slots)].Ref)
				case 2:
					x.Confirm(claim)
				}
				x.Lapse(pool.Instant(i))
				x.Release(claim)
				if n := x.Blocks(ref); n > capacity {
					t.Errorf("an endpoint holds %d blocks; at most %d", n, capacity)
				}
			}
		})
	}
	wg.Wait()
	if n := x.Claims(); n != 0 || len(x.promised) != 0 || len(x.due) != 0 {
		t.Errorf("%d claims are left, %d promised, %d that await an answer", n, len(x.promised), len(x.due))
	}
}

func TestMatchAllocatesNothing(t *testing.T) {
	x, s, c, out := &Approximate{}, uniform(100), chain(1, 1000), make([]int32, 100)
	for _, id := range s.Members {
		x.Credit(s.Slots[id].Ref, c[:10*int(id)], 64, 64*31250)
	}
	if n := testing.AllocsPerRun(20, func() {
		x.Match(s, s.Members, c, out)
		claim := x.Claim(s.Slots[7].Ref, c, 64, 64*1000, 0, 0, 9)
		x.Match(s, s.Members, c, out)
		x.Write(claim)
		x.TakeBack(claim)
		x.Release(claim)
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func BenchmarkMatch(b *testing.B) {
	const blocks, endpoints = 1000, 100
	filled := func(depth func(id int) int) (*Approximate, *pool.Snapshot, []uint64) {
		x, s, c := &Approximate{}, uniform(endpoints), chain(1, blocks)
		for _, id := range s.Members {
			for i := range 8 { // other prompts, so that the tables do not fit a cache
				x.Credit(s.Slots[id].Ref, chain(uint64(int(id)*100+i+2), 2000), 64, 64*31250)
			}
			x.Credit(s.Slots[id].Ref, c[:depth(int(id))], 64, 64*31250)
		}
		return x, s, c
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, r := range []struct {
		name  string
		depth func(int) int
	}{
		{"nobody", func(int) int { return 0 }},
		{"one endpoint", func(id int) int {
			if id == 50 {
				return blocks
			}
			return 0
		}},
		{"100 blocks of all, all of one", func(id int) int {
			if id == 50 {
				return blocks
			}
			return 100
		}},
		{"all of all", func(int) int { return blocks }},
		{"each to another depth", func(int) int { return rng.IntN(blocks + 1) }},
	} {
		b.Run(fmt.Sprintf("%d blocks, %d endpoints: %s", blocks, endpoints, r.name), func(b *testing.B) {
			x, s, c := filled(r.depth)
			out := make([]int32, endpoints)
			b.ReportAllocs()
			for b.Loop() {
				x.Match(s, s.Members, c, out)
			}
		})
	}
}

func BenchmarkCredit(b *testing.B) {
	for _, r := range []struct {
		name  string
		fresh bool
	}{{"new blocks into a full table", true}, {"the same prompt again", false}} {
		b.Run(r.name, func(b *testing.B) {
			const capacity, blocks = 31250, 1000
			x, ref := &Approximate{}, pool.Ref{Incarnation: 1}
			chains := make([][]uint64, 100)
			for i := range chains {
				chains[i] = chain(uint64(i+1), blocks)
				x.Credit(ref, chains[i], 64, 64*capacity)
			}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				at := 0
				if r.fresh {
					at = n % len(chains)
				}
				x.Credit(ref, chains[at], 64, 64*capacity)
				n++
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n*blocks), "ns/block")
		})
	}
}

// Decisions from many goroutines over one index: a match against 100 endpoints and a write of one prompt each.
func BenchmarkContended(b *testing.B) {
	for _, goroutines := range []int{1, 16} {
		b.Run(fmt.Sprintf("%d goroutines", goroutines), func(b *testing.B) {
			x, s := &Approximate{}, uniform(100)
			b.SetParallelism(max(goroutines/2, 1))
			b.RunParallel(func(pb *testing.PB) {
				rng := rand.New(rand.NewPCG(1, rand.Uint64()))
				out := make([]int32, 100)
				for pb.Next() {
					c := chain(rng.Uint64N(1000), 32) // 8k characters
					x.Match(s, s.Members, c, out)
					x.Credit(s.Slots[rng.IntN(100)].Ref, c, 64, 64*31250)
				}
			})
		})
	}
}
