package workload

import (
	"fmt"
	"math/rand/v2"
)

// Like makes requests whose lengths and sharing are distributed like those of a published trace, for where the trace itself
// is not at hand.
type Like struct {
	// Trace is mooncake-conversation, mooncake-synthetic, azure-code or azure-conversation.
	Trace string `yaml:"trace"`
}

func (c *Like) check() error {
	if c == nil {
		return nil
	}
	if _, ok := likenesses[c.Trace]; !ok {
		return fmt.Errorf("like: no trace %q; there are mooncake-conversation, mooncake-synthetic, azure-code and azure-conversation", c.Trace)
	}
	return nil
}

// likeness are the figures of a trace. The lengths of Mooncake and Azure 2023 are fits to the published means and
// percentiles; a share of the requests go on with an earlier prompt.
type likeness struct {
	input     Distribution
	short     float64 // share of very short answers
	shortest  Distribution
	output    Distribution
	follows   float64 // share of requests that go on with a prompt seen before
	remembers int     // how many of the last prompts may be gone on with
	shared    int32   // tokens that all prompts begin with
}

var likenesses = map[string]likeness{
	// input mean 12,035, median 6,909, p99 85,400, at most 126,195; output mean 343, median 350, p99 1,119; 37 % of the prompt
	// tokens seen before; all share the first block of 512.
	"mooncake-conversation": {
		input: Distribution{Type: "lognormal", Mean: 12_100, StdDev: 17_300, Min: 600, Max: 126_195},
		short: 0.25, shortest: Distribution{Type: "uniform", Min: 1, Max: 40},
		output:  Distribution{Type: "normal", Mean: 440, StdDev: 270, Min: 1, Max: 2000},
		follows: 0.47, remembers: 6000, shared: 512,
	},
	// input mean 15,325, median 11,587, p99 66,456; output mean 149, median 69, p99 768; 65 % of the prompt tokens seen before,
	// 55 % of the requests with nothing seen.
	"mooncake-synthetic": {
		input:   Distribution{Type: "lognormal", Mean: 15_400, StdDev: 13_400, Min: 200, Max: 191_378},
		output:  Distribution{Type: "lognormal", Mean: 150, StdDev: 250, Min: 1, Max: 2000},
		follows: 0.76, remembers: 3000,
	},
	// input mean 2,048, median 1,469, p99 7,436; output mean 28, median 13, p99 251.
	"azure-code": {
		input:  Distribution{Type: "lognormal", Mean: 2_060, StdDev: 2_000, Min: 3, Max: 7_437},
		output: Distribution{Type: "lognormal", Mean: 28.5, StdDev: 54, Min: 1, Max: 1000},
	},
	// input mean 1,155, median 1,020, p99 4,142; output mean 211, median 129, p99 601.
	"azure-conversation": {
		input:  Distribution{Type: "lognormal", Mean: 1_155, StdDev: 680, Min: 2, Max: 8_000},
		output: Distribution{Type: "lognormal", Mean: 222, StdDev: 270, Min: 1, Max: 720},
	},
}

// remembered is an earlier prompt that a later one may go on with.
type remembered struct{ chain chain }

// alike makes the requests.
type alike struct {
	likeness
	lengths, choices *rand.Rand
	past             []remembered // a ring
	at               int
	begun            uint64
}

func newAlike(c *Like, lengths, choices *rand.Rand) *alike {
	return &alike{likeness: likenesses[c.Trace], lengths: lengths, choices: choices}
}

// prompt returns the contents of the next prompt.
func (a *alike) prompt(blockTokens int32) chain {
	want := a.input.tokens(a.lengths, 1)
	follows := a.choices.Float64() < a.follows
	pick := a.choices.IntN(1 << 30)
	a.begun++
	c := newChain(blockTokens)
	if follows && len(a.past) > 0 {
		// Of a few earlier prompts, the longest that fits.
		best := -1
		for try := range 24 {
			i := (pick + try*7919) % len(a.past)
			if n := a.past[i].chain.tokens; n < want && (best < 0 || n > a.past[best].chain.tokens) {
				best = i
			}
		}
		if best >= 0 {
			c = a.past[best].chain.extended()
		}
	}
	if c.tokens == 0 && a.shared > 0 {
		c.add(1, min(a.shared, want))
	}
	if c.tokens < want {
		c.add(mix(a.begun), want-c.tokens)
	}
	a.remember(c)
	return c
}

func (a *alike) remember(c chain) {
	if a.remembers == 0 {
		return
	}
	if len(a.past) < a.remembers {
		a.past = append(a.past, remembered{c})
		return
	}
	a.past[a.at] = remembered{c}
	a.at = (a.at + 1) % a.remembers
}

func (a *alike) answer() int32 {
	if a.short > 0 && a.lengths.Float64() < a.short {
		return a.shortest.tokens(a.lengths, 1)
	}
	return a.output.tokens(a.lengths, 1)
}
