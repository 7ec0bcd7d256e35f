package producers

import (
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/reason"
)

// OutputLength expects how many tokens a request generates, by what requests like it have generated: those of the same
// subscription or fairness id, model and kind of API, with a prompt and a bound (max_tokens) of about the same length.
//
// Per kind of request it keeps a quantile of the completions' lengths, of which older ones count for less. Where few were seen,
// that of the model, of everything and at last untilLearned stand in, in shares:
//
//	expected = parent + min(1, seen/enough) × (own quantile − parent)
//
// and never more than the request's own bound, times the number of completions that it asks for. It learns from the usage that
// answers report, where the transport shows it or the gateway's access log tells it. Where nobody shows any, untilLearned is
// what there is.
type OutputLength struct {
	// Quantile is the share of completions that are no longer than what is expected. Above the median, since what is booked
	// too short crowds an endpoint, and lengths have long tails.
	Quantile float64 `json:"quantile" schema:"min=0.05,max=0.99"`

	// Keys bounds how many kinds of requests are remembered, at 360 bytes each. The one that was not asked for the longest time
	// makes room.
	Keys int `json:"keys" schema:"min=1,max=1048576"`

	// HalfLife is the age at which a completion counts for half.
	HalfLife time.Duration `json:"halfLife" schema:"min=1s"`

	// Enough is how many completions of a kind make its own quantile count alone.
	Enough float64 `json:"enough" schema:"min=1,max=100000,unit=requests"`

	// UntilLearned is what is expected where nothing was learned, within the request's bound.
	UntilLearned int64 `json:"untilLearned" schema:"min=1,max=1048576,unit=tokens"`

	// AskForUsage has the usage of answers read although nobody else asks for it: where the gateway does not log it, answers
	// then come by the picker chunk by chunk.
	AskForUsage bool `json:"askForUsage"`

	prompt   plugins.RequestValue[int64]
	expected plugins.RequestValue[int64]

	lengths *lengths // shared with who inherits
	unseen  atomic.Int32
	noted   atomic.Bool
}

// unseenAnswers is how many answers without usage in a row, and none with, are taken for a transport that shows none.
const unseenAnswers = 20

var (
	_ plugins.Describer    = (*OutputLength)(nil)
	_ plugins.Producer     = (*OutputLength)(nil)
	_ plugins.ResponseHook = (*OutputLength)(nil)
	_ plugins.Settler      = (*OutputLength)(nil)
	_ plugins.Heir         = (*OutputLength)(nil)
)

// NewOutputLength returns an OutputLength with its defaults.
func NewOutputLength() *OutputLength {
	return &OutputLength{Quantile: 0.7, Keys: 10_000, HalfLife: 30 * time.Minute, Enough: 20, UntilLearned: 256}
}

// Provision says what is made.
func (l *OutputLength) Provision(b *plugins.Builder) error {
	l.prompt = plugins.Needs(b, plugins.PromptTokens)
	l.expected = plugins.Provides(b, plugins.ExpectedOutput)
	l.lengths = newLengths(l.Keys, l.HalfLife, l.Quantile)
	return nil
}

// Inherit shares what was learned.
func (l *OutputLength) Inherit(from any, _ []int) { l.lengths = from.(*OutputLength).lengths }

// Describe expects.
func (l *OutputLength) Describe(r *plugins.Request) {
	if !r.API.Generates() {
		l.expected.Set(r, 0)
		return
	}
	model, kind := l.keys(r)
	expected := l.lengths.expect(r.Now, [...]uint64{all, model, kind}, float64(l.UntilLearned), l.Enough)
	tokens := max(int64(expected+0.5), 1)
	completions := int64(1)
	if r.Body != nil {
		completions = max(r.Body.N, 1)
		if r.Body.MaxTokens >= 0 {
			tokens = min(tokens, r.Body.MaxTokens)
		}
	}
	l.expected.Set(r, tokens*completions)
}

// Produce notes, once, that nothing can be learned.
func (l *OutputLength) Produce(c *plugins.Cycle) {
	if l.unseen.Load() >= unseenAnswers && !l.noted.Swap(true) {
		c.Note(reason.OutputLengthsUnseen, "")
	}
}

// Wants asks for usage if that is asked for.
func (l *OutputLength) Wants() plugins.Parts {
	if l.AskForUsage {
		return plugins.Usage
	}
	return 0
}

// Respond has nothing to do: the usage comes with the end.
func (*OutputLength) Respond(*plugins.Request, plugins.Parts, []byte) {}

// Settle learns from an answer that came to its end.
func (l *OutputLength) Settle(r *plugins.Request, o plugins.Outcome) {
	if o.Ending != 0 || r.Status >= 300 || !r.API.Generates() {
		return
	}
	if o.Out == openai.Unknown {
		if n := l.unseen.Load(); n >= 0 && n < unseenAnswers {
			l.unseen.CompareAndSwap(n, n+1)
		}
		return
	}
	l.unseen.Store(-1) // it is shown: an answer without is only that
	out := float64(o.Out)
	if r.Body != nil {
		out /= float64(max(r.Body.N, 1))
	}
	model, kind := l.keys(r)
	l.lengths.learn(r.Now, [...]uint64{all, model, kind}, out)
}

// all is the key of what all requests have generated.
const all = 0

// keys returns the keys of the request's model, and of its kind.
func (l *OutputLength) keys(r *plugins.Request) (model, kind uint64) {
	bound := uint64(0)
	if r.Body != nil && r.Body.MaxTokens >= 0 {
		bound = uint64(1 + bits.Len64(uint64(r.Body.MaxTokens))) // within a factor of 2
	}
	prompt := uint64(bits.Len64(uint64(max(l.prompt.Of(r), 0))) / 2) // within a factor of 4
	model = fold(fold(1, r.Target.Model), r.Target.Adapter)
	kind = fold(fold(model^2, r.Target.Subscription), r.FairnessID)
	kind = mixed(kind ^ bound<<32 ^ prompt<<16 ^ uint64(r.API)<<8)
	return model, kind
}

// fold adds a text to a hash (FNV-1a), with its end.
func fold(h uint64, text string) uint64 {
	for i := 0; i < len(text); i++ {
		h = (h ^ uint64(text[i])) * 1099511628211
	}
	return mixed(h ^ 0xff)
}

// mixed spreads what differs in few bits over all of them (splitmix64).
func mixed(z uint64) uint64 {
	z += 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
