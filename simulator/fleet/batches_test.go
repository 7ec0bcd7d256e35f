package fleet_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/simulator/engine"
	"github.com/fairlead/fairlead/simulator/fleet"
)

// ears sends requests to the members in turn, writes down the batches that it hears, and looks at the caches beside it.
type ears struct {
	turns
	asks bool // for all that is cached, when a number is missing

	sequences [][]uint64 // by member
	when      [][]pool.Instant
	lateness  []pool.Instant
	wholes    int
	held      []map[uint64]int // by member: contents by the blocks that hold them, as heard
	look      func(member int32, hashes []uint64) int

	unlike []string // where what was heard is not what is there
}

func (d *ears) Look(cached func(int32, []uint64) int) { d.look = cached }

func (d *ears) Blocks(now pool.Instant, member int32, b *fleet.Batch) (ask bool) {
	for int(member) >= len(d.held) {
		d.held, d.sequences, d.when = append(d.held, map[uint64]int{}), append(d.sequences, nil), append(d.when, nil)
	}
	heard := d.sequences[member]
	switch {
	case b.Whole:
		d.wholes++
		clear(d.held[member])
	case b.Sequence == 0:
		clear(d.held[member]) // another process
	case d.asks && (len(heard) == 0 || b.Sequence != heard[len(heard)-1]+1):
		ask = true
	}
	d.sequences[member] = append(heard, b.Sequence)
	d.when[member] = append(d.when[member], now)
	d.lateness = append(d.lateness, now-b.At)
	for _, v := range b.Events {
		if v.Kind == engine.Stored {
			d.held[member][v.Hash]++
		} else if d.held[member][v.Hash]--; d.held[member][v.Hash] <= 0 {
			delete(d.held[member], v.Hash)
		}
	}
	return ask
}

// Arrive compares what was heard with what is there, before it decides. An engine tells of a step when it ends, so that only
// idle ones are compared.
func (d *ears) Arrive(now pool.Instant, number uint64, r *fleet.Request, s *openai.Summary) fleet.Answer {
	for m := range d.held {
		n := 0
		for n < len(r.Hashes) && d.held[m][r.Hashes[n]] > 0 {
			n++
		}
		if got := d.look(int32(m), r.Hashes); got != n {
			d.unlike = append(d.unlike, fmt.Sprintf("at %v member %d caches %d blocks, heard of %d", time.Duration(now), m, got, n))
		}
	}
	return d.turns.Arrive(now, number, r, s)
}

// crowded are pods whose caches hold a few prompts.
func crowded(t testing.TB, n int) []fleet.Pod {
	out := pods(t, n)
	for i := range out {
		out[i].Profile.Blocks = 400
	}
	return out
}

// sharing yields requests of few texts, gap apart, each 1200 tokens and 200 of answer.
func sharing(n int, gap time.Duration) *list {
	r := rand.New(rand.NewPCG(1, 2))
	l := &list{}
	for i := range n {
		text := uint64(r.IntN(12) + 1)
		hashes := make([]uint64, 1400/16)
		for k := range hashes {
			h := text<<32 | uint64(k)
			if k > 50 {
				h |= uint64(i+1) << 40
			}
			h *= 0x9e3779b97f4a7c15
			hashes[k] = h ^ h>>32 // spread, as hashes are
		}
		l.requests = append(l.requests, fleet.Request{At: 1 + pool.Instant(i)*pool.Instant(gap), Prompt: 1200, Output: 200, Hashes: hashes})
	}
	return l
}

func TestCacheEvents(t *testing.T) {
	const apart, dense = 4 * time.Second, 200 * time.Millisecond
	for _, tt := range []struct {
		name    string
		gap     time.Duration
		signals fleet.Signals
		events  []fleet.Event
		asks    bool
		check   func(t *testing.T, d *ears, r *fleet.Result)
	}{
		{"who hears all knows all", apart, fleet.Signals{}, nil, false, func(t *testing.T, d *ears, r *fleet.Result) {
			if len(d.unlike) > 0 || r.BatchesLost != 0 || r.Batches < 500 {
				t.Errorf("%d batches, %d lost; %q", r.Batches, r.BatchesLost, d.unlike)
			}
			for m, all := range d.sequences {
				for i, n := range all {
					if n != uint64(i) {
						t.Fatalf("member %d: batch %d has number %d", m, i, n)
					}
				}
			}
		}},
		{"events come late, and in order", dense, fleet.Signals{EventDelay: second, EventJitter: second / 2}, nil, false, func(t *testing.T, d *ears, r *fleet.Result) {
			for i, late := range d.lateness {
				if late < second || late > second*3/2+second/5 { // and up to an arrival more, for which it is brought
					t.Fatalf("batch %d came %v late; want 1 to 1.7 s", i, time.Duration(late))
				}
			}
			for m, all := range d.sequences {
				for i, n := range all {
					if n != uint64(i) {
						t.Fatalf("member %d: batch %d has number %d", m, i, n)
					}
				}
			}
			if len(d.lateness) < 500 {
				t.Errorf("%d batches", len(d.lateness))
			}
		}},
		{"a share of the batches is lost, and seen to be", dense, fleet.Signals{EventLoss: 0.3}, nil, false, func(t *testing.T, d *ears, r *fleet.Result) {
			if share := float64(r.BatchesLost) / float64(r.Batches); math.Abs(share-0.3) > 0.05 {
				t.Errorf("%.2f of %d batches are lost, want 0.3", share, r.Batches)
			}
			for m, all := range d.sequences {
				if last := all[len(all)-1]; last <= uint64(len(all)) {
					t.Errorf("member %d: %d batches, the last is number %d: no number is missing", m, len(all), last)
				}
			}
		}},
		{"who asks knows all again", apart, fleet.Signals{EventLoss: 0.3}, nil, true, func(t *testing.T, d *ears, r *fleet.Result) {
			// A batch that is lost last before a comparison is not missed yet.
			if d.wholes < 50 || len(d.unlike) > 25 {
				t.Errorf("asked %d times; %d of 120 comparisons differ: %q", d.wholes, len(d.unlike), d.unlike[:min(len(d.unlike), 3)])
			}
		}},
		{"who does not ask knows less and less", apart, fleet.Signals{EventLoss: 0.3}, nil, false, func(t *testing.T, d *ears, r *fleet.Result) {
			if d.wholes != 0 || len(d.unlike) < 50 {
				t.Errorf("asked %d times; %d of 120 comparisons differ", d.wholes, len(d.unlike))
			}
		}},
		{"in a gap nothing comes, not even an answer", apart, fleet.Signals{}, []fleet.Event{{At: 20 * second, Kind: fleet.Gap}, {At: 100 * second, Kind: fleet.Rejoin}}, true, func(t *testing.T, d *ears, r *fleet.Result) {
			missing := 0
			for i, n := range d.sequences[0][1:] {
				if n > d.sequences[0][i]+1 {
					missing++
				}
			}
			if missing != 1 || d.wholes != 1 || len(d.unlike) == 0 || r.BatchesLost == 0 {
				t.Errorf("%d gaps, asked %d times, %d batches lost, %d comparisons differ", missing, d.wholes, r.BatchesLost, len(d.unlike))
			}
			for _, u := range d.unlike {
				if !strings.Contains(u, "member 0") {
					t.Errorf("only member 0 was cut off: %s", u)
				}
			}
		}},
		{"what was asked for before a gap comes, what would be asked for in it does not", dense, fleet.Signals{EventLoss: 0.3, EventDelay: second}, []fleet.Event{{At: 5 * second, Kind: fleet.Gap}, {At: 15 * second, Kind: fleet.Rejoin}}, true, func(t *testing.T, d *ears, r *fleet.Result) {
			before, after := 0, 0
			for _, at := range d.when[0] {
				switch {
				case at < 6*second+second/5:
					before++
				case at > 15*second:
					after++
				default:
					t.Errorf("a batch came at %v; the gap is from 5 to 15 s, and a batch takes one, and is brought with the next arrival", time.Duration(at))
				}
			}
			if before == 0 || after == 0 {
				t.Errorf("%d batches before the gap, %d behind it", before, after)
			}
		}},
		{"another process begins anew", apart, fleet.Signals{}, []fleet.Event{{At: 50 * second, Kind: fleet.Restart}}, false, func(t *testing.T, d *ears, r *fleet.Result) {
			begun := 0
			for _, n := range d.sequences[0] {
				if n == 0 {
					begun++
				}
			}
			if begun != 2 {
				t.Errorf("%d processes are heard to begin, want 2", begun)
			}
		}},
		{"a member that is listed no more is not heard", dense, fleet.Signals{EventDelay: 3 * second}, []fleet.Event{{At: 5 * second, Kind: fleet.Crash, Detected: second}}, false, func(t *testing.T, d *ears, r *fleet.Result) {
			if last := d.when[0][len(d.when[0])-1]; last > 6*second || len(d.when[0]) < 10 {
				t.Errorf("%d batches of the crashed pod, the last at %v; it is listed until 6 s", len(d.when[0]), time.Duration(last))
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := &ears{asks: tt.asks}
			r := run(t, fleet.Options{Seed: 5, Pods: crowded(t, 3), Decider: d, Source: sharing(120, tt.gap), Signals: tt.signals, Events: tt.events})
			tt.check(t, d, r)
		})
	}
}

// Listening changes nothing of what is listened to, nor does a knob of the events move anything else; and the same options make
// the same run.
func TestListeningDisturbsNothing(t *testing.T) {
	options := func(d fleet.Decider, s fleet.Signals) fleet.Options {
		s.Every, s.Loss = second/10, 0.1
		return fleet.Options{
			Seed: 9, Pods: crowded(t, 3), Decider: d, Source: sharing(400, 50*time.Millisecond), Signals: s,
			Events: []fleet.Event{{At: 4 * second, Kind: fleet.Crash, Pod: 1}, {At: 9 * second, Kind: fleet.Restart, Pod: 1}},
		}
	}
	plain := &turns{}
	want := run(t, options(plain, fleet.Signals{}))
	if want.Batches != 0 {
		t.Errorf("%d batches are published to nobody", want.Batches)
	}
	for name, s := range map[string]fleet.Signals{"at once": {}, "late and lossy": {EventDelay: second, EventJitter: second, EventLoss: 0.2}} {
		d, again := &ears{}, &ears{}
		got, same := run(t, options(d, s)), run(t, options(again, s))
		if !reflect.DeepEqual(got, same) || !reflect.DeepEqual(d.sequences, again.sequences) || !reflect.DeepEqual(d.lateness, again.lateness) {
			t.Errorf("%s: two runs of the same options differ", name)
		}
		if got.Batches == 0 {
			t.Errorf("%s: nothing is heard", name)
		}
		got.Batches, got.BatchesLost = 0, 0
		if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(d.observed, plain.observed) {
			t.Errorf("%s: the run is another one than with nobody listening", name)
		}
	}
}

// first sends the first request to member 0, and the others to member 1.
type first struct{ ears }

func (d *first) Arrive(now pool.Instant, number uint64, r *fleet.Request, s *openai.Summary) fleet.Answer {
	d.ears.Arrive(now, number, r, s)
	return fleet.Answer{Number: number, To: min(int32(number), 1)}
}

// A member of which nothing else is heard for half a minute, since one request generates there, tells of its blocks all the while.
func TestEventsOfAMemberThatOnlyDecodes(t *testing.T) {
	d := &first{}
	source := sharing(200, tenth)
	source.requests[0].Output = 4000
	source.requests[0].Hashes = make([]uint64, 5200/16)
	for i := range source.requests[0].Hashes {
		source.requests[0].Hashes[i] = uint64(i+1) * 0x9e3779b97f4a7c15
	}
	run(t, fleet.Options{Pods: pods(t, 2), Decider: d, Source: source})
	if n := len(d.when[0]); n < 100 {
		t.Errorf("%d batches", n)
	}
	for i, late := range d.lateness {
		if late > pool.Instant(tenth)+second/100 {
			t.Fatalf("batch %d came %v late, though there was a decision every %v", i, time.Duration(late), tenth)
		}
	}
}

const tenth = time.Second / 10
