//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"
)

// TestClientLeaves in the middle of a stream: the books fall at once, and the ending is the client's.
func TestClientLeaves(t *testing.T) {
	everyWay(t, func(t *testing.T, o options) {
		w := newWorld(t, o)
		w.store(events(3072))
		before := w.metric(`fairlead_request_duration_seconds_count{ending="client_aborted"`)
		for _, h2 := range []bool{false, true} {
			ctx, cancel := context.WithCancel(context.Background())
			w.do(call{fixed: true, h2: h2, body: chat(1, 100, ""), ctx: ctx, headers: []string{"X-Sim-Chunk", "50", "X-Sim-Gap", "100ms"}, read: func(b *bufio.Reader) {
				if _, err := io.CopyN(io.Discard, b, 120); err != nil {
					t.Error(err)
				}
				if n := w.books().Bookings; n != 1 {
					t.Errorf("%d bookings stand while it runs; want 1", n)
				}
			}})
			cancel()
			w.booksZero(time.Now(), 50*time.Millisecond)
		}
		if n := w.metric(`fairlead_request_duration_seconds_count{ending="client_aborted"`) - before; n != 2 {
			t.Errorf("%v requests ended as aborted; want 2", n)
		}
	})
}

// TestPodDies before and after the first byte of its answer.
func TestPodDies(t *testing.T) {
	for _, config := range []string{"edges.yaml", "override.yaml"} {
		t.Run(config, func(t *testing.T) {
			w := newWorld(t, options{envoy: config})
			w.store(events(3072))

			t.Run("its port refuses: another pod serves", func(t *testing.T) {
				if err := w.fleet.Stop(0); err != nil {
					t.Fatal(err)
				}
				before := w.metric(`fairlead_reasons_total{reason="fallback_served"}`)
				each(200, 8, func(i int) {
					r := w.do(call{fixed: true, body: chat(i, 1000, ""), h2: i%2 == 0})
					if r.err != nil || r.status != 200 || r.header.Get("X-Sim-Engine") == "0" {
						t.Errorf("status %d, error %v, engine %s", r.status, r.err, r.header.Get("X-Sim-Engine"))
					}
				})
				if n := w.metric(`fairlead_reasons_total{reason="fallback_served"}`) - before; n == 0 {
					t.Error("nobody was sent to the dead pod, so nothing was shown")
				}
				w.booksZero(time.Now(), 50*time.Millisecond)
				if err := w.fleet.Restart(0); err != nil {
					t.Fatal(err)
				}
				w.store(w.stored)
			})

			t.Run("it resets before its first byte: 502, and no other pod is asked", func(t *testing.T) {
				asked := func() (n int64) {
					for i := range pods {
						c, _ := w.fleet.Counters(i)
						n += c.PromptTokens
					}
					return n
				}
				before := asked()
				for i := range 20 {
					r := w.do(call{body: chat(i, 100, ""), headers: []string{"X-Sim-Fault", "reset-before"}})
					if r.err != nil || r.status != 502 {
						t.Errorf("status %d, error %v", r.status, r.err)
					}
				}
				if n := asked() - before; n != 0 {
					t.Errorf("%d prompt tokens were computed: a request was repeated", n)
				}
				w.booksZero(time.Now(), 50*time.Millisecond)
			})

			t.Run("it is killed in the middle of its answers: what was sent arrives, and the end is told as an error", func(t *testing.T) {
				before := w.metric(`fairlead_request_duration_seconds_count{ending="upstream_broken"`)
				var streams, begun sync.WaitGroup
				cut := make([]int, pods)
				var lock sync.Mutex
				const n = 40
				begun.Add(n)
				for i := range n {
					streams.Go(func() {
						r := w.do(call{fixed: true, body: chat(i, 100, ""), h2: i%2 == 0, headers: []string{"X-Sim-Chunk", "64", "X-Sim-Gap", "20ms"}, read: func(b *bufio.Reader) {
							begin, _ := b.Peek(1)
							begun.Done()
							got, err := io.ReadAll(b)
							if len(begin) == 0 || len(got) > len(w.stored) || string(got) != string(w.stored[:len(got)]) {
								t.Errorf("%d bytes that are not the beginning of what was sent", len(got))
							}
							if (err == nil) != (len(got) == len(w.stored)) {
								t.Errorf("%d of %d bytes with error %v", len(got), len(w.stored), err)
							}
							if err != nil {
								lock.Lock()
								cut[1]++
								lock.Unlock()
							}
						}})
						if r.err != nil || r.status != 200 {
							t.Errorf("status %d, error %v", r.status, r.err)
							begun.Done()
						}
					})
				}
				begun.Wait()
				if err := w.fleet.Stop(1); err != nil {
					t.Fatal(err)
				}
				streams.Wait()
				w.booksZero(time.Now(), 50*time.Millisecond)
				broken := w.metric(`fairlead_request_duration_seconds_count{ending="upstream_broken"`) - before
				if cut[1] == 0 || int(broken) != cut[1] {
					t.Errorf("%d answers were cut, %v are told as broken by the pod", cut[1], broken)
				}
				t.Log(fmt.Sprint(cut[1], " of ", n, " answers were cut with their pod"))
			})
		})
	}
}
