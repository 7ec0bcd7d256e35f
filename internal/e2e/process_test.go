//go:build e2e

package e2e

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a child that ends with us, also when we crash.
type process struct {
	t      *testing.T
	name   string
	cmd    *exec.Cmd
	log    string
	ended  chan struct{}
	killed sync.Once
}

// start starts a child on a thread of its own: Envoy asks the kernel to end it with the thread that started it, and so do
// we for the others.
func start(t *testing.T, name, dir, path string, args ...string) *process {
	t.Helper()
	p := &process{t: t, name: name, cmd: exec.Command(path, args...), ended: make(chan struct{})}
	p.log = filepath.Join(dir, fmt.Sprintf("%s-%d.log", name, time.Now().UnixNano()))
	log, err := os.Create(p.log)
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.Dir = log, log, dir
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // until the child has ended; then the thread goes, too
		err := p.cmd.Start()
		started <- err
		if err == nil {
			_ = p.cmd.Wait() // how it ended is told by its log
		}
		log.Close()
		close(p.ended)
	}()
	if err := <-started; err != nil {
		t.Fatalf("starting %s: %v", name, err)
	}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			p.tail()
		}
	})
	return p
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Errorf("%s: %v: %v", p.name, s, err)
	}
}

// kill ends the child at once and waits until it is gone.
func (p *process) kill() {
	p.killed.Do(func() { _ = p.cmd.Process.Kill() })
	<-p.ended
}

// terminate asks the child to end and reports whether it did within the bound.
func (p *process) terminate(bound time.Duration) bool {
	p.signal(syscall.SIGTERM)
	select {
	case <-p.ended:
		return true
	case <-time.After(bound):
		return false
	}
}

func (p *process) alive() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// tail shows the end of the child's log.
func (p *process) tail() {
	b, _ := os.ReadFile(p.log)
	if n := 4000; len(b) > n {
		b = b[len(b)-n:]
	}
	p.t.Logf("the end of %s's log:\n%s", p.name, b)
}

// until waits for a page that answers 200.
func (p *process) until(url string) {
	p.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if !p.alive() {
			p.t.Fatalf("%s ended at its start", p.name)
		}
		r, err := http.Get(url)
		if err != nil {
			continue
		}
		r.Body.Close()
		if r.StatusCode == http.StatusOK {
			return
		}
	}
	p.t.Fatalf("%s is not ready within 20 s: %s", p.name, url)
}

// freePorts returns the first of n free ports in a row, below those that the system gives to outgoing connections.
func freePorts(t *testing.T, n int) int {
	t.Helper()
search:
	for range 1000 {
		first := 20_000 + rand.IntN(12_000)
		for i := range n {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", first+i))
			if err != nil {
				continue search
			}
			l.Close()
		}
		return first
	}
	t.Fatal("no free ports")
	return 0
}
