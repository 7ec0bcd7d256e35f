package plugins

// Bits is a set of indexes, aligned with a cycle's candidates.
type Bits []uint64

// Has reports whether i is in the set.
func (b Bits) Has(i int) bool { return b[i/64]&(1<<(i%64)) != 0 }

// Clear takes i out of the set.
func (b Bits) Clear(i int) { b[i/64] &^= 1 << (i % 64) }

// Add puts i into the set.
func (b Bits) Add(i int) { b[i/64] |= 1 << (i % 64) }

// fill makes b the set of all indexes below n, reusing its memory.
func (b Bits) fill(n int) Bits {
	words := (n + 63) / 64
	if cap(b) < words {
		b = make(Bits, words)
	}
	b = b[:words]
	for i := range b {
		b[i] = ^uint64(0)
	}
	if n%64 != 0 {
		b[words-1] = 1<<(n%64) - 1
	}
	return b
}
