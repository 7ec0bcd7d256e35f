package kvindex

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// slow is the obvious model of lru: the blocks in order of use, the most recent first.
type slow struct {
	order []uint64
	entry map[uint64]uint32
	last  uint32
}

func (s *slow) put(hashes []uint64, capacity int) (uint32, int) {
	hashes = hashes[:min(len(hashes), capacity)]
	s.order = s.order[:min(len(s.order), capacity)]
	s.last++
	from := len(hashes)
	for i, h := range hashes {
		if !slices.Contains(s.order, h) {
			from = i
			break
		}
	}
	rest := slices.DeleteFunc(slices.Clone(s.order), func(h uint64) bool { return slices.Contains(hashes, h) })
	s.order = append(slices.Clone(hashes), rest...)
	s.order = s.order[:min(len(s.order), capacity)]
	for _, h := range hashes {
		s.entry[h] = s.last
	}
	return s.last, from
}

func (s *slow) take(hashes []uint64, from int, entry uint32) {
	for _, h := range hashes[from:] {
		if s.entry[h] == entry {
			s.order = slices.DeleteFunc(s.order, func(o uint64) bool { return o == h })
		}
	}
}

func (s *slow) depth(hashes []uint64) int {
	n := 0
	for n < len(hashes) && slices.Contains(s.order, hashes[n]) {
		n++
	}
	return n
}

// order returns the blocks of l, the most recent first, walking the ring both ways.
func order(t *rapid.T, l *lru) []uint64 {
	var out, back []uint64
	if l.nodes == nil {
		return nil
	}
	for i := l.nodes[0].next; i != 0; i = l.nodes[i].next {
		out = append(out, l.nodes[i].hash)
	}
	for i := l.nodes[0].prev; i != 0; i = l.nodes[i].prev {
		back = append(back, l.nodes[i].hash)
	}
	slices.Reverse(back)
	if !slices.Equal(out, back) {
		t.Fatalf("forward %x, backward %x", out, back)
	}
	return out
}

// path draws a chain in a tree of hashes: a hash stands for all that comes before it.
func path(t *rapid.T, most int) []uint64 {
	var out []uint64
	h := uint64(rapid.IntRange(1, 3).Draw(t, "root"))
	for range rapid.IntRange(0, most).Draw(t, "length") {
		out = append(out, h)
		branch := uint64(0)
		if len(out)%8 == 0 {
			branch = rapid.Uint64Range(0, 1).Draw(t, "branch")
		}
		h = h*31 + 7 + branch
	}
	return out
}

func TestLRUAgainstTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, m := &lru{}, &slow{entry: map[uint64]uint32{}}
		capacity := rapid.IntRange(1, 90).Draw(t, "capacity")
		type written struct {
			hashes []uint64
			entry  uint32
			from   int
		}
		var writes []written
		var seen [][]uint64
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				hashes := path(t, 100)
				entry, from := l.put(hashes, capacity)
				wantEntry, wantFrom := m.put(hashes, capacity)
				if entry != wantEntry || from != wantFrom {
					t.Fatalf("put: got entry %d from %d, want %d from %d", entry, from, wantEntry, wantFrom)
				}
				writes, seen = append(writes, written{hashes, entry, from}), append(seen, hashes)
			},
			"take": func(t *rapid.T) {
				if len(writes) == 0 {
					t.Skip("nothing was written")
				}
				w := rapid.SampledFrom(writes).Draw(t, "write")
				l.take(w.hashes, w.from, w.entry)
				m.take(w.hashes, w.from, w.entry)
			},
			"resize": func(t *rapid.T) { capacity = rapid.IntRange(1, 90).Draw(t, "capacity") },
			"": func(t *rapid.T) {
				if got := order(t, l); !slices.Equal(got, m.order) || l.size != len(m.order) {
					t.Fatalf("holds %d %x\nwant  %d %x", l.size, got, len(m.order), m.order)
				}
				for _, hashes := range seen {
					guess := rapid.IntRange(0, 100).Draw(t, "guess")
					if got, want := l.depth(hashes, guess), m.depth(hashes); got != want {
						t.Fatalf("depth of %x: got %d, want %d", hashes, got, want)
					}
					for i := m.depth(hashes); i < len(hashes); i++ {
						if l.find(hashes[i]) != 0 {
							t.Fatalf("block %d of a chain is held though block %d is not", i, m.depth(hashes))
						}
					}
				}
			},
		})
	})
}

func chain(root uint64, n int) []uint64 {
	out := make([]uint64, n)
	for i := range out {
		root = root*0x9e3779b97f4a7c15 + 1
		out[i] = root
	}
	return out
}

func TestLRUKeepsRootsLongest(t *testing.T) {
	var l lru
	old := chain(1, 1000)
	l.put(old, 1000)
	l.put(chain(2, 100), 1000)
	if got := l.depth(old, 0); got != 900 {
		t.Errorf("100 blocks more left %d of 1000, want the first 900", got)
	}
}

func TestLRUTakesNoMoreThanItsCapacityOfOneChain(t *testing.T) {
	var l lru
	long := chain(1, 1000)
	l.put(long, 100)
	if l.size != 100 || l.depth(long, 0) != 100 {
		t.Errorf("holds %d blocks, %d of the chain; want 100 and 100", l.size, l.depth(long, 0))
	}
}

func TestLRUCosts28BytesPerBlock(t *testing.T) {
	var l lru
	const capacity = 31250
	for i := range 40 {
		l.put(chain(uint64(i+1), 1000), capacity)
	}
	bytes := 24*cap(l.nodes) + 4*cap(l.heads)
	if per := float64(bytes) / capacity; l.size != capacity || per > 28.1 {
		t.Errorf("%d blocks cost %.2f bytes each, want %d at 28", l.size, per, capacity)
	}
}

func TestLRUAllocatesNothingOnceFull(t *testing.T) {
	var l lru
	l.put(chain(1, 5000), 5000)
	chains := make([][]uint64, 50)
	for i := range chains {
		chains[i] = chain(uint64(i+2), 200)
	}
	next := 0
	if n := testing.AllocsPerRun(100, func() {
		l.put(chains[next%50], 5000)
		l.depth(chains[next%50], 7)
		next++
	}); n != 0 {
		t.Errorf("%v allocations per write and match, want 0", n)
	}
}
