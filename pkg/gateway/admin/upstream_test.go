package admin

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/plugins"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/pool/telemetry"
	"github.com/fairlead/fairlead/pkg/reason"
)

// chat is a request that was picked for ns/a, of a model under its alias.
func chat(alias, model string) exchange.Metered {
	return exchange.Metered{
		API: openai.ChatCompletions, Model: alias, Target: plugins.Target{Pool: "default", Model: model},
		To: "ns/a", Addr: netip.MustParseAddrPort("192.0.2.1:8000"), Request: 1000, Answer: 500, Prompt: 100, Matched: 25,
	}
}

// touched is a world in which each metric has been counted or set.
func touched(t *testing.T, legacy bool) *world {
	t.Helper()
	w := newWorld(t, func(o *Options) {
		o.Metrics = NewMetrics(MetricsOptions{Legacy: legacy, Version: "v1", Commit: "abc", Configuration: Configuration{
			Models: map[string]string{"m": "default", "alias": "default"},
			Prefix: PrefixProducer{Name: "p", Type: "approx-prefix-cache-producer", Size: func() int { return 17 }},
			Latency: LatencyPredictor{Name: "l", Type: "predicted-latency-producer", Accuracy: func() []Accuracy {
				return []Accuracy{{Pool: "default", Class: "h100-sxm", Latency: "ttft", Answers: 300, Error: 0.11, Used: true, High: 1.3}}
			}},
		}})
	}, queued()...)
	w.crowd()
	m := w.m
	outcome := plugins.Outcome{TTFT: 100 * time.Millisecond, Total: time.Second, Prompt: 10, Cached: 5, Out: 10}
	for _, of := range []exchange.Metered{chat("alias", "m"), chat("m", "m")} {
		m.Decided(of, 0, 1000)
		m.Settled(of, outcome)
	}
	stream := chat("m", "m")
	stream.Stream = true
	stream.Foreseen = plugins.Foreseen{TTFT: 80, ITL: 90, TTFTTarget: 50, ITLTarget: 200}
	m.Decided(stream, 0, 1000)
	m.Settled(stream, outcome)
	m.Decided(chat("m", "m"), reason.AllFiltered, 1000)
	m.ObserveDecision(time.Microsecond)
	m.Received("request_headers")
	m.Scraped(telemetry.Scrape{Took: time.Millisecond, Bytes: 1, Rejected: 1, Outcome: telemetry.BadStatus})
	snap := w.pools[0].Snapshot()
	sample := pool.NoSample()
	sample.At, sample.Waiting, sample.Running, sample.KVUsage = w.now-1, 3, 5, 0.25
	w.pools[0].Observe(w.now, snap.Slots[snap.Members[0]].Ref, sample)
	sample.Waiting, sample.Running, sample.KVUsage = 5, 5, 0.75
	w.pools[0].Observe(w.now, snap.Slots[snap.Members[1]].Ref, sample)
	return w
}

func gathered(t *testing.T, w *world) map[string]*dto.MetricFamily {
	t.Helper()
	list, err := w.m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*dto.MetricFamily{}
	for _, f := range list {
		all[f.GetName()] = f
	}
	return all
}

// family is one metric as the list has it.
type family struct {
	name, kind, labels, buckets string
}

// shape is what a family looks like on the page.
func shape(f *dto.MetricFamily, order string) family {
	s := family{name: f.GetName(), kind: strings.ToLower(f.GetType().String())}
	var labels []string
	for _, l := range f.GetMetric()[0].GetLabel() {
		labels = append(labels, l.GetName())
	}
	// A page sorts labels, and the list does not.
	wanted := strings.Split(order, ",")
	slices.SortStableFunc(labels, func(a, b string) int { return slices.Index(wanted, a) - slices.Index(wanted, b) })
	if s.labels = strings.Join(labels, ","); s.labels == "" {
		s.labels = "-"
	}
	var buckets []string
	for _, b := range f.GetMetric()[0].GetHistogram().GetBucket() {
		buckets = append(buckets, strconv.FormatFloat(b.GetUpperBound(), 'f', -1, 64))
	}
	s.buckets = strings.Join(buckets, " ")
	return s
}

// upstreamList reads testdata/llm-d.txt.
func upstreamList(t *testing.T) (current, old []family, absent []string) {
	t.Helper()
	data, err := os.ReadFile("testdata/llm-d.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\n")
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || words[0] == "#":
		case words[0] == "absent":
			absent = append(absent, strings.TrimPrefix(line, "absent "))
		case words[0] == "buckets":
			current[len(current)-1].buckets = strings.Join(words[1:], " ")
		case words[0] == "old":
			last := current[len(current)-1]
			old = append(old, family{words[1], last.kind, words[2], last.buckets})
		default:
			current = append(current, family{name: "llm_d_epp_" + words[0], kind: words[1], labels: words[2]})
		}
	}
	return current, old, absent
}

func TestMetricsOfOtherPickersHaveTheirNamesLabelsAndBuckets(t *testing.T) {
	current, old, absent := upstreamList(t)
	if len(current) < 25 || len(old) < 15 || len(absent) < 10 {
		t.Fatalf("the list has %d, %d and %d", len(current), len(old), len(absent))
	}
	for _, legacy := range []bool{false, true} {
		printed := gathered(t, touched(t, legacy))
		want := current
		if legacy {
			want = slices.Concat(current, old)
		}
		listed := map[string]bool{}
		for _, f := range want {
			listed[f.name] = true
			if printed[f.name] == nil {
				t.Errorf("legacy %v: %s is not printed", legacy, f.name)
			} else if d := cmp.Diff(f, shape(printed[f.name], f.labels), cmp.AllowUnexported(family{})); d != "" {
				t.Errorf("legacy %v (-want +got):\n%s", legacy, d)
			}
		}
		for name := range printed {
			for _, prefix := range []string{"llm_d_", "inference_"} {
				if strings.HasPrefix(name, prefix) && !listed[name] {
					t.Errorf("legacy %v: %s is printed and not on the list", legacy, name)
				}
			}
		}
	}
}

// Labels have their values by position; a family that no test touches could be wrong by one.
func TestM11EveryMetricIsTouched(t *testing.T) {
	for _, legacy := range []bool{false, true} {
		w := touched(t, legacy)
		printed := gathered(t, w)
		descs := make(chan *prometheus.Desc)
		go func() {
			w.m.registry.Describe(descs)
			close(descs)
		}()
		n := 0
		for d := range descs {
			_, rest, _ := strings.Cut(d.String(), `fqName: "`)
			name, _, _ := strings.Cut(rest, `"`)
			if f := printed[name]; f == nil || len(f.GetMetric()) == 0 {
				t.Errorf("legacy %v: no test touches %s", legacy, name)
			}
			n++
		}
		if n < 50 {
			t.Errorf("%d descriptions", n)
		}
	}
}

func TestValuesOfOtherPickersMetrics(t *testing.T) {
	w := touched(t, true)
	_, _, page := w.get("/metrics")
	m := `model_name="m",priority="0",target_model_name="m"`
	alias := `model_name="alias",priority="0",target_model_name="m"`
	for _, line := range []string{
		`llm_d_epp_request_total{fairness_id="default-flow",` + m + `} 2`,
		`llm_d_epp_request_total{fairness_id="default-flow",` + alias + `} 1`,
		`llm_d_epp_request_running{fairness_id="default-flow",` + m + `} 0`,
		`llm_d_epp_request_error_total{error_code="ResourceExhausted",fairness_id="default-flow",` + m + `} 1`,
		`llm_d_epp_request_duration_seconds_sum{fairness_id="default-flow",` + alias + `} 1`,
		`llm_d_epp_request_ntpot_seconds_sum{fairness_id="default-flow",` + alias + `} 0.1`,
		`llm_d_epp_request_streaming_tpot_seconds_sum{fairness_id="default-flow",` + m + `} 0.1`,
		`llm_d_epp_request_streaming_tpot_seconds_count{fairness_id="default-flow",` + alias + `} 0`,
		`llm_d_epp_request_ttft_seconds_count{fairness_id="default-flow",model_name="m",priority="0",streaming="true",target_model_name="m"} 1`,
		`llm_d_epp_request_ttft_seconds_count{fairness_id="default-flow",model_name="m",priority="0",streaming="false",target_model_name="m"} 1`,
		`llm_d_epp_request_size_bytes_sum{fairness_id="default-flow",` + m + `} 2000`,
		`llm_d_epp_response_size_bytes_sum{fairness_id="default-flow",` + alias + `} 500`,
		`llm_d_epp_scheduler_attempts_total{endpoint_name="a",namespace="ns",port="8000",status="success",target_model_name="m"} 3`,
		`llm_d_epp_scheduler_attempts_total{endpoint_name="",namespace="",port="",status="failure",target_model_name="m"} 1`,
		`llm_d_epp_model_rewrite_decisions_total{model_name="alias",model_rewrite_name="default",target_model="m"} 1`,
		`llm_d_epp_average_queue_size{name="default"} 4`, `llm_d_epp_std_dev_queue_size{name="default"} 1`,
		`llm_d_epp_average_kv_cache_utilization{name="default"} 0.5`, `llm_d_epp_std_dev_running_requests{name="default"} 0`,
		`llm_d_epp_ready_endpoints{name="default"} 2`, `inference_pool_ready_pods{name="default"} 2`,
		`llm_d_epp_per_endpoint_queue_size{model_server_endpoint="b",name="default"} 5`, `inference_pool_per_pod_queue_size{model_server_pod="b",name="default"} 5`,
		`llm_d_epp_info{build_ref="v1",commit="abc"} 1`, `llm_d_epp_datalayer_poll_errors_total{source_type="metrics-data-source"} 1`,
		`inference_objective_request_total{model_name="m",priority="0",target_model_name="m"} 2`, `inference_objective_running_requests{model_name="m"} 0`,
		`llm_d_epp_prefix_indexer_size{plugin_name="p",plugin_type="approx-prefix-cache-producer"} 17`,
		`llm_d_epp_prefix_indexer_hit_ratio_sum{plugin_name="p",plugin_type="approx-prefix-cache-producer"} 0.75`,
		`llm_d_epp_prefix_indexer_hit_bytes_sum{plugin_name="p",plugin_type="approx-prefix-cache-producer"} 300`,
		`inference_extension_prefix_indexer_hit_ratio_count 3`,
		`fairlead_scrapes_total{outcome="status"} 1`,
	} {
		if !strings.Contains(page, "\n"+line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
}

// An average of nothing is no zero: an autoscaler would take it for idle.
func TestPoolsWithoutFreshSamplesHaveNoAverage(t *testing.T) {
	w := newWorld(t, nil)
	_, _, page := w.get("/metrics")
	if strings.Contains(page, "llm_d_epp_average_") || strings.Contains(page, "llm_d_epp_std_dev_") || !strings.Contains(page, "\nllm_d_epp_ready_endpoints{name=\"default\"} 2\n") {
		t.Error("never scraped, and there is an average")
	}
	w.pools[0].Update(w.now, []pool.Endpoint{endpoint("a", 1), {Namespace: "other", Name: "a", Addr: netip.MustParseAddrPort("192.0.2.9:1")}})
	for _, id := range w.pools[0].Snapshot().Members {
		sample := pool.NoSample()
		sample.At, sample.Waiting = w.now, 1
		w.pools[0].Observe(w.now, w.pools[0].Snapshot().Slots[id].Ref, sample)
	}
	status, _, page := w.get("/metrics")
	if status != 200 || strings.Count(page, "\nllm_d_epp_per_endpoint_queue_size{") != 2 {
		t.Errorf("two endpoints of one name break the page: %d", status)
	}
	w.now += pool.Instant(time.Minute)
	if _, _, page = w.get("/metrics"); strings.Contains(page, "llm_d_epp_average_") {
		t.Error("stale, and there is an average")
	}
}

// 100,000 requests with names out of a client's head.
func TestM10AFloodOfLabels(t *testing.T) {
	m := NewMetrics(MetricsOptions{Configuration: Configuration{Models: map[string]string{"known": "default", "alias": "default"}}, Legacy: true, LabelSets: 50})
	flood := func(i int) {
		of := chat(fmt.Sprintf("random-%d", i), fmt.Sprintf("random-%d", i))
		of.Target.Subscription = fmt.Sprintf("tenant-%d", i%1000)
		m.Decided(of, 0, 1000)
		m.Settled(of, plugins.Outcome{Total: time.Second, TTFT: -1, Prompt: -1, Cached: -1, Out: -1})
		m.Decided(of, reason.AllFiltered, 1000)
	}
	for i := range 100_000 {
		flood(i)
	}
	for _, of := range []exchange.Metered{chat("known", "known"), chat("alias", "known")} {
		m.Decided(of, 0, 1000)
		m.Settled(of, plugins.Outcome{Total: time.Second, TTFT: -1, Prompt: -1, Cached: -1, Out: -1})
	}
	list, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := map[string]float64{}
	for _, f := range list {
		if n := len(f.GetMetric()); strings.HasPrefix(f.GetName(), "llm_d_epp_request_") && n > 2*(50+3) {
			t.Errorf("%s has %d series", f.GetName(), n)
		}
		if f.GetName() != "llm_d_epp_request_total" {
			continue
		}
		for _, s := range f.GetMetric() {
			for _, l := range s.GetLabel() {
				if l.GetName() == "model_name" {
					name, _, _ := strings.Cut(l.GetValue(), "-")
					sum[name] += s.GetCounter().GetValue()
				}
			}
		}
	}
	if want := map[string]float64{"random": 50, "other": 99_950, "known": 1, "alias": 1}; !cmp.Equal(want, sum) {
		t.Errorf("counted %v, want %v", sum, want)
	}
	var allocations float64
	of := chat("random-beyond", "random-beyond")
	if allocations = testing.AllocsPerRun(100, func() {
		m.Decided(of, 0, 1000)
		m.Settled(of, plugins.Outcome{Total: time.Second, TTFT: -1, Prompt: -1, Cached: -1, Out: -1})
	}); allocations != 0 {
		t.Errorf("%v allocations of a name beyond the bound", allocations)
	}
}

// A configuration may come when requests run.
func TestConfigurationsAreReplaced(t *testing.T) {
	m := NewMetrics(MetricsOptions{LabelSets: 1})
	count := func() (n int) {
		list, err := m.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range list {
			if strings.HasPrefix(f.GetName(), "llm_d_epp_prefix_indexer_") {
				n++
			}
		}
		return n
	}
	if n := count(); n != 0 {
		t.Errorf("%d families of an index that nobody keeps", n)
	}
	m.Configured(Configuration{Models: map[string]string{"m": "default"}, Prefix: PrefixProducer{Name: "p", Type: "t", Size: func() int { return 1 }}})
	if n := count(); n != 3 {
		t.Errorf("%d families of an index", n)
	}
	m.Decided(chat("x", "x"), 0, 0)
	m.Decided(chat("late", "late"), 0, 0) // beyond the bound: other
	m.Configured(Configuration{Models: map[string]string{"late": "default"}})
	m.Settled(chat("late", "late"), plugins.Outcome{TTFT: -1})
	m.Decided(chat("m", "m"), 0, 0)
	m.Settled(chat("m", "m"), plugins.Outcome{TTFT: -1})
	list, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	running := map[string]float64{}
	for _, f := range list {
		if f.GetName() == "llm_d_epp_request_running" {
			for _, s := range f.GetMetric() {
				running[s.GetLabel()[1].GetValue()] = s.GetGauge().GetValue()
			}
		}
	}
	if want := map[string]float64{"x": 1, "other": 0, "m": 0}; !cmp.Equal(want, running) {
		t.Errorf("running %v, want %v", running, want)
	}
}

func TestErrorCodes(t *testing.T) {
	for id, want := range map[reason.ID]string{
		reason.MalformedJSON: "BadRequest", reason.BodyTooLarge: "BadRequest", reason.ForbiddenHeader: "Forbidden", reason.ModelNotFound: "NotFound",
		reason.AllFiltered: "ResourceExhausted", reason.Internal: "Internal", reason.NoEndpoint: "ServiceUnavailable", reason.UpstreamBroken: "ModelServerError",
	} {
		if got := errorCodes[errorCode(id)]; got != want {
			t.Errorf("%v: %s, want %s", id, got, want)
		}
	}
}

func TestMetricsLint(t *testing.T) {
	for _, legacy := range []bool{false, true} {
		list, err := touched(t, legacy).m.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range list { // the d of llm-d is no day
			name := strings.TrimPrefix(f.GetName(), "llm_d_")
			f.Name = &name
		}
		problems, err := promlint.NewWithMetricFamilies(list).Lint()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range problems {
			t.Errorf("legacy %v: %s: %s", legacy, p.Metric, p.Text)
		}
	}
}

// The list of the documentation is that of a page.
func TestMetricsDocumentation(t *testing.T) {
	const file, begin, end = "../../../docs/metrics.md", "<!-- printed: by go test ./pkg/gateway/admin -update -->\n", "<!-- end of printed -->\n"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(data), begin)
	_, tail, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the list", file)
	}
	_, old, absent := upstreamList(t)
	var b strings.Builder
	b.WriteString("| metric | type | labels | what |\n|---|---|---|---|\n")
	printed := gathered(t, touched(t, false))
	var names []string
	for name := range printed {
		if strings.HasPrefix(name, "fairlead_") || strings.HasPrefix(name, "llm_d_") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		s := shape(printed[name], "")
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", name, s.kind, strings.ReplaceAll(strings.ReplaceAll(s.labels, ",", ", "), "-", ""), printed[name].GetHelp())
	}
	b.WriteString("\nWith `--legacy-metrics` also:\n\n")
	for _, f := range old {
		fmt.Fprintf(&b, "- `%s` (%s)\n", f.name, strings.ReplaceAll(f.labels, ",", ", "))
	}
	b.WriteString("\nNot printed of llm-d's metrics, all `llm_d_epp_…`:\n\n")
	for _, a := range absent {
		list, why, _ := strings.Cut(a, ": ")
		fmt.Fprintf(&b, "- `%s`: %s\n", strings.ReplaceAll(list, ", ", "`, `"), why)
	}
	want := head + begin + "\n" + b.String() + "\n" + end + tail
	switch {
	case want == string(data):
	case *update:
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s is stale: go test ./pkg/gateway/admin -update", file)
	}
}
