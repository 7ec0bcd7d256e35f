package engine

import "time"

// Profile is one kind of engine: a model on a piece of hardware, with the engine's own defaults for that hardware. It is
// data and may be copied and changed freely.
type Profile struct {
	// Hardware and ModelFlag are the profile's names on a command line, such as "h100-sxm" and "llama-3.1-8b".
	Hardware, ModelFlag string

	// Model is the full name under which the engine serves the model.
	Model string

	// Blocks is the number of KV blocks on the device, BlockTokens the tokens that one holds. One block is the engine's
	// own (the null block of vLLM), so Blocks-1 serve requests.
	Blocks, BlockTokens int32

	// MaxBatchedTokens is the token budget of one step, MaxSeqs the most requests that run at a time.
	MaxBatchedTokens, MaxSeqs int32

	// MaxModelLen bounds prompt plus output of one request, in tokens.
	MaxModelLen int32

	// TensorParallel is the number of devices that the engine runs on.
	TensorParallel int32

	// KVBytesPerToken is what a transfer of one token's keys and values moves.
	KVBytesPerToken int64

	// PeerBytesPerSecond is how fast, one way, a device reaches another one in the same machine; 0: not at all, as between
	// MIG slices, whose contents go through the host. NetworkBytesPerSecond is how fast it reaches other machines.
	PeerBytesPerSecond, NetworkBytesPerSecond float64

	// Step is how long a step takes.
	Step StepTime

	// Sources say where the figures come from.
	Sources Sources
}

// Kind is how sure a figure is.
type Kind string

const (
	// Measured figures were read off a running engine.
	Measured Kind = "measured"

	// Fitted ones make the model agree with measurements.
	Fitted Kind = "fitted"

	// Derived ones follow from data sheets and from efficiencies measured elsewhere.
	Derived Kind = "derived"
)

// Source is where a figure comes from.
type Source struct {
	Kind Kind   `json:"kind"`
	Text string `json:"text"`
}

// Sources are those of a profile's figures: of Blocks, of MaxBatchedTokens with MaxSeqs, of the members of StepTime, and of
// the bandwidths between devices.
type Sources struct {
	Blocks, Limits                                                          Source
	Base, PerPrefillToken, Attention, PerSequence, PerContextToken, Experts Source
	Hardware                                                                Source
}

// StepTime is the step-time model. With P the uncached prefill tokens of a step, A the sum of the context lengths that
// those tokens attend to, S the number of requests scheduled, and C the context tokens that the decoding ones read:
//
//	step = Base + PerPrefillToken·P + PerPrefillToken·A/AttentionTokens + PerSequence·S
//	     + PerContextToken·max(0, C - ReferenceContext·D) + AllExperts·touched
//	touched = 1 - ((Experts - ExpertsPerToken)/Experts)^(P+D)
//
// where D is the number of decoding requests. All times are whole nanoseconds, the sum is made in integers and touched in
// single products, so a step lasts equally long on every machine.
type StepTime struct {
	// Base is the time of an empty step: the weights are read once, kernels are launched.
	Base time.Duration

	// PerPrefillToken is the time of one prompt token that was not cached.
	PerPrefillToken time.Duration

	// AttentionTokens is the context length at which attention doubles the cost of a prefill token. 0: never.
	AttentionTokens int64

	// PerSequence is the time of one scheduled request: sampling and its part of the output layer.
	PerSequence time.Duration

	// PerContextToken is the time in which a decoding request reads the keys and values of one token of its context.
	PerContextToken time.Duration

	// ReferenceContext is the mean context, in tokens, at which Base and PerSequence were measured: they contain the
	// reading of that much already.
	ReferenceContext int64

	// AllExperts is the time of reading the weights of all routed experts. Of Experts in each layer a token uses
	// ExpertsPerToken; those that no token of the step uses are not read. 0: a dense model, or experts are part of Base.
	AllExperts               time.Duration
	Experts, ExpertsPerToken int32
}

// Load is the work of one step, as StepTime counts it.
type Load struct {
	// Sequences is the number of requests scheduled; Decodes those of them that feed back one generated token.
	Sequences, Decodes int32

	// PrefillTokens is the number of other tokens computed; PrefillContext the sum over them of the tokens that each
	// attends to, itself included.
	PrefillTokens  int32
	PrefillContext int64

	// DecodeContext is the sum of the contexts of the decoding requests, in tokens.
	DecodeContext int64
}

// Of returns how long a step with load l takes. An empty load takes Base.
func (t StepTime) Of(l Load) time.Duration {
	d := t.Base
	d += t.PerPrefillToken * time.Duration(l.PrefillTokens)
	if t.AttentionTokens > 0 {
		d += t.PerPrefillToken * time.Duration(l.PrefillContext) / time.Duration(t.AttentionTokens)
	}
	d += t.PerSequence * time.Duration(l.Sequences)
	if beyond := l.DecodeContext - t.ReferenceContext*int64(l.Decodes); beyond > 0 {
		d += t.PerContextToken * time.Duration(beyond)
	}
	if t.AllExperts > 0 {
		d += time.Duration(float64(t.AllExperts) * t.touched(l.PrefillTokens+l.Decodes))
	}
	return d
}

// touched is the expected share of experts that so many tokens use, if each chooses evenly. Powers are made of explicitly
// rounded products, which are the same on every machine.
func (t StepTime) touched(tokens int32) float64 {
	untouched, square := 1.0, float64(t.Experts-t.ExpertsPerToken)/float64(t.Experts)
	for n := tokens; n > 0; n >>= 1 {
		if n&1 == 1 {
			untouched = float64(untouched * square)
		}
		square = float64(square * square)
	}
	return 1 - untouched
}

// Profiles returns the built-in profiles: each piece of hardware with each model that fits on it, and the number of devices
// that Choice has by default. The first is the measured one.
func Profiles() []Profile {
	var all []Profile
	for _, h := range Devices() {
		for _, m := range Models() {
			if p, err := profileOf(h, m, Choice{}); err == nil {
				all = append(all, p)
			}
		}
	}
	return all
}

// ProfileFor returns the built-in profile of this hardware and model. The model may be given by its flag name or in full.
// The error names what there is, or shows why the model does not fit.
func ProfileFor(hardware, model string) (Profile, error) {
	return ProfileWith(hardware, model, Choice{})
}

// ProfileWith is ProfileFor with a choice of its own.
func ProfileWith(hardware, model string, c Choice) (Profile, error) {
	h, err := HardwareFor(hardware)
	if err != nil {
		return Profile{}, err
	}
	m, err := ModelFor(model)
	if err != nil {
		return Profile{}, err
	}
	return profileOf(h, m, c)
}

// profileOf returns what was measured of m on h, or derives it.
func profileOf(h Hardware, m Model, c Choice) (Profile, error) {
	p, err := Derive(h, m, c)
	if err == nil && h.Name == "h100-sxm" && m.Flag == "llama-3.1-8b" && p.TensorParallel == 1 {
		p = llama8BOnH100(p)
	}
	return p, err
}

// llama8BOnH100 puts what was measured and fitted of Llama-3.1-8B in BF16 on one H100 SXM into its derived profile.
func llama8BOnH100(p Profile) Profile {
	p.Blocks = 29_205 * 16 / p.BlockTokens
	p.Sources.Blocks = Source{Measured, "29,205 blocks of 16 tokens, which BLIS records for this model and GPU; the bound from memory is 4 % less"}

	p.Step.Base = 6630 * time.Microsecond
	p.Step.PerPrefillToken = 31_000 * time.Nanosecond
	p.Step.PerSequence = 5200 * time.Nanosecond
	fit := Source{Fitted, "the 21 stages that inference-perf publishes for this model on one H100 with vLLM 0.11.0 (demos/kubecon-na-2025), played on this engine: ITL within 10 % below saturation, capacity within 10 %; the formula alone within 7.1 %"}
	p.Sources.Base, p.Sources.PerPrefillToken, p.Sources.PerSequence = fit, fit, fit

	// The fit cannot tell the reading of contexts from PerSequence: its prompts of 192 and outputs of 64 tokens keep the
	// context at 224 on average. So it counts beyond that, and the fit holds exactly where it was made.
	p.Step.ReferenceContext = 224
	return p
}
