//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/config"
	"github.com/fairlead/fairlead/simulator/server"
)

// served is where a request went, and when it was sent.
type served struct {
	at  time.Time
	ill bool
}

// traffic sends 40 streams of 8 tokens a second until stop, with prompts that keep half of the pods busy, so that a pod which comes
// back is needed, and keeps where each went. A request that failed went to the pod that is
// ill: all others are well.
type traffic struct {
	w    *world
	stop atomic.Bool
	all  sync.WaitGroup

	mu   sync.Mutex
	went []served
}

const illPod = 2

func (f *traffic) start() {
	due := time.NewTicker(25 * time.Millisecond)
	f.all.Go(func() {
		defer due.Stop()
		for i := 0; !f.stop.Load(); i++ {
			<-due.C
			f.all.Go(func() {
				sent := time.Now()
				r := f.w.do(call{body: chat(i, 6000, `,"stream":true,"max_tokens":8`)})
				f.mu.Lock()
				f.went = append(f.went, served{sent, r.err != nil || r.status != 200 || r.header.Get("X-Sim-Engine") == fmt.Sprint(illPod)})
				f.mu.Unlock()
			})
		}
	})
}

// answered is how long a request takes at most, at a slow pod too: where those went that were sent later is not known.
const answered = 1500 * time.Millisecond

// share returns which part of the requests that were sent in a second, answered ago, went to the ill pod, as a multiple of its fair
// share.
func (f *traffic) share() float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	ill, n := 0, 0
	for i := range f.went {
		if ago := time.Since(f.went[i].at); ago < answered || ago > answered+time.Second {
			continue
		}
		n++
		if f.went[i].ill {
			ill++
		}
	}
	return float64(ill*pods) / float64(max(n, 1))
}

// until waits until the share is as asked for, and returns after what time requests were sent so.
func (f *traffic) until(what string, asked func(share float64) bool, within time.Duration) time.Duration {
	began := time.Now()
	for {
		time.Sleep(100 * time.Millisecond)
		took, s := time.Since(began)-answered-time.Second, f.share()
		if took > 0 && asked(s) {
			return took
		}
		if took > within {
			f.w.t.Errorf("%s: the pod has %.2f of a fair share after %v", what, s, took.Round(time.Second))
			return took
		}
	}
}

// TestEjection: one of four pods answers ten times slower, with errors, or resets its connections, through Envoy and the default
// configuration. Its share falls within ten seconds, and is back after its recovery.
func TestEjection(t *testing.T) {
	// Weights that know nothing of speed, and somebody who watches over endpoints.
	watched := strings.Replace(config.ClassicText, "plugins:\n", "plugins:\n- type: health-filter\n", 1)
	watched = strings.Replace(watched, "  plugins:\n", "  plugins:\n  - pluginRef: health-filter\n", 1)
	for _, r := range []struct {
		name, why, config string
		faults            server.Faults
	}{
		{"every token takes ten times as long", "", config.DefaultText, server.Faults{Slow: 10}}, // its price tells before anybody need eject it
		{"the same under weights", "endpoint_slow", watched, server.Faults{Slow: 10}},
		{"every answer is 503", "endpoint_failing", config.DefaultText, server.Faults{Status: 503}},
		{"every connection is reset", "endpoint_failing", config.DefaultText, server.Faults{ResetBeforeFirstByte: true}},
	} {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, options{envoy: "edges.yaml", config: r.config, speed: 1})
			f := &traffic{w: w}
			f.start()
			defer func() { f.stop.Store(true); f.all.Wait() }()
			f.until("before", func(s float64) bool { return s > 0.6 }, 10*time.Second)
			if err := w.fleet.SetFaults(illPod, r.faults); err != nil {
				t.Fatal(err)
			}
			ejected := func() bool { return r.why == "" || w.metric(`fairlead_reasons_total{reason="`+r.why+`"}`) > 0 }
			fell := f.until("ill", func(s float64) bool { return s < 0.2 && ejected() }, 10*time.Second)
			if !ejected() {
				t.Errorf("%s was not noted: %s", r.why, strings.Join(reasonsOf(w), ", "))
			}
			if err := w.fleet.SetFaults(illPod, server.Faults{}); err != nil {
				t.Fatal(err)
			}
			back := f.until("recovered", func(s float64) bool { return s > 0.6 }, 30*time.Second)
			t.Logf("its share fell after %v, and was back %v after its recovery", fell.Round(100*time.Millisecond), back.Round(100*time.Millisecond))
		})
	}
}

// reasonsOf lists what the picker has noted.
func reasonsOf(w *world) (all []string) {
	for line := range strings.Lines(string(w.page("/metrics"))) {
		if rest, ok := strings.CutPrefix(line, "fairlead_reasons_total"); ok && !strings.HasSuffix(line, " 0\n") {
			all = append(all, strings.TrimSpace(rest))
		}
	}
	return all
}
