package extproc

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestQuantilesAreThoseOfASortedList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.OneOf(rapid.Int64Range(0, 300), rapid.Int64Range(0, math.MaxInt64)), 1, 200).Draw(t, "values")
		var l latencies
		for _, v := range values {
			l.add(time.Duration(v))
		}
		slices.Sort(values)
		for _, q := range []float64{0, 0.5, 0.99, 1} {
			exact := values[max(int(math.Ceil(q*float64(len(values)))), 1)-1]
			got := int64(l.quantile(q))
			if got < exact || float64(got-exact) > float64(exact)/64 {
				t.Fatalf("quantile %g of %v is %d; want %d or up to 1/64 more", q, values, got, exact)
			}
		}
	})
}

func TestLatenciesAtTheEdges(t *testing.T) {
	var l latencies
	if got := l.quantile(0.5); got != 0 {
		t.Errorf("median of nothing is %v", got)
	}
	l.add(-5)
	if got := l.quantile(1); got != 0 {
		t.Errorf("a decision before the last byte counts as %v; want 0", got)
	}
	l.add(math.MaxInt64)
	if got := l.quantile(1); got != math.MaxInt64 {
		t.Errorf("the longest duration reads as %v", got)
	}
}
