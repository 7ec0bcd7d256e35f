package engine

import (
	"fmt"
	"strings"
)

// Model is what step times and memory depend on of a language model.
type Model struct {
	// Flag is the model's name on a command line, Name its full one.
	Flag, Name string

	// Parameters are all of them, Active those that one token uses.
	Parameters, Active float64

	// WeightBytes is what the weights take in memory. ExpertBytes are those of them that belong to routed experts.
	WeightBytes, ExpertBytes float64

	// Experts are the routed experts of a layer and ExpertsPerToken those that a token uses; 0 for a dense model.
	Experts, ExpertsPerToken int32

	// KVBytesPerToken is what the keys and values of one token take. KVShards is into how many parts devices can divide them:
	// the key-value heads; 1 for latent attention, which every device holds whole.
	KVBytesPerToken int64
	KVShards        int32

	// Layers are the model's; each costs two exchanges between devices where there are several.
	Layers int32

	// AttentionFLOPs are the operations of one token per token of its context.
	AttentionFLOPs float64

	// Eight says that products are made in 8-bit floating point.
	Eight bool

	// MaxLen is the longest context in tokens.
	MaxLen int32
}

// Models returns the built-in models.
func Models() []Model {
	return []Model{
		dense("llama-3.1-8b", "meta-llama/Llama-3.1-8B-Instruct", 8.03e9, 32, 32, 8, 128, 131_072),
		dense("llama-3.1-70b", "meta-llama/Llama-3.1-70B-Instruct", 70.55e9, 80, 64, 8, 128, 131_072),
		dense("qwen3-32b", "Qwen/Qwen3-32B", 32.76e9, 64, 64, 8, 128, 40_960),
		{
			Flag: "qwen3-30b-a3b", Name: "Qwen/Qwen3-30B-A3B",
			Parameters: 30.53e9, Active: 3.35e9,
			WeightBytes: 2 * 30.53e9,
			// 48 layers of 128 experts of three matrices 2048 by 768, in 2 bytes.
			ExpertBytes: 48 * 128 * 3 * 2048 * 768 * 2,
			Experts:     128, ExpertsPerToken: 8,
			KVBytesPerToken: 48 * 2 * 4 * 128 * 2, KVShards: 4,
			Layers:         48,
			AttentionFLOPs: 2 * 48 * 32 * (128 + 128),
			MaxLen:         40_960,
		},
		{
			Flag: "deepseek-r1", Name: "deepseek-ai/DeepSeek-R1",
			Parameters: 671e9, Active: 37e9,
			WeightBytes: 671e9,
			// 58 layers of 256 routed experts of three matrices 7168 by 2048, in 1 byte.
			ExpertBytes: 58 * 256 * 3 * 7168 * 2048,
			Experts:     256, ExpertsPerToken: 8,
			// 61 layers of a latent of 512 and a rotary part of 64, in 2 bytes.
			KVBytesPerToken: 61 * (512 + 64) * 2, KVShards: 1,
			Layers:         61,
			AttentionFLOPs: 2 * 61 * 128 * (192 + 128),
			Eight:          true,
			MaxLen:         163_840,
		},
	}
}

// dense is a model without experts in BF16, with grouped-query attention.
func dense(flag, name string, parameters float64, layers, heads, kvHeads, headDim, maxLen int32) Model {
	return Model{
		Flag: flag, Name: name,
		Parameters: parameters, Active: parameters,
		WeightBytes:     2 * parameters,
		KVBytesPerToken: int64(layers) * 2 * int64(kvHeads) * int64(headDim) * 2, KVShards: kvHeads,
		Layers:         layers,
		AttentionFLOPs: 4 * float64(layers) * float64(heads) * float64(headDim),
		MaxLen:         maxLen,
	}
}

// ModelFor returns the built-in model of this flag or full name. The error lists what there is.
func ModelFor(name string) (Model, error) {
	var flags []string
	for _, m := range Models() {
		if m.Flag == name || m.Name == name {
			return m, nil
		}
		flags = append(flags, m.Flag)
	}
	return Model{}, fmt.Errorf("no model %q; there is %s", name, strings.Join(flags, ", "))
}
