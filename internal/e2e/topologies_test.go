//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"time"
)

// twice puts the picker's filter into the chain a second time.
func twice(yaml string) string {
	const begins, ends = "          - name: envoy.filters.http.ext_proc\n", "          - name: envoy.filters.http.router\n"
	from := strings.Index(yaml, begins)
	to := strings.Index(yaml, ends)
	filter := yaml[from:to]
	again := strings.Replace(filter, "envoy.filters.http.ext_proc\n", "again\n", 1)
	return yaml[:to] + again + yaml[to:]
}

// TestP04TwoFullDuplexFilters: behind one another they lose nothing of a body, in either direction, as one does not.
func TestP04TwoFullDuplexFilters(t *testing.T) {
	for name, edit := range map[string]func(string) string{
		"one": fullDuplexAnswers,
		"two": func(yaml string) string { return twice(fullDuplexAnswers(yaml)) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, options{envoy: "edges.yaml", edit: edit})
			w.store(events(130_000))
			each(200, 16, func(i int) {
				r := w.do(call{fixed: true, h2: i%2 == 0, body: chat(i, []int{100, 8000, 200_000}[i%3], `,"stream":true`), headers: []string{"X-Sim-Chunk", "650", "X-Sim-Gap", "5ms"}})
				if r.err != nil || r.status != 200 || len(r.body) != len(w.stored) {
					t.Errorf("run %d: status %d, error %v, %d bytes of %d", i, r.status, r.err, len(r.body), len(w.stored))
				}
			})
			w.booksZero(time.Now(), 50*time.Millisecond)
		})
	}
}

// TestP26NoPicker: with no picker at all a filter that fails open sends requests to any pod, one that fails closed refuses them
// with the status that it was given, and both have the picker back within seconds of its return.
func TestP26NoPicker(t *testing.T) {
	for _, c := range []struct {
		name   string
		edit   func(string) string
		status int
	}{
		{"open", func(yaml string) string { return yaml }, 200},
		{"closed", func(yaml string) string {
			return strings.Replace(yaml, "failure_mode_allow: true", "failure_mode_allow: false\n              status_on_error: {code: ServiceUnavailable}", 1)
		}, 503},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, options{envoy: "override.yaml", edit: c.edit})
			w.store(events(3072))
			w.picker.kill()
			each(40, 8, func(i int) {
				r := w.do(call{fixed: true, h2: i%2 == 0, body: chat(i, 1000, "")})
				if r.err != nil || r.status != c.status {
					t.Errorf("without a picker: status %d, error %v; want %d", r.status, r.err, c.status)
				}
			})
			w.startPicker()
			began := time.Now()
			waitFor(t, "requests reach the picker again", func() bool {
				r := w.do(call{fixed: true, body: chat(1, 1000, "")})
				return r.status == 200 && w.metric(`fairlead_requests_total{api="chat.completions",outcome="forwarded"`) > 0
			})
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("the picker was back after %v", took)
			}
			w.booksZero(time.Now(), 50*time.Millisecond)
		})
	}
}

// TestP22SlowFirstToken: the shipped configurations bound the picker's answers, not the engine's: a first byte that takes longer
// than message_timeout passes.
func TestP22SlowFirstToken(t *testing.T) {
	for _, config := range []string{"edges.yaml", "override.yaml"} {
		t.Run(config, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, options{envoy: config, hangs: true, speed: 0.03})
			r := w.do(call{body: chat(1, 60_000, `,"max_tokens":1`)})
			if r.err != nil || r.status != 200 || r.took < 6*time.Second {
				t.Errorf("status %d after %v, error %v", r.status, r.took, r.err)
			}
		})
	}
}
