package pool

// touches are the endpoints whose books or samples were written last, in order, so that who keeps something about each endpoint
// looks at those alone that it may be another for.
type touches struct {
	count uint64
	last  [TouchesKept]ID // of touch n at n mod TouchesKept
}

// TouchesKept is how many of the last touches are known. An endpoint has about four for each request: a booking, a first byte, the
// tokens of its answer and its end.
const TouchesKept = 256

func (t *touches) add(id ID) {
	t.last[t.count%TouchesKept] = id
	t.count++
}

// Touches is how often the books or the sample of an endpoint were written. A new snapshot is not among them: it may have other
// endpoints.
func (b *Books) Touches() uint64 { return b.touched.count }

// Touched returns the endpoint that was written at touch n, which must be one of the last TouchesKept: Touches() - TouchesKept ≤ n <
// Touches().
func (b *Books) Touched(n uint64) ID { return b.touched.last[n%TouchesKept] }
