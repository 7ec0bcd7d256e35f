// Package children runs servers as processes of their own, so that what they cost can be told from what a benchmark costs, and
// so that no server outlives its benchmark.
package children

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Child is a process that runs a server.
type Child struct {
	cmd   *exec.Cmd
	said  *Tail
	ended chan struct{} // closed when the process is gone
	err   error         // of Wait; read after ended
}

// Start runs the command with its output kept, the last of it, and on a further writer if that is not nil.
func Start(command, environment []string, further io.Writer) (*Child, error) {
	if len(command) == 0 {
		return nil, errors.New("empty command; a program and its arguments")
	}
	c := &Child{cmd: exec.Command(command[0], command[1:]...), said: &Tail{}, ended: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), environment...)
	c.cmd.Stderr = c.said
	c.cmd.Stdout = c.said
	if further != nil {
		c.cmd.Stdout = io.MultiWriter(c.said, further)
	}
	c.cmd.WaitDelay = time.Second
	dieWithParent(c.cmd)
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %q: %w", strings.Join(command, " "), err)
	}
	go func() {
		c.err = c.cmd.Wait()
		close(c.ended)
	}()
	return c, nil
}

// PID returns the process's number.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// fail returns an error that says how the process ended, with its last words.
func (c *Child) fail(doing string) error {
	select {
	case <-c.ended:
		return fmt.Errorf("%s while %s: %w; it said:\n%s", c.cmd.Path, doing, c.exit(), c.said)
	default:
		return fmt.Errorf("%s while %s; it said:\n%s", c.cmd.Path, doing, c.said)
	}
}

// During adds to an error what the process did, if it ended and so is the cause.
func (c *Child) During(doing string, err error) error {
	select {
	case <-c.ended:
		return fmt.Errorf("%w (%w)", c.fail(doing), err)
	default:
		return fmt.Errorf("%s while %s: %w", c.cmd.Path, doing, err)
	}
}

// exit is how the process ended, never nil.
func (c *Child) exit() error {
	if c.err != nil {
		return c.err
	}
	return errors.New("exit status 0")
}

// Stop asks the process to end, and after grace ends it.
func (c *Child) Stop(grace time.Duration) {
	_ = c.cmd.Process.Signal(syscall.SIGTERM) // an error means that it has ended
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-c.ended:
		return
	case <-timer.C:
	}
	_ = c.cmd.Process.Kill()
	<-c.ended
}

// Until calls try every 20 ms until it returns nil, ctx ends, the process ends or wait is over.
func (c *Child) Until(ctx context.Context, wait time.Duration, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-c.ended:
			return c.fail("starting")
		case <-ctx.Done():
			return fmt.Errorf("%w (last: %w)", c.fail(fmt.Sprintf("not ready after %v", wait)), err)
		}
	}
}

// Tail keeps the last 4 KiB that were written to it. It may be used concurrently.
type Tail struct {
	mu   sync.Mutex
	last []byte
}

// Write keeps p, or the end of it.
func (t *Tail) Write(p []byte) (int, error) {
	const most = 4 << 10
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, p...)
	if n := len(t.last); n > most {
		t.last = append(t.last[:0], t.last[n-most:]...)
	}
	return len(p), nil
}

// String returns what is kept, trimmed.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.last))
}
