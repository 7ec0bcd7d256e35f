package engine

// queue is the waiting requests, a list through their slots: first come, first served, but for preempted ones, which
// return to the front.
type queue struct {
	head, tail int32
	length     int32
}

func (q *queue) pushBack(s []sequence, slot int32) {
	s[slot].prev, s[slot].next = q.tail, none
	if q.tail == none {
		q.head = slot
	} else {
		s[q.tail].next = slot
	}
	q.tail = slot
	q.length++
}

func (q *queue) pushFront(s []sequence, slot int32) {
	s[slot].prev, s[slot].next = none, q.head
	if q.head == none {
		q.tail = slot
	} else {
		s[q.head].prev = slot
	}
	q.head = slot
	q.length++
}

func (q *queue) remove(s []sequence, slot int32) {
	prev, next := s[slot].prev, s[slot].next
	if prev == none {
		q.head = next
	} else {
		s[prev].next = next
	}
	if next == none {
		q.tail = prev
	} else {
		s[next].prev = prev
	}
	q.length--
}
