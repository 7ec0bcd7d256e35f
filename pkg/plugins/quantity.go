package plugins

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Quantity is a count or a number of bytes that configurations write with a suffix, as Kubernetes' resource quantities:
// k, M, G, T, P for powers of 1000 and Ki, Mi, Gi, Ti, Pi for powers of 1024; a trailing B is accepted. Fractions that
// make no whole number are refused.
type Quantity int64

var quantitySuffixes = [...]struct {
	suffix string
	factor int64
}{
	{"Pi", 1 << 50}, {"Ti", 1 << 40}, {"Gi", 1 << 30}, {"Mi", 1 << 20}, {"Ki", 1 << 10},
	{"P", 1e15}, {"T", 1e12}, {"G", 1e9}, {"M", 1e6}, {"k", 1e3},
}

// ParseQuantity reads a quantity.
func ParseQuantity(text string) (Quantity, error) {
	number, factor := strings.TrimSuffix(text, "B"), int64(1)
	for _, s := range quantitySuffixes {
		if rest, ok := strings.CutSuffix(number, s.suffix); ok {
			number, factor = rest, s.factor
			break
		}
	}
	if n, err := strconv.ParseInt(number, 10, 64); err == nil {
		if n > math.MaxInt64/factor || n < math.MinInt64/factor {
			return 0, fmt.Errorf("quantity %q is too large", text)
		}
		return Quantity(n * factor), nil
	}
	if f, err := strconv.ParseFloat(number, 64); err == nil && !strings.ContainsAny(number, "xXpPnN") {
		if n := f * float64(factor); n == math.Trunc(n) && math.Abs(n) < 1<<53 {
			return Quantity(n), nil
		}
	}
	return 0, fmt.Errorf("quantity %q: write a whole number with a suffix such as k, M, G, Ki, Mi or Gi", text)
}

// String returns the shortest text that ParseQuantity reads back.
func (q Quantity) String() string {
	shortest := strconv.FormatInt(int64(q), 10)
	if q == 0 {
		return shortest
	}
	for _, s := range quantitySuffixes {
		if int64(q)%s.factor == 0 {
			if text := strconv.FormatInt(int64(q)/s.factor, 10) + s.suffix; len(text) < len(shortest) {
				shortest = text
			}
		}
	}
	return shortest
}
