//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"time"
)

// TestP26PickerAway: with no picker at all, a gateway that fails open serves every request, one that fails closed answers 503;
// either way requests reach the picker within seconds of its return.
func TestP26PickerAway(t *testing.T) {
	for _, row := range []struct {
		name   string
		edit   func(string) string
		status int
	}{
		{"fails open", nil, 200},
		{"fails closed", func(yaml string) string {
			return strings.Replace(yaml, "failure_mode_allow: true", "failure_mode_allow: false\n              status_on_error: {code: ServiceUnavailable}", 1)
		}, 503},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t, options{envoy: "edges.yaml", edit: row.edit})
			w.store(events(3072))
			w.picker.kill()
			ask := func() int { return w.do(call{fixed: true, body: chat(1, 100, `,"stream":true`)}).status }
			// The health check notices within a second or two; what comes before that is told apart in TestPickerDiesEdges.
			waitFor(t, "the gateway knows", func() bool { return ask() == row.status })
			for range 20 {
				if status := ask(); status != row.status {
					t.Errorf("status %d without a picker; want %d", status, row.status)
				}
			}
			w.startPicker()
			back := time.Now()
			waitFor(t, "requests reach the picker again", func() bool {
				return ask() == 200 && w.metric(`fairlead_requests_total{api="chat.completions",outcome="forwarded"`) > 0
			})
			if took := time.Since(back); took > 5*time.Second {
				t.Errorf("that took %v", took)
			}
			w.booksZero(time.Now(), time.Second)
		})
	}
}
