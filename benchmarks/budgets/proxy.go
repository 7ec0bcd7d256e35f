package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/fairlead/fairlead/benchmarks/extproc"
)

// The targets of the comparison with peers that the budgets need.
const (
	gatewayTarget = "Fairlead gateway"
	floorTarget   = "Go httputil.ReverseProxy"
)

// peerRow is what is read of a row of the comparison with peers.
type peerRow struct {
	Target  string `json:"target"`
	Workers int    `json:"workers"`
	Missing string `json:"missing"`
	Cells   map[int]struct {
		CPU      []float64 `json:"cpu_ms_per_request"`
		Gap      []float64 `json:"header_to_first_byte_ms_p50"`
		Upstream []float64 `json:"upstream_requests_per_request"`
		Failed   int       `json:"failed"`
	} `json:"cells"`
}

// proxyLines measure the embedded proxy by the comparison with peers, with Go's ReverseProxy as the floor: whole requests of
// three sizes, before 8 and before 64 model servers. How much more eight times the connections cost any proxy is the machine's, a
// twentieth to a sixth here; the gate is on what comes on top. Where a ratio is over, as many rounds more are measured before it counts.
func proxyLines(ctx context.Context, binary string) ([]extproc.Line, error) {
	var rows []peerRow
	for again := false; ; again = true {
		more, err := comparePeers(ctx, binary)
		if err != nil {
			return nil, err
		}
		rows = append(rows, more...)
		lines, err := judgeProxy(merged(rows))
		over := slices.ContainsFunc(lines, func(l extproc.Line) bool { return l.Verdict == extproc.Over })
		if err != nil || !over || again {
			return lines, err
		}
		fmt.Fprintln(os.Stderr, "over budget; measuring once more")
	}
}

func comparePeers(ctx context.Context, binary string) (rows []peerRow, err error) {
	dir, err := os.MkdirTemp("", "budgets")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "peers.json")
	cmd := exec.CommandContext(ctx, "go", "run", "./benchmarks/peers", "-binary", binary, "-workers", "8,64,8,64", "-rounds", "3", "-requests", "1",
		"-only", gatewayTarget+","+floorTarget, "-json", file)
	if said, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("comparing with peers: %w: %.2000s", err, said)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	return rows, json.Unmarshal(text, &rows)
}

// merged adds up rows of the same target before the same number of model servers: few and many are measured in turn, since a machine
// that slows down between them would be in their ratio.
func merged(rows []peerRow) (sum []peerRow) {
	for _, r := range rows {
		i := slices.IndexFunc(sum, func(s peerRow) bool { return s.Target == r.Target && s.Workers == r.Workers })
		if i < 0 {
			r.Cells = maps.Clone(r.Cells) // rows may be merged again, with more
			sum = append(sum, r)
			continue
		}
		if sum[i].Missing == "" {
			sum[i].Missing = r.Missing
		}
		for chars, more := range r.Cells {
			c, ok := sum[i].Cells[chars]
			if !ok {
				continue // a size that is measured in the first table only
			}
			c.CPU, c.Gap, c.Upstream = slices.Concat(c.CPU, more.CPU), slices.Concat(c.Gap, more.Gap), slices.Concat(c.Upstream, more.Upstream)
			c.Failed += more.Failed
			sum[i].Cells[chars] = c
		}
	}
	return sum
}

// judgeProxy makes the lines of the design's budget for the embedded proxy.
func judgeProxy(rows []peerRow) (lines []extproc.Line, err error) {
	find := func(target string, workers int) (*peerRow, error) {
		i := slices.IndexFunc(rows, func(r peerRow) bool { return r.Target == target && r.Workers == workers })
		switch {
		case i < 0:
			return nil, fmt.Errorf("the comparison has no row of %s before %d model servers", target, workers)
		case rows[i].Missing != "":
			return nil, fmt.Errorf("%s before %d model servers: %s", target, workers, rows[i].Missing)
		}
		return &rows[i], nil
	}
	few, err := find(gatewayTarget, 8)
	if err != nil {
		return nil, err
	}
	many, err := find(gatewayTarget, 64)
	if err != nil {
		return nil, err
	}
	floor, err := find(floorTarget, 8)
	if err != nil {
		return nil, err
	}
	wideFloor, err := find(floorTarget, 64)
	if err != nil {
		return nil, err
	}
	for _, chars := range []int{200, 8_000, 100_000} {
		name := fmt.Sprintf("embedded proxy, %d characters: ", chars)
		mine, least := middle(few.Cells[chars].CPU), middle(floor.Cells[chars].CPU)
		lines = append(lines, reported(name+"CPU", fmt.Sprintf("%.2f ms, %.2fx ReverseProxy", mine, mine/least), "no more than the cheapest peer that routes by prefix: make peers", mine/least))
		if wide := many.Cells[chars]; len(wide.CPU) > 0 {
			grows, connections := middle(wide.CPU)/mine, middle(wideFloor.Cells[chars].CPU)-least
			lines = append(lines,
				reported(name+"CPU before 64 model servers", fmt.Sprintf("%.2fx that before 8", grows), "<= 1.3x", grows),
				atMost(name+"the same, less what ReverseProxy costs more", fmt.Sprintf("%.2fx", grows-max(connections, 0)/mine), grows-max(connections, 0)/mine, 1.3, "x"))
		}
		upstream, failed := slices.Max(few.Cells[chars].Upstream), few.Cells[chars].Failed
		lines = append(lines, atMost(name+"upstream requests", fmt.Sprintf("%.3f per request, %d failed", upstream, failed), upstream+float64(failed), 1, " per request"))
		gap := middle(few.Cells[chars].Gap)
		lines = append(lines, reported(name+"first chunk", fmt.Sprintf("%.2f ms after the headers", gap), "<= 5 ms after the upstream's", gap))
	}
	return lines, nil
}

// middle is the median of a few values.
func middle(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	if len(v) == 0 {
		return 0
	}
	return v[len(v)/2]
}
