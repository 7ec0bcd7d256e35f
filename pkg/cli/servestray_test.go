package cli

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

func TestStrayLinesQuoteNoAnswer(t *testing.T) {
	for _, row := range []struct{ name, line, want string }{
		{"an answer that came unasked", fmt.Sprintf("Unsolicited response received on idle HTTP channel starting with %q; err=%v\n", `{"secret":"CANARY"}`, nil),
			`text="Unsolicited response received on idle HTTP channel starting with …"`},
		{"a plain line", "http2: something went wrong\n", `text="http2: something went wrong"`},
	} {
		t.Run(row.name, func(t *testing.T) {
			var out bytes.Buffer
			n, err := strayLines{slog.New(slog.NewTextHandler(&out, nil))}.Write([]byte(row.line))
			if n != len(row.line) || err != nil || !strings.Contains(out.String(), row.want) || strings.Contains(out.String(), "CANARY") {
				t.Errorf("wrote %d, %v; logged %s", n, err, out.String())
			}
		})
	}
}
