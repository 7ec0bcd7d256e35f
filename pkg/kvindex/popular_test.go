package kvindex

import (
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// least is a steady rate less two standard deviations of what is counted of it.
func least(rate float64) float64 {
	w := rate * half / math.Ln2
	return max(w-2*math.Sqrt(w), 0) * math.Ln2 / half
}

func TestARateIsFoundAmongMany(t *testing.T) {
	p, random := new(popular), rand.New(rand.NewPCG(1, 2))
	next, worst := 0.0, 0.0
	for now := 0.0; now < 120; now += 0.01 {
		p.touch(random.Uint64(), now) // 100 a second that nobody asks for again
		for ; next <= now; next += 0.1 {
			p.touch(7, now)
		}
		if now > 30 {
			worst = max(worst, math.Abs(p.rate(p.find(7), now)-least(10)))
		}
	}
	if worst > 1 {
		t.Errorf("a rate of 10/s was seen %.2f off", worst)
	}
	if n := p.find(8); n >= 0 {
		t.Errorf("a prefix that nobody asked for stands at %d", n)
	}
}

func TestARateFollows(t *testing.T) {
	p := new(popular)
	for now := 0.0; now < 60; now += 0.1 {
		p.touch(7, now)
	}
	for _, r := range []struct {
		name string
		at   float64
		want float64
	}{{"at the end", 60, 10}, {"a half-life later", 70, 5}, {"and two more", 90, 1.25}, {"after a day", 86400, 0}} {
		if got := p.rate(p.find(7), r.at); math.Abs(got-least(r.want)) > 0.05*r.want+0.01 {
			t.Errorf("%s: %.3f/s, want %.3f", r.name, got, least(r.want))
		}
	}
	// A new one is seen within seconds, long before its count is what it will be.
	for now := 100.0; now < 103; now += 0.05 {
		p.touch(9, now)
	}
	if got := p.rate(p.find(9), 103); got < 8 || got > 20 {
		t.Errorf("20/s, begun three seconds ago, is seen as %.1f", got)
	}
}

// A burst of siblings is no rate.
func TestABurstIsNoRate(t *testing.T) {
	p := new(popular)
	for range 6 {
		p.touch(7, 100)
	}
	for now := 100.0; now < 101.9; now += 0.1 {
		p.touch(7, now)
		if got := p.rate(p.find(7), now); got != 0 {
			t.Errorf("%.1f s after six at once they are seen as %.2f/s", now-100, got)
		}
	}
}

// Over years of virtual time counts stay finite.
func TestCountsStayFinite(t *testing.T) {
	p := new(popular)
	for now := 0.0; now < 1e6; now += 100 {
		p.touch(uint64(now)%7, now)
		p.touch(uint64(now)%7, now)
		if r := p.rate(p.find(uint64(now)%7), now); math.IsInf(r, 0) || math.IsNaN(r) || r < 0 {
			t.Fatalf("at %v the rate is %v", now, r)
		}
	}
}

// Whoever was displaced is found no more, and everybody who stands in the table is found where it stands.
func TestTheTableAndItsChainsAgree(t *testing.T) {
	p, random := new(popular), rand.New(rand.NewPCG(3, 4))
	for i := range 20_000 {
		p.touch(random.Uint64N(3000), float64(i)/100)
	}
	seen := map[uint64]bool{}
	for i := range p.used {
		if hash := p.of[i].hash; p.find(hash) != i || seen[hash] {
			t.Fatalf("%d stands at %d and is found at %d", hash, i, p.find(hash))
		}
		seen[p.of[i].hash] = true
	}
	for hash := range uint64(3000) {
		if (p.find(hash) >= 0) != seen[hash] {
			t.Fatalf("%d is found at %d", hash, p.find(hash))
		}
	}
	if p.used != counted {
		t.Errorf("%d stand in the table, want %d", p.used, counted)
	}
}

func TestCountingIsBoundedAndAllocatesNothing(t *testing.T) {
	if n := unsafe.Sizeof(popular{}); n > 64<<10 {
		t.Errorf("a pool's counts take %d bytes, at most 64 kB", n)
	}
	p, i := new(popular), uint64(0)
	if n := testing.AllocsPerRun(1000, func() {
		i++
		p.touch(i, float64(i))
		p.cost(p.touch(i, float64(i)), 1)
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func BenchmarkTouch(b *testing.B) {
	p, i := new(popular), uint64(0)
	b.ReportAllocs()
	for b.Loop() { // the worst: each comes twice, and displaces the least
		i++
		p.touch(i/2, float64(i)/1000)
	}
}
