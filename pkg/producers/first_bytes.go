package producers

import (
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// firstBytes is what tells whether the first bytes of a pool's event streams are first tokens, or headers that come before. It
// is all that decides so: others read [plugins.Traffic].
type firstBytes struct {
	headers bool // they are headers

	// own are the streams that began and how long they took to it; engines are the first tokens that the engines of these
	// counted meanwhile.
	own, engines pool.Timed

	// prompts is the time to first bytes over what the prompts alone would take by the prior, in milliseconds.
	prompts evidence
}

// The bounds of the verdict. There are two each, so that it does not swing.
const (
	// Where nearly all first tokens that the engines counted are of own streams, both take the same time but for the way; of
	// streams whose headers come first the own time is that of the way alone.
	judgedTokens          = 20
	mostlyOwn, allOwn     = 0.8, 1.25
	headersTake, bothTake = 1.0 / 3, 2.0 / 3

	// Without such counts it is told by what no engine can do: compute prompts ten times as fast as the prior.
	judgedPrompts         = 2000.0 // milliseconds that were expected
	tooFast, fastAsPrompt = 0.1, 0.2
)

func (b *firstBytes) fade(by float64) {
	b.prompts.fade(by)
	for _, t := range []*pool.Timed{&b.own, &b.engines} {
		t.Count *= by
		t.Seconds *= by
	}
}

// judge decides, and reports whether first bytes are found to be headers that were not taken to be.
func (b *firstBytes) judge() (found bool) {
	was := b.headers
	switch {
	case b.engines.Count >= judgedTokens && b.engines.Seconds > 0 && b.own.Count >= mostlyOwn*b.engines.Count && b.own.Count <= allOwn*b.engines.Count:
		b.headers = b.own.Seconds < within(was, headersTake, bothTake)*b.engines.Seconds
	case b.prompts.expected > judgedPrompts:
		b.headers = b.prompts.observed < within(was, tooFast, fastAsPrompt)*b.prompts.expected
	}
	return b.headers && !was
}

// within returns the bound of a verdict: one that stands is left later than it is reached.
func within(stands bool, reached, left float64) float64 {
	if stands {
		return left
	}
	return reached
}

// judgeFirstBytes finds out whether first bytes are first tokens. What was learned while they were taken to be is
// dropped when it turns out that they are not.
func (f *fleetLoad) judgeFirstBytes(c *plugins.Cycle, books *pool.Books) {
	if f.first.judge() {
		c.Note(reason.HeadersFirst, "")
		f.all = learned{}
		for i := range f.classes {
			f.classes[i].learned = learned{}
		}
		for i := range f.engines {
			f.engines[i].learned = learned{}
		}
	}
	books.HeadersFirst = f.first.headers
}
