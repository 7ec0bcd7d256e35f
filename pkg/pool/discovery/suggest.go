package discovery

import (
	"strconv"
	"strings"
)

// suggestion returns `; did you mean "x"?` for the name of known that is nearest to what was written, or the list of them
// all if none is near: what keeps no letter of it is not.
func suggestion(written string, known []string) string {
	best, nearest := "", min(len(written)/3+2, len(written))
	for _, k := range known {
		if d := distance(strings.ToLower(written), strings.ToLower(k)); d < nearest {
			best, nearest = k, d
		}
	}
	if best != "" {
		return "; did you mean " + strconv.Quote(best) + "?"
	}
	return "; known are " + quotedList(known)
}

func quotedList(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = strconv.Quote(n)
	}
	return strings.Join(quoted, ", ")
}

// distance is the number of letters to insert, delete or replace (Levenshtein). Names longer than 64 bytes are as far as
// can be: nobody mistypes one into a known name, and the cost is the product of the lengths.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			next := diagonal
			if a[i] != b[j] {
				next = min(diagonal, row[j], row[j+1]) + 1
			}
			diagonal, row[j+1] = row[j+1], next
		}
	}
	return row[len(b)]
}
