package engine

import "strconv"

// Figure is one figure of a profile, printed, and where it comes from.
type Figure struct {
	Name, Value string
	Source
}

// Figures returns what is in the profile, with its sources, in a fixed order.
func (p Profile) Figures() []Figure {
	count := func(n int64) string { return strconv.FormatInt(n, 10) }
	limits := count(int64(p.MaxBatchedTokens)) + " tokens, " + count(int64(p.MaxSeqs)) + " requests"
	figures := []Figure{
		{"blocks", count(int64(p.Blocks)) + " of " + count(int64(p.BlockTokens)) + " tokens", p.Sources.Blocks},
		{"limits of a step", limits, p.Sources.Limits},
		{"base", p.Step.Base.String(), p.Sources.Base},
		{"per prefill token", p.Step.PerPrefillToken.String(), p.Sources.PerPrefillToken},
		{"attention doubles it at", count(p.Step.AttentionTokens) + " tokens", p.Sources.Attention},
		{"per sequence", p.Step.PerSequence.String(), p.Sources.PerSequence},
		{"per context token", p.Step.PerContextToken.String(), p.Sources.PerContextToken},
	}
	if p.Step.AllExperts > 0 {
		figures = append(figures, Figure{"all experts", p.Step.AllExperts.String(), p.Sources.Experts})
	}
	peers := "no peer-to-peer access"
	if p.PeerBytesPerSecond > 0 {
		peers = strconv.FormatFloat(p.PeerBytesPerSecond/1e9, 'g', 4, 64) + " GB/s between devices"
	}
	return append(figures, Figure{"peers", peers, p.Sources.Hardware})
}
