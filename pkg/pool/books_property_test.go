package pool

import (
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/fairlead/fairlead/pkg/reason"
)

// ledger is the slow and obvious model of the books: one map of open bookings, from which every column is summed anew.
type ledger struct {
	clock   Instant
	members map[string]*modelEndpoint
	open    map[Booking]*modelBooking
	last    written
}

type modelEndpoint struct {
	addr    int
	sampled Instant
	process float64
}

type modelBooking struct {
	at           string
	prefill, dec int64
	prompt       int64
	made         Instant
	deadline     Instant
	begun        bool
}

func (l *ledger) drop(which func(*modelBooking) bool) {
	maps.DeleteFunc(l.open, func(_ Booking, b *modelBooking) bool { return which(b) })
}

// column sums of one endpoint.
type column struct {
	requests, noFirstByte, afterSample int32
	prefill, decode, context           int64
	waiting                            int64 // of the meter
	decoding                           int64
}

func (l *ledger) sums(name string) (c column) {
	for _, b := range l.open {
		if b.at != name {
			continue
		}
		c.requests++
		c.decode += b.dec
		c.context += b.prompt
		if b.begun {
			c.decoding++
		}
		if !b.begun {
			c.noFirstByte++
			c.prefill += b.prefill
			c.waiting += b.prefill
			if b.made >= l.members[name].sampled {
				c.afterSample++
			}
		}
	}
	return c
}

func address(n int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(n)}), 8000)
}

// check compares every column with the model.
func (l *ledger) check(t *rapid.T, p *Pool) {
	p.Decide(func(s *Snapshot, b *Books) {
		if len(s.Members) != len(l.members) {
			t.Fatalf("%d members, want %d", len(s.Members), len(l.members))
		}
		for i := range s.Slots {
			got := column{b.Requests[i], b.NoFirstByte[i], b.AfterSample[i], b.PrefillTokens[i], b.DecodeTokens[i], b.ContextTokens[i], b.meters[i].waiting, b.meters[i].sequences}
			if s.Slots[i].Incarnation == 0 {
				if got != (column{}) || b.BacklogEnds[i] != 0 {
					t.Fatalf("vacant slot %d has books %+v", i, got)
				}
				continue
			}
			e := &s.Slots[i]
			if e.ID != ID(i) || l.members[e.Name] == nil || e.Addr != address(l.members[e.Name].addr) {
				t.Fatalf("slot %d is %+v", i, e)
			}
			if want := l.sums(e.Name); got != want {
				t.Fatalf("%s: %+v, want %+v", e.Name, got, want)
			}
			if m := l.members[e.Name]; b.Samples[i].At != m.sampled {
				t.Fatalf("%s: sample of %v, want %v", e.Name, b.Samples[i].At, m.sampled)
			}
			if b.PrefillTokens[i] == 0 && b.BacklogEnds[i] > l.clock {
				t.Fatalf("%s: backlog without tokens ends %v after now", e.Name, b.BacklogEnds[i]-l.clock)
			}
			most := l.clock + Instant(b.PrefillTokens[i])*Instant(b.PrefillPerToken[i])
			if b.BacklogEnds[i] > most {
				t.Fatalf("%s: %d tokens end at %v, after %v", e.Name, b.PrefillTokens[i], b.BacklogEnds[i], most)
			}
		}
		if len(b.due) != len(l.open) {
			t.Fatalf("%d open, want %d", len(b.due), len(l.open))
		}
	})
}

// written is what stood in the books at the last check.
type written struct {
	of    *Snapshot
	count uint64
	rows  []any // by ID
}

// untouched finds an endpoint whose books or sample are others than at the last check, of the same snapshot, without a touch.
func (l *ledger) untouched(t *rapid.T, p *Pool) {
	p.Decide(func(s *Snapshot, b *Books) {
		is := written{of: s, count: b.Touches()}
		for i := range s.Slots {
			is.rows = append(is.rows, []any{b.Requests[i], b.NoFirstByte[i], b.AfterSample[i], b.PrefillTokens[i], b.DecodeTokens[i],
				b.ContextTokens[i], b.SinceSample[i], b.BacklogEnds[i], b.Samples[i]})
		}
		was := l.last
		if l.last = is; was.of != s || is.count-was.count > TouchesKept {
			return
		}
		touched := map[ID]bool{}
		for n := was.count; n < is.count; n++ {
			touched[b.Touched(n)] = true
		}
		for i := range s.Slots {
			if !touched[ID(i)] && !reflect.DeepEqual(was.rows[i], is.rows[i]) {
				t.Fatalf("slot %d: %v became %v, and it was not touched", i, was.rows[i], is.rows[i])
			}
		}
	})
}

func TestBooksAgreeWithASlowModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := New("a", reason.Discard{})
		l := &ledger{members: map[string]*modelEndpoint{}, open: map[Booking]*modelBooking{}}
		var handles []Booking
		var refs []Ref // all that ever were
		handles = append(handles, Booking{}, Booking{Slot: 1 << 30, Generation: 1})

		now := func() Instant {
			// Goroutines read the clock and then wait for the lock: instants come out of order, a little.
			at := max(l.clock+Instant(rapid.IntRange(-3, 10).Draw(t, "step")), 1)
			l.clock = max(l.clock, at)
			return at
		}
		load := func() Load {
			return Load{UncachedPrefill: int64(rapid.IntRange(-1, 1000).Draw(t, "prefill")), Decode: int64(rapid.IntRange(-1, 1000).Draw(t, "decode"))}
		}
		nameOf := func(r Ref) string { // of a live one, else ""
			if s := p.Snapshot(); s.Alive(r) {
				return s.Slots[r.ID].Name
			}
			return ""
		}
		ref := func() Ref {
			if len(refs) == 0 {
				return Ref{}
			}
			// Most of the time a recent one, but also those of endpoints that left.
			if rapid.Bool().Draw(t, "live") {
				if s := p.Snapshot(); len(s.Members) > 0 {
					return s.Slots[rapid.SampledFrom(s.Members).Draw(t, "member")].Ref
				}
			}
			return rapid.SampledFrom(refs).Draw(t, "ref")
		}
		handle := func() Booking {
			recent := handles[max(0, len(handles)-8):]
			return rapid.SampledFrom(recent).Draw(t, "booking")
		}
		remember := func() {
			s := p.Snapshot()
			for _, id := range s.Members {
				if !slices.Contains(refs, s.Slots[id].Ref) {
					refs = append(refs, s.Slots[id].Ref)
				}
			}
		}

		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				l.check(t, p)
				l.untouched(t, p)
			},
			"update": func(t *rapid.T) {
				at := now()
				var members []Endpoint
				next := map[string]*modelEndpoint{}
				for i := range 6 {
					if !rapid.Bool().Draw(t, "listed") {
						continue
					}
					name, addr := fmt.Sprint("e", i), i
					if rapid.IntRange(0, 5).Draw(t, "moved") == 0 {
						addr += 100
					}
					members = append(members, Endpoint{Namespace: "n", Name: name, Addr: address(addr)})
					if old := l.members[name]; old != nil && old.addr == addr {
						next[name] = old
					} else {
						next[name] = &modelEndpoint{addr: addr, process: -1}
					}
				}
				p.Update(at, members)
				l.drop(func(b *modelBooking) bool { return next[b.at] != l.members[b.at] })
				l.members = next
				remember()
			},
			"book": func(t *rapid.T) {
				at, to, cost := now(), ref(), load()
				deadline := at + Instant(rapid.IntRange(0, 100).Draw(t, "deadline"))
				name := nameOf(to)
				p.Decide(func(_ *Snapshot, b *Books) {
					b.At(at)
					for range rapid.IntRange(1, 3).Draw(t, "legs") {
						h := b.Book(to, cost, deadline)
						if (h != Booking{}) != (name != "") {
							t.Fatalf("booking to %v (%q) returned %v", to, name, h)
						}
						if name != "" {
							if l.open[h] != nil || slices.Contains(handles, h) {
								t.Fatalf("handle %v was given out before", h)
							}
							handles = append(handles, h)
							l.open[h] = &modelBooking{name, max(cost.UncachedPrefill, 0), max(cost.Decode, 0), max(cost.UncachedPrefill, 0), l.clock, deadline, false}
						}
					}
				})
			},
			"first byte": func(t *rapid.T) {
				at, h := now(), handle()
				b := l.open[h]
				if got := p.FirstByte(at, h); got != (b != nil) {
					t.Fatalf("first byte of %v: %v", h, got)
				}
				if b != nil {
					b.begun = true
				}
			},
			"progress": func(t *rapid.T) {
				at, h, dec := now(), handle(), int64(rapid.IntRange(-1, 1000).Draw(t, "decode"))
				b := l.open[h]
				if got := p.Progress(at, h, dec); got != (b != nil) {
					t.Fatalf("progress of %v: %v", h, got)
				}
				if b != nil {
					b.dec = max(dec, 0)
				}
			},
			"move": func(t *rapid.T) {
				at, h, to, cost := now(), handle(), ref(), load()
				name, b := nameOf(to), l.open[h]
				if got, want := p.Move(at, h, to, cost), b != nil && name != ""; got != want {
					t.Fatalf("move of %v to %v: %v, want %v", h, to, got, want)
				} else if want {
					b.at, b.prefill, b.dec, b.prompt, b.made = name, max(cost.UncachedPrefill, 0), max(cost.Decode, 0), max(cost.UncachedPrefill, 0), l.clock
				}
			},
			"end": func(t *rapid.T) {
				at, h := now(), handle()
				want := l.open[h] != nil
				if got := p.End(at, h); got != want {
					t.Fatalf("end of %v: %v, want %v", h, got, want)
				}
				delete(l.open, h)
			},
			"expire": func(t *rapid.T) {
				at := now()
				before := len(l.open)
				l.drop(func(b *modelBooking) bool { return b.deadline <= at })
				first := Instant(0)
				for _, b := range l.open {
					if first == 0 || b.deadline < first {
						first = b.deadline
					}
				}
				if ended, next := p.Expire(at); ended != before-len(l.open) || next != first {
					t.Fatalf("expire at %v: %d, next %v; want %d, next %v", at, ended, next, before-len(l.open), first)
				}
			},
			"observe": func(t *rapid.T) {
				at, of := now(), ref()
				asked := max(at-Instant(rapid.IntRange(0, 10).Draw(t, "late")), 0)
				s := NoSample()
				s.At = asked
				if rapid.Bool().Draw(t, "says") {
					s.ProcessStart = float64(rapid.SampledFrom([]int{7, 7, 7, 8}).Draw(t, "process"))
				}
				name := nameOf(of)
				p.Observe(at, of, s)
				asked = max(asked, 1)
				if m := l.members[name]; m != nil && asked >= m.sampled {
					if s.ProcessStart > 0 {
						if m.process > 0 && m.process != s.ProcessStart {
							l.drop(func(b *modelBooking) bool { return b.at == name && b.made < m.sampled })
							if p.Snapshot().Alive(of) {
								t.Fatalf("%v survived a restart", of)
							}
						}
						m.process = s.ProcessStart
					}
					m.sampled = asked
				}
				remember()
			},
		})

		switch rapid.IntRange(0, 2).Draw(t, "how it ends") {
		case 0:
			for h := range l.open {
				if !p.End(l.clock, h) {
					t.Fatalf("%v had ended", h)
				}
			}
		case 1:
			l.clock += 1000
			p.Expire(l.clock)
		case 2:
			p.Update(l.clock, nil)
			l.members = map[string]*modelEndpoint{}
		}
		clear(l.open)
		l.check(t, p)
		if n := p.Open(); n != 0 {
			t.Fatalf("%d bookings are open in the end", n)
		}
	})
}
