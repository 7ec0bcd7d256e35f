//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// inForce is what the picker says of its configuration.
type inForce struct {
	Digest string
	Reload int
	Failed *struct{ Problems []string }
}

func (w *world) inForce() (c inForce) {
	w.t.Helper()
	if err := json.Unmarshal(w.page("/debug/config?format=json"), &c); err != nil {
		w.t.Fatal(err)
	}
	return c
}

// replace puts a file in the place of another at once, as tools that know their business do.
func (w *world) replace(name, text string) {
	w.t.Helper()
	w.write(name+".new", text)
	if err := os.Rename(filepath.Join(w.dir, name+".new"), filepath.Join(w.dir, name)); err != nil {
		w.t.Error(err)
	}
}

// configurations are what a picker is given one after the other: weights that change, and every third one broken.
func configurations(i int) (text string, good bool) {
	if i%3 == 2 {
		return strings.Replace(pickerConfig, "queue-scorer, weight: 2", fmt.Sprintf("queue-scorer, wait: %d", i), 1), false
	}
	return strings.Replace(pickerConfig, "queue-scorer, weight: 2", fmt.Sprintf("queue-scorer, weight: %d", i+3), 1), true
}

// TestX20Reload: fifty reloads, by file and by signal, good and broken ones, while requests run in every way. None fails,
// each answer is whole, and the books are zero in the end.
func TestX20Reload(t *testing.T) {
	for _, config := range []string{"edges.yaml", "override.yaml"} {
		t.Run(config, func(t *testing.T) {
			w := newWorld(t, options{envoy: config, picker: []string{"--log-level", "info"}})
			w.store(events(3072))
			l := w.startLoad(16)
			const times = 50
			applied, refused := 0, 0
			for i := range times {
				text, good := configurations(i)
				w.replace("picker.yaml", text)
				if i%2 == 0 {
					w.picker.signal(syscall.SIGHUP)
				}
				if good {
					applied++
					waitFor(t, "the configuration is in force", func() bool { return w.inForce().Reload == applied })
				} else {
					refused++
					waitFor(t, "the configuration is refused", func() bool {
						f := w.inForce().Failed
						return f != nil && strings.Contains(f.Problems[0], "picker.yaml:")
					})
				}
			}
			l.end()
			if failed, cut := l.failed.Load(), l.cut.Load(); failed+cut > 0 {
				t.Errorf("%d requests failed, %d answers were cut: %v", failed, cut, l.failedSince(time.Time{}))
			}
			w.booksZero(time.Now(), 50*time.Millisecond)
			if n := w.metric(`fairlead_config_reloads_total{result="applied"}`); int(n) != applied {
				t.Errorf("%v reloads were applied; want %d", n, applied)
			}
			for _, reason := range []string{"booking_expired", "unknown_log_entry", "internal", "plugin_panic"} {
				if k := w.metric(`fairlead_reasons_total{reason="` + reason + `"}`); k != 0 {
					t.Errorf("%s: %v times", reason, k)
				}
			}
			t.Logf("%d requests served, %d reloads, %d configurations refused", l.served.Load(), applied, refused)
		})
	}
}
