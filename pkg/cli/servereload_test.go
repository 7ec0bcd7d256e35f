package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fairlead/fairlead/pkg/catalog"
	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/gateway/admin"
	"github.com/fairlead/fairlead/pkg/gateway/clock"
	"github.com/fairlead/fairlead/pkg/gateway/proxy"
	"github.com/fairlead/fairlead/pkg/pool"
)

// lines keeps what is logged.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// reloading is a process with the embedded proxy, as serve wires it, in front of two engines.
type reloading struct {
	*reloader
	t       *testing.T
	dir     string
	log     *lines
	proxied *httptest.Server
	admin   http.Handler
}

const configuration = `apiVersion: fairlead.dev/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: single-profile-handler
- type: queue-scorer
- type: prefix-cache-scorer
- type: max-score-picker
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: queue-scorer, weight: WEIGHT}
  - {pluginRef: prefix-cache-scorer, weight: 3}
  - {pluginRef: max-score-picker}
`

// weighted is the configuration with another weight.
func weighted(n int) string { return strings.Replace(configuration, "WEIGHT", fmt.Sprint(n), 1) }

func newReloading(t *testing.T, config, endpoints string, engine http.HandlerFunc, watch bool) *reloading {
	t.Helper()
	w := &reloading{t: t, dir: t.TempDir(), log: &lines{}}
	log := slog.New(slog.NewTextHandler(w.log, nil))
	for i := range 2 {
		e := httptest.NewServer(engine)
		t.Cleanup(e.Close)
		endpoints = strings.ReplaceAll(endpoints, fmt.Sprintf("PORT%d", i), e.URL[strings.LastIndexByte(e.URL, ':')+1:])
	}
	w.write("config.yaml", config)
	w.write("endpoints.yaml", endpoints)
	f := &serveFlags{configFile: filepath.Join(w.dir, "config.yaml"), watchConfig: watch, endpointsFile: filepath.Join(w.dir, "endpoints.yaml")}
	metrics := admin.NewMetrics(admin.MetricsOptions{Log: log})
	w.reloader = &reloader{entries: catalog.Builtin(), f: f, log: log, metrics: metrics, clock: clock.Start(time.Now())}
	file, built, err := w.first(w.log)
	if err != nil {
		t.Fatal(err, w.log)
	}
	ctx, stop := context.WithCancel(context.Background())
	var background sync.WaitGroup
	t.Cleanup(func() {
		stop()
		background.Wait()
	})
	pools := make([]*pool.Pool, len(built.Plans))
	for i, plan := range built.Plans {
		pools[i] = pool.New(plan.Pool.Name, metrics)
	}
	w.feed = newFeed(ctx, &background, f, w.clock, metrics, log)
	if err := w.feed.open(file, built, pools, w.log); err != nil {
		t.Fatal(err, w.log)
	}
	o := exchange.Defaults()
	o.Built, o.Pools, o.Sink, o.Meter, o.Alarm, o.Seed = built, pools, metrics, metrics, w.clock, 42
	o.ConfigText, o.ConfigDigest = string(file.Effective()), file.Digest()
	if w.scheduler, err = exchange.New(o); err != nil {
		t.Fatal(err)
	}
	current := w.scheduler.Current
	background.Go(func() { w.clock.Drive(ctx, current) })
	p := proxy.New(proxy.Options{Scheduler: current, Clock: w.clock, Sink: metrics})
	t.Cleanup(p.Close)
	w.proxied = httptest.NewServer(p)
	t.Cleanup(w.proxied.Close)
	w.admin = admin.New(admin.Options{Metrics: metrics, Scheduler: current, Clock: w.clock.Now, Config: w.inForce}).OnePort()
	w.follow(func(run func(context.Context)) { background.Go(func() { run(ctx) }) })
	return w
}

func (w *reloading) write(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		w.t.Fatal(err)
	}
}

// page returns a page of the admin port.
func (w *reloading) page(path string) string {
	r := httptest.NewRecorder()
	ask := httptest.NewRequest("GET", path, nil)
	ask.RemoteAddr = "127.0.0.1:1"
	w.admin.ServeHTTP(r, ask)
	return r.Body.String()
}

func (w *reloading) wantPage(path string, want ...string) {
	w.t.Helper()
	page := w.page(path)
	for _, s := range want {
		if !strings.Contains(page, s) {
			w.t.Errorf("%s lacks %q:\n%.3000s", path, s, page)
		}
	}
}

// wait waits for what another goroutine does.
func (w *reloading) wait(what string, holds func() bool) {
	w.t.Helper()
	retry := time.NewTicker(5 * time.Millisecond)
	defer retry.Stop()
	for deadline := time.Now().Add(10 * time.Second); !holds(); <-retry.C {
		if time.Now().After(deadline) {
			w.t.Fatalf("not within 10 s: %s\n%s", what, w.log)
		}
	}
}

func (w *reloading) ask(path, body string) (status int, text string, err error) {
	resp, err := http.Post(w.proxied.URL+path, "application/json", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

const twoEndpoints = `endpoints:
- {name: a, address: 127.0.0.1, port: "PORT0"}
- {name: b, address: 127.0.0.1, port: "PORT1"}
`

func answer(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	_, _ = io.WriteString(w, `{"choices":[]}`)
}

const chat = `{"model":"m","messages":[{"role":"user","content":"hello"}]}`

// TestX20ReloadUnderLoad: swaps weights, adds and removes pools, and offers broken files, while thousands of requests run
// through the proxy: none fails, and the books are zero in the end.
func TestX20ReloadUnderLoad(t *testing.T) {
	w := newReloading(t, weighted(1), twoEndpoints, answer, false)
	const workers, each = 6, 300
	var running sync.WaitGroup
	var failed atomic.Int64
	for k := range workers {
		running.Go(func() {
			for i := range each {
				if status, text, err := w.ask("/v1/chat/completions", strings.Replace(chat, "hello", fmt.Sprint(k*each+i), 1)); status != 200 || err != nil {
					failed.Add(1)
					t.Errorf("status %d, error %v, %.200s", status, err, text)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { running.Wait(); close(done) }()
	applied, refused := 0, 0
	for i := 0; ; i++ {
		select {
		case <-done:
		default:
			text := weighted(i + 2)
			if i%3 == 2 {
				text = strings.Replace(text, "queue-scorer, weight", "queue-scorer, wait", 1)
				refused++
			} else {
				applied++
			}
			w.reload([]byte(text), nil)
			continue
		}
		break
	}
	if failed.Load() > 0 || applied < 2 || refused < 1 {
		t.Errorf("%d requests failed in %d reloads and %d refused ones", failed.Load(), applied, refused)
	}
	w.wait("the books are zero", func() bool { return w.scheduler.Open() == 0 })
	for _, p := range w.scheduler.Current().Pools() {
		if n := p.Open(); n != 0 {
			t.Errorf("%d bookings are open in pool %s", n, p.Name)
		}
	}
	if n := len(w.scheduler.Running()); n != 1 {
		t.Errorf("%d schedulers are left", n)
	}
	w.wantPage("/metrics", fmt.Sprintf(`fairlead_config_reloads_total{result="applied"} %d`, applied), fmt.Sprintf(`fairlead_config_reloads_total{result="refused"} %d`, refused))
	t.Logf("%d requests, %d configurations applied, %d refused", workers*each, applied, refused)
}

func TestARefusedConfigurationChangesNothingAndIsShown(t *testing.T) {
	w := newReloading(t, weighted(1), twoEndpoints, answer, false)
	was := w.inForce().Digest
	w.reload([]byte(strings.Replace(weighted(2), "queue-scorer, weight", "queue-scorer, wait", 1)), nil)
	if w.inForce().Digest != was {
		t.Error("it is in force")
	}
	w.wantPage("/debug/config", "# digest: "+was, "# refused since: ", "config.yaml:11:31: ", "weight: 1")
	w.wantPage("/metrics", "fairlead_config_last_reload_success 0")
	if log := w.log.String(); !strings.Contains(log, "configuration refused; the one before it stays in force") || !strings.Contains(log, "config.yaml:11:31: ") {
		t.Errorf("the log says %s", log)
	}
	w.reload(nil, fmt.Errorf("config.yaml: no such file"))
	w.wantPage("/debug/config", "no such file")
	w.reload([]byte(weighted(1)), nil) // the file is mended
	w.wantPage("/metrics", "fairlead_config_last_reload_success 1", `fairlead_config_reloads_total{result="unchanged"} 1`, `{result="refused"} 2`)
	if strings.Contains(w.page("/debug/config"), "refused") {
		t.Error("the failed attempt is still shown")
	}
}

func TestTheFileIsFollowedAndLoadIsKept(t *testing.T) {
	let, began := make(chan struct{}), make(chan struct{}, 1)
	w := newReloading(t, weighted(1), twoEndpoints, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/chat/completions" {
			_, _ = io.Copy(io.Discard, r.Body)
			began <- struct{}{}
			<-let
		}
		_, _ = io.WriteString(rw, `{}`)
	}, true)
	done := make(chan int, 1)
	go func() {
		status, _, _ := w.ask("/v1/chat/completions", chat)
		done <- status
	}()
	<-began
	was := w.inForce()
	w.write("config.yaml", weighted(7))
	w.wait("the new configuration is in force", func() bool { return w.inForce().Digest != was.Digest })
	w.wantPage("/debug/config", "weight: 7", "# source: "+w.f.configFile)
	w.wantPage("/debug/books", `"requests": 1`, `"open": 1`)
	w.wantPage("/metrics", "fairlead_open_bookings 1", fmt.Sprintf("fairlead_config_info{digest=%q} 1", w.inForce().Digest))
	if log := w.log.String(); !strings.Contains(log, "state_kept=[approx-prefix-cache-producer]") {
		t.Errorf("the log does not say that the prefix index is kept: %s", log)
	}
	close(let)
	if status := <-done; status != 200 {
		t.Errorf("the request that was running got %d", status)
	}
	w.wait("the books are zero", func() bool { return w.scheduler.Open() == 0 })
}

func TestSIGHUPReadsTheFileAgain(t *testing.T) {
	w := newReloading(t, weighted(1), twoEndpoints, answer, false)
	was := w.inForce()
	w.write("config.yaml", weighted(7))
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	w.wait("the new configuration is in force", func() bool { return w.inForce().Digest != was.Digest })
	if now := w.inForce(); now.Reload != 1 || now.Since.Before(was.Since) {
		t.Errorf("reload %d, since %v", now.Reload, now.Since)
	}
}

func TestPoolsComeAndGo(t *testing.T) {
	pools := func(names ...string) string {
		text := weighted(1) + "pools:\n"
		for _, n := range names {
			text += fmt.Sprintf("- {name: %s, profiles: [default], handler: single-profile-handler, models: [{name: m-%s}]}\n", n, n)
		}
		return text
	}
	w := newReloading(t, pools("one"), `endpoints:
- {name: a, address: 127.0.0.1, port: "PORT0", pool: one}
`, answer, false)
	one := w.scheduler.Pools()[0]
	members := one.Snapshot()
	w.reload([]byte(pools("two", "one")), nil)
	now := w.scheduler.Current().Pools()
	if len(now) != 2 || now[1] != one || now[0].Name != "two" {
		t.Fatalf("%d pools; the one that stays is the same: %t", len(now), now[len(now)-1] == one)
	}
	if one.Snapshot() != members {
		t.Error("the members of the pool that stays were read anew")
	}
	ask := func(model string) int {
		status, _, err := w.ask("/v1/chat/completions", strings.Replace(chat, `"m"`, `"`+model+`"`, 1))
		if err != nil {
			t.Error(err)
		}
		return status
	}
	if a, b := ask("m-one"), ask("m-two"); a != 200 || b != 503 {
		t.Errorf("status %d of the old pool, %d of the empty one", a, b)
	}
	w.reload([]byte(pools("two")), nil) // the endpoint file still names the pool
	if w.inForce().Failed == nil || !strings.Contains(w.inForce().Failed.Problems[0], "endpoints.yaml:2:") {
		t.Errorf("a pool that the endpoint file names was removed: %+v", w.inForce().Failed)
	}
	if a := ask("m-one"); a != 200 {
		t.Errorf("status %d after the refusal", a)
	}
}

func TestWhatCannotBeReadAgainIsSaid(t *testing.T) {
	w := newReloading(t, weighted(1), twoEndpoints, answer, false)
	w.f.configText = weighted(2)
	w.again()
	if !strings.Contains(w.log.String(), "SIGHUP changes nothing") {
		t.Errorf("the log says %s", w.log)
	}
}
