package producers

import (
	"testing"

	"github.com/fairlead/fairlead/pkg/pool"
)

func TestWhetherFirstBytesAreHeaders(t *testing.T) {
	counts := func(own int, ownSeconds float64, engines int, engineSeconds float64) firstBytes {
		return firstBytes{own: pool.Timed{Count: float64(own), Seconds: ownSeconds}, engines: pool.Timed{Count: float64(engines), Seconds: engineSeconds}}
	}
	prompts := func(observed, expected float64) firstBytes {
		return firstBytes{prompts: evidence{observed, expected}}
	}
	held := func(b firstBytes) firstBytes { b.headers = true; return b }
	both := func(b, other firstBytes) firstBytes { b.prompts = other.prompts; return b }
	tests := []struct {
		name           string
		of             firstBytes
		headers, found bool
	}{
		{"nothing seen", firstBytes{}, false, false},
		{"nothing seen since they were found to be", held(firstBytes{}), true, false},
		{"as late as engines count", counts(100, 21, 100, 20), false, false},
		{"a tenth of what engines count", counts(100, 2, 100, 20), true, true},
		{"half of it: the verdict does not change", counts(100, 10, 100, 20), false, false},
		{"half of it, and they were found to be", held(counts(100, 10, 100, 20)), true, false},
		{"no longer earlier", held(counts(100, 18, 100, 20)), false, false},
		{"too few", counts(19, 0, 19, 20), false, false},
		{"most first tokens are of others", counts(50, 1, 100, 40), false, false},
		{"engines that count no time", counts(100, 1, 100, 0), false, false},
		{"sooner than any engine computes prompts", prompts(250, 2600), true, true},
		{"so before the first step was over", prompts(-100, 2600), true, true},
		{"little was expected", prompts(100, 1900), false, false},
		{"soon, but possible", prompts(400, 2600), false, false},
		{"a little less soon than it was", held(prompts(400, 2600)), true, false},
		{"prompts that take time", held(prompts(1300, 2600)), false, false},
		{"prompts that were cached without the picker's knowledge, as engines count too", both(counts(100, 2, 100, 2), prompts(0, 5000)), false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := tt.of
			if found := b.judge(); found != tt.found || b.headers != tt.headers {
				t.Errorf("headers %v, found %v; want %v, %v", b.headers, found, tt.headers, tt.found)
			}
		})
	}
}
