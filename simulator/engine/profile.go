package engine

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

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

	// Step is how long a step takes.
	Step StepTime
}

// StepTime is the step-time model. With P the uncached prefill tokens of a step, A the sum of the context lengths that
// those tokens attend to, S the number of requests scheduled, and C the context tokens that the decoding ones read:
//
//	step = Base + PerPrefillToken·P + PerPrefillToken·A/AttentionTokens + PerSequence·S + PerContextToken·max(0, C - ReferenceContext·D)
//
// where D is the number of decoding requests. All times are whole nanoseconds and the sum is made in
// integers, so a step lasts equally long on every machine.
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
	return d
}

// Profiles returns the built-in profiles, by hardware and model.
func Profiles() []Profile {
	return []Profile{llama8BOnH100(), llama8BOnMIG()}
}

// ProfileFor returns the built-in profile of this hardware and model. The model may be given by its flag name or in full.
// The error names what there is.
func ProfileFor(hardware, model string) (Profile, error) {
	var pairs []string
	for _, p := range Profiles() {
		if p.Hardware == hardware && (p.ModelFlag == model || p.Model == model) {
			return p, nil
		}
		pairs = append(pairs, fmt.Sprintf("%s with %s", p.Hardware, p.ModelFlag))
	}
	slices.Sort(pairs)
	return Profile{}, fmt.Errorf("no profile for hardware %q with model %q; there are: %s", hardware, model, strings.Join(pairs, ", "))
}

// llama8BOnH100 is Llama-3.1-8B in BF16 on a whole H100 SXM with 80 GB.
func llama8BOnH100() Profile {
	return Profile{
		Hardware:  "h100-sxm",
		ModelFlag: "llama-3.1-8b",
		Model:     "meta-llama/Llama-3.1-8B-Instruct",

		// 29,205 blocks of 16 tokens (467k tokens): the count that BLIS records for this model and GPU at TP1. The
		// bound (0.9·80 GB - weights)/131,072 bytes per token gives 447k, 4 % less.
		Blocks:      29_205,
		BlockTokens: 16,

		// vLLM's defaults of the API server on a device with 70 GiB or more that is no A100.
		MaxBatchedTokens: 8192,
		MaxSeqs:          1024,

		// The model's own max_position_embeddings.
		MaxModelLen: 131_072,

		Step: StepTime{
			// A least-squares fit of step_ms = 6.86 + 0.0311·P + 0.0028·batch over the 21 stages that inference-perf
			// publishes for this model on one H100 with vLLM 0.11.0 (demos/kubecon-na-2025); largest error 7.3 %.
			Base:            6860 * time.Microsecond,
			PerPrefillToken: 31_100 * time.Nanosecond,
			PerSequence:     2800 * time.Nanosecond,

			// 2·active parameters / (attention FLOPs per context token): 2·8.03e9 / (4·32 layers·4096).
			AttentionTokens: 30_600,

			// 131,072 bytes of KV per token / (3.35 TB/s · 0.70), the bandwidth efficiency that the fit implies. The fit
			// cannot tell it from PerSequence, since its prompts of 192 and outputs of 64 tokens keep the context at
			// 224 on average; so it counts beyond that, and the fit holds exactly where it was made.
			PerContextToken:  56 * time.Nanosecond,
			ReferenceContext: 224,
		},
	}
}

// llama8BOnMIG is Llama-3.1-8B in BF16 on a MIG slice 3g.40gb of an H100: 60 of 132 SMs, 4 of 8 memory slices, 39.5 GiB.
// Nobody published a measurement; everything is derived from the whole H100 with its measured efficiencies.
func llama8BOnMIG() Profile {
	return Profile{
		Hardware:  "h100-mig-3g.40gb",
		ModelFlag: "llama-3.1-8b",
		Model:     "meta-llama/Llama-3.1-8B-Instruct",

		// 148k tokens: (0.9·39.5 GiB - weights and overhead) / 131,072 bytes per token.
		Blocks:      9250,
		BlockTokens: 16,

		// vLLM's defaults of the API server on a device below 70 GiB, which a slice is, whatever the GPU's name.
		MaxBatchedTokens: 2048,
		MaxSeqs:          256,

		MaxModelLen: 131_072,

		Step: StepTime{
			// Weights over half the bandwidth: 16.06 GB / (1.675 TB/s · 0.70).
			Base: 13_700 * time.Microsecond,
			// 2·8.03e9 FLOP / (450 TFLOPS · 0.52), the prefill MFU that the H100 fit implies.
			PerPrefillToken: 69 * time.Microsecond,
			// The H100's 2.8 µs over 60 of 132 SMs: the output layer is bound by compute.
			PerSequence:     6200 * time.Nanosecond,
			AttentionTokens: 30_600,
			// 131,072 bytes / (1.675 TB/s · 0.70).
			PerContextToken:  112 * time.Nanosecond,
			ReferenceContext: 224,
		},
	}
}
