package cli

import (
	"fmt"
	"strings"
	"testing"
)

func TestARecordCannotSteerATerminal(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"plain text stays", "a\tb ×\n", "a\tb ×\n"},
		{"an escape sequence is no longer one", "\x1b[2Jx", "\uFFFD[2Jx"},
		{"neither is its one-byte form", "\u009b2J", "\uFFFD2J"},
		{"nor a line that is written over", "ok\rno\x7f", "ok\uFFFDno\uFFFD"},
		{"bytes that are no text become some", "\xff", "\uFFFD"},
	} {
		var out strings.Builder
		if n, err := fmt.Fprint(printable{&out}, c.in); n != len(c.in) || err != nil || out.String() != c.want {
			t.Errorf("%s: got %q, want %q (%d bytes, %v)", c.name, out.String(), c.want, n, err)
		}
	}
}
