package rules

// lmetric is the product of LMetric (arXiv:2603.15202), without weights:
//
//	(F + u)·(R + 1)
//
// F are uncached prompt tokens sent and without a first token, u those of this request there, R requests that run there. The
// smallest is chosen, at random among those within 2 %. The paper leaves the index open: it is that of llm-d's rules here.
type lmetric struct{ believed }

const lmetricTies = 0.02

func newLMetric() *lmetric { return &lmetric{believed{&caches{}}} }

func (l *lmetric) choose(b *books, q *query) int32 {
	cost := make([]float64, len(b.at))
	for _, m := range b.members {
		cost[m] = float64(b.at[m].prefill+l.uncached(q, m)) * float64(b.requests(m)+1)
	}
	return b.least(b.members, lmetricTies, func(m int32) float64 { return cost[m] })
}
