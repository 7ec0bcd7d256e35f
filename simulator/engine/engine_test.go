package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/simulator/engine"
)

// tiny is a profile small enough to compute by hand: blocks of 4 tokens, 8 tokens a step, and times in whole milliseconds.
func tiny() engine.Profile {
	return engine.Profile{
		Hardware: "tiny", ModelFlag: "toy", Model: "toy",
		Blocks: 13, BlockTokens: 4, MaxBatchedTokens: 8, MaxSeqs: 4, MaxModelLen: 1000,
		Step: engine.StepTime{
			Base:            10 * time.Millisecond,
			PerPrefillToken: time.Millisecond,
			PerSequence:     2 * time.Millisecond,
		},
	}
}

func newEngine(t testing.TB, p engine.Profile, o engine.Options) *engine.Engine {
	t.Helper()
	e, err := engine.New(p, o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// contents returns the hashes of a text of so many tokens that begins with shared tokens of the text named common and goes
// on as its own.
func contents(p engine.Profile, own, common string, shared, total int) []uint64 {
	tokens := make([]uint32, total)
	for i := range tokens {
		name := own
		if i < shared {
			name = common
		}
		tokens[i] = uint32(i)<<8 | uint32(name[0])
	}
	return engine.NewChain("toy", "", "", p.BlockTokens).Append(nil, tokens)
}

func add(t testing.TB, e *engine.Engine, now time.Duration, r engine.Request) engine.ID {
	t.Helper()
	id, err := e.Add(now, r)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// run steps e from now until it is idle and returns a line per ended step.
func run(t testing.TB, e *engine.Engine, now time.Duration) (log []string, finished []engine.Finished) {
	t.Helper()
	for range 10_000 {
		r := e.Step(now)
		if r.Ended != nil {
			log = append(log, line(r))
		}
		finished = append(finished, r.Finished...)
		next, busy := e.Next()
		if !busy {
			return log, finished
		}
		now = next
	}
	t.Fatal("the engine is still busy after 10,000 steps")
	return nil, nil
}

func line(r engine.Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d-%dms prefill=%d decode=%d", r.Ended.Start.Milliseconds(), r.Ended.End.Milliseconds(), r.Ended.PrefillTokens, r.Ended.Decodes)
	if r.Ended.Admitted > 0 {
		fmt.Fprintf(&b, " admitted=%d", r.Ended.Admitted)
	}
	if r.Ended.Preempted > 0 {
		fmt.Fprintf(&b, " preempted=%d", r.Ended.Preempted)
	}
	for _, k := range r.Tokens {
		fmt.Fprintf(&b, " %d:%d", k.ID.Slot, k.Count)
		if k.Last {
			b.WriteByte('!')
		}
	}
	return b.String()
}

func equalLines(t *testing.T, got, want []string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Computed by hand. Budget 8. Request 0 has 5 prompt tokens and wants 3, request 1 has 12 and wants 2.
//
//	step 1: 0 computes 5, 1 the 3 that are left.        10 + 8·1 + 2·2 = 22 ms; 0 generates its 1st
//	step 2: 0 decodes, 1 computes 7 of 9.               10 + 7·1 + 2·2 = 21 ms; 0 its 2nd
//	step 3: 0 decodes, 1 computes its last 2.           10 + 2·1 + 2·2 = 16 ms; 0 its 3rd and last, 1 its 1st
//	step 4: 1 decodes.                                  10 + 1·2       = 12 ms; 1 its 2nd and last
func TestAStepLogComputedByHand(t *testing.T) {
	e := newEngine(t, tiny(), engine.Options{})
	add(t, e, 0, engine.Request{Prompt: 5, Output: 3})
	add(t, e, 0, engine.Request{Prompt: 12, Output: 2})
	log, finished := run(t, e, 0)
	equalLines(t, log, []string{
		"0-22ms prefill=8 decode=0 admitted=2 0:1",
		"22-43ms prefill=7 decode=1 0:2",
		"43-59ms prefill=2 decode=1 0:3! 1:1",
		"59-71ms prefill=0 decode=1 1:2!",
	})
	want := engine.Timeline{Arrived: 0, Admitted: 0, FirstToken: 59 * time.Millisecond, LastToken: 71 * time.Millisecond, Prompt: 12, Output: 2}
	if finished[1].Timeline != want {
		t.Errorf("request 1: got %+v, want %+v", finished[1].Timeline, want)
	}
	if g := e.Gauges(); g.UsedBlocks != 0 || g.FreeBlocks != 12 || g.Running != 0 || g.Waiting != 0 {
		t.Errorf("idle engine: %+v", g)
	}
}

func TestAddRefuses(t *testing.T) {
	for _, c := range []struct {
		name    string
		options engine.Options
		request engine.Request
		want    string
	}{
		{"a request without a prompt", engine.Options{}, engine.Request{Output: 1}, "at least 1 each"},
		{"a request that wants nothing", engine.Options{}, engine.Request{Prompt: 1}, "at least 1 each"},
		{"a request longer than the KV memory", engine.Options{}, engine.Request{Prompt: 40, Output: 9}, "together at most 48"},
		{"an adapter that does not exist", engine.Options{Adapters: 1, MaxLoras: 1}, engine.Request{Prompt: 1, Output: 1, Adapter: 2}, "there are 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEngine(t, tiny(), c.options)
			if _, err := e.Add(0, c.request); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want one with %q", err, c.want)
			}
		})
	}
	e := newEngine(t, tiny(), engine.Options{MaxWaiting: 1})
	add(t, e, 0, engine.Request{Prompt: 1, Output: 1})
	if _, err := e.Add(0, engine.Request{Prompt: 1, Output: 1}); !errors.Is(err, engine.ErrQueueFull) {
		t.Errorf("one beyond MaxWaiting: got error %v", err)
	}
}

func TestNewRefusesASettingWithoutSense(t *testing.T) {
	broken := tiny()
	broken.BlockTokens = 0
	_, err := engine.New(broken, engine.Options{})
	if err == nil || err.Error() != "engine tiny: BlockTokens is 0; at least 1" {
		t.Errorf("got %v", err)
	}
}
