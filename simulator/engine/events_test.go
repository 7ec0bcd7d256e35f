package engine_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fairlead/fairlead/simulator/engine"
)

// mirror is what somebody knows of a cache who hears every batch: how many blocks hold which contents.
type mirror map[uint64]int

func (m mirror) hear(t *testing.T, events []engine.BlockEvent) {
	for _, v := range events {
		switch v.Kind {
		case engine.Stored:
			m[v.Hash]++
		case engine.Removed:
			if m[v.Hash]--; m[v.Hash] < 0 {
				t.Fatalf("%x is removed more often than it was stored", v.Hash)
			}
			if m[v.Hash] == 0 {
				delete(m, v.Hash)
			}
		case engine.Cleared:
			clear(m)
		}
	}
}

// Who hears everything knows, when no step runs, exactly what can be hit; and who begins with what is cached at any instant and
// hears the rest knows the same. Batches are numbered without a gap, in single steps and in rows, through evictions,
// preemptions, duplicates, aborts and resets.
func TestEventsTellTheCache(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		p := tiny()
		p.Blocks, p.MaxSeqs, p.MaxBatchedTokens = 8+r.Int32N(40), 1+r.Int32N(6), 3+r.Int32N(20)
		e := newEngine(t, p, engine.Options{BlockEvents: true})
		longest := int(p.Blocks-1) * int(p.BlockTokens)
		heard, late := mirror{}, mirror(nil)
		next := uint64(0)
		hear := func(events []engine.BlockEvent) {
			for i, v := range events {
				if v.Batch != next && v.Batch != next-1 || i == 0 && v.Batch != next {
					t.Fatalf("seed %d: batch %d, want %d", seed, v.Batch, next)
				}
				next = v.Batch + 1
				if i > 0 && v.Batch == events[i-1].Batch && v.At != events[i-1].At {
					t.Fatalf("seed %d: batch %d is published at %v and %v", seed, v.Batch, v.At, events[i-1].At)
				}
			}
			heard.hear(t, events)
			if late != nil {
				late.hear(t, events)
			}
		}
		begin := func(seldom int) { // anew, with what is cached
			if r.IntN(seldom) == 0 {
				late = mirror{}
				late.hear(t, e.AppendCached(nil))
			}
		}
		var chains [][]uint64
		var ids []engine.ID
		at := time.Duration(0)
		for range 60 {
			switch k := r.IntN(8); {
			case k == 0 && len(ids) > 0:
				e.Abort(ids[r.IntN(len(ids))])
			case k == 1:
				e.ResetCache()
			default:
				prompt, output := 1+r.IntN(longest/2), 1+r.IntN(longest/2)
				hashes := contents(p, string(rune('a'+r.IntN(3))), "s", r.IntN(prompt+1), prompt+output)
				id, err := e.Add(at, engine.Request{Prompt: int32(prompt), Output: int32(output), Hashes: hashes})
				if err != nil {
					t.Fatal(err)
				}
				ids, chains = append(ids, id), append(chains, hashes)
			}
			begin(4)
			if _, busy := e.Next(); !busy {
				e.Step(at)
			}
			begin(4)
			until := at + time.Duration(r.IntN(400))*ms
			for {
				end, busy := e.Next()
				if !busy || end > until {
					break
				}
				if k := e.Skip(until); len(k.Steps) > 0 {
					hear(k.Blocks)
				} else {
					hear(e.Step(end).Blocks)
				}
				begin(20)
			}
			at = until
		}
		for end, busy := e.Next(); busy; end, busy = e.Next() {
			hear(e.Step(end).Blocks)
		}
		// A last step, for what nobody hears of before one ends.
		if _, err := e.Add(at, engine.Request{Prompt: 1, Output: 1}); err != nil {
			t.Fatal(err)
		}
		e.Step(at)
		end, _ := e.Next()
		hear(e.Step(end).Blocks)
		if e.Batches() != next {
			t.Errorf("seed %d: %d batches, heard of %d", seed, e.Batches(), next)
		}
		if late == nil {
			t.Fatalf("seed %d: nobody began late", seed)
		}
		for _, chain := range chains {
			depth := 0
			for depth < len(chain) && heard[chain[depth]] > 0 {
				depth++
			}
			if got := e.Cached(chain); got != depth {
				t.Fatalf("seed %d: %d blocks of a chain are cached, %d by what was heard", seed, got, depth)
			}
			for _, h := range chain {
				if heard[h] != late[h] || len(heard) != len(late) {
					t.Fatalf("seed %d: %x in %d blocks by all that was told, in %d by what was told late", seed, h, heard[h], late[h])
				}
			}
		}
	}
}
