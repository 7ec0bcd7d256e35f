package extproc

import (
	"math"
	"math/bits"
	"sync/atomic"
	"time"
)

// subBits is the resolution of latencies: 2^6 buckets per doubling, so that a quantile is at most 1.6 % too high.
const subBits = 6

// latencies counts durations in buckets of equal relative width. The zero value is empty; all methods are safe for
// concurrent use, and a quantile is exact only once no more are added.
type latencies struct {
	buckets [(64 - subBits) << subBits]atomic.Int64
	max     atomic.Int64
}

// add counts one duration; a negative one counts as zero.
func (l *latencies) add(d time.Duration) {
	d = max(d, 0)
	l.buckets[bucket(uint64(d))].Add(1)
	for {
		seen := l.max.Load()
		if int64(d) <= seen || l.max.CompareAndSwap(seen, int64(d)) {
			return
		}
	}
}

// bucket maps nanoseconds to an index: values below 2^(subBits+1) are exact.
func bucket(ns uint64) int {
	shift := max(bits.Len64(ns)-subBits-1, 0)
	return shift<<subBits + int(ns>>shift)
}

// upper is the largest value of a bucket.
func upper(i int) uint64 {
	if i < 2<<subBits {
		return uint64(i)
	}
	shift := i>>subBits - 1
	return (uint64(i)-uint64(shift)<<subBits+1)<<shift - 1
}

// quantile returns the smallest bucket bound that at least a share q of the durations do not exceed; 0 if there are none.
func (l *latencies) quantile(q float64) time.Duration {
	var total int64
	for i := range l.buckets {
		total += l.buckets[i].Load()
	}
	if total == 0 {
		return 0
	}
	need := max(int64(math.Ceil(q*float64(total))), 1)
	for i := range l.buckets {
		if need -= l.buckets[i].Load(); need <= 0 {
			return min(time.Duration(upper(i)), time.Duration(l.max.Load()))
		}
	}
	return time.Duration(l.max.Load())
}
