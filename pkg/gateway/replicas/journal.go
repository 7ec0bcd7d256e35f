package replicas

import (
	"sync"

	"github.com/fairlead/fairlead/pkg/pool"
)

// journal is the last of what one pool has told, as bytes. Positions count from its beginning. Who reads more slowly than it is
// written misses the middle, and begins anew: nothing waits for a reader, and no reader has a queue.
type journal struct {
	mu      sync.Mutex
	ring    []byte
	end     uint64
	event   []byte
	readers map[ear]bool
}

// ear is of who reads a journal. Each channel has room for one: woken is sent to after every event, booked after those that make
// another choice elsewhere.
type ear struct{ woken, booked chan struct{} }

func newEar() ear { return ear{make(chan struct{}, 1), make(chan struct{}, 1)} }

// heard takes back what was sent: the journal is read up to here.
func (r ear) heard() {
	for _, c := range [...]chan struct{}{r.woken, r.booked} {
		select {
		case <-c:
		default:
		}
	}
}

func newJournal(kept int) *journal {
	return &journal{ring: make([]byte, kept), readers: map[ear]bool{}}
}

// tell appends an event. It is called inside the pool's lock.
func (j *journal) tell(e pool.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.event = appendEvent(j.event[:0], &e)
	for b := j.event; len(b) > 0; {
		n := copy(j.ring[j.end%uint64(len(j.ring)):], b)
		b = b[n:]
		j.end += uint64(n)
	}
	for r := range j.readers {
		if e.Kind == pool.Booked || e.Kind == pool.Moved {
			wake(r.booked)
		}
		wake(r.woken)
	}
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it was told, and has not looked yet
	}
}

// position is where the next event will stand.
func (j *journal) position() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.end
}

// since appends to b what was told from a position on, and returns the position behind it; all is false, and nothing appended,
// where some of it is not kept any more.
func (j *journal) since(from uint64, b []byte) (_ []byte, next uint64, all bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	size := uint64(len(j.ring))
	if j.end-from > size {
		return b, j.end, false
	}
	for from < j.end {
		at := from % size
		n := min(size-at, j.end-from)
		b = append(b, j.ring[at:at+n]...)
		from += n
	}
	return b, from, true
}

// read adds a reader, and reports whether it is the first.
func (j *journal) read(r ear) (first bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.readers[r] = true
	return len(j.readers) == 1
}

// left takes a reader away, and reports whether it was the last.
func (j *journal) left(r ear) (last bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.readers, r)
	return len(j.readers) == 0
}
