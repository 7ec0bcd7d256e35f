package kvindex

import (
	"time"

	"github.com/fairlead/fairlead/pkg/pool"
)

// A claim is what the index holds on behalf of one leg of a request: that its endpoint will have the prompt. It is made with
// the booking, inside the pool's lock and at no cost; the blocks are written after it, and until then the claim itself is
// matched, so that requests decided in the same instant meet. An answer confirms it. One that is not confirmed in time is taken
// back, and written again should the answer come after all. What other requests at the endpoint still have in common with a
// claim that is taken back passes to one of them, so that after all of them nothing is left.

// Claim is a handle with a generation: a call on a claim that was released does nothing. The zero Claim is one that was.
type Claim struct{ Slot, Generation uint32 }

type claim struct {
	to        pool.Ref
	hashes    []uint64 // the request's own, until it is released
	block     int      // tokens to a block
	otherwise int64    // size of the endpoint's cache where it has not told it, in tokens
	booked    pool.Instant
	ends      pool.Instant
	deadline  pool.Instant

	entry      uint32 // of the write
	from       int32  // from which index on blocks were new with it
	generation uint32
	prev, next int32 // of the endpoint's claims; next also links the free ones
	place      int32 // in promised
	due        int32 // in the heap by deadline
	standing   standing
}

// standing says how far a claim has come.
type standing uint8

const (
	released  standing = iota
	promised           // booked, and its blocks not written yet
	written            // written, and nobody has answered yet
	confirmed          // the endpoint answers
	lapsed             // taken back, as no answer came in time or an error did
)

// none ends a list and says that a claim is in none.
const none = -1

// Claim notes that an endpoint was just given a request with this chain, of blocks of blockTokens. otherwise is the size of the
// endpoint's cache in tokens where Size has not told it. now is the instant of the booking, ends when its prompt is expected to be computed, deadline until when
// an answer confirms it; 0 is any time. The chain is read until Release.
func (x *Approximate) Claim(to pool.Ref, hashes []uint64, blockTokens int, otherwise int64, now, ends, deadline pool.Instant) Claim {
	x.mu.Lock()
	defer x.mu.Unlock()
	i := x.free
	if len(x.claims) == 0 || i == none {
		i = int32(len(x.claims))
		x.claims = append(x.claims, claim{})
		x.free = none
	} else {
		x.free = x.claims[i].next
	}
	c := &x.claims[i]
	*c = claim{hashes: hashes, block: blockTokens, otherwise: otherwise, booked: now, ends: ends, deadline: deadline,
		generation: c.generation + 1, place: int32(len(x.promised)), due: none, standing: promised}
	if c.generation == 0 {
		c.generation = 1 // 0 is that of the zero Claim
	}
	x.promised = append(x.promised, i)
	x.join(i, to)
	x.changes++
	return Claim{uint32(i), c.generation}
}

func (x *Approximate) claimed(h Claim) (int32, *claim) {
	if h.Generation == 0 || uint64(h.Slot) >= uint64(len(x.claims)) {
		return none, nil
	}
	if c := &x.claims[h.Slot]; c.generation == h.Generation && c.standing != released {
		return int32(h.Slot), c
	}
	return none, nil
}

// Write writes the claim's blocks.
func (x *Approximate) Write(h Claim) {
	x.mu.Lock()
	defer x.mu.Unlock()
	i, c := x.claimed(h)
	if c == nil || c.standing != promised {
		return
	}
	x.unpromise(c)
	x.write(c)
	c.standing = written
	if c.deadline > 0 {
		x.await(i)
	}
}

// Confirm says that the claim's endpoint answers.
func (x *Approximate) Confirm(h Claim) {
	x.mu.Lock()
	defer x.mu.Unlock()
	i, c := x.claimed(h)
	if c == nil {
		return
	}
	x.heard = true
	switch c.standing {
	case promised:
		x.unpromise(c)
		x.write(c)
	case lapsed:
		x.write(c)
	case written:
		x.unawait(i)
	}
	c.standing = confirmed
}

// Follow moves the claim to the endpoint that answers in place of its own.
func (x *Approximate) Follow(h Claim, to pool.Ref) {
	x.mu.Lock()
	defer x.mu.Unlock()
	i, c := x.claimed(h)
	if c == nil || c.to == to {
		return
	}
	x.takeBack(i)
	x.part(i)
	x.join(i, to)
	x.write(c)
	c.standing = confirmed
}

// TakeBack undoes what the claim has written: nobody holds the prompt on its account.
func (x *Approximate) TakeBack(h Claim) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if i, c := x.claimed(h); c != nil {
		x.takeBack(i)
		c.standing = lapsed
	}
}

// TakeBackBefore is TakeBack of a claim whose prompt was not expected to be computed within this time of the booking.
func (x *Approximate) TakeBackBefore(h Claim, after time.Duration) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if i, c := x.claimed(h); c != nil && after < time.Duration(c.ends-c.booked) {
		x.takeBack(i)
		c.standing = lapsed
	}
}

// Release ends the claim. What it has written stays, also when others that have it in common are taken back.
func (x *Approximate) Release(h Claim) {
	x.mu.Lock()
	defer x.mu.Unlock()
	i, c := x.claimed(h)
	if c == nil {
		return
	}
	switch c.standing {
	case promised:
		x.unpromise(c)
		x.write(c)
	case written:
		x.unawait(i)
	}
	x.part(i)
	if c.standing != lapsed {
		for k := x.first[c.to.ID]; k != none; k = x.claims[k].next {
			if o := &x.claims[k]; o.to == c.to {
				o.from = max(o.from, int32(common(c.hashes, o.hashes, int(o.from))))
			}
		}
	}
	c.standing, c.hashes = released, nil
	c.next, x.free = x.free, i
}

// Lapse takes back the claims whose deadline has passed, and returns how many. Where no claim was ever confirmed nobody sees
// answers, and none lapses.
func (x *Approximate) Lapse(now pool.Instant) (lapsedNow int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for x.heard && len(x.due) > 0 {
		i := x.due[0]
		if x.claims[i].deadline > now {
			break
		}
		x.takeBack(i)
		x.claims[i].standing = lapsed
		lapsedNow++
	}
	return lapsedNow
}

// Claims returns how many claims were not released.
func (x *Approximate) Claims() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := len(x.claims)
	for i := range x.claims {
		if x.claims[i].standing == released {
			n--
		}
	}
	return n
}

// Changes counts what was claimed, written and taken back: a match made at another count may be out of date.
func (x *Approximate) Changes() int64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.changes
}

func (x *Approximate) write(c *claim) {
	x.changes++
	entry, from, ok := x.credit(c.to, c.hashes, c.block, c.otherwise)
	if !ok {
		from = len(c.hashes)
	}
	c.entry, c.from = entry, int32(from)
}

// takeBack undoes a claim wherever it stands, and leaves it in no list.
func (x *Approximate) takeBack(i int32) {
	c := &x.claims[i]
	switch c.standing {
	case promised:
		x.unpromise(c)
		x.changes++
		return
	case written:
		x.unawait(i)
	case lapsed, released:
		return
	}
	h := x.of(c.to)
	if h == nil {
		return
	}
	x.changes++
	from := int(c.from)
	if heir, common := x.heir(i); heir != nil {
		h.held.pass(c.hashes[:common], c.entry, heir.entry)
		if from < common {
			heir.from = min(heir.from, c.from)
			from = common
		}
	}
	h.held.take(c.hashes, from, c.entry)
}

// heir returns the claim that has most in common with another one of its endpoint, and how many blocks.
func (x *Approximate) heir(of int32) (heir *claim, blocks int) {
	c := &x.claims[of]
	for i := x.first[c.to.ID]; i != none; i = x.claims[i].next {
		o := &x.claims[i]
		if i == of || o.to != c.to || o.standing != written && o.standing != confirmed {
			continue
		}
		if n := common(c.hashes, o.hashes, blocks); n > blocks {
			heir, blocks = o, n
		}
	}
	return heir, blocks
}

// join puts a claim into the list of its endpoint.
func (x *Approximate) join(i int32, to pool.Ref) {
	for int(to.ID) >= len(x.first) {
		x.first = append(x.first, none)
	}
	c := &x.claims[i]
	c.to, c.prev, c.next = to, none, x.first[to.ID]
	if c.next != none {
		x.claims[c.next].prev = i
	}
	x.first[to.ID] = i
}

// part takes a claim out of the list of its endpoint.
func (x *Approximate) part(i int32) {
	c := &x.claims[i]
	if c.next != none {
		x.claims[c.next].prev = c.prev
	}
	if c.prev != none {
		x.claims[c.prev].next = c.next
	} else {
		x.first[c.to.ID] = c.next
	}
}

// common returns how many blocks two chains begin with alike, where that is more than least; else any number up to least.
// Hashes are chained: those that are alike at one place are so before it.
func common(a, b []uint64, least int) int {
	lacks := min(len(a), len(b)) + 1 // block lacks-1 is not alike
	held := least
	if held >= lacks-1 || a[held] != b[held] {
		return min(least, lacks-1)
	}
	for held++; lacks-held > 1; {
		if middle := (held + lacks) / 2; a[middle-1] == b[middle-1] {
			held = middle
		} else {
			lacks = middle
		}
	}
	return held
}

// unpromise takes a claim out of those that are matched themselves.
func (x *Approximate) unpromise(c *claim) {
	last := len(x.promised) - 1
	moved := x.promised[last]
	x.promised[c.place] = moved
	x.claims[moved].place = c.place
	x.promised = x.promised[:last]
	c.place = none
}

// matchPromised raises blocks by what was promised and is not written yet.
func (x *Approximate) matchPromised(s *pool.Snapshot, hashes []uint64, blocks []int32) {
	for _, i := range x.promised {
		c := &x.claims[i]
		if !s.Alive(c.to) {
			continue
		}
		held := int(max(blocks[c.to.ID], 0))
		blocks[c.to.ID] = int32(max(held, common(hashes, c.hashes, held)))
	}
}

// The heap by deadline is written out, since container/heap would box each index.

func (x *Approximate) await(i int32) {
	x.due = append(x.due, i)
	x.claims[i].due = int32(len(x.due) - 1)
	x.rise(len(x.due) - 1)
}

func (x *Approximate) unawait(i int32) {
	at := int(x.claims[i].due)
	if at == none {
		return
	}
	last := len(x.due) - 1
	x.swap(at, last)
	x.due = x.due[:last]
	x.claims[i].due = none
	if at < last {
		x.sink(at)
		x.rise(at)
	}
}

func (x *Approximate) sooner(a, b int) bool {
	return x.claims[x.due[a]].deadline < x.claims[x.due[b]].deadline
}

func (x *Approximate) swap(a, b int) {
	x.due[a], x.due[b] = x.due[b], x.due[a]
	x.claims[x.due[a]].due, x.claims[x.due[b]].due = int32(a), int32(b)
}

func (x *Approximate) rise(at int) {
	for at > 0 && x.sooner(at, (at-1)/2) {
		x.swap(at, (at-1)/2)
		at = (at - 1) / 2
	}
}

func (x *Approximate) sink(at int) {
	for {
		child := 2*at + 1
		if child >= len(x.due) {
			return
		}
		if child+1 < len(x.due) && x.sooner(child+1, child) {
			child++
		}
		if !x.sooner(child, at) {
			return
		}
		x.swap(at, child)
		at = child
	}
}
