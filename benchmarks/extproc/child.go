package extproc

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

// child is a server that runs as a process of its own, so that its CPU can be told from the generator's.
type child struct {
	cmd   *exec.Cmd
	said  *tail
	ended chan struct{} // closed when the process is gone
	err   error         // of Wait; read after ended
}

// start runs the command with its output kept, the last of it, and on a further writer if that is not nil.
func start(command, environment []string, further io.Writer) (*child, error) {
	if len(command) == 0 {
		return nil, errors.New("empty command; a program and its arguments")
	}
	c := &child{cmd: exec.Command(command[0], command[1:]...), said: &tail{}, ended: make(chan struct{})}
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

func (c *child) pid() int { return c.cmd.Process.Pid }

// fail returns an error that says how the process ended, with its last words.
func (c *child) fail(doing string) error {
	select {
	case <-c.ended:
		return fmt.Errorf("%s while %s: %w; it said:\n%s", c.cmd.Path, doing, c.exit(), c.said)
	default:
		return fmt.Errorf("%s while %s; it said:\n%s", c.cmd.Path, doing, c.said)
	}
}

// during adds to an error what the process did, if it ended and so is the cause.
func (c *child) during(doing string, err error) error {
	select {
	case <-c.ended:
		return fmt.Errorf("%w (%w)", c.fail(doing), err)
	default:
		return fmt.Errorf("%s while %s: %w", c.cmd.Path, doing, err)
	}
}

// exit is how the process ended, never nil.
func (c *child) exit() error {
	if c.err != nil {
		return c.err
	}
	return errors.New("exit status 0")
}

// stop asks the process to end, and after grace ends it.
func (c *child) stop(grace time.Duration) {
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

// until calls try every 20 ms until it returns nil, ctx ends, the process ends or wait is over.
func (c *child) until(ctx context.Context, wait time.Duration, try func(context.Context) error) error {
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

// tail keeps the last 4 KiB that were written to it. It may be used concurrently.
type tail struct {
	mu   sync.Mutex
	last []byte
}

func (t *tail) Write(p []byte) (int, error) {
	const most = 4 << 10
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = append(t.last, p...)
	if n := len(t.last); n > most {
		t.last = append(t.last[:0], t.last[n-most:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.last))
}
