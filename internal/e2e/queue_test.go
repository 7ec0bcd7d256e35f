//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// queueConfig is a picker that sends two requests at a time to each pod and has others wait.
func queueConfig(ttl string, more string) string {
	return `apiVersion: fairlead.dev/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: active-request-scorer
- type: max-score-picker
- {type: concurrency-detector, parameters: {maxConcurrency: 2}}
- type: flow-control
  parameters: {saturationDetectorRef: concurrency-detector, enableEviction: true, defaultRequestTTL: ` + ttl + `, retryAfterMax: 2s` + more + `}
objectives:
- {name: chat, priority: 10}
- {name: batch, priority: -1}
`
}

const room = 2 * pods

const (
	hasFlow      = "x-llm-d-inference-fairness-id"
	hasObjective = "x-llm-d-inference-objective"
)

// queueWorld is a world with a queue whose requests take about half a second, and a proxy in the picker's process.
func queueWorld(t *testing.T, envoy, ttl, more string, edit func(*options)) (w *world, proxy string) {
	port := freePorts(t, 1)
	o := options{envoy: envoy, speed: 2, config: queueConfig(ttl, more), picker: []string{"--listen", fmt.Sprintf("127.0.0.1:%d", port)}}
	if edit != nil {
		edit(&o)
	}
	return newWorld(t, o), fmt.Sprintf("http://127.0.0.1:%d", port)
}

// slow is a chat completion without stream that takes about half a second of a pod's time.
func slow(i int) []byte { return chat(i, 20, `,"max_tokens":120,"ignore_eos":true`) }

// queue is what /debug/queue says.
type queueState struct {
	Requests int
	Pools    []struct {
		Bands []struct {
			Priority, Requests int
			Ended              map[string]int
		}
	}
}

func (w *world) queue() (q queueState) {
	w.t.Helper()
	if err := json.Unmarshal(w.page("/debug/queue"), &q); err != nil {
		w.t.Fatal(err)
	}
	return q
}

// begin sends requests, one every few milliseconds so that they come in order, and returns who waits for their answers.
func (w *world) begin(n int, c func(i int) call, done func(i int, r result)) *sync.WaitGroup {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { done(i, w.do(c(i))) })
		time.Sleep(3 * time.Millisecond)
	}
	return &wg
}

func (w *world) waits(n int) {
	w.t.Helper()
	waitFor(w.t, fmt.Sprintf("%d requests wait", n), func() bool { return w.queue().Requests == n })
}

// TestQueue: requests beyond what the pods may run wait, in whatever way they come, and all are answered.
func TestQueue(t *testing.T) {
	for _, config := range []string{"edges.yaml", "override.yaml"} {
		t.Run(config, func(t *testing.T) {
			w, proxy := queueWorld(t, config, "30s", "", nil)
			var most atomic.Int64
			stop, watched := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(watched)
				for {
					select {
					case <-stop:
						return
					case <-time.After(20 * time.Millisecond):
					}
					for _, e := range w.books().Endpoints {
						most.Store(max(most.Load(), e.Requests))
					}
				}
			}()
			const n = 6 * room
			var served atomic.Int64
			wg := w.begin(n, func(i int) call {
				c := call{body: slow(i), h2: i%2 == 0}
				if i%3 == 0 {
					c = call{base: proxy, body: slow(i)}
				}
				return c
			}, func(i int, r result) {
				if r.err != nil || r.status != 200 {
					t.Errorf("request %d: status %d, error %v after %v", i, r.status, r.err, r.took)
					return
				}
				served.Add(1)
			})
			waitFor(t, "most of them wait", func() bool { return w.metric("fairlead_queue_requests{") >= n/2 })
			get := w.do(call{path: "/v1/models", get: true}) // has no body that would stop message_timeout
			if get.status != 200 {
				t.Errorf("GET /v1/models while others wait: status %d, error %v", get.status, get.err)
			}
			wg.Wait()
			close(stop)
			<-watched
			if served.Load() != n || most.Load() > 2 {
				t.Errorf("%d of %d served; at most %d at one pod, want 2", served.Load(), n, most.Load())
			}
			w.booksZero(time.Now(), 200*time.Millisecond)
			if k := w.metric(`llm_d_epp_flow_control_requests_total{inference_pool="default",outcome="Dispatched"`); k < n {
				t.Errorf("%v were counted as dispatched, want at least %d", k, n)
			}
		})
	}
}

// TestQueueOrder: a client of a higher objective waits for nobody of a lower one, and a tenant with few requests not for one
// with many.
func TestQueueOrder(t *testing.T) {
	w, proxy := queueWorld(t, "override.yaml", "30s", "", nil)
	for _, c := range []struct {
		name, header, many, few string
	}{
		{"priority", hasObjective, "none-such", "chat"},
		{"fairness", hasFlow, "busy", "quiet"},
	} {
		t.Run(c.name, func(t *testing.T) {
			began := time.Now()
			var mu sync.Mutex
			took := map[string][]time.Duration{}
			collect := func(who string) func(int, result) {
				return func(i int, r result) {
					if r.err != nil || r.status != 200 {
						t.Errorf("%s %d: status %d, error %v", who, i, r.status, r.err)
					}
					mu.Lock()
					defer mu.Unlock()
					took[who] = append(took[who], time.Since(began))
				}
			}
			many := w.begin(5*room, func(i int) call { return call{body: slow(i), headers: []string{c.header, c.many}} }, collect("many"))
			few := w.begin(4, func(i int) call {
				return call{base: []string{"", proxy}[i%2], body: slow(1000 + i), headers: []string{c.header, c.few}}
			}, collect("few"))
			few.Wait()
			many.Wait()
			last := slices.Max(took["few"])
			slices.Sort(took["many"])
			if half := took["many"][len(took["many"])*3/5]; last > half {
				t.Errorf("the last of the few came after %v, three of five of the many after %v", last, half)
			}
		})
	}
	w.booksZero(time.Now(), 200*time.Millisecond)
}

// TestQueueEnds: every way out of the queue that is not dispatch, and running requests that are taken back.
func TestQueueEnds(t *testing.T) {
	w, proxy := queueWorld(t, "edges.yaml", "1500ms", "", nil)
	long := func(i int) []byte { return chat(i, 20, `,"max_tokens":8000,"ignore_eos":true`) } // nobody waits for its end
	fill := func(objective string, done func(i int, r result)) (empty func()) {
		t.Helper()
		ctx, cancel := context.WithCancel(context.Background())
		wg := w.begin(room, func(i int) call {
			return call{base: []string{"", proxy}[i%2], body: long(i), ctx: ctx, headers: []string{hasObjective, objective}}
		}, done)
		waitFor(t, "the pods are full", func() bool { return w.books().Bookings == room })
		return func() {
			cancel()
			wg.Wait()
		}
	}
	t.Run("a client that goes away", func(t *testing.T) {
		empty := fill("chat", func(int, result) {})
		ctx, cancel := context.WithCancel(context.Background())
		gone := w.begin(6, func(i int) call { return call{base: []string{"", proxy}[i%2], body: slow(i), ctx: ctx} }, func(_ int, r result) {
			if r.err == nil {
				t.Errorf("status %d for one that had gone", r.status)
			}
		})
		w.waits(6)
		cancel()
		gone.Wait()
		w.waits(0)
		if n := w.books().Bookings; n > room {
			t.Errorf("%d bookings", n)
		}
		t.Run("a wait that takes too long", func(t *testing.T) {
			for _, base := range []string{"", proxy} {
				r := w.do(call{base: base, body: slow(7)})
				after, _ := strconv.Atoi(r.header.Get("Retry-After"))
				if r.status != 429 || !bytes.Contains(r.body, []byte(`"queue_timeout"`)) || after < 1 || after > 2 ||
					r.header.Get("X-Llm-D-Request-Dropped-Reason") != "rejected-ttl-expired" || r.took < 1400*time.Millisecond {
					t.Errorf("status %d after %v, retry-after %d: %s", r.status, r.took, after, r.body)
				}
			}
		})
		t.Run("the SDK comes again", func(t *testing.T) {
			script := "import sys; sys.path.insert(0, sys.argv[2])\nfrom openai import OpenAI\n" +
				"c = OpenAI(base_url=sys.argv[1] + '/v1', api_key='k', max_retries=5)\n" +
				"r = c.chat.completions.with_raw_response.create(model='" + modelName + "', max_tokens=4, messages=[{'role': 'user', 'content': 'hi'}])\n" +
				"print(r.status_code, r.retries_taken)"
			refused := func() float64 { return w.metric(`fairlead_reasons_total{reason="queue_timeout"}`) }
			before := refused()
			go func() {
				for deadline := time.Now().Add(30 * time.Second); refused() == before && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
				}
				empty()
			}()
			out, err := exec.Command(python, "-c", script, w.url, sdks).CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			var status, retries int
			if _, err := fmt.Sscan(string(out), &status, &retries); err != nil || status != 200 || retries < 1 {
				t.Errorf("the SDK got %s; want 200 after a retry", out)
			}
		})
	})
	t.Run("a request that is taken back", func(t *testing.T) {
		var evicted atomic.Int64
		empty := fill("batch", func(i int, r result) {
			switch {
			case r.status == 429 && bytes.Contains(r.body, []byte(`"evicted"`)) && r.header.Get("Retry-After") != "":
				evicted.Add(1)
			case r.err == nil:
				t.Errorf("request %d: status %d: %s", i, r.status, r.body)
			}
		})
		for i := range 2 {
			r := w.do(call{base: []string{"", proxy}[i%2], body: slow(100 + i), headers: []string{hasObjective, "chat"}})
			if r.status != 200 || r.took > 1400*time.Millisecond {
				t.Errorf("an urgent one: status %d after %v: %s", r.status, r.took, r.body)
			}
		}
		if n := evicted.Load(); n < 1 {
			t.Errorf("%d were taken back", n)
		}
		aborted := 0
		for _, at := range w.fleet.Addrs() {
			resp, err := http.Get("http://" + at.String() + "/metrics")
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			_, _ = b.ReadFrom(resp.Body)
			resp.Body.Close()
			for line := range strings.Lines(b.String()) {
				if strings.HasPrefix(line, "vllm:request_success_total") && strings.Contains(line, `finished_reason="abort"`) {
					n, _ := strconv.ParseFloat(strings.TrimSpace(line[strings.LastIndexByte(line, ' '):]), 64)
					aborted += int(n)
				}
			}
		}
		if int64(aborted) < evicted.Load() {
			t.Errorf("the pods were told of %d ends, and %d were taken back", aborted, evicted.Load())
		}
		empty()
		if n := w.metric(`fairlead_queue_evictions_total{pool="default",priority="-1",result="taken"}`); int64(n) != evicted.Load() {
			t.Errorf("%v are counted, %d were seen", n, evicted.Load())
		}
		w.booksZero(time.Now(), 200*time.Millisecond)
	})
}

// TestQueueOutlives: requests that wait outlive a reload; a drain refuses them.
func TestQueueOutlives(t *testing.T) {
	w, proxy := queueWorld(t, "override.yaml", "30s", "", nil)
	t.Run("a reload", func(t *testing.T) {
		const n = 4 * room
		wg := w.begin(n, func(i int) call { return call{base: []string{"", proxy}[i%2], body: slow(i)} }, func(i int, r result) {
			if r.err != nil || r.status != 200 {
				t.Errorf("request %d: status %d, error %v: %s", i, r.status, r.err, r.body)
			}
		})
		waitFor(t, "they wait", func() bool { return w.queue().Requests > room })
		w.replace("picker.yaml", queueConfig("29s", ""))
		waitFor(t, "the configuration is in force", func() bool { return w.inForce().Reload == 1 })
		r := w.do(call{body: slow(99)})
		if r.status != 200 {
			t.Errorf("one that came after: status %d: %s", r.status, r.body)
		}
		wg.Wait()
		w.booksZero(time.Now(), 200*time.Millisecond)
	})
	t.Run("a drain", func(t *testing.T) {
		var refused atomic.Int64
		wg := w.begin(3*room, func(i int) call { return call{base: []string{"", proxy}[i%2], body: slow(i)} }, func(i int, r result) {
			switch {
			case r.status == 503 && bytes.Contains(r.body, []byte("shutting_down")):
				refused.Add(1)
			case r.status != 200:
				t.Errorf("request %d: status %d, error %v: %s", i, r.status, r.err, r.body)
			}
		})
		waitFor(t, "they wait", func() bool { return w.queue().Requests >= 2*room })
		w.picker.signal(syscall.SIGTERM)
		wg.Wait()
		if refused.Load() == 0 {
			t.Error("none of those that waited was refused")
		}
	})
}

// TestQueueHoldsWhileThereAreNoPods: a pool is scaled to zero and requests come; they wait for its first pod, longer than
// message_timeout, whether they have a body or not.
func TestQueueHoldsWhileThereAreNoPods(t *testing.T) {
	for _, config := range []string{"edges.yaml", "override.yaml"} {
		t.Run(config, func(t *testing.T) {
			w, proxy := queueWorld(t, config, "30s", "", func(o *options) {
				o.edit = func(yaml string) string {
					for _, was := range []string{"message_timeout: 10s", "message_timeout: 5s"} {
						yaml = strings.Replace(yaml, was, "message_timeout: 2s", 1)
					}
					return yaml
				}
			})
			all := w.endpoints()
			w.replace("endpoints.yaml", "endpoints: []\n")
			waitFor(t, "the pods are gone", func() bool { return len(w.books().Endpoints) == 0 })
			wg := w.begin(5, func(i int) call {
				c := call{base: []string{"", proxy}[i%2], body: slow(i)}
				if i >= 3 {
					c.path, c.body, c.get = "/v1/models", nil, true
				}
				return c
			}, func(i int, r result) {
				if r.err != nil || r.status != 200 || r.took < 2*time.Second {
					t.Errorf("request %d: status %d after %v, error %v: %s", i, r.status, r.took, r.err, r.body)
				}
			})
			waitFor(t, "the gauge says 5", func() bool { return w.metric("llm_d_epp_flow_control_queue_size{") == 5 })
			time.Sleep(2500 * time.Millisecond)
			if s := w.envoyStats("ext_proc.(message_timeouts|failure_mode_allowed)"); s != "" {
				t.Errorf("message_timeout bounds the wait: %s", s)
			}
			w.replace("endpoints.yaml", all)
			wg.Wait()
			w.booksZero(time.Now(), 200*time.Millisecond)
		})
	}
}
