package children

import (
	"strings"
	"testing"
)

func TestStatIsReadPastAnyCommandName(t *testing.T) {
	// fields 3 to 24: rss 1000 pages
	const rest = " S 1 2 3 0 -1 4194560 900 0 0 0 250 30 0 0 20 0 9 0 12345 1000000 1000 18446744073709551615"
	for _, row := range []struct {
		name, stat string
		ok         bool
	}{
		{"a plain name", "17 (fairlead)" + rest, true},
		{"a name with blanks and parentheses", "17 (a) S (b) 9)" + rest, true},
		{"fields missing", "17 (fairlead) S 1 2", false},
		{"no name", "17 S 1", false},
		{"a field that is no number", "17 (x)" + strings.Replace(rest, " 1000 ", " x ", 1), false},
		{"nothing", "", false},
	} {
		rss, err := resident(row.stat, 4096)
		if (err == nil) != row.ok {
			t.Errorf("%s: error %v", row.name, err)
		}
		if row.ok && rss != 4_096_000 {
			t.Errorf("%s: %d bytes; want 4096000", row.name, rss)
		}
	}
}

func FuzzResident(f *testing.F) {
	f.Add("17 (a) S (b) 9) S 1 2 3 0 -1 4194560 900 0 0 0 250 30 0 0 20 0 9 0 12345 1000000 1000 1")
	f.Add("1 (")
	f.Fuzz(func(_ *testing.T, stat string) { _, _ = resident(stat, 4096) }) // any input is read or refused, without a panic
}
