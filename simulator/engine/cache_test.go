package engine_test

import (
	"testing"
	"time"

	"github.com/fairlead/fairlead/simulator/engine"
)

// cachedOf runs r alone to its end and returns how many prompt tokens the cache gave.
func cachedOf(t *testing.T, e *engine.Engine, now time.Duration, r engine.Request) int32 {
	t.Helper()
	add(t, e, now, r)
	_, finished := run(t, e, now)
	if len(finished) != 1 {
		t.Fatalf("%d requests finished, want 1", len(finished))
	}
	return finished[0].Cached
}

func TestPrefixCache(t *testing.T) {
	p := tiny() // 12 usable blocks of 4 tokens
	for _, c := range []struct {
		name   string
		first  engine.Request
		then   engine.Request
		cached int32
	}{
		{"a prompt of whole blocks computes its last block anew", engine.Request{Prompt: 12, Output: 1, Hashes: contents(p, "a", "", 0, 12)},
			engine.Request{Prompt: 12, Output: 1, Hashes: contents(p, "a", "", 0, 12)}, 8},
		{"a prompt of one token more than whole blocks hits them all", engine.Request{Prompt: 13, Output: 1, Hashes: contents(p, "a", "", 0, 13)},
			engine.Request{Prompt: 13, Output: 1, Hashes: contents(p, "a", "", 0, 13)}, 12},
		{"only full blocks are cached", engine.Request{Prompt: 7, Output: 1, Hashes: contents(p, "a", "", 0, 7)},
			engine.Request{Prompt: 12, Output: 1, Hashes: contents(p, "b", "a", 7, 12)}, 4},
		{"a common prefix hits up to where the texts part", engine.Request{Prompt: 20, Output: 1, Hashes: contents(p, "a", "c", 8, 20)},
			engine.Request{Prompt: 20, Output: 1, Hashes: contents(p, "b", "c", 8, 20)}, 8},
		// 6 + 7 = 13 tokens, of which the last was never computed: 3 full blocks.
		{"generated tokens are cached as they fill blocks", engine.Request{Prompt: 6, Output: 7, Hashes: contents(p, "a", "", 0, 13)},
			engine.Request{Prompt: 20, Output: 1, Hashes: contents(p, "b", "a", 13, 20)}, 12},
		{"a block whose last token was generated but not computed is not cached", engine.Request{Prompt: 6, Output: 6, Hashes: contents(p, "a", "", 0, 12)},
			engine.Request{Prompt: 20, Output: 1, Hashes: contents(p, "b", "a", 12, 20)}, 8},
		{"contents without a hash are never shared", engine.Request{Prompt: 12, Output: 1}, engine.Request{Prompt: 12, Output: 1}, 0},
		{"another text hits nothing", engine.Request{Prompt: 12, Output: 1, Hashes: contents(p, "a", "", 0, 12)},
			engine.Request{Prompt: 12, Output: 1, Hashes: contents(p, "b", "", 0, 12)}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := newEngine(t, p, engine.Options{})
			if got := cachedOf(t, e, 0, c.first); got != 0 {
				t.Fatalf("the empty cache gave %d tokens", got)
			}
			if got := cachedOf(t, e, time.Second, c.then); got != c.cached {
				t.Errorf("cached %d tokens, want %d", got, c.cached)
			}
			if counters := e.Counters(); counters.PrefixHits != int64(c.cached) || counters.PrefixQueries != int64(c.first.Prompt+c.then.Prompt) {
				t.Errorf("counters %+v", counters)
			}
			off := newEngine(t, p, engine.Options{NoPrefixCache: true})
			cachedOf(t, off, 0, c.first)
			if got := cachedOf(t, off, time.Second, c.then); got != 0 {
				t.Errorf("switched off, the cache gave %d tokens", got)
			}
		})
	}
}

func TestRequestsOfOneStepShareBlocks(t *testing.T) {
	p := tiny()
	p.MaxBatchedTokens = 100
	e := newEngine(t, p, engine.Options{})
	add(t, e, 0, engine.Request{Prompt: 10, Output: 1, Hashes: contents(p, "a", "c", 8, 10)})
	add(t, e, 0, engine.Request{Prompt: 10, Output: 1, Hashes: contents(p, "b", "c", 8, 10)})
	e.Step(0)
	if g := e.Gauges(); g.UsedBlocks != 4 {
		t.Errorf("%d blocks in use, want 2 shared and 1 each", g.UsedBlocks)
	}
	next, _ := e.Next()
	_, finished := run(t, e, next)
	if finished[0].Cached != 0 || finished[1].Cached != 8 {
		t.Errorf("cached %d and %d, want 0 and 8", finished[0].Cached, finished[1].Cached)
	}
}

// Text a fills 5 blocks. Text b takes 9 of the 12: the 7 that never held anything, and then the oldest free ones, which are
// a's last two, since a request gives its blocks back last first.
func TestEvictionTakesTheTailFirst(t *testing.T) {
	p := tiny()
	e := newEngine(t, p, engine.Options{})
	cachedOf(t, e, 0, engine.Request{Prompt: 20, Output: 1, Hashes: contents(p, "a", "", 0, 20)})
	cachedOf(t, e, 1*time.Second, engine.Request{Prompt: 36, Output: 1, Hashes: contents(p, "b", "", 0, 36)})
	if got := cachedOf(t, e, 2*time.Second, engine.Request{Prompt: 20, Output: 1, Hashes: contents(p, "a", "", 0, 20)}); got != 12 {
		t.Errorf("cached %d tokens of the first text, want its first 3 blocks, 12", got)
	}
}

func TestEvictionTakesTheLeastRecentlyUsedText(t *testing.T) {
	p := tiny()
	e := newEngine(t, p, engine.Options{})
	text := func(name string) engine.Request {
		return engine.Request{Prompt: 17, Output: 1, Hashes: contents(p, name, "", 0, 17)}
	}
	// Each text takes 5 blocks, 4 of them full; 12 hold two texts and two blocks more.
	cachedOf(t, e, 0, text("a"))
	cachedOf(t, e, 1*time.Second, text("b"))
	cachedOf(t, e, 2*time.Second, text("a")) // now b is the oldest
	cachedOf(t, e, 3*time.Second, text("c"))
	if a := cachedOf(t, e, 4*time.Second, text("a")); a != 16 {
		t.Errorf("the text used last kept %d tokens, want 16", a)
	}
	if b := cachedOf(t, e, 5*time.Second, text("b")); b >= 16 {
		t.Errorf("the oldest text kept %d tokens, want less than 16", b)
	}
}

func TestResetCacheWaitsForRequests(t *testing.T) {
	p := tiny()
	e := newEngine(t, p, engine.Options{})
	r := engine.Request{Prompt: 13, Output: 1, Hashes: contents(p, "a", "", 0, 13)}
	add(t, e, 0, r)
	e.Step(0)
	if e.ResetCache() {
		t.Error("the cache was reset under a running request")
	}
	next, _ := e.Next()
	run(t, e, next)
	if !e.ResetCache() {
		t.Error("the cache of an idle engine was not reset")
	}
	if got := cachedOf(t, e, time.Second, r); got != 0 {
		t.Errorf("after the reset the cache gave %d tokens", got)
	}
}

func TestChainTellsAdapterSaltAndModelApart(t *testing.T) {
	tokens := []uint32{1, 2, 3, 4, 5, 6, 7, 8}
	seen := map[uint64]string{}
	for _, c := range [][3]string{{"m", "", ""}, {"m", "a", ""}, {"m", "", "a"}, {"m", "a", "a"}, {"ma", "", ""}, {"", "m", ""}} {
		name := c[0] + "/" + c[1] + "/" + c[2]
		for _, h := range engine.NewChain(c[0], c[1], c[2], 4).Append(nil, tokens) {
			if other, ok := seen[h]; ok {
				t.Errorf("%s and %s share a hash", name, other)
			}
			seen[h] = name
		}
	}
	whole := engine.NewChain("m", "", "", 4).Append(nil, tokens)
	c := engine.NewChain("m", "", "", 4)
	var pieces []uint64
	for _, k := range tokens {
		pieces = c.Append(pieces, []uint32{k})
	}
	if len(whole) != 2 || pieces[0] != whole[0] || pieces[1] != whole[1] {
		t.Errorf("in one go %x, token by token %x", whole, pieces)
	}
}
