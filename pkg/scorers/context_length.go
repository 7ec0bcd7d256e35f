package scorers

import (
	"strconv"
	"strings"

	"github.com/fairlead/fairlead/pkg/plugins"
)

// ContextLength sends prompts to the endpoints that are meant for their length, which a label tells as "min-max" in tokens.
// With enableFiltering it also removes those that are not.
//
// With t the prompt's tokens, in range of width w = max - min:
//
//	score = 0.3 + 0.7*(0.7/(1 + w/10000) + 0.3*(max - t)/w), and 1 if w is 0
//
// and d tokens outside of the range:
//
//	score = 0.3/(1 + d/1000)
//
// so that a narrow range that fits is best, and what does not fit is better the nearer it is. An endpoint without the label
// scores 0.5 and is never removed. One whose label is no range scores 0 and is removed.
type ContextLength struct {
	// Label is the label that holds the range.
	Label string `json:"label" schema:"min=1,max=317"`

	// EnableFiltering removes endpoints whose range does not contain the prompt's length.
	EnableFiltering bool `json:"enableFiltering"`

	labels plugins.EndpointValues[map[string]string]
	prompt plugins.RequestValue[int64]
}

var (
	_ plugins.Filter = (*ContextLength)(nil)
	_ plugins.Scorer = (*ContextLength)(nil)
)

// NewContextLength returns a ContextLength with its defaults.
func NewContextLength() *ContextLength {
	return &ContextLength{Label: "llm-d.ai/context-length-range"}
}

// Provision says what is read, and refuses what no label can be called.
func (l *ContextLength) Provision(b *plugins.Builder) error {
	l.labels = plugins.Needs(b, plugins.Labels)
	l.prompt = plugins.Needs(b, plugins.PromptTokens)
	return plugins.LabelName("label", l.Label)
}

// Filter clears the bit of every candidate whose range does not contain the prompt's length, if that is asked for.
func (l *ContextLength) Filter(c *plugins.Cycle, keep plugins.Bits) {
	if !l.EnableFiltering {
		return
	}
	labels, tokens := l.labels.Of(c), max(l.prompt.Of(c.Request), 0)
	for i, id := range c.Candidates {
		text, labelled := labels[id][l.Label]
		if !labelled {
			continue
		}
		if from, to, ok := tokenRange(text); !ok || tokens < from || tokens > to {
			keep.Clear(i)
		}
	}
}

// Score writes one score per candidate into out.
func (l *ContextLength) Score(c *plugins.Cycle, out []float64) {
	labels, tokens := l.labels.Of(c), max(l.prompt.Of(c.Request), 0)
	for i, id := range c.Candidates {
		text, labelled := labels[id][l.Label]
		if !labelled {
			out[i] = 0.5
			continue
		}
		if from, to, ok := tokenRange(text); ok {
			out[i] = fit(tokens, from, to)
		}
	}
}

func fit(tokens, from, to int64) float64 {
	switch {
	case tokens < from:
		return 0.3 / (1 + float64(from-tokens)/1000)
	case tokens > to:
		return 0.3 / (1 + float64(tokens-to)/1000)
	case from == to:
		return 1
	}
	width := float64(to - from)
	narrow := 0.7 / (1 + width/10000)
	room := float64(0.3 * float64(to-tokens) / width)
	return 0.3 + float64(0.7*float64(narrow+room))
}

// tokenRange reads "min-max". It allocates only for text that is no range.
func tokenRange(text string) (from, to int64, ok bool) {
	low, high, cut := strings.Cut(text, "-")
	if !cut {
		return 0, 0, false
	}
	from, err := strconv.ParseInt(strings.TrimSpace(low), 10, 64)
	if err != nil || from < 0 {
		return 0, 0, false
	}
	to, err = strconv.ParseInt(strings.TrimSpace(high), 10, 64)
	return from, to, err == nil && to >= from
}
