package admin

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fairlead/fairlead/pkg/reason"
)

// logAgain is how long a reason that was logged stays quiet.
const logAgain = time.Minute

// occurrences is what is known of one reason. It has no lock, since Note is called under those of the core.
type occurrences struct {
	count  atomic.Int64
	told   atomic.Int64 // count when it was last logged
	logged atomic.Int64 // when that was, in nanoseconds since the start; 0: never
}

// countReasons makes a series of each reason, at 0 from the start, so that rate() sees the first occurrence.
func (m *Metrics) countReasons() {
	m.reasons = make([]occurrences, len(reason.All())+1)
	for _, id := range reason.All() {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "fairlead_reasons_total", Help: "Occurrences of a reason: refusals, fallbacks, degraded modes.",
			ConstLabels: prometheus.Labels{"reason": id.String()},
		}, func() float64 { return float64(m.reasons[id].count.Load()) }))
	}
}

// Note counts a reason, and logs it unless one of its kind was logged within the last minute. It costs an atomic addition;
// of a reason that is frequent the clock is asked once in 64 times.
func (m *Metrics) Note(id reason.ID, detail string) {
	if id == 0 || int(id) >= len(m.reasons) {
		return
	}
	o := &m.reasons[id]
	n := o.count.Add(1)
	if n > 64 && n%64 != 0 {
		return
	}
	now, last := int64(time.Since(m.began)), o.logged.Load() // elapsed: a step of the wall clock must not silence it
	if last != 0 && time.Duration(now-last) < logAgain || !o.logged.CompareAndSwap(last, now) {
		return
	}
	unlogged := n - 1 - o.told.Swap(n)
	// A log may block on its writer, and the caller may hold the lock of a pool. There is at most one line of a kind a
	// minute, and so at most as many goroutines as there are kinds.
	go m.tell(id, detail, unlogged)
}

func (m *Metrics) tell(id reason.ID, detail string, unlogged int64) {
	row := id.Row()
	attributes := []slog.Attr{slog.String("reason", row.Code), slog.String("means", row.Means), slog.String("remedy", row.Remedy)}
	if detail != "" {
		attributes = append(attributes, slog.String("detail", detail))
	}
	if unlogged > 0 {
		attributes = append(attributes, slog.Int64("unlogged_before", unlogged))
	}
	m.log.LogAttrs(context.Background(), level(id), "reason", attributes...)
}

// level of a reason's log line: our own faults are errors, what an operator can mend warnings, what clients do is told at
// info.
func level(id reason.ID) slog.Level {
	switch row := id.Row(); {
	case row.Status == 500:
		return slog.LevelError
	case row.Status >= 500, row.Status == 429:
		return slog.LevelWarn
	case row.Status != 0:
		return slog.LevelInfo
	}
	switch id {
	case reason.ClientAborted, reason.NeverScraped, reason.SecondEndOfStream, reason.BodyUnread, reason.FallbackServed, reason.PageReadWhole, reason.LatencyUnlearned, reason.HeadersFirst, reason.TargetIgnored:
		return slog.LevelInfo
	case reason.HookPanic:
		return slog.LevelError
	}
	return slog.LevelWarn
}
