package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fairlead/fairlead/benchmarks/extproc"
)

// connections is how many requests the closed loop keeps under way.
const connections = 16

// loop sends requests to one target. Bodies are made before the clock starts.
type loop struct {
	client *http.Client
	bodies map[int][][]byte // by prompt size in characters
}

func newLoop(sizes []int, n func(size int) int) (*loop, error) {
	l := &loop{bodies: map[int][][]byte{}, client: &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
		MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections, DisableCompression: true, ReadBufferSize: 32 << 10, WriteBufferSize: 128 << 10,
	}}}
	for _, size := range sizes {
		prompts, err := extproc.NewPrompts(1, size, model)
		if err != nil {
			return nil, err
		}
		for i := range n(size) {
			l.bodies[size] = append(l.bodies[size], prompts.Body(nil, uint64(i)))
		}
	}
	return l, nil
}

// heard is what a loop saw: times in seconds.
type heard struct {
	requests, failed int
	took             time.Duration
	firstByte        []time.Duration // from sending to the first byte of the answer's body
	gap              []time.Duration // from the answer's headers to that byte
	firstFailure     error
}

// send sends n requests of a size to url, beginning with the body at from, and waits for their ends.
func (l *loop) send(ctx context.Context, url string, size, from, n int) heard {
	var next atomic.Int64
	var mu sync.Mutex
	h := heard{requests: n}
	began := time.Now()
	var running sync.WaitGroup
	for range connections {
		running.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n || ctx.Err() != nil {
					return
				}
				first, gap, err := l.one(ctx, url, l.bodies[size][(from+i)%len(l.bodies[size])])
				mu.Lock()
				if err != nil {
					h.failed++
					if h.firstFailure == nil {
						h.firstFailure = err
					}
				} else {
					h.firstByte, h.gap = append(h.firstByte, first), append(h.gap, gap)
				}
				mu.Unlock()
			}
		})
	}
	running.Wait()
	h.took = time.Since(began)
	slices.Sort(h.firstByte)
	slices.Sort(h.gap)
	return h
}

func (l *loop) one(ctx context.Context, url string, body []byte) (first, gap time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return 0, 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	began := time.Now()
	resp, err := l.client.Do(req)
	if err != nil {
		return 0, 0, err
	}
	defer resp.Body.Close()
	headers := time.Since(began)
	var one [1]byte
	if _, err := io.ReadFull(resp.Body, one[:]); err != nil {
		return 0, 0, err
	}
	first = time.Since(began)
	tail, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return 0, 0, err
	case resp.StatusCode != http.StatusOK:
		return 0, 0, fmt.Errorf("status %d: %.200s", resp.StatusCode, tail)
	case !bytes.HasSuffix(bytes.TrimSpace(tail), []byte("[DONE]")):
		return 0, 0, errors.New("the answer ended before its end")
	}
	return first, first - headers, nil
}

// quantile returns the q-quantile of sorted times, 0 of none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}
