package demo

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// podState is what the display shows of a pod, from its own metrics page.
type podState struct {
	waiting, running, kvUsage float64
	queries, hits             float64 // prompt tokens looked up and found, since its start
}

// readPod reads a pod's metrics page.
func readPod(ctx context.Context, client *http.Client, base string) (podState, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/metrics", nil)
	if err != nil {
		return podState{}, err
	}
	res, err := client.Do(req)
	if err != nil {
		return podState{}, err
	}
	defer res.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(res.Body)
	if err != nil {
		return podState{}, err
	}
	value := func(name string) (sum float64) {
		for _, m := range families[name].GetMetric() {
			sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
		return sum
	}
	return podState{
		waiting: value("vllm:num_requests_waiting"), running: value("vllm:num_requests_running"),
		kvUsage: value("vllm:kv_cache_usage_perc"),
		queries: value("vllm:prefix_cache_queries_total"), hits: value("vllm:prefix_cache_hits_total"),
	}, nil
}

// live shows load and hit rate of each pod while a phase runs, and stops with ctx: a block that is drawn over again on a
// terminal, a line every few seconds elsewhere.
type live struct {
	out      io.Writer
	terminal bool
	client   *http.Client
	pods     []string
	drawn    int
}

func (l *live) show(ctx context.Context, title string, span time.Duration, stop *sync.WaitGroup) {
	defer stop.Done()
	base := l.read(ctx, make([]podState, len(l.pods)))
	now := base
	every := 3 * time.Second
	if l.terminal {
		every = 400 * time.Millisecond
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	began := time.Now()
	l.drawn = 0
	for {
		select {
		case <-ctx.Done():
			if l.drawn > 0 {
				l.draw(title, time.Since(began), span, base, now) // the bar's last cell
			}
			return
		case <-tick.C:
			now = l.read(ctx, now)
			l.draw(title, time.Since(began), span, base, now)
		}
	}
}

// read asks every pod for its state. One that does not answer, as when ctx has just ended, keeps its last.
func (l *live) read(ctx context.Context, last []podState) []podState {
	states := slices.Clone(last)
	for i, pod := range l.pods {
		if s, err := readPod(ctx, l.client, pod); err == nil {
			states[i] = s
		}
	}
	return states
}

func (l *live) draw(title string, at, span time.Duration, base, now []podState) {
	var b strings.Builder
	if !l.terminal {
		fmt.Fprintf(&b, "  %-28s %3.0f s ", title, at.Seconds())
		for i, s := range now {
			fmt.Fprintf(&b, " | pod %d: %2.0f run %2.0f wait %3.0f%% kv %3.0f%% hits", i, s.running, s.waiting, 100*s.kvUsage, 100*hitRate(base[i], s))
		}
		fmt.Fprintln(l.out, b.String())
		return
	}
	// Lines stay below 80 columns: one that wraps would be two, and the way back to the first is counted in lines.
	if l.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", l.drawn)
	}
	fmt.Fprintf(&b, "\x1b[2K%s  %s\n", title, bar(at.Seconds()/span.Seconds(), 30))
	for i, s := range now {
		fmt.Fprintf(&b, "\x1b[2K  pod %d  running %3.0f %s  waiting %3.0f %s  kv %3.0f%%  hits %3.0f%%\n", i,
			s.running, bar(s.running/64, 10), s.waiting, bar(s.waiting/32, 10), 100*s.kvUsage, 100*hitRate(base[i], s))
	}
	l.drawn = 1 + len(now)
	fmt.Fprint(l.out, b.String())
}

func hitRate(from, to podState) float64 {
	if to.queries <= from.queries {
		return 0
	}
	return (to.hits - from.hits) / (to.queries - from.queries)
}

// bar draws share, 0..1, as width cells.
func bar(share float64, width int) string {
	full := int(min(max(share, 0), 1)*float64(width) + 0.5)
	return strings.Repeat("█", full) + strings.Repeat("·", width-full)
}
