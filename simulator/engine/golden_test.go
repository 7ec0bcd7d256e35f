package engine_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/simulator/engine"
)

// TestTwelveStepsComputedByHand plays testdata/twelve-steps.txt, where every step is computed and explained.
func TestTwelveStepsComputedByHand(t *testing.T) {
	text, err := os.ReadFile("testdata/twelve-steps.txt")
	if err != nil {
		t.Fatal(err)
	}
	p := tiny()
	p.Blocks, p.MaxSeqs = 8, 3
	e := newEngine(t, p, engine.Options{})
	type add struct {
		at      time.Duration
		request engine.Request
	}
	var adds []add
	var want []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		var at int
		var texts string
		switch n, _ := fmt.Sscanf(line, "add %d %s", &at, &texts); {
		case n == 2:
			prompt, answer, _ := strings.Cut(texts, "|")
			adds = append(adds, add{time.Duration(at) * ms, engine.Request{
				Prompt: int32(len(prompt)), Output: int32(len(answer)), Hashes: letters(p, prompt+answer),
			}})
		case line != "" && line[0] != '#':
			want = append(want, line)
		}
	}
	var got []string
	for {
		next, busy := e.Next()
		if len(adds) > 0 && (!busy || adds[0].at < next) {
			// Those of one instant come before the step that begins then.
			at := adds[0].at
			for len(adds) > 0 && adds[0].at == at {
				if _, err := e.Add(at, adds[0].request); err != nil {
					t.Fatal(err)
				}
				adds = adds[1:]
			}
			if busy {
				continue
			}
			e.Step(at)
		} else if busy {
			e.Step(next)
		} else {
			break
		}
		if line := e.AppendLog(nil); len(line) > 0 {
			got = append(got, string(line))
		}
	}
	equalLines(t, got, want)
	if c := e.Counters(); len(want) != 12 || c.Preemptions != 2 || c.PrefixQueries != 10+6+8+2+18+9 || c.PrefixHits != 4+12 || e.Gauges().UsedBlocks != 0 {
		t.Errorf("%d steps, %+v", len(want), c)
	}
}

// letters returns the hashes of a text of which each letter is a token.
func letters(p engine.Profile, text string) []uint64 {
	tokens := make([]uint32, len(text))
	for i := range tokens {
		tokens[i] = uint32(text[i])
	}
	return engine.NewChain("toy", "", "", p.BlockTokens).Append(nil, tokens)
}
