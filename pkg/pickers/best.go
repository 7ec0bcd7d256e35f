package pickers

import "github.com/fairlead/fairlead/pkg/plugins"

// best appends to dst the indexes of the k candidates with the highest totals, in descending order, each tie drawn
// uniformly from the cycle's stream; nil totals tie all. It is the one place where ties are broken.
//
// Cost is O(n·k) for n candidates, with one draw per tie. A k beyond n counts as n, one below 1 as 1.
func best(c *plugins.Cycle, totals []float64, k int, dst []int) []int {
	n, from := len(c.Candidates), len(dst)
	for i := range n {
		dst = append(dst, i)
	}
	rest := dst[from:]
	k = min(max(k, 1), n)
	for j := range k {
		at := highest(c, totals, rest, j)
		rest[j], rest[at] = rest[at], rest[j]
	}
	return dst[:from+k]
}

// highest returns where in rest[j:] a candidate with the highest total stands, any of several equally likely.
func highest(c *plugins.Cycle, totals []float64, rest []int, j int) int {
	if totals == nil {
		return j + c.Rand().IntN(len(rest)-j)
	}
	at, ties, top := j, 1, totals[rest[j]]
	for i := j + 1; i < len(rest); i++ {
		switch v := totals[rest[i]]; {
		case v > top:
			at, ties, top = i, 1, v
		case v == top:
			ties++
		}
	}
	if ties == 1 {
		return at
	}
	nth := c.Rand().IntN(ties)
	for i := at; ; i++ {
		if totals[rest[i]] != top {
			continue
		}
		if nth == 0 {
			return i
		}
		nth--
	}
}

// bound returns how many endpoints to choose: what the caller wants, or what the parameter demands.
func bound(parameter, want int) int {
	if parameter > 0 {
		return parameter
	}
	return want
}
