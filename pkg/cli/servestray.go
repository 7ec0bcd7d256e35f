package cli

import (
	stdlog "log"
	"log/slog"
	"os/signal"
	"strings"
	"syscall"
)

// outliveReaders keeps a process that serves alive when nobody reads its output any more: by default Go ends it at its next
// line, and requests that run with it. Commands that only print want that default.
func outliveReaders() { signal.Ignore(syscall.SIGPIPE) }

// strayLines takes what libraries print through Go's standard logger. net/http quotes there what an engine sent unasked, which
// may be an answer: the quoted part is left out.
type strayLines struct{ log *slog.Logger }

// takeStrayLines has the process's standard logger write to log.
func takeStrayLines(log *slog.Logger) {
	stdlog.SetFlags(0)
	stdlog.SetOutput(strayLines{log})
}

// Write implements io.Writer for one line.
func (s strayLines) Write(line []byte) (int, error) {
	text, _, quoted := strings.Cut(strings.TrimSpace(string(line)), `"`)
	if quoted {
		text += "…"
	}
	s.log.Warn("a library says", "text", text)
	return len(line), nil
}
