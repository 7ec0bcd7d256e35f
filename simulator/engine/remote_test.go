package engine_test

import (
	"slices"
	"testing"

	"github.com/fairlead/fairlead/simulator/engine"
)

// A prompt of 9 tokens that another engine computed takes 3 blocks of 4 at once, waits without a step, and then computes its
// last token alone: 10+1+2 = 13 ms.
func TestContentsFromAnotherEngine(t *testing.T) {
	p := tiny()
	prefill, decode := newEngine(t, p, engine.Options{}), newEngine(t, p, engine.Options{})
	hashes := contents(p, "a", "", 0, 12)

	first := add(t, prefill, 0, engine.Request{Prompt: 9, Output: 1, Hashes: hashes, HoldKV: true})
	_, finished := run(t, prefill, 0)
	if g := prefill.Gauges(); len(finished) != 1 || g.UsedBlocks != 3 || g.Running != 0 {
		t.Fatalf("the engine that prefilled: %+v, %d finished; want 3 blocks held and nothing running", g, len(finished))
	}

	second := add(t, decode, 31*ms, engine.Request{Prompt: 9, Output: 3, Hashes: hashes, RemoteKV: true})
	r := decode.Step(31 * ms)
	if want := []engine.Loading{{ID: second, Tokens: 9}}; !slices.Equal(r.Loading, want) {
		t.Fatalf("loading %+v, want %+v", r.Loading, want)
	}
	if g := decode.Gauges(); g.UsedBlocks != 3 || g.Waiting != 1 || g.Deferred != 1 || g.Running != 0 {
		t.Errorf("while the contents are on their way: %+v", g)
	}
	if _, busy := decode.Next(); busy {
		t.Error("a step runs for a request whose contents are missing")
	}
	// Others are not held up by it.
	other := add(t, decode, 35*ms, engine.Request{Prompt: 2, Output: 1})
	decode.Step(35 * ms)
	if !decode.Loaded(second) || decode.Loaded(second) || decode.Loaded(other) {
		t.Error("Loaded: want true once, and false for who waits for nothing")
	}
	if !prefill.Release(first) || prefill.Release(first) || prefill.Gauges().UsedBlocks != 0 {
		t.Error("Release: want true once, and the blocks free")
	}
	log, finished := run(t, decode, 49*ms)
	equalLines(t, log, []string{
		"35-49ms prefill=2 decode=0 admitted=1 1:1!",
		"49-62ms prefill=1 decode=0 admitted=1 0:1",
		"62-74ms prefill=0 decode=1 0:2",
		"74-86ms prefill=0 decode=1 0:3!",
	})
	if f := finished[1]; f.Remote != 9 || f.Cached != 0 || f.Admitted != 31*ms {
		t.Errorf("%+v; want 9 tokens from the other engine, none cached, blocks at 31ms", f.Timeline)
	}
	// What was loaded is cached, what was there is not loaded again.
	third := add(t, decode, 100*ms, engine.Request{Prompt: 12, Output: 1, Hashes: hashes, RemoteKV: true})
	if r := decode.Step(100 * ms); !slices.Equal(r.Loading, []engine.Loading{{ID: third, Tokens: 4}}) {
		t.Errorf("the second time %+v; want 4 of 12 tokens", r.Loading)
	}
	if !decode.Abort(third) || decode.Gauges().UsedBlocks != 0 {
		t.Errorf("aborted while loading: %+v", decode.Gauges())
	}
}

func TestBlockEvents(t *testing.T) {
	p := tiny()
	p.Blocks = 4 // 3 usable
	e := newEngine(t, p, engine.Options{BlockEvents: true})
	a, b := contents(p, "a", "", 0, 8), contents(p, "b", "", 0, 8)
	var got []engine.BlockEvent
	steps := func(r engine.Request) {
		add(t, e, 0, r)
		for now := 0 * ms; ; {
			got = append(got, e.Step(now).Blocks...)
			next, busy := e.Next()
			if !busy {
				return
			}
			now = next
		}
	}
	steps(engine.Request{Prompt: 8, Output: 1, Hashes: a})
	steps(engine.Request{Prompt: 8, Output: 1, Hashes: b})
	if !e.ResetCache() || len(got) == 0 {
		t.Fatal("no reset")
	}
	steps(engine.Request{Prompt: 1, Output: 1})
	want := []engine.BlockEvent{
		{At: 20 * ms, Kind: engine.Stored, Hash: a[0]},
		{At: 20 * ms, Kind: engine.Stored, Hash: a[1], Parent: a[0]},
		// The third block was never used; then the tail of a goes, since its blocks came back last first.
		{Batch: 1, At: 20 * ms, Kind: engine.Removed, Hash: a[1]},
		{Batch: 1, At: 20 * ms, Kind: engine.Stored, Hash: b[0]},
		{Batch: 1, At: 20 * ms, Kind: engine.Stored, Hash: b[1], Parent: b[0]},
		// Nobody hears of the reset before a step ends.
		{Batch: 2, At: 13 * ms, Kind: engine.Cleared},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}
