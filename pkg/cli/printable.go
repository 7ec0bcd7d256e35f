package cli

import (
	"bytes"
	"io"
	"unicode"
	"unicode/utf8"
)

// printable passes text on to a terminal without control characters, which a record from elsewhere may hold: each becomes
// U+FFFD, but for line ends and tabs. A character must not be split between two calls of Write.
type printable struct{ to io.Writer }

// Write implements io.Writer.
func (w printable) Write(p []byte) (int, error) {
	safe := bytes.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && unicode.IsControl(r) {
			return utf8.RuneError
		}
		return r
	}, p)
	if _, err := w.to.Write(safe); err != nil {
		return 0, err
	}
	return len(p), nil
}
