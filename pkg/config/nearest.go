package config

import (
	"fmt"
	"strings"
)

// didYouMean suggests the candidate nearest to a mistyped name, or nothing when none is near.
func didYouMean(name string, candidates []string) string {
	if n := nearest(name, candidates); n != "" {
		return fmt.Sprintf("did you mean %q?", n)
	}
	return ""
}

// didYouMeanOr suggests the nearest candidate, else lists them all.
func didYouMeanOr(name string, candidates []string) string {
	if s := didYouMean(name, candidates); s != "" || len(candidates) == 0 {
		return s
	}
	return "one of " + strings.Join(candidates, ", ")
}

// nearest returns the candidate with the fewest edits from name: at most a third of its letters, and always two where the
// name has four or more. Case, "-" and "_" count for nothing. The first of equals wins; without a near one it is "".
func nearest(name string, candidates []string) string {
	folded := fold(name)
	best, least := "", max(len(folded)/3, min(len(folded)/2, 2))+1
	for _, c := range candidates {
		d := edits(folded, fold(c), least)
		if d < least {
			best, least = c, d
		}
	}
	return best
}

func fold(s string) string {
	if len(s) > 64 {
		s = s[:64]
	}
	return strings.NewReplacer("-", "", "_", "", " ", "", ".", "").Replace(strings.ToLower(s))
}

// edits counts the insertions, removals, replacements and swaps of neighbours that make b of a, and gives up at limit.
func edits(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return min(last[len(b)], limit)
}
