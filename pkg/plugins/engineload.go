package plugins

// EngineLoad is what is believed of one engine: the work before it, what a step costs it, and what stands in its memory.
//
// A step in which n sequences decode, whose contexts are t thousand tokens together, takes
//
//	StepMS + n·StepMSPerSequence + t·StepMSPerKToken
//
// and the prompt tokens that it computes besides add their own time to it, as vLLM's scheduler mixes both (chunked prefill).
type EngineLoad struct {
	// BacklogMS is the time until the prompts that are booked or seen waiting are computed, in milliseconds.
	BacklogMS float64 `json:"backlogMs"`

	// PrefillMSPerToken is what one uncached prompt token costs, in milliseconds, where it attends to nothing. The context at
	// which attention doubles that is AttentionTokens; 0: never.
	PrefillMSPerToken float64 `json:"prefillMsPerToken"`
	AttentionTokens   float64 `json:"attentionTokens,omitempty"`

	// The members of a decode step, in milliseconds.
	StepMS            float64 `json:"stepMs"`
	StepMSPerSequence float64 `json:"stepMsPerSequence"`
	StepMSPerKToken   float64 `json:"stepMsPerKToken"`

	// Running is the number of sequences in the batch or before it, own ones by the books and others by telemetry, and
	// ResidentTokens the sum of their contexts.
	Running        float64 `json:"running"`
	ResidentTokens float64 `json:"residentTokens"`

	// PromisedTokens is what of the KV cache is used or will be, once everybody who was booked has generated what is expected;
	// CapacityTokens is the cache's size. Either is Unknown where nobody said how large the cache is.
	PromisedTokens float64 `json:"promisedTokens"`
	CapacityTokens float64 `json:"capacityTokens"`

	// Busy is the share of its recent time that went into prompts, 0 to 0.9.
	Busy float64 `json:"busy"`

	// Learned says where the costs come from.
	Learned Learned `json:"learned"`
}

// Learned says how much is behind what is believed of an engine.
type Learned int8

// The degrees, each above those before it.
const (
	Prior    Learned = iota // nobody measured anything: the figures of one H100, or of its class of hardware
	OfClass                 // engines of its class, or of the pool, were measured
	Measured                // this engine was
)

// String returns the degree in words.
func (l Learned) String() string {
	switch l {
	case Measured:
		return "measured"
	case OfClass:
		return "as its like"
	}
	return "not measured"
}

// Step returns how long a decode step takes in which n sequences with so many tokens of context take part, in milliseconds.
func (l *EngineLoad) Step(n, tokens float64) float64 {
	return l.StepMS + float64(n*l.StepMSPerSequence) + float64(tokens*l.StepMSPerKToken/1000)
}

// Prefill returns how long a prompt takes of which so many tokens are not cached, behind cached ones, in milliseconds. A token
// at position c of the prompt costs 1 + c/AttentionTokens times what one at its beginning does.
func (l *EngineLoad) Prefill(uncached, cached float64) float64 {
	return float64(l.PrefillMSPerToken * AttendedTokens(uncached, cached, l.AttentionTokens))
}

// AttendedTokens returns how many tokens without attention cost as much as uncached ones behind cached ones, where attention
// doubles the cost of a token at a context of doubles tokens; 0: never.
func AttendedTokens(uncached, cached, doubles float64) float64 {
	if doubles <= 0 {
		return uncached
	}
	return uncached + float64(uncached*(cached+uncached/2)/doubles)
}

// Traffic is what arrives at a pool, of late.
type Traffic struct {
	// PerSecond is the rate of requests.
	PerSecond float64 `json:"perSecond"`

	// PrefillMS is the mean uncached prefill of a request where it went, in milliseconds; Unknown before the first one.
	PrefillMS float64 `json:"prefillMs"`

	// Reuse is the share of prompt tokens that were found in caches, 0 to 1.
	Reuse float64 `json:"reuse,omitempty"`

	// LongPods is how many engines prompts keep busy that are long for the traffic.
	LongPods float64 `json:"longPods,omitempty"`

	// OutputTokens is how many tokens an answer has on average, or the most that the request at hand may have if that is less.
	OutputTokens float64 `json:"outputTokens"`

	// HeadersFirst says that engines send an event stream's headers before its first token, so that first bytes tell nothing of
	// prompts.
	HeadersFirst bool `json:"headersFirst,omitempty"`
}

// LongPrompt reports whether a prompt that takes ms milliseconds is long for traffic that takes mean on average: others would
// wait for it longer than for anything else.
func LongPrompt(ms, mean float64) bool { return ms > 1000 && mean > 0 && ms > 4*mean }
