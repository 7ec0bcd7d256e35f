package pool

// The entries of the books are kept in one slice and linked by index, so that booking and ending allocate nothing: the
// free ones in a chain, the live ones in a heap by deadline, and those that the last sample cannot contain in a chain per
// endpoint.

// take returns a free entry with a generation of its own.
func (b *Books) take() int32 {
	i := b.free
	if i == none {
		i = int32(len(b.entries))
		b.entries = append(b.entries, entry{place: none})
	} else {
		b.free = b.entries[i].next
	}
	e := &b.entries[i]
	e.generation++
	if e.generation == 0 {
		e.generation = 1 // 0 is that of the zero Booking
	}
	e.prev, e.next, e.counted = none, none, false
	return i
}

// release makes entry i free. It must be out of the columns.
func (b *Books) release(i int32) {
	b.tell(i, Event{Kind: Ended})
	b.pull(i)
	e := &b.entries[i]
	e.next = b.free
	b.free = i
}

// count adds entry i to AfterSample of its endpoint. The clock never goes back, so that the chain stays in order.
func (b *Books) count(i int32) {
	e := &b.entries[i]
	c := &b.after[e.to.ID]
	e.prev, e.next, e.counted = c.last, none, true
	if c.last == none {
		c.first = i
	} else {
		b.entries[c.last].next = i
	}
	c.last = i
	b.AfterSample[e.to.ID]++
}

// uncount takes entry i out of AfterSample, if it is there.
func (b *Books) uncount(i int32) {
	e := &b.entries[i]
	if !e.counted {
		return
	}
	c := &b.after[e.to.ID]
	if e.prev == none {
		c.first = e.next
	} else {
		b.entries[e.prev].next = e.next
	}
	if e.next == none {
		c.last = e.prev
	} else {
		b.entries[e.next].prev = e.prev
	}
	e.prev, e.next, e.counted = none, none, false
	b.AfterSample[e.to.ID]--
}

// seen takes out of AfterSample what was booked before at: a sample asked for then contains it.
func (b *Books) seen(id ID, at Instant) {
	for i := b.after[id].first; i != none && b.entries[i].at < at; i = b.after[id].first {
		b.uncount(i)
	}
	b.SinceSample[id] = 0
	for i := b.after[id].first; i != none; i = b.entries[i].next {
		b.SinceSample[id] += b.entries[i].held
	}
}

// The heap is written out, since container/heap would box each index.

func (b *Books) push(i int32) {
	b.due = append(b.due, i)
	b.entries[i].place = int32(len(b.due) - 1)
	b.up(len(b.due) - 1)
}

func (b *Books) pull(i int32) {
	at := int(b.entries[i].place)
	last := len(b.due) - 1
	b.swap(at, last)
	b.due = b.due[:last]
	b.entries[i].place = none
	if at < last {
		b.down(at)
		b.up(at)
	}
}

func (b *Books) earlier(x, y int) bool {
	return b.entries[b.due[x]].deadline < b.entries[b.due[y]].deadline
}

func (b *Books) swap(x, y int) {
	b.due[x], b.due[y] = b.due[y], b.due[x]
	b.entries[b.due[x]].place, b.entries[b.due[y]].place = int32(x), int32(y)
}

func (b *Books) up(at int) {
	for at > 0 {
		parent := (at - 1) / 2
		if !b.earlier(at, parent) {
			return
		}
		b.swap(at, parent)
		at = parent
	}
}

func (b *Books) down(at int) {
	for {
		child := 2*at + 1
		if child >= len(b.due) {
			return
		}
		if child+1 < len(b.due) && b.earlier(child+1, child) {
			child++
		}
		if !b.earlier(child, at) {
			return
		}
		b.swap(at, child)
		at = child
	}
}
