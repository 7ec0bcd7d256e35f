package engine

import (
	"fmt"
	"math"
	"time"
)

// Choice is what a profile leaves open: zero fields are chosen.
type Choice struct {
	// TensorParallel is the number of devices that share the model; 0 is the smallest power of two, up to 16 and 1 on MIG
	// slices, with which one request of the model's full length fits into the KV memory, or the largest if none does.
	TensorParallel int32

	// BlockTokens is the tokens of a KV block; 0 is 16.
	BlockTokens int32
}

// What the 21 measured stages of Llama-3.1-8B on an H100 imply, and what is assumed of everything else.
const (
	bandwidthEfficiency = 0.70      // of reading weights and keys and values, launches included
	computeEfficiency   = 0.52      // of prefill
	memoryShare         = 0.9       // gpu_memory_utilization
	memoryOverhead      = 2.5 * gib // activations, graphs, context, per device
	allReduce           = 20 * time.Microsecond
	leastKVTokens       = 2048
	mostDevices         = 16
)

// Derive returns the profile of m on h from their data sheets and the efficiencies that the H100 measurement implies; see
// the constants of this file and StepTime for the formulas. Nobody measured it: treat it as ±30 %. The error shows the
// arithmetic of a model that does not fit.
func Derive(h Hardware, m Model, c Choice) (Profile, error) {
	setInt := func(v *int32, to int32) {
		if *v == 0 {
			*v = to
		}
	}
	setInt(&c.BlockTokens, 16)
	most := int32(mostDevices)
	if h.Slice {
		most = 1
	}
	if c.TensorParallel == 0 {
		c.TensorParallel = 1
		for c.TensorParallel < most && kvTokens(h, m, c.TensorParallel) < float64(m.MaxLen) {
			c.TensorParallel *= 2
		}
	}
	n := c.TensorParallel
	switch {
	case n < 1 || n > most:
		return Profile{}, fmt.Errorf("%s on %s: tensor parallel size %d; 1 to %d (MIG slices cannot reach each other)", m.Flag, h.Name, n, most)
	case c.BlockTokens < 1:
		return Profile{}, fmt.Errorf("%s on %s: blocks of %d tokens; at least 1", m.Flag, h.Name, c.BlockTokens)
	}
	tokens := kvTokens(h, m, n)
	if tokens < leastKVTokens {
		return Profile{}, fmt.Errorf("%s does not fit on %d x %s: of %.1f GB each, %.0f %% are usable = %.1f GB; weights take %.1f GB and the engine %.1f GB, which leaves %.1f GB for KV, %.0f tokens of %d bytes; at least %d are needed",
			m.Flag, n, h.Name, float64(h.MemoryBytes)/1e9, memoryShare*100, memoryShare*float64(h.MemoryBytes)/1e9,
			m.WeightBytes/float64(n)/1e9, memoryOverhead/1e9, kvBytes(h, m, n)/1e9, max(tokens, 0), m.KVBytesPerToken/int64(min(n, m.KVShards)), leastKVTokens)
	}
	batched, seqs := h.Limits()
	flops := h.FLOPS16
	if m.Eight {
		flops = h.FLOPS8
	}
	devices := float64(n)
	bandwidth := h.BytesPerSecond * bandwidthEfficiency
	compute := flops * devices * computeEfficiency
	base := (m.WeightBytes - m.ExpertBytes) / (bandwidth * devices)
	p := Profile{
		Hardware: h.Name, ModelFlag: m.Flag, Model: m.Name,
		TensorParallel:   n,
		Blocks:           int32(min(tokens/float64(c.BlockTokens), math.MaxInt32/float64(c.BlockTokens))),
		BlockTokens:      c.BlockTokens,
		MaxBatchedTokens: batched, MaxSeqs: seqs,
		MaxModelLen:           int32(min(float64(m.MaxLen), tokens)),
		KVBytesPerToken:       m.KVBytesPerToken,
		PeerBytesPerSecond:    h.PeerBytesPerSecond,
		NetworkBytesPerSecond: h.NetworkBytesPerSecond,
		Step: StepTime{
			Base:             seconds(base),
			PerPrefillToken:  seconds(2 * m.Active / compute),
			AttentionTokens:  int64(2 * m.Active / m.AttentionFLOPs),
			PerSequence:      seconds(2.8e-6 * (m.Active / 8.03e9) * (h100FLOPS16 / (flops * devices))),
			PerContextToken:  seconds(float64(m.KVBytesPerToken) / (bandwidth * float64(min(n, m.KVShards)))),
			ReferenceContext: 224,
		},
	}
	if n > 1 {
		p.Step.Base += allReduce * time.Duration(2*m.Layers)
	}
	if m.Experts > 0 {
		p.Step.Experts, p.Step.ExpertsPerToken = m.Experts, m.ExpertsPerToken
		p.Step.AllExperts = seconds(m.ExpertBytes / (bandwidth * devices))
	}
	p.Sources = derivedSources(h, m, n)
	return p, nil
}

func kvBytes(h Hardware, m Model, n int32) float64 {
	return memoryShare*float64(h.MemoryBytes) - m.WeightBytes/float64(n) - memoryOverhead
}

// kvTokens is how many tokens' keys and values fit beside the weights on n devices.
func kvTokens(h Hardware, m Model, n int32) float64 {
	return kvBytes(h, m, n) * float64(min(n, m.KVShards)) / float64(m.KVBytesPerToken)
}

func seconds(s float64) time.Duration { return time.Duration(math.Round(s * 1e9)) }

func derivedSources(h Hardware, m Model, n int32) Sources {
	base := fmt.Sprintf("%.4g GB of weights that every step reads / (%d x %.4g TB/s x %.2f)", (m.WeightBytes-m.ExpertBytes)/1e9, n, h.BytesPerSecond/1e12, bandwidthEfficiency)
	if n > 1 {
		base += fmt.Sprintf(" + 2 x %d layers x %v to exchange", m.Layers, allReduce)
	}
	s := Sources{
		Blocks:          Source{Derived, fmt.Sprintf("(%.1f x %.4g GB - %.4g GB weights / %d - %.3g GB) x %d / %d bytes per token", memoryShare, float64(h.MemoryBytes)/1e9, m.WeightBytes/1e9, n, memoryOverhead/1e9, min(n, m.KVShards), m.KVBytesPerToken)},
		Limits:          Source{Derived, "vLLM's API server by device memory: 8192 and 1024 from 70 GiB except A100, else 2048 and 256"},
		Base:            Source{Derived, base},
		PerPrefillToken: Source{Derived, fmt.Sprintf("2 x %.4g G active parameters / (%d devices x peak x %.2f)", m.Active/1e9, n, computeEfficiency)},
		Attention:       Source{Derived, fmt.Sprintf("2 x %.4g G / %.4g FLOP per token of context", m.Active/1e9, m.AttentionFLOPs)},
		PerSequence:     Source{Derived, "2.8 µs, the formula alone fitted to the H100, in proportion to active parameters and peak compute"},
		PerContextToken: Source{Derived, fmt.Sprintf("%d bytes / (%d x %.4g TB/s x %.2f)", m.KVBytesPerToken, min(n, m.KVShards), h.BytesPerSecond/1e12, bandwidthEfficiency)},
		Hardware:        Source{Derived, h.Source},
	}
	if m.Experts > 0 {
		s.Experts = Source{Derived, fmt.Sprintf("%.4g GB of experts / (%d x %.4g TB/s x %.2f), the share that the step's tokens touch", m.ExpertBytes/1e9, n, h.BytesPerSecond/1e12, bandwidthEfficiency)}
	}
	return s
}
