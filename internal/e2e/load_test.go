//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestStorm: ten thousand streams of clean ends, aborts, resets and retries leave nothing in the books.
func TestStorm(t *testing.T) {
	for _, config := range []string{"edges.yaml", "override.yaml"} {
		t.Run(config, func(t *testing.T) {
			w := newWorld(t, options{envoy: config, speed: 200})
			w.store(events(3072))
			if err := w.fleet.Stop(3); err != nil { // its port refuses: whoever is sent there is retried
				t.Fatal(err)
			}
			const n = 10_000
			var last atomic.Int64
			started := time.Now()
			each(n, 48, func(i int) {
				began := time.Now()
				w.stormCall(i)
				last.Store(max(last.Load(), int64(time.Since(started))))
				if took := time.Since(began); took > 30*time.Second {
					t.Errorf("stream %d (kind %d) took %v: somebody waited for an end that did not come", i, i%10, took)
				}
			})
			took := time.Since(started)
			w.booksZero(started.Add(time.Duration(last.Load())), 50*time.Millisecond)
			t.Logf("%d streams in %v", n, took.Round(time.Millisecond))
			if k := w.metric(`fairlead_reasons_total{reason="fallback_served"}`); k == 0 {
				t.Error("no request was retried at another pod")
			}
			for _, reason := range []string{"booking_expired", "pick_not_served", "internal", "plugin_panic"} {
				if k := w.metric(`fairlead_reasons_total{reason="` + reason + `"}`); k != 0 {
					t.Errorf("%s: %v times", reason, k)
				}
			}
			if k := w.metric(`fairlead_ext_proc_messages_total{kind="response_body"}`); k != 0 {
				t.Errorf("%v response-body messages came; want 0", k)
			}
			if all, theirs := w.serverErrors(), w.podErrors.Load(); all != theirs {
				t.Errorf("%d answers of 5xx, of which pods caused %d", all, theirs)
			}
			endings := map[string]float64{}
			for _, e := range []string{"clean", "client_aborted", "upstream_broken"} {
				endings[e] = w.metric(`fairlead_request_duration_seconds_count{ending="` + e + `"`)
			}
			t.Logf("endings: %v, fallbacks %v", endings, w.metric(`fairlead_reasons_total{reason="fallback_served"}`))
			if endings["clean"] < n/2 || endings["client_aborted"] < n/20 || endings["upstream_broken"] < n/20 {
				t.Errorf("endings: %v", endings)
			}
		})
	}
}

// stormCall is one stream of the storm.
func (w *world) stormCall(i int) {
	w.t.Helper()
	c := call{fixed: true, body: chat(i, rand.IntN(3000), `,"stream":true`), h2: i%2 == 0}
	switch i % 10 {
	default: // a clean stream
		if r := w.do(c); r.err != nil || r.status != 200 {
			w.t.Errorf("a clean stream: status %d after %v, error %v, %.200s", r.status, r.took, r.err, r.body)
		}
	case 4: // generated
		c.fixed, c.body = false, chat(i%100, 1000, `,"max_tokens":4`)
		if r := w.do(c); r.err != nil || r.status != 200 {
			w.t.Errorf("an answer in one piece: status %d, error %v, %.200s", r.status, r.err, r.body)
		}
	case 5, 6: // the client goes away in the middle, or before
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		c.ctx = ctx
		c.headers = []string{"X-Sim-Chunk", "100", "X-Sim-Gap", "20ms"}
		if i%20 == 5 {
			time.AfterFunc(time.Duration(rand.IntN(5000))*time.Microsecond, cancel)
		}
		c.read = func(b *bufio.Reader) {
			_, _ = io.CopyN(io.Discard, b, int64(rand.IntN(800)))
			cancel()
		}
		w.do(c)
	case 7: // the pod resets in the middle
		c.headers = []string{"X-Sim-Fault", "reset-mid", "X-Sim-Chunk", "100", "X-Sim-Gap", "1ms"}
		switch r := w.do(c); {
		case r.err == nil && r.status == 502: // before the gateway had passed the headers on
			w.podErrors.Add(1)
		case r.err == nil:
			w.t.Errorf("a stream that the pod reset came to its end, status %d", r.status)
		}
	case 8: // the pod resets before its first byte, and the request is not repeated
		c.headers = []string{"X-Sim-Fault", "reset-before"}
		if r := w.do(c); r.err != nil || r.status != 502 {
			w.t.Errorf("reset before the first byte: status %d, error %v", r.status, r.err)
		}
		w.podErrors.Add(1)
	}
}

// TestSlowStreams: two thousand of them at once, each compared, each seen in the books while it runs.
func TestSlowStreams(t *testing.T) {
	for _, o := range []options{
		{envoy: "edges.yaml"},
		{envoy: "override.yaml"},
		{envoy: "override.yaml", picker: []string{"--response-mode", "full"}},
	} {
		t.Run(fmt.Sprint(o.envoy, o.picker), func(t *testing.T) {
			w := newWorld(t, o)
			w.store(events(3072))
			const n = 2000
			var running sync.WaitGroup
			var failed atomic.Int64
			for i := range n {
				running.Go(func() {
					r := w.do(call{fixed: true, body: chat(i, 100, `,"stream":true`), h2: i%2 == 0, headers: []string{"X-Sim-Chunk", "200", "X-Sim-Gap", "500ms"}})
					if r.err != nil || r.status != 200 {
						failed.Add(1)
						t.Errorf("status %d, error %v", r.status, r.err)
					}
				})
			}
			peak := int64(0)
			done := make(chan struct{})
			go func() { running.Wait(); close(done) }()
			for open := true; open; {
				select {
				case <-done:
					open = false
				case <-time.After(100 * time.Millisecond):
					peak = max(peak, w.books().Bookings)
				}
			}
			w.booksZero(time.Now(), 50*time.Millisecond)
			if peak < n {
				t.Errorf("at most %d bookings stood at once; want %d", peak, n)
			}
			if k := w.metric(`fairlead_ext_proc_messages_total{kind="response_body"}`); (k > 0) != (len(o.picker) > 0) {
				t.Errorf("%v response-body messages came", k)
			}
		})
	}
}
