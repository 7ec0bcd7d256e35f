//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fairlead/fairlead/simulator/server"
)

// pods is the number of simulated engines, as the shipped configurations have it.
const pods = 4

// modelName is what the pods serve.
const modelName = "llama-3.1-8b"

// pickerConfig is the picker's configuration: the load and prefix scorers, and an alias that is longer than the name.
const pickerConfig = `apiVersion: fairlead.dev/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: single-profile-handler
- type: queue-scorer
- type: prefix-cache-scorer
- type: max-score-picker
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: queue-scorer, weight: 2}
  - {pluginRef: prefix-cache-scorer, weight: 3}
  - {pluginRef: max-score-picker}
pools:
- name: default
  profiles: [default]
  handler: single-profile-handler
  models:
  - {name: ` + modelName + `, aliases: [m, a-name-that-is-longer-than-the-one-that-the-engine-knows]}
`

// options of a world.
type options struct {
	envoy  string // the shipped configuration: edges.yaml, override.yaml or usage.yaml
	edit   func(yaml string) string
	picker []string // further flags
	config string   // the picker's; empty is pickerConfig
	speed  float64
	secure bool // the picker serves with TLS
	hangs  bool // the picker is made to hang: message_timeout as shipped, else one that a stalled test machine does not meet
}

// world is one Envoy with its picker and pods.
type world struct {
	t                            *testing.T
	dir                          string
	o                            options
	fleet                        *server.Fleet
	envoy                        *process
	picker                       *process
	url, admin                   string
	envoyAdmin                   string
	pickerPort, healthPort, port int
	h1, h2                       *http.Client
	stored                       []byte // the fixed event stream
	statuses                     sync.Map
	podErrors                    atomic.Int64 // of the statuses: 5xx that a pod caused
}

func newWorld(t *testing.T, o options) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), o: o}
	if o.speed == 0 {
		o.speed = 50
	}
	first := freePorts(t, pods+5)
	fleet, err := server.Start(context.Background(), server.Options{Engines: pods, Port: first, Speed: o.speed, Seed: 7})
	if err != nil {
		t.Fatal(err)
	}
	w.fleet = fleet
	t.Cleanup(func() { fleet.Close() })
	w.pickerPort, w.healthPort = first+pods, first+pods+1
	w.port = first + pods + 2
	w.admin = fmt.Sprintf("http://127.0.0.1:%d", first+pods+3)
	w.url = fmt.Sprintf("http://127.0.0.1:%d", w.port)
	w.envoyAdmin = fmt.Sprintf("http://127.0.0.1:%d", first+pods+4)

	w.write("endpoints.yaml", w.endpoints())
	w.write("picker.yaml", cmp.Or(o.config, pickerConfig))
	w.startPicker()

	shipped, err := os.ReadFile(filepath.Join("..", "..", "manifests", "envoy", o.envoy))
	if err != nil {
		t.Fatal(err)
	}
	text := string(shipped)
	replace := func(was, is int) {
		old := fmt.Sprintf("port_value: %d", was)
		if strings.Count(text, old) != 1 {
			t.Fatalf("%s has %q %d times; want once", o.envoy, old, strings.Count(text, old))
		}
		text = strings.Replace(text, old, fmt.Sprintf("port_value: %d", is), 1)
	}
	replace(8080, w.port)
	replace(9002, w.pickerPort)
	replace(9901, first+pods+4)
	for i := range pods {
		replace(8100+i, first+i)
	}
	if !o.hangs {
		text = strings.Replace(text, "message_timeout: 0.5s", "message_timeout: 10s", 1)
	}
	if o.edit != nil {
		text = o.edit(text)
	}
	w.write("envoy.yaml", text)
	w.envoy = start(t, "envoy", w.dir, envoy, "-c", "envoy.yaml", "--concurrency", "2", "--disable-hot-restart", "-l", "warning")
	w.envoy.until(w.envoyAdmin + "/ready")
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("Envoy counts: %s", w.envoyStats("ext_proc|upstream_rq_(timeout|retry|5xx|503|504)|downstream_rq_5xx"))
		}
	})

	w.h1 = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4096, MaxConnsPerHost: 0, DisableCompression: true}}
	var only http.Protocols
	only.SetUnencryptedHTTP2(true)
	w.h2 = &http.Client{Transport: &http.Transport{DisableCompression: true, Protocols: &only}}
	t.Cleanup(func() {
		w.h1.CloseIdleConnections()
		w.h2.CloseIdleConnections()
	})
	w.settled()
	return w
}

// endpoints is the endpoint file with all pods.
func (w *world) endpoints() string {
	var b strings.Builder
	b.WriteString("endpoints:\n")
	for i, at := range w.fleet.Addrs() {
		fmt.Fprintf(&b, "- {name: pod-%d, address: 127.0.0.1, port: \"%d\"}\n", i, at.Port())
	}
	return b.String()
}

func (w *world) write(name, text string) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// startPicker starts the picker on its ports, as the first one or again.
func (w *world) startPicker() {
	w.t.Helper()
	args := append([]string{
		"epp", "--config-file", "picker.yaml", "--endpoints", "endpoints.yaml", fmt.Sprintf("--secure-serving=%v", w.o.secure), "--grpc-bind", "127.0.0.1",
		"--grpc-port", strconv.Itoa(w.pickerPort), "--grpc-health-port", strconv.Itoa(w.healthPort),
		"--metrics-port", w.admin[strings.LastIndex(w.admin, ":")+1:], "--log-level", "warn",
	}, w.o.picker...)
	w.picker = start(w.t, "picker", w.dir, fairlead, args...)
	w.picker.until(w.admin + "/readyz")
}

// settled waits until the gateway takes requests to the picker: with a health check in the way that takes a moment.
func (w *world) settled() {
	w.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		before := w.metric(`fairlead_ext_proc_messages_total{kind="request_headers"}`)
		r := w.do(call{path: "/v1/models", get: true})
		if r.err == nil && r.status == 200 && w.metric(`fairlead_ext_proc_messages_total{kind="request_headers"}`) > before {
			return
		}
	}
	w.t.Fatal("no request reaches the picker through Envoy within 10 s")
}

// call is one request.
type call struct {
	base    string // of the URL; empty is Envoy's
	get     bool
	path    string
	body    []byte
	arrives []byte // what the pod must get, where that is not body
	headers []string
	h2      bool
	fixed   bool // the answer is the stored event stream, and is compared
	ctx     context.Context
	read    func(*bufio.Reader) // in place of reading the whole answer
}

// result is what came of a call.
type result struct {
	status int
	header http.Header
	body   []byte
	err    error // also of an answer that did not come to its end
	began  bool  // the answer's headers came
	took   time.Duration
}

// do sends a request through Envoy, and compares the bodies at both ends.
func (w *world) do(c call) (r result) {
	w.t.Helper()
	ctx := c.ctx
	if ctx == nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.Background(), 60*time.Second)
		defer cancel()
	}
	method := http.MethodPost
	if c.get {
		method = http.MethodGet
	}
	if c.path == "" {
		c.path = "/v1/chat/completions"
	}
	started := time.Now()
	defer func() { r.took = time.Since(started) }()
	req, err := http.NewRequestWithContext(ctx, method, cmp.Or(c.base, w.url)+c.path, bytes.NewReader(c.body))
	if err != nil {
		w.t.Error(err)
		return result{err: err}
	}
	if !c.get {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(c.headers); i += 2 {
		req.Header.Set(c.headers[i], c.headers[i+1])
	}
	if c.fixed {
		req.Header.Set("X-Sim-Fixed-Sse", "1")
	}
	client := w.h1
	if c.h2 {
		client = w.h2
	}
	resp, err := client.Do(req)
	if err != nil {
		return result{err: err}
	}
	defer resp.Body.Close()
	r = result{status: resp.StatusCode, header: resp.Header, began: true}
	w.count(resp.StatusCode)
	if at := resp.Header.Get("X-Sim-Body-Sha256"); at != "" {
		want := c.arrives
		if want == nil {
			want = c.body
		}
		bodies.same(w.t, fmt.Sprintf("request body of %d bytes", len(want)), sum(want), at)
	}
	if c.read != nil {
		c.read(bufio.NewReader(resp.Body))
		return r
	}
	r.body, r.err = io.ReadAll(resp.Body)
	if c.fixed && r.err == nil && r.status == 200 {
		bodies.sameBytes(w.t, "response body", w.stored, r.body)
	}
	return r
}

func (w *world) count(status int) {
	n, _ := w.statuses.LoadOrStore(status, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
}

// serverErrors returns how many answers had a status of 500 or more.
func (w *world) serverErrors() (total int64) {
	w.statuses.Range(func(status, n any) bool {
		if status.(int) >= 500 {
			total += n.(*atomic.Int64).Load()
		}
		return true
	})
	return total
}

// store has every pod keep stream as its fixed event stream.
func (w *world) store(stream []byte) {
	w.t.Helper()
	w.stored = stream
	for _, at := range w.fleet.Addrs() {
		r, err := http.Post("http://"+at.String()+"/sim/sse", "application/octet-stream", bytes.NewReader(stream))
		if err != nil {
			w.t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != 200 {
			w.t.Fatalf("storing the stream: %s", r.Status)
		}
	}
}

// each runs f for 0 to n-1, at most at once of them together.
func each(n, atOnce int, f func(i int)) {
	var wg sync.WaitGroup
	var next atomic.Int64
	for range min(n, atOnce) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	wg.Wait()
}

// bookLines is what the picker's /debug/books says.
type bookLines struct {
	Endpoints []struct {
		Endpoint                                           string
		Requests, NoFirstByte, PrefillTokens, DecodeTokens int64
	}
	Open, Bookings int64
}

func (b *bookLines) sum() (n int64) {
	for _, e := range b.Endpoints {
		n += e.Requests + e.NoFirstByte + e.PrefillTokens + e.DecodeTokens
	}
	return n + b.Open + b.Bookings
}

func (w *world) books() (b bookLines) {
	w.t.Helper()
	if err := json.Unmarshal(w.page("/debug/books"), &b); err != nil {
		w.t.Fatal(err)
	}
	return b
}

// booksZero waits until the books are zero and checks that this comes within the bound after the last end.
func (w *world) booksZero(last time.Time, bound time.Duration) {
	w.t.Helper()
	for {
		b := w.books()
		took := time.Since(last)
		if b.sum() == 0 {
			if took > bound {
				w.t.Errorf("the books were zero %v after the last end; at most %v", took, bound)
			} else {
				w.t.Logf("the books were zero %v after the last end", took)
			}
			return
		}
		if took > bound+5*time.Second {
			w.t.Errorf("the books are not zero %v after the last end: %+v", took, b)
			return
		}
	}
}

func (w *world) page(path string) []byte {
	w.t.Helper()
	r, err := http.Get(w.admin + path)
	if err != nil {
		w.t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != 200 {
		w.t.Fatalf("%s: %s, error %v", path, r.Status, err)
	}
	return b
}

// envoyStats returns the counters of Envoy that match the expression and are not zero.
func (w *world) envoyStats(match string) string {
	r, err := http.Get(w.envoyAdmin + "/stats?usedonly&filter=" + url.QueryEscape(match))
	if err != nil {
		return err.Error()
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return err.Error()
	}
	var out []string
	for line := range strings.Lines(string(b)) {
		if !strings.HasSuffix(line, ": 0\n") && !strings.Contains(line, "P0(") {
			out = append(out, strings.TrimSpace(line))
		}
	}
	return strings.Join(out, ", ")
}

// metric returns the value of one series of the picker, or the sum over those that begin so; 0 without it.
func (w *world) metric(series string) (total float64) {
	w.t.Helper()
	for line := range strings.Lines(string(w.page("/metrics"))) {
		rest, ok := strings.CutPrefix(line, series)
		if !ok {
			continue
		}
		if i := strings.LastIndexByte(rest, ' '); i >= 0 {
			v, err := strconv.ParseFloat(strings.TrimSpace(rest[i:]), 64)
			if err != nil {
				w.t.Fatal(err)
			}
			total += v
		}
	}
	return total
}

// chat returns a chat body with a prompt of about n bytes that is no other's.
func chat(i, n int, more string) []byte {
	return fmt.Appendf(nil, `{"model":%q,"messages":[{"role":"user","content":"%d %s"}]%s}`, modelName, i, strings.Repeat("word ", n/5), more)
}

// events returns an event stream of exactly n bytes.
func events(n int) []byte {
	const end = "data: [DONE]\n\n"
	var b []byte
	for i := 0; len(b) < n-len(end); i++ {
		event := fmt.Sprintf("data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"token %d \u00e9\"}}]}\n\n", i)
		if room := n - len(end) - len(b); len(event) > room {
			event = ": " + strings.Repeat("x", max(room-4, 0)) + "\n\n"
			event = event[len(event)-room:]
		}
		b = append(b, event...)
	}
	return append(b, end...)
}
