package engine

// blockPool is the device's KV memory: which block is used by how many requests, which contents are cached under which
// hash, and in which order free blocks are taken.
//
// Free blocks form a queue. A block that nobody uses keeps its contents, and its place in the hash index, until it is taken
// from the front for something else; a hit takes it out of the queue again. That makes the queue an LRU list, and since a
// request gives its blocks back last first, the tail of a prompt goes before its shared head
// (vLLM, docs/design/prefix_caching.md).
type blockPool struct {
	blocks []block
	index  []int32 // open addressing over hash; 0 is empty, else block+1: the oldest of those that hold the hash
	mask   uint64
	free   int32 // length of the free queue
	head   int32 // its front and back; none when empty
	tail   int32
}

const none = -1

type block struct {
	hash        uint64
	prev, next  int32 // neighbours in the free queue
	older, twin int32 // neighbours in the ring of blocks with the same hash, in the order in which they got it
	users       int32 // requests that hold it; 0: in the free queue
	hashed      bool  // full, and found by its hash
}

func newBlockPool(n int32) *blockPool {
	size := 4
	for size < 2*int(n) {
		size *= 2
	}
	p := &blockPool{blocks: make([]block, n), index: make([]int32, size), mask: uint64(size - 1), head: none, tail: none}
	for i := range p.blocks {
		p.pushFree(int32(i))
	}
	return p
}

// used returns the number of blocks held by requests.
func (p *blockPool) used() int32 { return int32(len(p.blocks)) - p.free }

// lookup returns the block that has held these contents longest, or none. Expected cost is O(1).
func (p *blockPool) lookup(hash uint64) int32 { return p.index[p.find(hash)] - 1 }

// find returns where hash stands in the index, or the empty place where it would.
func (p *blockPool) find(hash uint64) uint64 {
	i := hash & p.mask
	for p.index[i] != 0 && p.blocks[p.index[i]-1].hash != hash {
		i = (i + 1) & p.mask
	}
	return i
}

// take returns the front of the free queue, with one user and without contents, and the hash of what it held, if that was
// findable (BlockPool.get_new_blocks, _maybe_evict_cached_block). The queue must not be empty.
func (p *blockPool) take() (b int32, evicted bool, hash uint64) {
	b = p.head
	p.removeFree(b)
	if evicted, hash = p.blocks[b].hashed, p.blocks[b].hash; evicted {
		p.unhash(b)
	}
	p.blocks[b].users = 1
	return b, evicted, hash
}

// hold adds a user to block b.
func (p *blockPool) hold(b int32) {
	if p.blocks[b].users == 0 {
		p.removeFree(b)
	}
	p.blocks[b].users++
}

// release takes a user from each of held, last first; blocks without users go to the back of the free queue
// (KVCacheManager.free, which gives BlockPool.free_blocks the blocks in reverse).
func (p *blockPool) release(held []int32) {
	for i := len(held) - 1; i >= 0; i-- {
		b := held[i]
		p.blocks[b].users--
		if p.blocks[b].users == 0 {
			p.pushFree(b)
		}
	}
}

// setHash makes block b, which is full, findable. A block that is findable already stays as it is. Blocks with the same
// contents are not merged, as in vLLM; they form a ring, so that many copies of one text cost no more than one. It reports
// whether b became findable.
func (p *blockPool) setHash(b int32, hash uint64) bool {
	if p.blocks[b].hashed {
		return false
	}
	p.blocks[b].hash, p.blocks[b].hashed = hash, true
	i := p.find(hash)
	if p.index[i] == 0 {
		p.index[i] = b + 1
		p.blocks[b].older, p.blocks[b].twin = b, b
		return true
	}
	first := p.index[i] - 1
	last := p.blocks[first].older
	p.blocks[b].older, p.blocks[b].twin = last, first
	p.blocks[last].twin, p.blocks[first].older = b, b
	return true
}

// unhash makes block b unfindable.
func (p *blockPool) unhash(b int32) {
	p.blocks[b].hashed = false
	older, twin := p.blocks[b].older, p.blocks[b].twin
	if twin == b {
		p.vacate(p.find(p.blocks[b].hash))
		return
	}
	p.blocks[older].twin, p.blocks[twin].older = twin, older
	if i := p.find(p.blocks[b].hash); p.index[i] == b+1 {
		p.index[i] = twin + 1
	}
}

// vacate empties a place of the index. The entries behind it move up, so that no search ends too early and the index needs
// no tombstones.
func (p *blockPool) vacate(hole uint64) {
	for i := (hole + 1) & p.mask; p.index[i] != 0; i = (i + 1) & p.mask {
		home := p.blocks[p.index[i]-1].hash & p.mask
		if (i-home)&p.mask >= (i-hole)&p.mask {
			p.index[hole] = p.index[i]
			hole = i
		}
	}
	p.index[hole] = 0
}

// forget makes every block unfindable.
func (p *blockPool) forget() {
	clear(p.index)
	for i := range p.blocks {
		p.blocks[i].hashed = false
	}
}

func (p *blockPool) pushFree(b int32) {
	p.blocks[b].prev, p.blocks[b].next = p.tail, none
	if p.tail == none {
		p.head = b
	} else {
		p.blocks[p.tail].next = b
	}
	p.tail = b
	p.free++
}

func (p *blockPool) removeFree(b int32) {
	prev, next := p.blocks[b].prev, p.blocks[b].next
	if prev == none {
		p.head = next
	} else {
		p.blocks[prev].next = next
	}
	if next == none {
		p.tail = prev
	} else {
		p.blocks[next].prev = prev
	}
	p.free--
}
