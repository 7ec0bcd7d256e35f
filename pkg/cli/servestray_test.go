package cli

import (
	"bufio"
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestServingOutlivesWhoReadsItsOutput: a log collector that dies does not take the process with it.
func TestServingOutlivesWhoReadsItsOutput(t *testing.T) {
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable() // which is fairlead when it is called so
	if err != nil {
		t.Fatal(err)
	}
	c := &exec.Cmd{Path: program, Stdout: to, Stderr: to,
		Args: []string{"fairlead", "gateway", "--listen", "127.0.0.1:0", "--metrics-port", "0", "--endpoint", "http://127.0.0.1:1"}}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	_ = to.Close()
	late := time.AfterFunc(20*time.Second, func() { _ = c.Process.Kill() })
	defer late.Stop()
	lines := bufio.NewScanner(from)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "proxy ") { // the last line of the start
	}
	_ = from.Close()
	_ = c.Process.Signal(syscall.SIGTERM) // it logs that it drains
	if err := c.Wait(); err != nil {
		t.Errorf("ended with %v", err)
	}
}

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
