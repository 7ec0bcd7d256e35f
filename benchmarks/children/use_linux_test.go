package children

import (
	"os/exec"
	"testing"
	"time"
)

// The clock of another process counts what it computes, in finer steps than proc_pid_stat(5).
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
