package rules

// sglang is the cache_aware policy of the SGLang gateway, of SMG and of vllm-project/router (docs/concepts/routing/
// cache-aware.md), with their constants: where the own requests of the busiest worker exceed those of the idlest by more than 64
// and 1.5 times, the least loaded; else, where more than 0.3 of the prompt is matched, the worker that has it; else the least
// loaded. The first of several least loaded is chosen, as the projects' issues tell (sgl-project/sglang#32983).
//
// Its tree is of text: it has no bound that matters here (67,108,864 characters or nodes, swept every two minutes). Of several
// workers that have the longest match it knows one, arbitrarily; we take the one that was last sent it.
type sglang struct{ index *table }

const (
	sglangAbsolute = 64
	sglangRelative = 1.5
	sglangMatch    = 0.3
)

func newSGLang() *sglang { return &sglang{index: newTable(0, 0)} }

func (s *sglang) choose(b *books, q *query) int32 {
	load := func(m int32) float64 { return float64(b.requests(m)) }
	low, high := load(b.members[0]), load(b.members[0])
	for _, m := range b.members {
		low, high = min(low, load(m)), max(high, load(m))
	}
	if high-low > sglangAbsolute && high > sglangRelative*low {
		return first(b.members, load)
	}
	depth, most := s.index.depths(q.now, b.members, q.hashes)
	if float64(q.matched(most)) <= sglangMatch*float64(q.tokens) {
		return first(b.members, load)
	}
	last := &s.index.blocks[s.index.at[q.hashes[most-1]]]
	best := int32(-1)
	for i, m := range b.members {
		if depth[i] == most && (best < 0 || last.since[m] > last.since[best]) {
			best = m
		}
	}
	return best
}

func (s *sglang) sent(_ *books, q *query, to int32) { s.index.put(q.now, to, q.hashes) }

func (s *sglang) left(member int32) { s.index.forget(member) }
