package exchange

import (
	"container/heap"

	"github.com/fairlead/fairlead/pkg/pool"
)

// deadlines orders exchanges by the instant at which something is due for them: a hold that becomes a refusal, a booking
// that nobody ended, a log entry that did not come. An exchange stands in it once at most.
type deadlines struct{ queue deadlineHeap }

// first returns the earliest deadline, 0 for none.
func (d *deadlines) first() pool.Instant {
	if len(d.queue) == 0 {
		return 0
	}
	return d.queue[0].due
}

// due takes out and returns the first exchange whose deadline is not after now, or nil.
func (d *deadlines) due(now pool.Instant) *Exchange {
	if len(d.queue) == 0 || d.queue[0].due > now {
		return nil
	}
	return heap.Pop(&d.queue).(*Exchange)
}

// set enters x, moves it, or with 0 takes it out.
func (d *deadlines) set(x *Exchange, at pool.Instant) {
	in := x.dueIndex > 0
	switch {
	case at == 0 && in:
		heap.Remove(&d.queue, x.dueIndex-1)
	case at != 0 && in:
		x.due = at
		heap.Fix(&d.queue, x.dueIndex-1)
	case at != 0:
		x.due = at
		heap.Push(&d.queue, x)
	}
}

// deadlineHeap keeps in each exchange its index + 1, so that 0 is "not in it".
type deadlineHeap []*Exchange

func (h deadlineHeap) Len() int           { return len(h) }
func (h deadlineHeap) Less(i, j int) bool { return h[i].due < h[j].due }
func (h deadlineHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].dueIndex, h[j].dueIndex = i+1, j+1
}

// Push appends v, as container/heap asks.
func (h *deadlineHeap) Push(v any) {
	x := v.(*Exchange)
	x.dueIndex = len(*h) + 1
	*h = append(*h, x)
}

// Pop removes the last, as container/heap asks.
func (h *deadlineHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	x.dueIndex = 0
	return x
}
