package exchange

import (
	"net/netip"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// Meter hears what there is to count. It never blocks, and is called under an exchange's lock. The strings it is given stay
// valid, but those that a client chose may be parts of larger ones.
type Meter interface {
	// Decided: a request was forwarded, refused with a reason, or answered by us (no pool and no reason); wait is the time
	// since its headers came.
	Decided(m Metered, refused reason.ID, wait pool.Instant)
	// Settled: a forwarded request ended.
	Settled(m Metered, o plugins.Outcome)
}

// Metered is what a meter is told of a request.
type Metered struct {
	API    openai.API
	Model  string         // as the client named it; empty without one
	Target plugins.Target // as far as it was resolved
	Flow   string         // the fairness id; empty without one
	Stream bool           // the client asked for a stream

	// To is the endpoint that was picked, as namespace/name, with its address; empty before.
	To   string
	Addr netip.AddrPort

	// Prompt is the prompt's length in tokens as it was booked, and Matched how much of it was believed to be cached there;
	// both are Unknown before.
	Prompt, Matched int64

	// Looked says that its decision was looked at twice, and Anew that it was decided anew.
	Looked, Anew bool

	// Foreseen is what was expected where it went; all Unknown before.
	Foreseen plugins.Foreseen

	// Request and Answer are the bytes of the bodies; Unknown where they were not seen, or not whole.
	Request, Answer int64
}

// metered describes the exchange for the meter.
func (x *Exchange) metered() Metered {
	m := Metered{API: x.r.API, Model: x.r.Model(), Target: x.r.Target, Flow: x.r.FairnessID, Request: openai.Unknown, Answer: openai.Unknown, Prompt: openai.Unknown, Matched: openai.Unknown, Foreseen: unforeseen}
	if x.r.Body != nil {
		m.Stream = x.r.Body.Stream
	}
	switch {
	case x.expected >= 0:
		m.Request = x.expected
	case x.bodyEnd && x.body.bytes > 0:
		m.Request = x.body.bytes
	}
	if x.second != nil {
		m.Looked, m.Anew = true, x.second.First != nil
	}
	if x.answered && x.watches() && x.ending.Clean {
		m.Answer = x.answerBytes
	}
	if len(x.legs) > 0 {
		m.To, m.Addr = x.legs[0].names[0], x.legs[0].addrs[0]
		m.Prompt, m.Matched, m.Foreseen = x.prompt, x.prompt-x.legs[0].load.UncachedPrefill, x.foresaw
	}
	return m
}

// unforeseen is what is expected of a request that was not decided.
var unforeseen = plugins.Foreseen{TTFT: openai.Unknown, ITL: openai.Unknown, TTFTTarget: openai.Unknown, ITLTarget: openai.Unknown}

type noMeter struct{}

func (noMeter) Decided(Metered, reason.ID, pool.Instant) {}
func (noMeter) Settled(Metered, plugins.Outcome)         {}
