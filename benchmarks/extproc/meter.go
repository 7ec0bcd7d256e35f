package extproc

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/fairlead/fairlead/benchmarks/children"
)

// The counters of the Go runtime's heap, as the Prometheus client library names them: objects and bytes ever allocated.
const (
	mallocsCounter = "go_memstats_mallocs_total"
	bytesCounter   = "go_memstats_alloc_bytes_total"
)

// Meter reads what a server's process has used: CPU and memory from /proc (Linux), allocations from the Go runtime's
// figures on its metrics page. What the process uses when nobody asks it anything (telemetry, timers) and what reading the
// page itself costs are measured by Calibrate and subtracted, so that a Cost is that of the decisions.
type Meter struct {
	// PID is the server's process; 0 leaves out CPU and memory.
	PID int
	// MetricsURL is its metrics page; empty leaves out allocations.
	MetricsURL string

	background Background
	client     http.Client
}

// Background is what a process uses by itself. All are zero before Calibrate.
type Background struct {
	CPUPerSecond    time.Duration `json:"cpu_per_second_ns"`
	AllocsPerSecond float64       `json:"allocs_per_second"`
	BytesPerSecond  float64       `json:"bytes_per_second"`
	// ScrapeAllocs and ScrapeBytes are the cost of one reading of the metrics page.
	ScrapeAllocs float64 `json:"scrape_allocs"`
	ScrapeBytes  float64 `json:"scrape_bytes"`
}

// Cost is what decisions cost a process, background subtracted. Quantities that could not be measured are absent (nil).
type Cost struct {
	// CPU is user and system time per decision.
	CPU *time.Duration `json:"cpu_ns,omitempty"`
	// Allocs and Bytes are heap allocations per decision.
	Allocs *float64 `json:"allocs,omitempty"`
	Bytes  *float64 `json:"bytes,omitempty"`
	// RSS is the resident memory at the end of the run, in bytes.
	RSS *uint64 `json:"rss_bytes,omitempty"`
	// Background is what was subtracted.
	Background Background `json:"background"`
}

// reading is the state of the counters at one instant.
type reading struct {
	at            time.Time
	cpu           time.Duration
	rss           uint64
	allocs, bytes float64
}

// Calibrate leaves the server alone for idle and learns its background. It may be called again.
func (m *Meter) Calibrate(ctx context.Context, idle time.Duration) error {
	first, err := m.read(ctx)
	if err != nil {
		return err
	}
	second, err := m.read(ctx)
	if err != nil {
		return err
	}
	timer := time.NewTimer(idle)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	third, err := m.read(ctx)
	if err != nil {
		return err
	}
	seconds := third.at.Sub(second.at).Seconds()
	b := Background{ScrapeAllocs: second.allocs - first.allocs, ScrapeBytes: second.bytes - first.bytes}
	b.CPUPerSecond = time.Duration(float64(third.cpu-second.cpu) / seconds)
	b.AllocsPerSecond = max(third.allocs-second.allocs-b.ScrapeAllocs, 0) / seconds
	b.BytesPerSecond = max(third.bytes-second.bytes-b.ScrapeBytes, 0) / seconds
	m.background = b
	return nil
}

// Measure runs the load and returns what it showed and what each decision cost. An error is one of Run, or of reading
// counters; a run without a decision has a Cost of nil fields.
func (m *Meter) Measure(ctx context.Context, l Load) (*Result, Cost, error) {
	before, err := m.read(ctx)
	if err != nil {
		return nil, Cost{}, err
	}
	result, err := Run(ctx, l)
	if err != nil {
		return nil, Cost{}, err
	}
	after, err := m.read(ctx)
	if err != nil {
		return nil, Cost{}, err
	}
	return result, m.cost(before, after, result.Begun), nil
}

// cost divides what was used between two readings by the number of exchanges.
func (m *Meter) cost(before, after reading, exchanges uint64) Cost {
	c := Cost{Background: m.background}
	if m.PID != 0 {
		c.RSS = &after.rss
	}
	if exchanges == 0 {
		return c
	}
	n, seconds := float64(exchanges), after.at.Sub(before.at).Seconds()
	if m.PID != 0 {
		cpu := time.Duration(max(float64(after.cpu-before.cpu)-seconds*float64(m.background.CPUPerSecond), 0) / n)
		c.CPU = &cpu
	}
	if m.MetricsURL != "" {
		allocs := max(after.allocs-before.allocs-m.background.ScrapeAllocs-seconds*m.background.AllocsPerSecond, 0) / n
		bytes := max(after.bytes-before.bytes-m.background.ScrapeBytes-seconds*m.background.BytesPerSecond, 0) / n
		c.Allocs, c.Bytes = &allocs, &bytes
	}
	return c
}

func (m *Meter) read(ctx context.Context) (r reading, err error) {
	if m.MetricsURL != "" {
		if r.allocs, r.bytes, err = m.allocations(ctx); err != nil {
			return r, fmt.Errorf("metrics page %s: %w", m.MetricsURL, err)
		}
	}
	if m.PID != 0 {
		if r.cpu, r.rss, err = children.Use(m.PID); err != nil {
			return r, fmt.Errorf("process %d: %w", m.PID, err)
		}
	}
	r.at = time.Now()
	return r, nil
}

// allocations reads the two counters.
func (m *Meter) allocations(ctx context.Context) (objects, size float64, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, m.MetricsURL, nil)
	if err != nil {
		return 0, 0, err
	}
	request.Header.Set("Accept-Encoding", "identity") // compressing would be the dearest part of the page
	response, err := m.client.Do(request)
	if err != nil {
		return 0, 0, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return 0, 0, fmt.Errorf("status %d", response.StatusCode)
	}
	return parseAllocations(io.LimitReader(response.Body, 64<<20))
}

// parseAllocations reads the two counters from a page in Prometheus' text format.
func parseAllocations(page io.Reader) (objects, size float64, err error) {
	var found int
	lines := bufio.NewScanner(page)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, value, ok := bytes.Cut(lines.Bytes(), []byte(" "))
		if !ok {
			continue
		}
		into := &objects
		switch string(name) {
		case mallocsCounter:
		case bytesCounter:
			into = &size
		default:
			continue
		}
		value, _, _ = bytes.Cut(bytes.TrimSpace(value), []byte(" ")) // a timestamp may follow
		if *into, err = strconv.ParseFloat(string(value), 64); err != nil {
			return 0, 0, fmt.Errorf("%s: %w", name, err)
		}
		found++
	}
	if err := lines.Err(); err != nil {
		return 0, 0, err
	}
	if found != 2 {
		return 0, 0, fmt.Errorf("no %s and %s; is this the page of a Go process?", mallocsCounter, bytesCounter)
	}
	return objects, size, nil
}
