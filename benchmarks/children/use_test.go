package children

import (
	"os/exec"
	"strings"
	"testing"
	"time"
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

// The clock of another process counts what it computes, and far below what proc_pid_stat(5) tells.
func TestCPUOfAnotherProcess(t *testing.T) {
	cmd := exec.Command("sh", "-c", "i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done; echo done; read end")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	used, rss, err := Use(cmd.Process.Pid)
	if err != nil || used <= 0 || used%(10*time.Millisecond) == 0 || rss == 0 {
		t.Errorf("a shell that counted to 2000 used %v and %d bytes, %v", used, rss, err)
	}
	in.Close()
	if err := cmd.Wait(); err == nil {
		t.Error("the end of input did not end the shell's read")
	}
	if ended := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(); used > ended+10*time.Millisecond {
		t.Errorf("%v while it ran, %v when it ended", used, ended)
	}
	if _, _, err := Use(cmd.Process.Pid); err == nil {
		t.Error("a process that ended has a use")
	}
}

func FuzzResident(f *testing.F) {
	f.Add("17 (a) S (b) 9) S 1 2 3 0 -1 4194560 900 0 0 0 250 30 0 0 20 0 9 0 12345 1000000 1000 1")
	f.Add("1 (")
	f.Fuzz(func(_ *testing.T, stat string) { _, _ = resident(stat, 4096) }) // any input is read or refused, without a panic
}
