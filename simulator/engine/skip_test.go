package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fairlead/fairlead/simulator/engine"
)

// arrival is a request and when it comes, or when one that came before leaves.
type arrival struct {
	at      time.Duration
	request engine.Request
	abort   int // index of an arrival before, -1 for none
}

// play runs arrivals through an engine and tells everything that could be seen, with and without Skip.
func play(t interface{ Fatal(...any) }, p engine.Profile, o engine.Options, arrivals []arrival, skip bool) (log []string, skips int) {
	e, err := engine.New(p, o)
	if err != nil {
		t.Fatal(err)
	}
	ids := make([]engine.ID, len(arrivals))
	last := map[engine.ID]time.Duration{}
	tell := func(r engine.Result) {
		if r.Ended != nil {
			log = append(log, fmt.Sprintf("%+v", *r.Ended))
		}
		for _, k := range r.Tokens {
			log = append(log, fmt.Sprintf("%v at %v", k.ID, r.Ended.End))
			last[k.ID] = r.Ended.End
		}
		for _, f := range r.Finished {
			log = append(log, fmt.Sprintf("%+v", f))
		}
		for _, b := range r.Blocks {
			log = append(log, fmt.Sprintf("%+v", b))
		}
		log = append(log, string(e.AppendLog(nil)))
	}
	until := func(at time.Duration) {
		for range 100_000 {
			next, busy := e.Next()
			if !busy || next > at {
				return
			}
			if skip {
				if k := e.Skip(at); len(k.Steps) > 0 {
					skips += len(k.Steps)
					for _, s := range k.Steps {
						log = append(log, fmt.Sprintf("%+v", s))
						for _, id := range k.IDs {
							log = append(log, fmt.Sprintf("%v at %v", id, s.End))
						}
						for _, b := range k.Blocks {
							if b.At == s.End {
								log = append(log, fmt.Sprintf("%+v", b))
							}
						}
						log = append(log, "")
					}
					log[len(log)-1] = string(e.AppendLog(nil))
					continue
				}
			}
			tell(e.Step(next))
		}
		t.Fatal("the engine is still busy after 100,000 steps")
	}
	for i, a := range arrivals {
		until(a.at)
		if a.abort >= 0 {
			e.Abort(ids[a.abort])
			continue
		}
		id, err := e.Add(a.at, a.request)
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = id
		if _, busy := e.Next(); !busy {
			tell(e.Step(a.at))
		}
	}
	until(time.Duration(1<<62 - 1))
	return append(log, fmt.Sprintf("%+v %+v", e.Counters(), e.Gauges())), skips
}

// withoutBatches drops the lines that tell the running step, which a row of skipped steps tells only at its end.
func withoutBatches(log, like []string) []string {
	out := slices.Clone(log)
	for i := range out {
		if i < len(like) && like[i] == "" {
			out[i] = ""
		}
	}
	return out
}

func TestSkippedStepsAreTheSameSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := tiny()
		p.BlockTokens = rapid.Int32Range(1, 5).Draw(t, "blockTokens")
		p.Blocks = rapid.Int32Range(20, 60).Draw(t, "blocks")
		p.MaxBatchedTokens = rapid.Int32Range(2, 20).Draw(t, "budget")
		p.MaxSeqs = rapid.Int32Range(1, 6).Draw(t, "seqs")
		p.Step.PerContextToken = 17 * time.Microsecond
		p.Step.ReferenceContext = 3
		o := engine.Options{NoPrefixCache: rapid.Bool().Draw(t, "noCache"), BlockEvents: true}
		longest := int(p.Blocks-1) * int(p.BlockTokens)
		var arrivals []arrival
		at := time.Duration(0)
		for i := range rapid.IntRange(1, 12).Draw(t, "arrivals") {
			at += time.Duration(rapid.IntRange(0, 300).Draw(t, "gap")) * ms
			if i > 0 && rapid.IntRange(0, 5).Draw(t, "kind") == 0 {
				if victim := rapid.IntRange(0, i-1).Draw(t, "victim"); arrivals[victim].abort < 0 {
					arrivals = append(arrivals, arrival{at: at, abort: victim})
					continue
				}
			}
			prompt := rapid.IntRange(1, longest/2).Draw(t, "prompt")
			output := rapid.IntRange(1, longest/2).Draw(t, "output")
			own := string(rune('a' + rapid.IntRange(0, 1).Draw(t, "text")))
			arrivals = append(arrivals, arrival{at: at, abort: -1, request: engine.Request{
				Prompt: int32(prompt), Output: int32(output),
				Hashes: contents(p, own, "s", rapid.IntRange(0, prompt).Draw(t, "shared"), prompt+output),
			}})
		}
		one, _ := play(t, p, o, arrivals, false)
		many, _ := play(t, p, o, arrivals, true)
		if len(one) != len(many) {
			t.Fatalf("%d lines step by step, %d with Skip", len(one), len(many))
		}
		one = withoutBatches(one, many)
		for i := range one {
			if one[i] != many[i] {
				t.Fatalf("line %d:\nstep by step %s\nwith Skip    %s", i, one[i], many[i])
			}
		}
	})
}

// Eight long answers that nobody disturbs: but for the first and the last, all steps are skipped.
func TestSkipSkips(t *testing.T) {
	p := profile(t, "h100-sxm")
	var arrivals []arrival
	for i := range 8 {
		arrivals = append(arrivals, arrival{abort: -1, request: engine.Request{Prompt: 100, Output: 2000, Hashes: contents(p, string(rune('a'+i)), "", 0, 2100)}})
	}
	_, skips := play(t, p, engine.Options{}, arrivals, true)
	if skips < 1990 {
		t.Errorf("%d of 2000 steps were skipped", skips)
	}
}

func TestSkipAllocatesNothing(t *testing.T) {
	p := profile(t, "h100-sxm")
	e := newEngine(t, p, engine.Options{})
	for range 32 {
		add(t, e, 0, engine.Request{Prompt: 100, Output: 20_000})
	}
	e.Step(0)
	next, _ := e.Next()
	e.Step(next)
	hop := func() {
		next, _ := e.Next()
		if k := e.Skip(next + 100*ms); len(k.Steps) < 2 {
			t.Fatalf("%d steps in 100ms", len(k.Steps))
		}
	}
	for range 1000 {
		hop()
	}
	if allocs := testing.AllocsPerRun(200, hop); allocs > 0 {
		t.Errorf("%v allocations per call, want 0", allocs)
	}
}
