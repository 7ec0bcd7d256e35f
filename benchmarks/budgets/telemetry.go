package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/fairlead/fairlead/benchmarks/children"
	"github.com/fairlead/fairlead/benchmarks/extproc"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/pool/telemetry"
	"github.com/fairlead/fairlead/pkg/reason"
)

// recordedPage is a page that a real vLLM wrote while it was busy.
const recordedPage = "pkg/pool/telemetry/testdata/vllm-0.32.0-busy.txt"

// pageLines measure the scanner of metrics pages against the library that parses them whole.
func pageLines() ([]extproc.Line, error) {
	page, err := os.ReadFile(recordedPage)
	if err != nil {
		return nil, fmt.Errorf("run in the repository's root: %w", err)
	}
	var s telemetry.Scanner
	scan := func() { s.Scan(page) }
	ns := nanos(scan)
	whole := nanos(func() {
		parser := expfmt.NewTextParser(model.UTF8Validation)
		if _, err := parser.TextToMetricFamilies(bytes.NewReader(page)); err != nil {
			panic(err)
		}
	})
	return []extproc.Line{
		atMost("telemetry page: time", fmt.Sprintf("%s for %d kB (%.1f GB/s; expfmt %s)", micros(ns), len(page)/1000, float64(len(page))/ns, micros(whole)), ns/whole, 0.1, "x expfmt"),
		atMost("telemetry page: allocations", fmt.Sprint(allocations(scan)), allocations(scan), 0, ""),
	}, nil
}

// pollLine asks 100 simulated engines of another process once a second, and weighs what this process spends on it.
func pollLine(ctx context.Context, binary string) (extproc.Line, error) {
	const engines, span = 100, 6 * time.Second
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	first, err := children.FreeRange(engines)
	if err != nil {
		return extproc.Line{}, err
	}
	sim := exec.CommandContext(ctx, binary, "sim", "--engines", strconv.Itoa(engines), "--port", strconv.Itoa(first))
	if err := sim.Start(); err != nil {
		return extproc.Line{}, err
	}
	defer func() { _ = sim.Wait() }()
	defer cancel()
	p := pool.New("default", reason.Discard{})
	members := make([]pool.Endpoint, engines)
	for i := range members {
		members[i] = pool.Endpoint{Namespace: "default", Name: fmt.Sprint("pod-", i), Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(first+i))}
	}
	if err := answers(ctx, members[engines-1].Addr); err != nil {
		return extproc.Line{}, err
	}
	began := time.Now()
	clock := func() pool.Instant { return pool.Instant(time.Since(began)) + 1 }
	p.Update(clock(), members)
	pages := make(chan error, 4096)
	poller, err := telemetry.New(telemetry.Options{Pools: []*pool.Pool{p}, Clock: clock, Scraped: func(s telemetry.Scrape) { pages <- s.Err }})
	if err != nil {
		return extproc.Line{}, err
	}
	run, stop := context.WithTimeout(ctx, 2*time.Second+span)
	defer stop()
	done := make(chan struct{})
	go func() { poller.Run(run); close(done) }()
	time.Sleep(2 * time.Second) // connections are open
	before := spent()
	time.Sleep(span)
	cores := (spent() - before).Seconds() / span.Seconds()
	<-done
	ok, failed := 0, 0
	for len(pages) > 0 {
		if <-pages == nil {
			ok++
		} else {
			failed++
		}
	}
	l := reported("telemetry of 100 endpoints, idle, 1/s", fmt.Sprintf("%.3f core (%d pages, %d failed)", cores, ok, failed), "<= 0.1 core", cores)
	if failed > ok/100 {
		l.Verdict = extproc.Over
	}
	return l, nil
}

// spent is the processor time of this process.
func spent() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func answers(ctx context.Context, at netip.AddrPort) error {
	for range 200 {
		if res, err := http.Get("http://" + at.String() + "/health"); err == nil {
			res.Body.Close()
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
	return fmt.Errorf("the simulated engine at %v does not answer", at)
}
