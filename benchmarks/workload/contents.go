package workload

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// SharedPrefix are prompts of a system text that a group shares, and a question. It is the shared_prefix data of
// inference-perf.
type SharedPrefix struct {
	// Groups is the number of system texts; System their length.
	Groups int          `yaml:"groups"`
	System Distribution `yaml:"system"`

	// Prompts is how many different questions a group has, which come back; 0: every question is new.
	Prompts int `yaml:"prompts"`

	Question Distribution `yaml:"question"`
	Output   Distribution `yaml:"output"`

	// Zipf is the exponent with which groups are popular: the k-th in proportion to k^-Zipf. 0: all alike. Hot is the share of
	// requests that go to the first group, whatever the others.
	Zipf float64 `yaml:"zipf"`
	Hot  float64 `yaml:"hot"`
}

func (c *SharedPrefix) check() error {
	switch {
	case c == nil:
		return nil
	case c.Groups < 1 || c.Prompts < 0:
		return fmt.Errorf("sharedPrefix: %d groups, %d prompts; at least 1, and not negative", c.Groups, c.Prompts)
	case c.Zipf < 0 || c.Hot < 0 || c.Hot > 1:
		return fmt.Errorf("sharedPrefix: zipf %v, hot %v; not negative, and hot at most 1", c.Zipf, c.Hot)
	}
	return lengths("sharedPrefix", named{"system", c.System}, named{"question", c.Question}, named{"output", c.Output})
}

// Conversation are sessions of several turns. Each turn's prompt is the whole history and a new input; its answer becomes
// part of the history. With tools in place of a person, Wait is how long a tool takes.
type Conversation struct {
	// Shared is the length of the system text that all sessions share, System of that which is each session's own.
	Shared int32        `yaml:"shared"`
	System Distribution `yaml:"system"`

	Turns  Distribution `yaml:"turns"`
	Input  Distribution `yaml:"input"`
	Output Distribution `yaml:"output"`

	// Wait is the time, in seconds, from an answer's end to the next turn: a person who thinks, a tool that runs.
	Wait Distribution `yaml:"wait"`

	// MaxTokens ends a session whose next turn would be longer, prompt and answer together; 0 is no bound.
	MaxTokens int32 `yaml:"maxTokens"`
}

func (c *Conversation) check() error {
	if c == nil {
		return nil
	}
	if c.Shared < 0 || c.MaxTokens < 0 {
		return fmt.Errorf("conversation: shared %d, maxTokens %d; not negative", c.Shared, c.MaxTokens)
	}
	return lengths("conversation", named{"turns", c.Turns}, named{"input", c.Input}, named{"output", c.Output})
}

// Documents are prompts of retrieved documents and a question (RAG).
type Documents struct {
	// System is the length of a text that all share. Count is the number of documents, Tokens their length, Each how many a
	// prompt has; Zipf how popular they are, as in SharedPrefix.
	System int32        `yaml:"system"`
	Count  int          `yaml:"count"`
	Tokens Distribution `yaml:"tokens"`
	Each   int          `yaml:"each"`
	Zipf   float64      `yaml:"zipf"`

	Question Distribution `yaml:"question"`
	Output   Distribution `yaml:"output"`
}

func (c *Documents) check() error {
	switch {
	case c == nil:
		return nil
	case c.Count < 1 || c.Each < 1 || c.System < 0 || c.Zipf < 0:
		return fmt.Errorf("documents: count %d, each %d, system %d, zipf %v; the first two at least 1, the others not negative", c.Count, c.Each, c.System, c.Zipf)
	}
	return lengths("documents", named{"tokens", c.Tokens}, named{"question", c.Question}, named{"output", c.Output})
}

// Independent are prompts that share nothing.
type Independent struct {
	Input  Distribution `yaml:"input"`
	Output Distribution `yaml:"output"`
}

func (c *Independent) check() error {
	if c == nil {
		return nil
	}
	return lengths("independent", named{"input", c.Input}, named{"output", c.Output})
}

// Siblings are bursts of requests with one prompt that nobody had before, as when several answers to a question are drawn or a
// task is dealt out to several agents. An arrival is a burst.
type Siblings struct {
	// Each is how many requests a burst has, Within the seconds over which they come, evenly.
	Each   int     `yaml:"each"`
	Within float64 `yaml:"within"`

	// Prompt is the length of what a burst shares, Own that of what each request has behind it (none: 1 token), Output that of
	// each answer.
	Prompt Distribution `yaml:"prompt"`
	Own    Distribution `yaml:"own"`
	Output Distribution `yaml:"output"`
}

func (c *Siblings) check() error {
	switch {
	case c == nil:
		return nil
	case c.Each < 1 || !(c.Within >= 0):
		return fmt.Errorf("siblings: each %d, within %v; at least 1, and not negative", c.Each, c.Within)
	}
	if c.Own.given() {
		if err := c.Own.check(); err != nil {
			return fmt.Errorf("siblings: own: %w", err)
		}
	}
	return lengths("siblings", named{"prompt", c.Prompt}, named{"output", c.Output})
}

type named struct {
	name string
	d    Distribution
}

func lengths(where string, all ...named) error {
	for _, n := range all {
		if !n.d.given() {
			return fmt.Errorf("%s: %s is missing", where, n.name)
		}
		if err := n.d.check(); err != nil {
			return fmt.Errorf("%s: %s: %w", where, n.name, err)
		}
	}
	return nil
}

// popularity draws one of n, the k-th in proportion to (k+1)^-s.
type popularity struct{ cumulative []float64 }

func newPopularity(n int, s float64) popularity {
	p := popularity{make([]float64, n)}
	sum := 0.0
	for k := range n {
		sum += math.Pow(float64(k+1), -s)
		p.cumulative[k] = sum
	}
	return p
}

func (p popularity) draw(r *rand.Rand) int {
	x := r.Float64() * p.cumulative[len(p.cumulative)-1]
	low, high := 0, len(p.cumulative)-1
	for low < high {
		mid := (low + high) / 2
		if p.cumulative[mid] > x {
			high = mid
		} else {
			low = mid + 1
		}
	}
	return low
}
