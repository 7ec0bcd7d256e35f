package fleet_test

import (
	"math"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/simulator/fleet"
)

// counts notes what the scheduler is told of prompts.
type counts struct {
	turns
	tokens  []int64
	blocks  []int
	without int
}

func (c *counts) Arrive(now pool.Instant, number uint64, r *fleet.Request, s *openai.Summary) fleet.Answer {
	c.tokens, c.blocks = append(c.tokens, s.PromptTokens), append(c.blocks, len(s.BlockHashes))
	if len(s.BlockHashes) == 0 {
		c.without++
	}
	return c.turns.Arrive(now, number, r, s)
}

// A tokenizer that does not match counts other tokens, and cannot tell the blocks of as large a share of the prompts. The engines
// are not misled.
func TestATokenizerThatDoesNotMatch(t *testing.T) {
	told := func(e float64) (*counts, *fleet.Result) {
		c := &counts{}
		return c, run(t, fleet.Options{Pods: pods(t, 2), Decider: c, Source: sharing(400, 50*time.Millisecond), Signals: fleet.Signals{TokenError: e}})
	}
	right, served := told(0)
	for _, tt := range []struct {
		e      float64
		tokens int64
	}{{0, 1200}, {0.25, 1500}, {-0.25, 900}} {
		c, r := told(tt.e)
		for i, n := range c.tokens {
			if n != tt.tokens || c.blocks[i] != 75 && c.blocks[i] != 0 {
				t.Fatalf("error %v: prompt %d of 1200 tokens and 75 blocks is told as %d and %d; want %d tokens", tt.e, i, n, c.blocks[i], tt.tokens)
			}
		}
		if share := float64(c.without) / 400; math.Abs(share-math.Abs(tt.e)) > 0.06 {
			t.Errorf("error %v: no blocks are told of %.2f of the prompts", tt.e, share)
		}
		for i := range r.Outcomes {
			if r.Outcomes[i].Prompt != served.Outcomes[i].Prompt || r.Outcomes[i].Cached != served.Outcomes[i].Cached {
				t.Fatalf("error %v: request %d is served as %+v, without the error as %+v", tt.e, i, r.Outcomes[i], served.Outcomes[i])
			}
		}
	}
	if right.without != 0 {
		t.Errorf("no blocks are told of %d prompts, by a tokenizer that matches", right.without)
	}
}
