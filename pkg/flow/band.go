package flow

import (
	"slices"
	"strings"
	"time"

	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
)

// Band is what waits for one pool at one priority.
type Band struct {
	BandSettings

	static  bool // configured: never forgotten
	flows   map[string]*Flow
	waiting []*Flow // those in which somebody waits, by ID
	owed    int     // of these, whose turn was taken back
	cursor  string  // ID of the flow that went last
	looked  trials  // flows in which nobody was worth a decision
	turn    string  // ID of the last flow that was looked through in turn
	holds   [measures]int64
	crowds  [measures]crowd
	since   pool.Instant // when the last one went or came
	first   *item        // of all that wait, in the order in which they came
	last    *item
	timely  *item        // the first of them that has not yielded
	lapsed  pool.Instant // when those that have were looked through last

	asked   bool    // weighted bands: it is not to be asked in this round any more
	shut    bool    // the last time that it was asked for: it had somebody, and the pool no room for it
	ceiling float64 // as last asked for
	pass    float64 // weighted bands: tokens let go / weight
	done    [outcomes]uint64
}

// Flow is what waits of one tenant in one band.
type Flow struct {
	// ID is the tenant's name; empty for requests without one.
	ID string

	heap    []*item
	timely  int // of heap: those that do not yield
	holds   [measures]int64
	rank    [measures]int // where it stands in the band's crowds, plus 1; 0 for nowhere
	last    *item         // of all that have a place, the one that came last
	fresh   *item         // of these, the first that has not yielded
	parked  uint64        // the pool's count of changes at which its first found no endpoint; it is not asked again before that rises
	waits   bool          // it stands in waiting
	seeks   search
	due     bool // its turn was taken back: it goes before others
	emptied pool.Instant

	deficit  int64   // token-deficit: what it may still let go before the others
	at       []spent // token-deficit: by endpoint
	service  float64 // program-aware: attained service, as of serviced
	serviced pool.Instant
}

// spent is what a flow was served at one endpoint lately, in tokens.
type spent struct {
	to     pool.Ref
	tokens int64
}

// head returns the first to go.
func (f *Flow) head() *item { return f.heap[0] }

// may reports whether the flow may be asked, at this count of changes of its pool.
func (f *Flow) may(changes uint64) bool { return f.parked == 0 || f.parked != changes+1 }

// park keeps the flow from being asked before something changes.
func (f *Flow) park(changes uint64) { f.parked = changes + 1 }

// entered puts f among those that wait, since somebody has come.
func (b *Band) entered(f *Flow, now pool.Instant) {
	if b.stands(f) {
		b.Fairness.Came(f, now)
	}
}

// pays charges a band that shares by weight for tokens, of which one of an answer counts as two of a prompt; fewer than it has paid for
// are given back.
func (b *Band) pays(prompt, answer int64) { b.pass += float64(prompt+2*answer) / b.Weight }

// stands puts f among those that wait, and reports whether it was not there. One whose only request comes back from a decision
// has waited all the time.
func (b *Band) stands(f *Flow) (anew bool) {
	if f.waits {
		return false
	}
	i, _ := slices.BinarySearchFunc(b.waiting, f.ID, byID)
	b.waiting = slices.Insert(b.waiting, i, f)
	f.waits, f.parked, f.seeks = true, 0, search{}
	return true
}

// emptiedAt takes f out of those that wait.
func (b *Band) emptiedAt(f *Flow, now pool.Instant) {
	if !f.waits {
		return
	}
	if i, found := slices.BinarySearchFunc(b.waiting, f.ID, byID); found {
		b.waiting = slices.Delete(b.waiting, i, i+1)
	}
	b.owes(f, false)
	f.waits, f.emptied = false, now
}

func byID(f *Flow, id string) int { return strings.Compare(f.ID, id) }

// owes notes that a flow's turn was taken back, or that it had it.
func (b *Band) owes(f *Flow, due bool) {
	switch {
	case due && !f.due:
		b.owed++
	case !due && f.due:
		b.owed--
	}
	f.due = due
}

// next returns the flow whose first goes next, or nil if none may.
func (b *Band) next(now pool.Instant, changes uint64) *Flow {
	if b.owed > 0 {
		for _, f := range b.waiting {
			if f.due && f.may(changes) {
				b.owes(f, false)
				return f
			}
		}
	}
	f := b.Fairness.Next(b, now, changes)
	if f != nil {
		b.cursor = f.ID
	}
	return f
}

// after calls yield with the flows that wait and may be asked, beginning after the one that went last.
func (b *Band) after(changes uint64, yield func(*Flow) bool) { b.following(b.cursor, changes, yield) }

// following calls it with those after the flow with this ID.
func (b *Band) following(id string, changes uint64, yield func(*Flow) bool) {
	start, found := slices.BinarySearchFunc(b.waiting, id, byID)
	if found {
		start++
	}
	for i := range b.waiting {
		f := b.waiting[(start+i)%len(b.waiting)]
		if f.may(changes) && !yield(f) {
			return
		}
	}
}

// ttl returns how long a request may wait in the pool's present state, 0 without a bound.
func (b *Band) ttl(empty bool) time.Duration {
	if empty {
		return b.EmptyTTL
	}
	return b.TTL
}

// append puts it at the end of those that wait, by the order in which they came.
func (b *Band) append(it *item) {
	it.prev, it.next = b.last, nil
	if b.last != nil {
		b.last.next = it
	} else {
		b.first = it
	}
	b.last = it
	if b.timely == nil {
		b.timely = it
	}
	it.flow.came(it)
	b.takes(it, 1)
}

// takes counts a place that is taken, or with -1 one that is left.
func (b *Band) takes(it *item, sign int64) {
	for by := range measures {
		b.holds[by] += sign * by.of(it)
		it.flow.holds[by] += sign * by.of(it)
	}
	for by := range measures {
		b.crowds[by].moved(it.flow, by)
	}
}

// remove takes it out of them.
func (b *Band) remove(it *item) {
	if b.timely == it {
		b.timely = it.next
	}
	if it.prev != nil {
		it.prev.next = it.next
	} else {
		b.first = it.next
	}
	if it.next != nil {
		it.next.prev = it.prev
	} else {
		b.last = it.prev
	}
	it.prev, it.next = nil, nil
	it.flow.left(it)
	b.takes(it, -1)
}

// yield has those that have waited for too long go behind all others of their flow. They stand at the front of those that wait,
// since all of a band yield after the same time.
func (b *Band) yield(now pool.Instant) {
	if b.YieldAfter <= 0 {
		return
	}
	for it := b.timely; it != nil && time.Duration(now-it.at) >= b.YieldAfter; it = b.timely {
		b.timely, it.flow.fresh = it.next, it.younger
		if it.state != stateWaits {
			it.yields = true // its turn has come; it may come back
			continue
		}
		it.flow.drop(it)
		it.yields = true
		it.flow.push(it)
		it.flow.seeks = search{}
	}
}

// state says where a request stands.
type state uint8

const (
	stateBarred state = iota // it did not fit when it came, and has no place yet
	stateWaits
	stateGoes // Next has handed it out; it is counted until it is booked
	stateOver // its waiting is over: Next will hand it out with a refusal
	stateTold // Next has handed it out with a refusal
	stateRuns // it was booked: its answer is charged to its flow
)

// turn is where a request stands in its flow.
type turn struct {
	yields bool // it goes behind all that do not
	key    pool.Instant
	seq    uint64
}

// before reports whether it goes before o.
func (t *turn) before(o *turn) bool {
	if t.yields != o.yields {
		return o.yields
	}
	return t.key < o.key || t.key == o.key && t.seq < o.seq
}

// item is the place of one request.
type item struct {
	turn
	r    *plugins.Request
	line *line
	band *Band
	flow *Flow

	state    state
	over     cause // of stateOver
	way      way   // of causeWay
	at       pool.Instant
	vacant   pool.Instant // for how long its pool had had no endpoint when it came; see vacancy
	deadline pool.Instant // its own, from its headers; 0 for none
	bytes    int64
	choice   pool.ID      // where it was best when it was last decided, and found no room, plus 1; 0 for never
	chosen   pool.Instant // since when it waits for the endpoint of its choice; 0: it does not
	passed   int32        // how many that came after it went before it, since its choice was full
	output   int64        // tokens that it is booked to generate
	ceiling  float64      // of stateGoes: below which saturation it may go
	index    int          // in the flow's heap

	prev, next     *item // in its band, among those whose waiting is over, or of those that are free
	older, younger *item // in its flow, by the order in which they came
}

// push gives it its place in the flow, O(log n).
func (f *Flow) push(it *item) {
	it.index = len(f.heap)
	if !it.yields {
		f.timely++
	}
	f.heap = append(f.heap, it)
	f.up(it.index)
}

// drop takes it out of the flow, O(log n).
func (f *Flow) drop(it *item) {
	i, last := it.index, len(f.heap)-1
	if !it.yields {
		f.timely--
	}
	if i != last {
		f.heap[i] = f.heap[last]
		f.heap[i].index = i
	}
	f.heap[last] = nil
	f.heap = f.heap[:last]
	if i != last {
		f.down(i)
		f.up(i)
	}
}

func (f *Flow) up(i int) {
	h := f.heap
	for i > 0 {
		parent := (i - 1) / 2
		if !h[i].before(&h[parent].turn) {
			return
		}
		h[i], h[parent] = h[parent], h[i]
		h[i].index, h[parent].index = i, parent
		i = parent
	}
}

func (f *Flow) down(i int) {
	h := f.heap
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h); child++ {
			if h[child].before(&h[least].turn) {
				least = child
			}
		}
		if least == i {
			return
		}
		h[i], h[least] = h[least], h[i]
		h[i].index, h[least].index = i, least
		i = least
	}
}
