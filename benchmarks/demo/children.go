package demo

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// child is a process of ours that ends with us, however we end.
type child struct {
	cmd  *exec.Cmd
	said *tail
	done chan struct{}
}

// spawn starts the binary with args. It is killed when ctx ends.
func spawn(ctx context.Context, binary string, args ...string) (*child, error) {
	c := &child{cmd: exec.CommandContext(ctx, binary, args...), said: &tail{}, done: make(chan struct{})}
	c.cmd.Stdout, c.cmd.Stderr = c.said, c.said
	c.cmd.Cancel = func() error { return c.cmd.Process.Signal(syscall.SIGTERM) }
	c.cmd.WaitDelay = 3 * time.Second
	endWithParent(c.cmd)
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = c.cmd.Wait() // how it ended shows in what it said
		close(c.done)
	}()
	return c, nil
}

// ready waits until url answers 200, or says what the child printed.
func (c *child) ready(ctx context.Context, url string) error {
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	every := time.NewTicker(50 * time.Millisecond)
	defer every.Stop()
	for {
		if res, err := http.Get(url); err == nil {
			res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-every.C:
		case <-ctx.Done():
			return ctx.Err()
		case <-c.done:
			return fmt.Errorf("%s ended: %s", strings.Join(c.cmd.Args, " "), c.said)
		case <-deadline.C:
			return fmt.Errorf("%s does not answer at %s: %s", strings.Join(c.cmd.Args, " "), url, c.said)
		}
	}
}

// cpu returns the processor time that the child has used, 0 where the system does not tell.
func (c *child) cpu() time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(stat), ") ") // the command's name may hold spaces
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * 10 * time.Millisecond // in clock ticks, 100 a second on Linux
}

// tail keeps the last of what a child printed, for an error.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

// Write keeps the last 4 kB.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, p...)
	if extra := len(t.buf) - 4096; extra > 0 {
		t.buf = append(t.buf[:0], t.buf[extra:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.buf))
}

// freePorts returns the first of n consecutive loopback ports that are free.
func freePorts(n int) (int, error) {
	for range 50 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, err
		}
		first := l.Addr().(*net.TCPAddr).Port
		l.Close()
		if first+n < 65536 && allFree(first, n) {
			return first, nil
		}
	}
	return 0, fmt.Errorf("no %d consecutive free ports found", n)
}

func allFree(first, n int) bool {
	for p := first; p < first+n; p++ {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(p)))
		if err != nil {
			return false
		}
		l.Close()
	}
	return true
}
