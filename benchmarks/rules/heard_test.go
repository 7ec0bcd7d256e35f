package rules

import (
	"slices"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/simulator/engine"
	"github.com/fairlead/fairlead/simulator/fleet"
)

// message is a batch in short: its number, and what it stores and removes of the blocks 0 … of text 1.
type message struct {
	sequence      uint64
	whole         bool
	stored, clear []int
	cleared       bool
}

func (m message) batch() *fleet.Batch {
	blocks := text(1, 10)
	b := &fleet.Batch{Sequence: m.sequence, Whole: m.whole}
	if m.cleared {
		b.Events = append(b.Events, engine.BlockEvent{Kind: engine.Cleared})
	}
	for _, i := range m.clear {
		b.Events = append(b.Events, engine.BlockEvent{Kind: engine.Removed, Hash: blocks[i]})
	}
	for _, i := range m.stored {
		v := engine.BlockEvent{Kind: engine.Stored, Hash: blocks[i]}
		if i > 0 && !m.whole {
			v.Parent = blocks[i-1]
		}
		b.Events = append(b.Events, v)
	}
	return b
}

// What is heard of one member, and what follows: how many of ten blocks it is taken to hold, how often numbers did not come in
// order, and after which messages it is asked for all.
func TestHeard(t *testing.T) {
	asking, placing := func() *Heard { return &Heard{Asks: true} }, func() *Heard { return &Heard{Parents: true} }
	for _, tt := range []struct {
		name     string
		index    func() *Heard
		messages []message
		depth    int
		gaps     int
		asked    []int
	}{
		{"nothing", asking, nil, 0, 0, nil},
		{"blocks in order", asking, []message{{stored: []int{0, 1}}, {sequence: 1, stored: []int{2}}}, 3, 0, nil},
		{"a block that is missing ends it", asking, []message{{stored: []int{0, 1, 3, 4}}}, 2, 0, nil},
		{"one of two copies goes, one stays", asking, []message{{stored: []int{0, 1, 1}}, {sequence: 1, clear: []int{1}}}, 2, 0, nil},
		{"the last copy goes", asking, []message{{stored: []int{0, 1, 1}}, {sequence: 1, clear: []int{1, 1}}}, 1, 0, nil},
		{"what was never stored may be removed", asking, []message{{clear: []int{1}}, {sequence: 1, stored: []int{0, 1}}}, 2, 0, nil},
		{"a cache is emptied", asking, []message{{stored: []int{0, 1}}, {sequence: 1, cleared: true, stored: []int{0}}}, 1, 0, nil},
		{"a number is missing: what is heard counts, and all is asked for", asking, []message{{stored: []int{0}}, {sequence: 2, stored: []int{1, 2}}}, 3, 1, []int{1}},
		{"all that is cached, then the rest", asking, []message{{stored: []int{0}}, {sequence: 2, stored: []int{2}}, {sequence: 3, whole: true, stored: []int{0, 1}}, {sequence: 4, stored: []int{2}}}, 3, 1, []int{1}},
		{"who comes late asks at once", asking, []message{{sequence: 7, stored: []int{0}}}, 1, 1, []int{0}},
		{"another process begins with nothing", asking, []message{{stored: []int{0, 1, 2}}, {sequence: 1}, {sequence: 0, stored: []int{0}}}, 1, 1, nil},
		{"another process whose first message was lost", asking, []message{{stored: []int{0, 1, 2}}, {sequence: 1}, {sequence: 2}, {sequence: 1, stored: []int{0}}}, 1, 1, []int{3}},
		{"who looks at no numbers does not see another process", placing, []message{{stored: []int{0, 1, 2}}, {sequence: 1}, {sequence: 0, stored: []int{0}}}, 3, 1, nil},
		{"who needs parents loses what hangs on a lost block", placing, []message{{stored: []int{0}}, {sequence: 2, stored: []int{2, 3}}}, 1, 1, nil},
		{"and has no place for it later", placing, []message{{stored: []int{0}}, {sequence: 2, stored: []int{2, 3}}, {sequence: 3, stored: []int{1}}}, 2, 1, nil},
		{"without that need it counts when the block comes", asking, []message{{stored: []int{0}}, {sequence: 1, stored: []int{2, 3}}, {sequence: 2, stored: []int{1}}}, 4, 0, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := tt.index()
			var asked []int
			for i, m := range tt.messages {
				if h.Hear(2, m.batch()) {
					asked = append(asked, i)
				}
			}
			if got := h.Depth(1, 2, text(1, 10)); got != tt.depth || h.Gaps != tt.gaps || !slices.Equal(asked, tt.asked) {
				t.Errorf("%d blocks, %d gaps, asked after %v; want %d, %d, %v", got, h.Gaps, asked, tt.depth, tt.gaps, tt.asked)
			}
			if got := h.Depth(1, 1, text(1, 10)); got != 0 {
				t.Errorf("another member has %d blocks", got)
			}
			if h.Forget(2); h.Depth(1, 2, text(1, 10)) != 0 {
				t.Error("a member that left is taken to hold something")
			}
		})
	}
}

// What was just sent counts for a while, together with what was told, and for good nowhere.
func TestWhatWasSentIsBelievedForAWhile(t *testing.T) {
	h := &Heard{Believed: pool.Instant(2 * time.Second)}
	h.Hear(0, message{stored: []int{0, 1}}.batch())
	h.Sent(1e9, 0, text(1, 4))
	for _, tt := range []struct {
		now  pool.Instant
		want int
	}{{1e9, 4}, {2.9e9, 4}, {3e9, 2}} {
		if got := h.Depth(tt.now, 0, text(1, 10)); got != tt.want {
			t.Errorf("at %v: %d blocks, want %d", time.Duration(tt.now), got, tt.want)
		}
	}
	h.Sent(4e9, 0, text(1, 4))
	if h.Forget(0); h.Depth(4e9, 0, text(1, 10)) != 0 {
		t.Error("what was sent to a member that left is still believed to be there")
	}
}

// A cold prompt goes to who had none for the longest time.
func TestColdPromptsTakeTurns(t *testing.T) {
	r := newPrecise()
	d := world(r, make([]state, 3))
	var got []int32
	for n := range uint64(6) {
		q := &query{now: d.now, number: n, tokens: 640, hashes: text(10+n, 10), block: size, session: -1}
		m := r.choose(&d.books, q)
		r.sent(&d.books, q, m)
		got = append(got, m)
	}
	if want := []int32{0, 1, 2, 0, 1, 2}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
