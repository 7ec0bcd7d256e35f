package admin

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/pool/telemetry"
	"github.com/fairlead/fairlead/pkg/profiles"
	"github.com/fairlead/fairlead/pkg/reason"
)

var update = flag.Bool("update", false, "write the golden files anew")

// world is a process with two pools: default with the endpoints a and b, and empty.
type world struct {
	built    *plugins.Built
	t        *testing.T
	m        *Metrics
	s        *exchange.Scheduler
	pools    []*pool.Pool
	now      pool.Instant
	handler  http.Handler
	draining chan struct{}
	config   Config
}

// first picks the first candidates.
type first struct{}

func (first) Pick(_ *plugins.Cycle, totals []float64, want int, best []int) []int {
	for i := range min(want, len(totals)) {
		best = append(best, i)
	}
	return best
}

// reads is a stage that wants the whole body, and watches over endpoints: the second is not well.
type reads struct{}

func (reads) Phase() plugins.Phase                   { return plugins.AtDescribe }
func (reads) Enter(*plugins.Request) plugins.Verdict { return plugins.Verdict{} }

// Health implements plugins.HealthTeller.
func (reads) Health(_ int, _ pool.Instant, of pool.Ref) (plugins.Health, bool) {
	if of.ID == 1 {
		return plugins.Health{State: plugins.Ejected, Why: reason.EndpointSlow.String(), Reached: true}, true
	}
	return plugins.Health{State: plugins.Closed, Share: 1}, true
}

// part is a plugin of a world.
type part struct {
	name string
	v    any
}

func newWorld(t *testing.T, set func(*Options), more ...part) *world {
	t.Helper()
	w := &world{t: t, m: NewMetrics(MetricsOptions{}), now: pool.Instant(10 * time.Second), draining: make(chan struct{})}
	w.built = build(t, more...)
	var err error
	p := pool.New("default", w.m)
	p.Update(w.now, []pool.Endpoint{endpoint("a", 1), endpoint("b", 2)})
	w.pools = []*pool.Pool{p}
	o := exchange.Defaults()
	o.Built, o.Pools, o.Sink, o.Meter, o.Seed = w.built, w.pools, w.m, w.m, 42
	o.Epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	o.ConfigText, o.ConfigDigest = "kind: EndpointPickerConfig\n", "d1ge57"
	if w.s, err = exchange.New(o); err != nil {
		t.Fatal(err)
	}
	w.config = Config{Digest: o.ConfigDigest, Text: o.ConfigText, Source: "config.yaml", Since: o.Epoch}
	ao := Options{Heard: func() int { return 3 },
		Metrics: w.m, Scheduler: func() *exchange.Scheduler { return w.s.Current() }, Clock: func() pool.Instant { return w.now },
		Config: func() Config { return w.config }, Draining: w.draining,
	}
	if set != nil {
		set(&ao)
	}
	w.m = ao.Metrics
	w.handler = New(ao).OnePort()
	return w
}

// build builds a configuration of one pool with these plugins.
func build(t *testing.T, more ...part) *plugins.Built {
	t.Helper()
	spec := plugins.Spec{
		Profiles: []plugins.ProfileSpec{{Name: "p", Plugins: []plugins.RefSpec{{Ref: "picker"}}}},
		Pools:    []plugins.PoolSpec{{Name: "default", Handler: "handler", Profiles: []string{"p"}}},
	}
	for _, p := range append(more, part{"handler", profiles.NewSingle()}, part{"picker", first{}}, part{"reads", reads{}}) {
		spec.Plugins = append(spec.Plugins, plugins.PluginSpec{Name: p.name, Type: p.name, Construct: func() (any, error) { return p.v, nil }})
	}
	built, err := plugins.Build(spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	return built
}

func endpoint(name string, host byte) pool.Endpoint {
	return pool.Endpoint{Namespace: "ns", Name: name, Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, host}), 8000)}
}

// get asks the admin port.
func (w *world) get(path string) (status int, header http.Header, body string) {
	w.t.Helper()
	r := httptest.NewRecorder()
	w.handler.ServeHTTP(r, from("127.0.0.1:1234", path))
	return r.Code, r.Header(), r.Body.String()
}

// from is a request of a client at this address.
func from(address, path string) *http.Request {
	r := httptest.NewRequest("GET", path, nil)
	r.RemoteAddr = address
	return r
}

func TestWhatIsForOperatorsIsServedToThisHostAlone(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Profiles = true })
	for _, row := range []struct {
		address, path string
		status        int
	}{
		{"127.0.0.1:1", "/debug/books", 200}, {"[::1]:1", "/debug/config", 200}, {"[::ffff:127.0.0.1]:1", "/debug/decisions", 200},
		{"127.0.0.1:1", "/debug/pprof/goroutine?debug=1", 200},
		{"192.0.2.7:1", "/debug/books", 403}, {"[2001:db8::1]:1", "/debug/pprof/heap", 403}, {"@", "/debug/config", 403},
		{"192.0.2.7:1", "/metrics", 200}, {"192.0.2.7:1", "/healthz", 200}, {"192.0.2.7:1", "/readyz", 200},
	} {
		r := httptest.NewRecorder()
		w.handler.ServeHTTP(r, from(row.address, row.path))
		if r.Code != row.status {
			t.Errorf("%s for %s: %d, want %d", row.path, row.address, r.Code, row.status)
		}
	}
	w = newWorld(t, nil)
	if status, _, _ := w.get("/debug/pprof/heap"); status != 404 {
		t.Errorf("profiles that nobody asked for: %d", status)
	}
}

// forward sends a chat completion on its way.
func (w *world) forward() *exchange.Exchange {
	w.t.Helper()
	x := w.s.Begin(w.now, nil)
	w.now += pool.Instant(3 * time.Microsecond)
	via := exchange.Via{Adapter: "proxy", StreamLasts: true, TellsEnd: true, Sees: plugins.FirstByte}
	a := x.Headers(w.now, openai.Headers{{Name: ":method", Value: "POST"}, {Name: ":path", Value: "/v1/chat/completions"}, {Name: "content-type", Value: "application/json"}}, via, false)
	if a.Do == exchange.Continue {
		a = x.Body(w.now, []byte(`{"model":"a-model","max_tokens":7,"messages":[{"role":"user","content":"hello there"}]}`), true)
	}
	if a.Do != exchange.Forward {
		w.t.Fatalf("got %v, want forward", a.Do)
	}
	return x
}

func TestHealth(t *testing.T) {
	w := newWorld(t, nil)
	if status, _, body := w.get("/healthz"); status != 200 || body != "ok\n" {
		t.Errorf("%d %q", status, body)
	}
}

func TestReadiness(t *testing.T) {
	for _, row := range []struct {
		name   string
		set    func(*Options)
		change func(*world)
		status int
		says   string
	}{
		{"ready when every pool has an endpoint", nil, nil, 200, "ready\n"},
		{"ready with an empty pool where that is allowed", func(o *Options) { o.AllowEmpty = true }, func(w *world) { w.pools[0].Update(w.now, nil) }, 200, "ready\n"},
		{"not ready when the last endpoint has gone", nil, func(w *world) { w.pools[0].Update(w.now, nil) }, 503, "pool \"default\" has no endpoint\n"},
		{"not ready while it drains", nil, func(w *world) { close(w.draining) }, 503, "draining\n"},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newWorld(t, row.set)
			if row.change != nil {
				row.change(w)
			}
			if status, _, body := w.get("/readyz"); status != row.status || body != row.says {
				t.Errorf("%d %q, want %d %q", status, body, row.status, row.says)
			}
		})
	}
}

func TestDecisions(t *testing.T) {
	w := newWorld(t, nil)
	clean, running := w.forward(), w.forward()
	clean.Response(w.now, openai.Headers{{Name: ":status", Value: "200"}}, netip.MustParseAddrPort("192.0.2.1:8000"), false)
	clean.End(w.now, exchange.Ending{Clean: true})
	w.pools[0].Update(w.now, nil)
	refused := w.s.Begin(w.now, nil)
	refused.Headers(w.now, openai.Headers{{Name: ":method", Value: "GET"}, {Name: ":path", Value: "/v1/thing"}}, exchange.Via{}, true)

	status, header, body := w.get("/debug/decisions")
	if status != 200 || header.Get("content-type") != "application/json" {
		t.Fatal(status, header)
	}
	var got []brief
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	want := []brief{
		{ID: refused.ID, At: "2026-01-02T03:04:15.000006Z", API: "other", Pool: "default", Refused: "no_endpoint"},
		{ID: running.ID, At: "2026-01-02T03:04:15.000003Z", API: "chat.completions", Pool: "default", Chosen: "ns/a", Ending: "running"},
		{ID: clean.ID, At: "2026-01-02T03:04:15Z", API: "chat.completions", Pool: "default", Chosen: "ns/a", Ending: "clean"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if _, _, body = w.get("/debug/decisions?limit=1"); strings.Count(body, `"id"`) != 1 || !strings.Contains(body, refused.ID) {
		t.Errorf("the newest alone: %s", body)
	}
	for _, bad := range []string{"0", "-1", "x", strings.Repeat("9", 100)} {
		if status, _, body := w.get("/debug/decisions?limit=" + bad); status != 400 || len(body) > 200 {
			t.Errorf("limit=%s: %d %s", bad, status, body)
		}
	}

	_, _, body = w.get("/debug/decisions/" + clean.ID)
	var doc exchange.Document
	if err := json.Unmarshal([]byte(body), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Record.ID != clean.ID || doc.Configuration != "kind: EndpointPickerConfig\n" || doc.Record.Outcome == nil {
		t.Errorf("%+v", doc)
	}
	if status, _, body := w.get("/debug/decisions/unknown"); status != 404 || !strings.Contains(body, "/debug/decisions") {
		t.Errorf("%d %s", status, body)
	}
}

func TestConfig(t *testing.T) {
	w := newWorld(t, nil)
	status, header, body := w.get("/debug/config")
	want := "# digest: d1ge57\n# since: 2026-01-02T03:04:05Z\n# source: config.yaml\nkind: EndpointPickerConfig\n"
	if status != 200 || body != want || header.Get("x-fairlead-config-digest") != "d1ge57" || header.Get("content-type") != "application/yaml" {
		t.Errorf("%d %v %q", status, header, body)
	}
}

func TestConfigTellsOfTheLastAttemptThatWasRefused(t *testing.T) {
	w := newWorld(t, nil)
	w.config.Failed = &FailedReload{At: w.config.Since.Add(time.Minute), Problems: []string{"config.yaml:3:1: unknown key\n\"x\"", "config.yaml:4:1: another"}}
	_, _, body := w.get("/debug/config")
	want := "# refused since: an attempt at 2026-01-02T03:05:05Z; this configuration stays:\n#   config.yaml:3:1: unknown key \"x\"\n#   config.yaml:4:1: another\nkind: EndpointPickerConfig\n"
	if !strings.HasSuffix(body, want) {
		t.Errorf("got %s\nwant at its end %s", body, want)
	}
	_, _, body = w.get("/debug/config?format=json")
	var got Config
	if err := json.Unmarshal([]byte(body), &got); err != nil || got.Digest != "d1ge57" || len(got.Failed.Problems) != 2 || got.Text != w.config.Text {
		t.Errorf("error %v, %s", err, body)
	}
	if status, _, _ := w.get("/debug/config?format=xml"); status != 400 {
		t.Errorf("format=xml: %d", status)
	}
}

func TestReloadsAreCounted(t *testing.T) {
	w := newWorld(t, nil)
	for _, step := range []struct {
		result Reload
		want   []string
	}{
		{Refused, []string{`fairlead_config_reloads_total{result="refused"} 1`, "fairlead_config_last_reload_success 0"}},
		{Applied, []string{`fairlead_config_reloads_total{result="applied"} 1`, `fairlead_config_reloads_total{result="unchanged"} 0`, "fairlead_config_last_reload_success 1"}},
	} {
		w.m.Reloaded(step.result)
		_, _, page := w.get("/metrics")
		for _, want := range step.want {
			if !strings.Contains(page, want+"\n") {
				t.Errorf("after %s: %s is missing", step.result, want)
			}
		}
	}
}

func TestBooksAreShownBesideTheLastSample(t *testing.T) {
	w := newWorld(t, nil)
	x := w.forward()
	snap := w.pools[0].Snapshot()
	sample := pool.NoSample()
	sample.At, sample.Waiting, sample.Running, sample.KVUsage = w.now-pool.Instant(2*time.Second), 3, 4, 0.5
	w.pools[0].Observe(w.now, snap.Slots[snap.Members[0]].Ref, sample)

	read := func() (got Books) {
		_, _, body := w.get("/debug/books")
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	want := Books{Open: 1, Bookings: 1, Endpoints: []Line{
		{Pool: "default", Endpoint: "ns/a", Address: "192.0.2.1:8000", Requests: 1, NoFirstByte: 1, AfterSample: 1, PrefillTokens: 4, DecodeTokens: 7,
			Sample: "fresh", SampleAgeSeconds: 2, Waiting: 3, Running: 4, KVUsage: 0.5, Health: &plugins.Health{State: plugins.Closed, Share: 1}},
		{Pool: "default", Endpoint: "ns/b", Address: "192.0.2.2:8000", Sample: "never", SampleAgeSeconds: -1, Waiting: -1, Running: -1, KVUsage: -1, Health: &plugins.Health{State: plugins.Ejected, Why: "endpoint_slow", Reached: true}},
	}}
	if d := cmp.Diff(want, read()); d != "" {
		t.Error(d)
	}
	x.End(w.now, exchange.Ending{ByClient: true})
	want.Open, want.Bookings = 0, 0
	a := &want.Endpoints[0]
	a.Requests, a.NoFirstByte, a.AfterSample, a.PrefillTokens, a.DecodeTokens = 0, 0, 0, 0, 0
	if d := cmp.Diff(want, read()); d != "" {
		t.Errorf("after the end: %s", d)
	}
}

// ours returns the lines of the metrics page that are not the runtime's; of the reasons, which grow, those that occurred.
func (w *world) ours() string {
	_, _, page := w.get("/metrics")
	var b strings.Builder
	for line := range strings.Lines(page) {
		if strings.Contains(line, "fairlead_") && !(strings.HasPrefix(line, "fairlead_reasons_total") && strings.HasSuffix(line, " 0\n")) {
			b.WriteString(line)
		}
	}
	return b.String()
}

func TestTheMetricsPage(t *testing.T) {
	w := newWorld(t, nil)
	x := w.forward()
	w.forward()
	w.now += pool.Instant(50 * time.Millisecond)
	x.Response(w.now, openai.Headers{{Name: ":status", Value: "200"}}, netip.MustParseAddrPort("192.0.2.1:8000"), false)
	w.now += pool.Instant(time.Second)
	x.End(w.now, exchange.Ending{Clean: true, Usage: &openai.Usage{Prompt: 100, Cached: 40, Out: 9}})
	w.m.Decided(exchange.Metered{API: openai.Models}, 0, pool.Instant(time.Microsecond))
	w.m.Decided(exchange.Metered{API: openai.Models, Looked: true}, 0, pool.Instant(time.Microsecond))
	w.m.Decided(exchange.Metered{API: openai.Models, Looked: true, Anew: true}, 0, pool.Instant(time.Microsecond))
	w.m.Decided(exchange.Metered{API: openai.ChatCompletions, Model: "m", Target: plugins.Target{Pool: "default", Model: "m"}}, reason.AllFiltered, pool.Instant(time.Millisecond))
	w.m.ObserveDecision(15 * time.Microsecond)
	w.m.Received("request_headers")
	w.m.Scraped(telemetry.Scrape{Took: 3 * time.Millisecond, Bytes: 1000, Rejected: 1})
	w.m.Scraped(telemetry.Scrape{Took: time.Second, Outcome: telemetry.Unreachable, Err: errors.New("refused")})
	w.m.Note(reason.FallbackServed, "")
	snap := w.pools[0].Snapshot()
	sample := pool.NoSample()
	sample.At, sample.Waiting, sample.Running, sample.KVUsage = w.now-pool.Instant(2*time.Second), 3, 5, 0.25
	w.pools[0].Observe(w.now, snap.Slots[snap.Members[1]].Ref, sample)

	got := w.ours()
	const golden = "testdata/metrics.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("the page has changed; run with -update if that is meant:\n%s", d)
	}
	_, _, page := w.get("/metrics")
	for _, name := range []string{"go_memstats_mallocs_total", "go_goroutines", "process_cpu_seconds_total", "process_resident_memory_bytes"} {
		if !strings.Contains(page, "\n"+name+" ") {
			t.Errorf("%s is missing", name)
		}
	}
	for _, id := range reason.All() {
		if !strings.Contains(page, fmt.Sprintf("\nfairlead_reasons_total{reason=%q} ", id)) {
			t.Errorf("%v has no series before it occurs", id)
		}
	}
}

func TestEndpointsBeyondTheBoundAreSummed(t *testing.T) {
	w := newWorld(t, nil)
	var members []pool.Endpoint
	for i := range endpointsMax + 100 {
		members = append(members, pool.Endpoint{Namespace: "ns", Name: fmt.Sprintf("e%04d", i), Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), uint16(i))})
	}
	w.pools[0].Update(w.now, members)
	w.pools[0].Decide(func(s *pool.Snapshot, b *pool.Books) {
		for _, id := range s.Members {
			b.Book(s.Slots[id].Ref, pool.Load{UncachedPrefill: 2}, pool.Instant(time.Hour))
		}
	})
	page := w.ours()
	if n := strings.Count(page, "\nfairlead_in_flight_requests{"); n != endpointsMax+1 {
		t.Errorf("%d series, want %d", n, endpointsMax+1)
	}
	for _, line := range []string{`fairlead_in_flight_requests{endpoint="other",pool="default"} 100`, `fairlead_booked_prefill_tokens{endpoint="other",pool="default"} 200`} {
		if !strings.Contains(page, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
}

// lines is a slog handler's writer.
type lines struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(p)
}

func (l *lines) take() (got []map[string]any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.String()) {
		var m map[string]any
		_ = json.Unmarshal([]byte(line), &m)
		got = append(got, m)
	}
	l.Reset()
	return got
}

func TestAReasonIsLoggedFirstAndThenOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out lines
		m := NewMetrics(MetricsOptions{Log: slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		note := func(n int, id reason.ID, detail string) []map[string]any {
			for range n {
				m.Note(id, detail)
			}
			synctest.Wait()
			return out.take()
		}
		got := note(1000, reason.ScrapeFailed, "pool \"default\": ns/a")
		if len(got) != 1 || got[0]["reason"] != "scrape_failed" || got[0]["level"] != "WARN" || got[0]["detail"] != "pool \"default\": ns/a" || got[0]["remedy"] == "" {
			t.Fatalf("1000 at once: %v", got)
		}
		time.Sleep(59 * time.Second)
		if got = note(1000, reason.ScrapeFailed, ""); len(got) != 0 {
			t.Errorf("within a minute: %v", got)
		}
		if got = note(1, reason.PluginPanic, "x"); len(got) != 1 || got[0]["level"] != "ERROR" {
			t.Errorf("another kind: %v", got)
		}
		time.Sleep(2 * time.Second)
		if got = note(100, reason.ScrapeFailed, ""); len(got) != 1 || got[0]["unlogged_before"].(float64) < 1999 {
			t.Errorf("after a minute: %v", got)
		}
		if got = note(1, reason.ModelNotFound, ""); len(got) != 1 || got[0]["level"] != "INFO" {
			t.Errorf("a client's mistake: %v", got)
		}
		if got = note(1, 0, ""); len(got) != 0 {
			t.Errorf("nothing to say: %v", got)
		}
		if got = note(1, reason.ID(60000), ""); len(got) != 0 {
			t.Errorf("not in the table: %v", got)
		}
		if n := m.reasons[reason.ScrapeFailed].count.Load(); n != 2100 {
			t.Errorf("%d counted, want 2100", n)
		}
	})
}

// A log whose writer hangs must not hold up the caller, which may hold the lock of a pool.
func TestNoteDoesNotWaitForTheLog(t *testing.T) {
	release := make(chan bool)
	m := NewMetrics(MetricsOptions{Log: slog.New(slog.NewTextHandler(blocked(release), nil))})
	for _, id := range reason.All() {
		m.Note(id, "") // would hang
	}
	close(release)
}

type blocked chan bool

func (b blocked) Write(p []byte) (int, error) { <-b; return len(p), nil }

func TestNoteIsCheapAndAllocatesNothing(t *testing.T) {
	m := NewMetrics(MetricsOptions{})
	for range 100 {
		m.Note(reason.NeverScraped, "")
	}
	if n := testing.AllocsPerRun(1000, func() { m.Note(reason.NeverScraped, "") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkNote(b *testing.B) {
	m := NewMetrics(MetricsOptions{})
	b.ReportAllocs()
	for b.Loop() {
		m.Note(reason.NeverScraped, "")
	}
}

// meterOne meters a request from its decision to its end.
func meterOne(m *Metrics) {
	of := exchange.Metered{
		API: openai.ChatCompletions, Model: "m", Target: plugins.Target{Pool: "default", Model: "m"}, Stream: true,
		To: "ns/a", Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, 1}), 8000), Request: 1000, Answer: -1,
	}
	m.Decided(of, 0, 1000)
	m.ObserveDecision(1000)
	m.Settled(of, plugins.Outcome{TTFT: 1e6, Total: 1e9, Prompt: 10, Cached: 5, Out: 7})
}

func TestMeteringAllocatesNothing(t *testing.T) {
	for _, legacy := range []bool{false, true} {
		m := NewMetrics(MetricsOptions{Legacy: legacy})
		meterOne(m)
		if n := testing.AllocsPerRun(1000, func() { meterOne(m) }); n != 0 {
			t.Errorf("legacy %v: %v allocations a request", legacy, n)
		}
	}
}

func BenchmarkDecidedAndSettled(b *testing.B) {
	m := NewMetrics(MetricsOptions{})
	b.ReportAllocs()
	for b.Loop() {
		meterOne(m)
	}
}
