package engine

import (
	"testing"

	"pgregory.net/rapid"
)

// TestBlockPoolAgainstAModel compares the pool with a slow one: a slice that is the free queue, and contents by block.
func TestBlockPoolAgainstAModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int32Range(1, 12).Draw(t, "blocks")
		p := newBlockPool(n)
		queue := make([]int32, n)
		users := make([]int, n)
		contents := make([]uint64, n) // 0: none
		since := make([]int, n)       // when they came
		for i := range queue {
			queue[i] = int32(i)
		}
		dequeue := func(b int32) {
			for i, q := range queue {
				if q == b {
					queue = append(queue[:i:i], queue[i+1:]...)
					return
				}
			}
		}
		for now := range rapid.IntRange(1, 80).Draw(t, "events") {
			b := rapid.Int32Range(0, n-1).Draw(t, "block")
			// Few hashes, which collide in the index and of which blocks hold copies.
			hash := uint64(rapid.IntRange(1, 5).Draw(t, "hash")) << 8
			switch rapid.IntRange(0, 3).Draw(t, "event") {
			case 0:
				if len(queue) == 0 {
					continue
				}
				got, evicted, held := p.take()
				if got != queue[0] || evicted != (contents[got] != 0) || evicted && held != contents[got] {
					t.Fatalf("took %d, which held %x (%v); the front is %d, which holds %x", got, held, evicted, queue[0], contents[queue[0]])
				}
				contents[queue[0]], users[queue[0]] = 0, 1
				queue = queue[1:]
			case 1:
				if users[b] == 0 {
					dequeue(b)
				}
				users[b]++
				p.hold(b)
			case 2:
				if users[b] == 0 {
					continue
				}
				users[b]--
				if users[b] == 0 {
					queue = append(queue[:len(queue):len(queue)], b)
				}
				p.release([]int32{b})
			case 3:
				if p.setHash(b, hash) != (contents[b] == 0) {
					t.Fatalf("block %d, which holds %x: setHash says otherwise", b, contents[b])
				}
				if contents[b] == 0 {
					contents[b], since[b] = hash, now
				}
			}
			if int(p.free) != len(queue) || int(p.used()) != int(n)-len(queue) {
				t.Fatalf("%d free, %d used; the model has %d free", p.free, p.used(), len(queue))
			}
			for h := uint64(1); h <= 5; h++ {
				oldest := int32(none)
				for b, c := range contents {
					if c == h<<8 && (oldest == none || since[b] < since[oldest]) {
						oldest = int32(b)
					}
				}
				if found := p.lookup(h << 8); found != oldest {
					t.Fatalf("lookup of %d: block %d, want %d; contents %v", h, found, oldest, contents)
				}
			}
		}
	})
}
