//go:build e2e

package e2e

import (
	"bufio"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// load is traffic that goes on while something happens to the picker: POSTs with bodies, long and short answers.
type load struct {
	w        *world
	workers  int
	stop     chan struct{}
	wait     sync.WaitGroup
	served   atomic.Int64
	failed   atomic.Int64 // without an answer, or with a 5xx
	cut      atomic.Int64 // answers whose headers came and whose end did not
	mu       sync.Mutex
	failures []failure
	slowest  time.Duration // of requests that began after mark
	marked   time.Time
}

// failure is a request that failed, and when it was begun.
type failure struct {
	began time.Time
	what  string
}

// startLoad begins with n workers, each sending its next request when the last one is answered.
func (w *world) startLoad(n int) *load {
	l := &load{w: w, workers: n, stop: make(chan struct{})}
	for k := range n {
		l.wait.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-l.stop:
					return
				default:
				}
				l.one(k, i)
			}
		})
	}
	return l
}

func (l *load) one(k, i int) {
	c := call{fixed: true, body: chat(k*1000+i, []int{10, 1000, 60_000, 300_000}[(i+k)%4], `,"stream":true`), h2: k%2 == 0}
	if k%4 == 0 { // long answers
		c.headers = []string{"X-Sim-Chunk", "64", "X-Sim-Gap", "30ms"}
	}
	began := time.Now()
	r := l.w.do(c)
	switch {
	case r.err == nil && r.status == 200:
		l.served.Add(1)
		l.mu.Lock()
		if k%4 != 0 && !l.marked.IsZero() && began.After(l.marked) {
			l.slowest = max(l.slowest, r.took)
		}
		l.mu.Unlock()
		return
	case r.began && r.status == 200:
		l.cut.Add(1)
	default:
		l.failed.Add(1)
	}
	l.mu.Lock()
	l.failures = append(l.failures, failure{began, fmt.Sprintf("status %d after %v, error %v", r.status, r.took, r.err)})
	l.mu.Unlock()
	time.Sleep(5 * time.Millisecond) // a failure comes at once; do not count it a thousand times
}

// mark has the slowest request that begins from here on be told.
func (l *load) mark() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.marked, l.slowest = time.Now(), 0
	return l.marked
}

// failedSince returns the requests that began after an instant, and failed.
func (l *load) failedSince(at time.Time) (out []failure) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.failures {
		if f.began.After(at) {
			out = append(out, f)
		}
	}
	return out
}

func (l *load) end() {
	close(l.stop)
	l.wait.Wait()
}

// TestPickerDies under load, with the configuration that lets the picker choose the modes: new requests fail open, no answer
// that had begun is cut, and at most the exchanges whose body was inside the picker at that instant fail.
func TestPickerDies(t *testing.T) {
	const workers = 24
	for _, c := range []struct {
		name string
		way  func(w *world, l *load)
		// margin is what a new request may take: a message_timeout where the picker hangs, and what the machine takes.
		margin time.Duration
	}{
		{"killed", func(w *world, _ *load) { w.picker.kill() }, time.Second},
		{"stopped", func(w *world, _ *load) { w.picker.signal(syscall.SIGSTOP) }, 1500 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, options{envoy: "override.yaml", hangs: true})
			w.store(events(3072))
			l := w.startLoad(workers)
			time.Sleep(time.Second)
			if n := l.failed.Load() + l.cut.Load(); n != 0 {
				t.Errorf("%d requests failed before anything happened: %v", n, l.failedSince(time.Time{}))
			}
			c.way(w, l)
			gone := l.mark()
			before := l.served.Load()
			time.Sleep(3 * time.Second)
			if n := l.served.Load() - before; n < workers {
				t.Errorf("%d requests were served without the picker in 3 s", n)
			}
			if f := l.failedSince(gone); len(f) > 0 {
				t.Errorf("%d requests that began without the picker failed, such as: %v", len(f), f[0])
			}
			l.mu.Lock()
			slowest := l.slowest
			l.mu.Unlock()
			if slowest > c.margin {
				t.Errorf("a request took %v without the picker; at most %v", slowest, c.margin)
			}
			if c.name == "stopped" {
				w.picker.signal(syscall.SIGCONT)
			} else {
				w.startPicker()
			}
			back := l.mark()
			waitFor(t, "requests reach the picker again", func() bool {
				return w.metric(`fairlead_requests_total{api="chat.completions",outcome="forwarded"`) > 0
			})
			time.Sleep(time.Second)
			l.end()
			if f := l.failedSince(back); len(f) > 0 {
				t.Errorf("%d requests that began after its return failed, such as: %v", len(f), f[0])
			}
			if n := l.cut.Load(); n != 0 {
				t.Errorf("%d answers whose headers were sent were cut: %v", n, l.failedSince(time.Time{}))
			}
			inside := l.failed.Load()
			if inside > workers {
				t.Errorf("%d requests failed; at most the %d that were under way", inside, workers)
			}
			t.Logf("%d requests served, the slowest new one without the picker after %v; %d failed that were inside the picker at that instant (bound %d)", l.served.Load(), slowest.Round(time.Millisecond), inside, workers)
			w.booksZero(time.Now(), 50*time.Millisecond)
		})
	}
}

// TestPickerRestartsOften under load: killed and started again, five times.
func TestPickerRestartsOften(t *testing.T) {
	const workers, times = 16, 5
	w := newWorld(t, options{envoy: "override.yaml", hangs: true})
	w.store(events(3072))
	l := w.startLoad(workers)
	for range times {
		time.Sleep(400 * time.Millisecond)
		w.picker.kill()
		time.Sleep(100 * time.Millisecond)
		w.startPicker()
	}
	time.Sleep(500 * time.Millisecond)
	l.end()
	if n := l.cut.Load(); n != 0 {
		t.Errorf("%d answers whose headers were sent were cut", n)
	}
	if n := l.failed.Load(); n > workers*times {
		t.Errorf("%d requests failed; at most the %d that were under way at one of %d instants", n, workers, times)
	}
	t.Logf("%d requests served, %d failed that were inside the picker (bound %d)", l.served.Load(), l.failed.Load(), workers*times)
	w.booksZero(time.Now(), 50*time.Millisecond)
}

// TestPickerDiesEdges: with static modes no answer that had begun is cut either, and once the health check has noticed,
// requests fail open.
func TestPickerDiesEdges(t *testing.T) {
	const workers = 16
	w := newWorld(t, options{envoy: "edges.yaml"})
	w.store(events(3072))
	l := w.startLoad(workers)
	time.Sleep(time.Second)
	w.picker.kill()
	gone := time.Now()
	time.Sleep(2500 * time.Millisecond)
	noticed := time.Now()
	time.Sleep(2 * time.Second)
	l.end()
	if n := l.cut.Load(); n != 0 {
		t.Errorf("%d answers whose headers were sent were cut: %v", n, l.failedSince(time.Time{}))
	}
	if f := l.failedSince(noticed); len(f) > 0 {
		t.Errorf("%d requests failed after the health check, such as: %v", len(f), f[0])
	}
	t.Logf("%d requests served; %d failed, of them %d that began before the health check noticed", l.served.Load(), l.failed.Load(), len(l.failedSince(gone)))
}

// TestDrain: a picker that is asked to end cuts nothing, in any mode, and ends as soon as nothing needs it.
func TestDrain(t *testing.T) {
	everyWay(t, func(t *testing.T, o options) {
		w := newWorld(t, o)
		w.store(events(3072))
		var streams, begun sync.WaitGroup
		const n = 40
		begun.Add(n)
		for i := range n {
			streams.Go(func() {
				r := w.do(call{fixed: true, body: chat(i, 100, ""), h2: i%2 == 0, headers: []string{"X-Sim-Chunk", "64", "X-Sim-Gap", "40ms"}, read: func(b *bufio.Reader) {
					_, _ = b.Peek(1)
					begun.Done()
					got, err := io.ReadAll(b)
					if err != nil {
						t.Errorf("cut after %d of %d bytes: %v", len(got), len(w.stored), err)
					}
					bodies.sameBytes(t, "response body", w.stored, got)
				}})
				if r.err != nil || r.status != 200 {
					t.Errorf("status %d, error %v", r.status, r.err)
				}
			})
		}
		begun.Wait()
		asked := time.Now()
		if !w.picker.terminate(20 * time.Second) {
			t.Error("it did not end within 20 s")
		}
		t.Logf("ended after %v", time.Since(asked).Round(time.Millisecond))
		streams.Wait()
	})
}

func waitFor(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 10 s: %s", what)
		}
	}
}
