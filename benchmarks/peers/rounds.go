package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"time"
)

// cell is what one target cost at one size, one value a round.
type cell struct {
	CPU       []float64            `json:"cpu_ms_per_request"`
	Parts     map[string][]float64 `json:"cpu_ms_per_request_by_part,omitempty"`
	Rate      []float64            `json:"requests_per_second"`
	FirstP50  []float64            `json:"first_byte_ms_p50"`
	FirstP99  []float64            `json:"first_byte_ms_p99"`
	GapP50    []float64            `json:"header_to_first_byte_ms_p50"`
	RSS       float64              `json:"rss_mib"`
	Upstream  []float64            `json:"upstream_requests_per_request"`
	Requests  int                  `json:"requests"`
	Failed    int                  `json:"failed"`
	FirstFail string               `json:"first_failure,omitempty"`
}

// row is one target's cells, by size in characters.
type row struct {
	Target  string        `json:"target"`
	Workers int           `json:"workers"`
	Missing string        `json:"missing,omitempty"`
	Cells   map[int]*cell `json:"cells,omitempty"`
}

// plan says what is sent.
type plan struct {
	sizes    []int
	requests func(size int) int // per round, of a target with the full share
	rounds   int
	warmUp   int
}

// measure loads each target in turn, round by round, size by size.
func measure(ctx context.Context, p plan, l *loop, targets []*target, workers, control int) ([]row, error) {
	rows := make([]row, len(targets))
	for i, t := range targets {
		rows[i] = row{Target: t.name, Workers: workers, Missing: t.why, Cells: map[int]*cell{}}
	}
	for round := range p.rounds {
		for _, size := range p.sizes {
			for i := range targets {
				i = (i + round) % len(targets) // no target always comes after the same one
				t := targets[i]
				if t.why != "" {
					continue
				}
				if ctx.Err() != nil {
					return nil, ctx.Err()
				}
				fmt.Fprintf(os.Stderr, "round %d of %d, %d characters, %d workers: %s\n", round+1, p.rounds, size, workers, t.name)
				if rows[i].Cells[size] == nil {
					rows[i].Cells[size] = &cell{Parts: map[string][]float64{}}
				}
				if err := slot(ctx, p, l, t, rows[i].Cells[size], size, round, workers, control); err != nil {
					return nil, fmt.Errorf("%s: %w", t.name, err)
				}
			}
		}
	}
	return rows, nil
}

// slot is one target at one size in one round.
func slot(ctx context.Context, p plan, l *loop, t *target, c *cell, size, round, workers, control int) error {
	n := max(int(float64(p.requests(size))*t.share(size, workers)), 40)
	l.send(ctx, t.url, size, round*n, p.warmUp)
	before, err := read(ctx, control)
	if err != nil {
		return err
	}
	cpu := make([]time.Duration, len(t.parts))
	for i, part := range t.parts {
		if cpu[i], _, err = use(part.child.PID()); err != nil {
			return err
		}
	}
	h := l.send(ctx, t.url, size, round*n+p.warmUp, n)
	sum, resident := time.Duration(0), uint64(0)
	for i, part := range t.parts {
		after, rss, err := use(part.child.PID())
		if err != nil {
			return err
		}
		sum, resident = sum+after-cpu[i], resident+rss
		if part.name != "" {
			c.Parts[part.name] = append(c.Parts[part.name], each(after-cpu[i], n))
		}
	}
	after, err := read(ctx, control)
	if err != nil {
		return err
	}
	c.CPU = append(c.CPU, each(sum, n))
	c.Rate = append(c.Rate, float64(n-h.failed)/h.took.Seconds())
	c.FirstP50, c.FirstP99 = append(c.FirstP50, ms(quantile(h.firstByte, 0.5))), append(c.FirstP99, ms(quantile(h.firstByte, 0.99)))
	c.GapP50 = append(c.GapP50, ms(quantile(h.gap, 0.5)))
	c.RSS = max(c.RSS, float64(resident)/(1<<20))
	c.Upstream = append(c.Upstream, float64(after.Generate+after.Other-before.Generate-before.Other)/float64(n))
	c.Requests, c.Failed = c.Requests+n, c.Failed+h.failed
	if h.firstFailure != nil && c.FirstFail == "" {
		c.FirstFail = h.firstFailure.Error()
	}
	return nil
}

func each(d time.Duration, n int) float64 { return ms(d) / float64(n) }
func ms(d time.Duration) float64          { return d.Seconds() * 1e3 }

// read returns what the workers have taken.
func read(ctx context.Context, control int) (c counts, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/", control), nil)
	if err != nil {
		return c, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return c, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return c, err
	}
	return c, json.Unmarshal(raw, &c)
}

// median returns the median, the least and the greatest of values; they are not changed.
func median(values []float64) (mid, least, most float64) {
	if len(values) == 0 {
		return 0, 0, 0
	}
	v := slices.Sorted(slices.Values(values))
	return v[len(v)/2], v[0], v[len(v)-1]
}
