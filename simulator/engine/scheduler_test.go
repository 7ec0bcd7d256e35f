package engine_test

import (
	"testing"
	"time"

	"github.com/fairlead/fairlead/simulator/engine"
)

const ms = time.Millisecond

func TestAdmissionIsInOrderAndBounded(t *testing.T) {
	t.Run("at most MaxSeqs run", func(t *testing.T) {
		p := tiny()
		p.MaxSeqs = 2
		e := newEngine(t, p, engine.Options{})
		for range 3 {
			add(t, e, 0, engine.Request{Prompt: 1, Output: 2})
		}
		log, _ := run(t, e, 0)
		equalLines(t, log, []string{
			"0-16ms prefill=2 decode=0 admitted=2 0:1 1:1",
			"16-30ms prefill=0 decode=2 0:2! 1:2!",
			"30-43ms prefill=1 decode=0 admitted=1 2:1",
			"43-55ms prefill=0 decode=1 2:2!",
		})
	})
	t.Run("LongPrefill leaves budget to others", func(t *testing.T) {
		e := newEngine(t, tiny(), engine.Options{LongPrefill: 3})
		add(t, e, 0, engine.Request{Prompt: 6, Output: 1})
		add(t, e, 0, engine.Request{Prompt: 3, Output: 1})
		log, _ := run(t, e, 0)
		equalLines(t, log, []string{
			"0-20ms prefill=6 decode=0 admitted=2 1:1!",
			"20-35ms prefill=3 decode=0 0:1!",
		})
	})
	// 12 usable blocks. Request 0 takes 8 of them (30 tokens), request 1 needs 5 for its 20 tokens at once, request 2 one.
	t.Run("a head without blocks blocks the smaller one behind it, and nothing fails", func(t *testing.T) {
		p := tiny()
		p.MaxBatchedTokens = 40
		e := newEngine(t, p, engine.Options{})
		add(t, e, 0, engine.Request{Prompt: 30, Output: 2})
		add(t, e, 0, engine.Request{Prompt: 20, Output: 1})
		add(t, e, 0, engine.Request{Prompt: 1, Output: 1})
		// Only 10 of request 1's tokens fit the budget, for which 3 blocks are enough: 8 + 3 + 1 = 12 blocks.
		log, _ := run(t, e, 0)
		if log[0] != "0-54ms prefill=40 decode=0 admitted=2 0:1" {
			t.Errorf("first step: %s", log[0])
		}
		p.MaxBatchedTokens = 100
		e = newEngine(t, p, engine.Options{})
		add(t, e, 0, engine.Request{Prompt: 30, Output: 2})
		add(t, e, 0, engine.Request{Prompt: 20, Output: 1})
		add(t, e, 0, engine.Request{Prompt: 1, Output: 1})
		log, _ = run(t, e, 0)
		equalLines(t, log, []string{
			"0-42ms prefill=30 decode=0 admitted=1 0:1",
			"42-54ms prefill=0 decode=1 0:2!",
			"54-89ms prefill=21 decode=0 admitted=2 1:1! 2:1!",
		})
	})
}

// 3 usable blocks of 4. Both requests fill one block each with their prompts and take a second one for their 5th token at
// most: 4 blocks are needed and 3 are there, so the one admitted last goes back.
//
//	step 1: both compute 4                                       10+8+4 = 22 ms
//	step 2: 0 takes the 3rd block; 1 finds none and is preempted; 2, which needs none yet, is not admitted
//	step 3: 0 decodes its 3rd and last
//	step 4: 1 comes back before 2: its 4 prompt tokens and the 1st generated one anew (2 blocks), and 2 with 1
func TestPreemption(t *testing.T) {
	p := tiny()
	p.Blocks = 4
	e := newEngine(t, p, engine.Options{})
	add(t, e, 0, engine.Request{Prompt: 4, Output: 3})
	add(t, e, 0, engine.Request{Prompt: 4, Output: 3})
	e.Step(0)
	add(t, e, 1*ms, engine.Request{Prompt: 1, Output: 1})
	log, finished := run(t, e, 22*ms)
	equalLines(t, log, []string{
		"0-22ms prefill=8 decode=0 admitted=2 0:1 1:1",
		"22-34ms prefill=0 decode=1 preempted=1 0:2",
		"34-46ms prefill=0 decode=1 0:3!",
		"46-66ms prefill=6 decode=0 admitted=2 1:2 2:1!",
		"66-78ms prefill=0 decode=1 1:3!",
	})
	for _, f := range finished {
		want := int32(0)
		if f.ID.Slot == 1 {
			want = 1
		}
		if f.Preemptions != want {
			t.Errorf("request %d: %d preemptions, want %d", f.ID.Slot, f.Preemptions, want)
		}
	}
	if c := e.Counters(); c.Preemptions != 1 || c.Finished != 3 || c.GenerationTokens != 7 {
		t.Errorf("counters %+v", c)
	}
}

func TestAStepAdmitsNobodyAfterAPreemption(t *testing.T) {
	p := tiny()
	p.Blocks = 4
	e := newEngine(t, p, engine.Options{})
	add(t, e, 0, engine.Request{Prompt: 4, Output: 3})
	add(t, e, 0, engine.Request{Prompt: 4, Output: 3})
	e.Step(0)
	add(t, e, 0, engine.Request{Prompt: 1, Output: 1}) // would fit beside request 0: one block is free after the preemption
	e.Step(22 * ms)
	if g := e.Gauges(); g.Running != 1 || g.Waiting != 2 || g.FreeBlocks != 1 {
		t.Errorf("%+v; want 1 running, 2 waiting, 1 block free", g)
	}
}

func TestAdapters(t *testing.T) {
	e := newEngine(t, tiny(), engine.Options{Adapters: 2, MaxLoras: 1})
	add(t, e, 0, engine.Request{Prompt: 1, Output: 2, Adapter: 1})
	add(t, e, 0, engine.Request{Prompt: 1, Output: 1, Adapter: 2})
	add(t, e, 0, engine.Request{Prompt: 1, Output: 1, Adapter: 1})
	add(t, e, 0, engine.Request{Prompt: 1, Output: 1})
	e.Step(0)
	if g := e.Gauges(); g.Running != 3 || g.Waiting != 1 || g.Deferred != 1 {
		t.Errorf("%+v; want the second adapter alone to wait, passed over by those behind it", g)
	}
	running, waiting := make([]int32, 3), make([]int32, 3)
	e.AdapterLoads(running, waiting)
	if running[0] != 1 || running[1] != 2 || running[2] != 0 || waiting[2] != 1 {
		t.Errorf("running %v, waiting %v", running, waiting)
	}
	next, _ := e.Next()
	log, _ := run(t, e, next)
	equalLines(t, log, []string{
		"0-19ms prefill=3 decode=0 admitted=3 0:1 2:1! 3:1!",
		"19-31ms prefill=0 decode=1 0:2!",
		"31-44ms prefill=1 decode=0 admitted=1 1:1!",
	})
}

func TestAbort(t *testing.T) {
	t.Run("of a waiting request is immediate", func(t *testing.T) {
		e := newEngine(t, tiny(), engine.Options{})
		id := add(t, e, 0, engine.Request{Prompt: 1, Output: 1})
		if !e.Abort(id) || e.Abort(id) {
			t.Error("want true, and false the second time")
		}
		if g := e.Gauges(); g.Waiting != 0 {
			t.Errorf("%+v", g)
		}
	})
	t.Run("of a running request frees its blocks when the step ends, and yields no token", func(t *testing.T) {
		e := newEngine(t, tiny(), engine.Options{})
		id := add(t, e, 0, engine.Request{Prompt: 5, Output: 9})
		e.Step(0)
		if !e.Abort(id) || e.Abort(id) {
			t.Error("want true, and false the second time")
		}
		if g := e.Gauges(); g.UsedBlocks != 2 {
			t.Errorf("during the step: %+v", g)
		}
		r := e.Step(17 * ms)
		if g := e.Gauges(); g.UsedBlocks != 0 || g.Running != 0 || len(r.Tokens) != 0 || len(r.Finished) != 0 {
			t.Errorf("after the step: %+v, %+v", g, r)
		}
		if c := e.Counters(); c.Aborted != 1 || c.Finished != 0 {
			t.Errorf("counters %+v", c)
		}
	})
	t.Run("of a request that ended leaves the slot's next tenant alone", func(t *testing.T) {
		e := newEngine(t, tiny(), engine.Options{})
		old := add(t, e, 0, engine.Request{Prompt: 1, Output: 1})
		run(t, e, 0)
		tenant := add(t, e, 20*ms, engine.Request{Prompt: 1, Output: 1})
		if tenant.Slot != old.Slot || e.Abort(old) || e.Gauges().Waiting != 1 {
			t.Errorf("old %+v, tenant %+v", old, tenant)
		}
	})
}

func TestSlowdownAndStall(t *testing.T) {
	e := newEngine(t, tiny(), engine.Options{})
	e.SetSlowdown(2.5)
	add(t, e, 0, engine.Request{Prompt: 3, Output: 2})
	e.Step(0)
	if next, _ := e.Next(); next != 37500*time.Microsecond {
		t.Errorf("slowed step ends at %v, want 2.5 times 15ms", next)
	}
	e.Stall(100 * ms)
	e.SetSlowdown(0)
	log, _ := run(t, e, 137500*time.Microsecond)
	equalLines(t, log, []string{
		"0-137ms prefill=3 decode=0 admitted=1 0:1",
		"137-149ms prefill=0 decode=1 0:2!",
	})
}

func TestAStepTakenLateStandsAtItsEnd(t *testing.T) {
	e := newEngine(t, tiny(), engine.Options{})
	add(t, e, 0, engine.Request{Prompt: 3, Output: 2})
	e.Step(0)
	r := e.Step(20 * ms) // the step ended at 15 ms
	if r.Tokens[0].Gap != 15*ms {
		t.Errorf("first token after %v, want 15ms", r.Tokens[0].Gap)
	}
	if next, _ := e.Next(); next != 32*ms {
		t.Errorf("the next step ends at %v, want 32ms", next)
	}
}
