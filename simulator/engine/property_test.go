package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fairlead/fairlead/simulator/engine"
)

// TestNothingIsLostWhateverComes drives an engine with arbitrary arrivals and aborts and checks after every call what always
// holds; at the end every request has ended once, and every block is free.
func TestNothingIsLostWhateverComes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := tiny()
		p.Blocks = rapid.Int32Range(2, 20).Draw(t, "blocks")
		p.MaxBatchedTokens = rapid.Int32Range(1, 20).Draw(t, "budget")
		p.MaxSeqs = rapid.Int32Range(1, 6).Draw(t, "seqs")
		o := engine.Options{
			MaxWaiting:    rapid.Int32Range(0, 5).Draw(t, "waiting"),
			LongPrefill:   rapid.Int32Range(0, 9).Draw(t, "longPrefill"),
			Adapters:      2,
			MaxLoras:      1,
			NoPrefixCache: rapid.Bool().Draw(t, "noCache"),
		}
		e, err := engine.New(p, o)
		if err != nil {
			t.Fatal(err)
		}
		longest := int(e.Profile().MaxModelLen)
		type progress struct{ wanted, got int32 }
		alive := map[engine.ID]*progress{}
		var ids []engine.ID // of alive, in order
		ended := 0
		forget := func(id engine.ID) {
			delete(alive, id)
			ids = slices.DeleteFunc(ids, func(i engine.ID) bool { return i == id })
			ended++
		}
		now := time.Duration(0)
		check := func(r engine.Result) {
			for _, k := range r.Tokens {
				a := alive[k.ID]
				if a == nil {
					t.Fatalf("token for %v, which is not alive", k.ID)
				}
				a.got++
				if k.Count != a.got || k.Last != (a.got == a.wanted) || k.Gap <= 0 {
					t.Fatalf("token %+v of %+v", k, a)
				}
			}
			for _, f := range r.Finished {
				if f.Output != alive[f.ID].wanted || f.Admitted < f.Arrived || f.FirstToken <= f.Admitted || f.LastToken < f.FirstToken {
					t.Fatalf("finished %+v of %+v", f, alive[f.ID])
				}
				forget(f.ID)
			}
			if s := r.Ended; s != nil {
				if s.PrefillTokens+s.Decodes > p.MaxBatchedTokens || s.Sequences > p.MaxSeqs || s.Sequences == 0 {
					t.Fatalf("step %+v", s)
				}
				if s.Preempted > 0 && s.Admitted > 0 {
					t.Fatalf("step %+v admits after a preemption", s)
				}
				if s.End-s.Start != p.Step.Of(s.Load) {
					t.Fatalf("step %+v takes other than its load", s)
				}
			}
			g := e.Gauges()
			if g.UsedBlocks+g.FreeBlocks != p.Blocks-1 || g.UsedBlocks < 0 || g.FreeBlocks < 0 || g.Running > p.MaxSeqs {
				t.Fatalf("gauges %+v", g)
			}
			if _, busy := e.Next(); !busy && len(alive) > 0 && r.Ended != nil {
				t.Fatalf("idle with %d requests alive", len(alive))
			}
		}
		step := func() {
			if next, busy := e.Next(); busy {
				now = next
			}
			check(e.Step(now))
		}
		added := 0
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			switch rapid.IntRange(0, 4).Draw(t, "event") {
			case 0, 1:
				prompt := rapid.IntRange(1, longest-1).Draw(t, "prompt")
				output := rapid.IntRange(1, min(longest-prompt, 12)).Draw(t, "output")
				adapter := rapid.Int32Range(0, 2).Draw(t, "adapter")
				own := string(rune('a' + rapid.IntRange(0, 2).Draw(t, "text")))
				hashes := contents(p, own+fmt.Sprint(adapter), string('p'+adapter), rapid.IntRange(0, prompt).Draw(t, "shared"), prompt+output)
				id, err := e.Add(now, engine.Request{Prompt: int32(prompt), Output: int32(output), Hashes: hashes, Adapter: adapter})
				if err == engine.ErrQueueFull {
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				added++
				alive[id] = &progress{wanted: int32(output)}
				ids = append(ids, id)
				if _, busy := e.Next(); !busy {
					check(e.Step(now))
				}
			case 2:
				if len(ids) > 0 {
					id := ids[rapid.IntRange(0, len(ids)-1).Draw(t, "victim")]
					if !e.Abort(id) {
						t.Fatalf("abort of %v, which is alive, did nothing", id)
					}
					forget(id)
				}
			default:
				step()
			}
		}
		for i := 0; ; i++ {
			_, busy := e.Next()
			if !busy {
				if len(alive) == 0 {
					break
				}
				check(e.Step(now))
				continue
			}
			if i > 100_000 {
				t.Fatalf("%d requests never end", len(alive))
			}
			step()
		}
		g, c := e.Gauges(), e.Counters()
		if g.Running != 0 || g.Waiting != 0 || g.UsedBlocks != 0 || ended != added || c.Finished+c.Aborted != int64(added) {
			t.Fatalf("at the end %+v, %+v, added %d, ended %d", g, c, added, ended)
		}
	})
}

// TestSameInputsSameSteps runs one busy, preempting mix twice and compares every step.
func TestSameInputsSameSteps(t *testing.T) {
	play := func() string {
		p := engine.Profiles()[1]
		p.Blocks = 400
		e := newEngine(t, p, engine.Options{})
		var b strings.Builder
		now := time.Duration(0)
		for i := range 200 {
			r := engine.Request{Prompt: int32(50 + 37*i%900), Output: int32(1 + i*13%120)}
			r.Hashes = contents(p, string(rune('a'+i%5)), "s", 20*(i%7), int(r.Prompt+r.Output))
			at := time.Duration(i) * 20 * ms
			for {
				next, busy := e.Next()
				if !busy || next > at {
					break
				}
				now = next
				fmt.Fprintf(&b, "%s\n", line(e.Step(now)))
			}
			add(t, e, at, r)
			if _, busy := e.Next(); !busy {
				e.Step(at)
			}
		}
		next, _ := e.Next()
		log, finished := run(t, e, next)
		fmt.Fprintf(&b, "%s\n%+v\n%+v", strings.Join(log, "\n"), finished, e.Counters())
		return b.String()
	}
	first, second := play(), play()
	if first != second {
		t.Error("two runs of the same inputs differ")
	}
	if !strings.Contains(first, "preempted=") {
		t.Error("the mix preempts nobody; it should")
	}
}
