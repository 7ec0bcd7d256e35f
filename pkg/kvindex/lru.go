package kvindex

import "math/bits"

// lru holds the block hashes that one endpoint is believed to have, the least recently used leaf first to go.
//
// It is a chained hash table over nodes that are linked in order of use; links are indexes, so that the garbage collector
// has nothing to follow. A node has 24 bytes and its head in the table 4: at capacity a block costs 28 bytes.
//
// put brings a chain to the front as a whole, its root first, so that a block always stands before its continuations.
// Since the last in order goes first, what is held of any chain is a prefix of it. depth relies on that.
type lru struct {
	nodes []node   // 0 is the anchor of the ring and of every empty link
	heads []uint32 // by bucket
	free  uint32   // first of the removed nodes, linked by chain
	size  int
	entry uint32 // of the last put
}

type node struct {
	hash       uint64
	prev, next uint32 // in order of use; the anchor's next is the most recent
	chain      uint32 // the next node of the bucket
	entry      uint32 // the last put that brought this block
}

// maxBlocks bounds an endpoint, whatever its engine says: 16 million blocks, a billion tokens in blocks of 64.
const maxBlocks = 1 << 24

const firstNodes = 64

func (l *lru) bucket(hash uint64) uint32 {
	// Multiplying first spreads hashes that are small numbers, as traces have them.
	at, _ := bits.Mul64(hash*0x9e3779b97f4a7c15, uint64(len(l.heads)))
	return uint32(at)
}

// find returns the node of a hash, 0 if it is not held.
func (l *lru) find(hash uint64) uint32 {
	if l.size == 0 {
		return 0
	}
	i := l.heads[l.bucket(hash)]
	for i != 0 && l.nodes[i].hash != hash {
		i = l.nodes[i].chain
	}
	return i
}

// depth returns how many of the chain's first blocks are held. guess is tried first: endpoints that share a prefix share
// its depth. Cost is O(log len(hashes)) look-ups, one if nothing is held or the guess is right and covers all.
func (l *lru) depth(hashes []uint64, guess int) int {
	if len(hashes) == 0 || l.find(hashes[0]) == 0 {
		return 0
	}
	held, lacks := 1, len(hashes)+1 // hashes[held-1] is held, hashes[lacks-1] is not
	if guess > 1 && guess <= len(hashes) {
		if l.find(hashes[guess-1]) != 0 {
			held = guess
		} else {
			lacks = guess
		}
	}
	for step := 1; held+step < lacks; step *= 2 {
		if l.find(hashes[held+step-1]) == 0 {
			lacks = held + step
			break
		}
		held += step
	}
	for lacks-held > 1 {
		middle := (held + lacks) / 2
		if l.find(hashes[middle-1]) != 0 {
			held = middle
		} else {
			lacks = middle
		}
	}
	return held
}

// put brings the chain to the front, adding what is missing, and keeps at most capacity blocks in all. Of a longer chain
// the first capacity blocks are taken. It returns the put's number, and from which index on blocks were new.
func (l *lru) put(hashes []uint64, capacity int) (entry uint32, from int) {
	capacity = min(max(capacity, 1), maxBlocks)
	hashes = hashes[:min(len(hashes), capacity)]
	for l.size > capacity {
		l.remove(l.nodes[0].prev)
	}
	l.entry++
	from = len(hashes)
	behind := uint32(0)
	for k, hash := range hashes {
		i := l.find(hash)
		if i != 0 {
			l.unlink(i)
		} else {
			from = min(from, k)
			i = l.add(hash, capacity)
		}
		n := &l.nodes[i]
		n.entry = l.entry
		n.prev, n.next = behind, l.nodes[behind].next
		l.nodes[n.next].prev = i
		l.nodes[behind].next = i
		behind = i
	}
	return l.entry, from
}

// add returns a node for hash, in its bucket but not in the order of use: the one that has to go, if capacity is reached.
func (l *lru) add(hash uint64, capacity int) uint32 {
	if l.size >= capacity {
		l.remove(l.nodes[0].prev)
	}
	i := l.free
	if i != 0 {
		l.free = l.nodes[i].chain
	} else {
		if len(l.nodes) == cap(l.nodes) {
			l.grow(capacity)
		}
		i = uint32(len(l.nodes))
		l.nodes = l.nodes[:i+1]
	}
	head := &l.heads[l.bucket(hash)]
	l.nodes[i] = node{hash: hash, chain: *head}
	*head = i
	l.size++
	return i
}

// grow doubles the room, up to capacity.
func (l *lru) grow(capacity int) {
	room := min(max(2*l.size, firstNodes), max(capacity, l.size+1))
	nodes := make([]node, max(len(l.nodes), 1), room+1)
	copy(nodes, l.nodes)
	l.nodes, l.heads = nodes, make([]uint32, room)
	for i := nodes[0].next; i != 0; i = nodes[i].next {
		head := &l.heads[l.bucket(nodes[i].hash)]
		nodes[i].chain = *head
		*head = i
	}
}

func (l *lru) unlink(i uint32) {
	n := &l.nodes[i]
	l.nodes[n.prev].next = n.next
	l.nodes[n.next].prev = n.prev
}

func (l *lru) remove(i uint32) {
	l.unlink(i)
	n := &l.nodes[i]
	at := &l.heads[l.bucket(n.hash)]
	for *at != i {
		at = &l.nodes[*at].chain
	}
	*at = n.chain
	n.chain = l.free
	l.free = i
	l.size--
}

// pass has blocks that came with one put belong to another.
func (l *lru) pass(hashes []uint64, entry, to uint32) {
	for _, hash := range hashes {
		if i := l.find(hash); i != 0 && l.nodes[i].entry == entry {
			l.nodes[i].entry = to
		}
	}
}

// take removes the blocks of the chain from index from on that no later put has brought again.
func (l *lru) take(hashes []uint64, from int, entry uint32) {
	for k := from; k < len(hashes); k++ {
		if i := l.find(hashes[k]); i != 0 && l.nodes[i].entry == entry {
			l.remove(i)
		}
	}
}
