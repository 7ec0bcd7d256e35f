package fleet

import "github.com/fairlead/fairlead/pkg/pool"

// Heap is a binary heap: Pop takes out the value that no other is before. Values that neither is before come in no set order.
type Heap[T interface{ Before(T) bool }] []T

// timed is a request of which something is due.
type timed struct {
	at     pool.Instant
	number int64
}

// Before orders them by instant, then number.
func (t timed) Before(q timed) bool { return t.at < q.at || t.at == q.at && t.number < q.number }

// Push adds a value.
func (q *Heap[T]) Push(v T) {
	*q = append(*q, v)
	h := *q
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h[i].Before(h[up]) {
			return
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

// Pop takes out the first value. It panics if there is none.
func (q *Heap[T]) Pop() T {
	var none T
	h := *q
	top := h[0]
	last := len(h) - 1
	h[0] = h[last]
	h[last] = none
	h = h[:last]
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if h[child].Before(h[least]) {
				least = child
			}
		}
		if least == i {
			break
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
	*q = h
	return top
}
