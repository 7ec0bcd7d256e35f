package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/fairlead/fairlead/benchmarks/children"
)

func main() {
	fairlead := flag.String("binary", "bin/fairlead", "the fairlead that is compared")
	envoy := flag.String("envoy", "", "Envoy's binary; empty leaves out what needs it")
	peers := flag.String("peers", "", "folder of the peers' Python environments")
	rounds := flag.Int("rounds", 3, "rounds; each loads every target at every size")
	workers := flag.String("workers", "8,64", "numbers of model servers, each a table")
	factor := flag.Float64("requests", 1, "factor on the number of requests")
	only := flag.String("only", "", "measure only these targets, by name, separated by commas")
	asJSON := flag.String("json", "", "write the rows to this file as JSON")
	serve := flag.Int("serve-workers", 0, "serve model servers from this port on (what a child does)")
	control := flag.Int("control", 0, "port of the model servers' counts")
	proxy := flag.Int("serve-proxy", 0, "serve a ReverseProxy on this port (what a child does)")
	first := flag.Int("first", 0, "port of the first model server")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	n, err := atoi(*workers)
	switch {
	case err != nil:
	case *serve > 0:
		err = serveWorkers(ctx, *serve, n[0], *control)
	case *proxy > 0:
		err = serveProxy(*proxy, *first, n[0])
	default:
		err = compare(ctx, *fairlead, *envoy, *peers, *only, *asJSON, n, *rounds, *factor)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func atoi(list string) (n []int, err error) {
	for text := range strings.SplitSeq(list, ",") {
		i, err := strconv.Atoi(text)
		if err != nil || i < 1 || i > 512 {
			return nil, fmt.Errorf("-workers has %q; a number between 1 and 512", text)
		}
		n = append(n, i)
	}
	return n, nil
}

// compare starts the targets for each number of workers, measures them and prints the report.
func compare(ctx context.Context, fairlead, envoy, peers, only, asJSON string, workers []int, rounds int, factor float64) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	manifest, err := os.ReadFile(filepath.Join("manifests", "envoy", "edges.yaml"))
	if err != nil {
		return fmt.Errorf("run it from the repository's top: %w", err)
	}
	sizes := []int{200, 8000, 100_000}
	p := plan{sizes: sizes, rounds: rounds, warmUp: 80, requests: func(size int) int {
		switch {
		case size <= 200:
			return int(3000 * factor)
		case size <= 8000:
			return int(1500 * factor)
		}
		return int(600 * factor)
	}}
	l, err := newLoop(sizes, func(size int) int { return p.requests(size) })
	if err != nil {
		return err
	}
	var rows []row
	for i, n := range workers {
		if i > 0 {
			p.sizes = sizes[:2]
		}
		r, err := against(ctx, p, l, fairlead, self, envoy, peers, string(manifest), only, n)
		if err != nil {
			return err
		}
		rows = append(rows, r...)
	}
	load, _ := os.ReadFile("/proc/loadavg") // absent elsewhere than on Linux: the report then has none
	fmt.Printf("%s, %s %s/%s, %d processors, load average %s; %d connections, streamed answers of 8 tokens after 5 ms; median [least–greatest] of %d rounds\n\n",
		time.Now().UTC().Format(time.DateOnly), runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), strings.TrimSpace(string(load)), connections, rounds)
	write(os.Stdout, rows, sizes)
	verdicts(os.Stdout, rows, sizes)
	if asJSON == "" {
		return nil
	}
	text, err := json.MarshalIndent(rows, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(asJSON, text, 0o644)
}

// against measures all targets before n workers.
func against(ctx context.Context, p plan, l *loop, fairlead, self, envoy, peers, manifest, only string, n int) ([]row, error) {
	dir, err := os.MkdirTemp("", "peers")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	first, err := children.FreeRange(n + 64)
	if err != nil {
		return nil, err
	}
	port := first + n
	ports := func() int { port++; return port }
	control := ports()
	w, err := children.Start([]string{self, "-serve-workers", strconv.Itoa(first), "-workers", strconv.Itoa(n), "-control", strconv.Itoa(control)}, nil, nil)
	if err != nil {
		return nil, err
	}
	defer w.Stop(time.Second)
	if err := w.Until(ctx, 10*time.Second, func(ctx context.Context) error { _, err := read(ctx, control); return err }); err != nil {
		return nil, err
	}
	s := &site{ctx: ctx, self: self, fairlead: fairlead, envoy: envoy, peers: peers, manifest: manifest, dir: dir, ports: ports, first: first, workers: n}
	targets := s.all(only)
	defer func() {
		for _, t := range targets {
			t.stop()
		}
	}()
	return measure(ctx, p, l, targets, n, control)
}
