package telemetry

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/pool/engines"
)

func engineNamed(t testing.TB, name string) engines.Engine {
	t.Helper()
	all := engines.Builtin()
	i := slices.IndexFunc(all, func(e engines.Engine) bool { return e.Name == name })
	if i < 0 {
		t.Fatalf("no engine is named %q", name)
	}
	return all[i]
}

func mustSpec(t testing.TB, text string) engines.Spec {
	t.Helper()
	s, err := engines.ParseSpec(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Pages of engines of which no recording is at hand, by what their documentation says.
var dialects = []struct {
	name, engine, page string
	want               pool.Sample
	missing            string
}{
	{"SGLang with its cache in labels", "sglang", `# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{model_name="m"} 5.0
sglang:num_queue_reqs{model_name="m"} 2.0
sglang:token_usage{model_name="m"} 0.28
sglang:cache_config_info{model_name="m",page_size="16",num_pages="4096"} 1.0
sglang:prompt_tokens_total{model_name="m"} 8.128902e+06
sglang:time_to_first_token_seconds_bucket{le="0.1",model_name="m"} 3
sglang:time_to_first_token_seconds_sum{model_name="m"} 2.5
sglang:time_to_first_token_seconds_count{model_name="m"} 11
sglang:inter_token_latency_seconds_sum{model_name="m"} 7.25
sglang:inter_token_latency_seconds_count{model_name="m"} 700
process_start_time_seconds 1.7e+09
`, pool.Sample{Waiting: 2, Running: 5, Blocks: 4096, BlockTokens: 16, KVUsage: 0.28, AdaptersMax: -1, ProcessStart: 1.7e9, PromptTokens: 8128902,
		FirstTokens: pool.Timed{Count: 11, Seconds: 2.5}, Gaps: pool.Timed{Count: 700, Seconds: 7.25}, Preemptions: -1}, ""},
	{"SGLang with its cache in gauges", "sglang", `sglang:page_size{tp_rank="0"} 1.0
sglang:num_pages{tp_rank="0"} 200000.0
sglang:num_queue_reqs{tp_rank="0"} 0.0
sglang:token_usage{tp_rank="0"} 0.0
sglang:full_token_usage{tp_rank="0"} 0.9
`, unknownBut(func(s *pool.Sample) { s.Waiting, s.KVUsage, s.Blocks, s.BlockTokens = 0, 0, 200000, 1 }), "sglang:num_running_reqs"},
	{"SGLang's ranks of one request count once, those of data parallelism each", "sglang", `sglang:num_running_reqs{dp_rank="0",tp_rank="0"} 5
sglang:num_running_reqs{dp_rank="0",tp_rank="1"} 4
sglang:num_running_reqs{dp_rank="1",tp_rank="2"} 7
sglang:num_running_reqs{dp_rank="1",tp_rank="3"} 7
sglang:num_queue_reqs{dp_rank="0",tp_rank="0"} 1
sglang:num_queue_reqs{dp_rank="1",tp_rank="2"} 2
sglang:token_usage{dp_rank="0",tp_rank="0"} 0.5
sglang:token_usage{dp_rank="1",tp_rank="2"} 0.25
`, unknownBut(func(s *pool.Sample) { s.Waiting, s.Running, s.KVUsage = 3, 12, 0.5 }), ""},
	{"trtllm-serve", "trtllm-serve", `trtllm_kv_cache_utilization{engine_type="pytorch",model_name="m",pid="1"} 0.125
trtllm_kv_cache_max_blocks{engine_type="pytorch",model_name="m",pid="1"} 19958.0
trtllm_kv_cache_tokens_per_block{engine_type="pytorch",model_name="m",pid="1"} 32.0
trtllm_num_requests_running{engine_type="pytorch",model_name="m",pid="1"} 3.0
trtllm_num_requests_waiting{engine_type="pytorch",model_name="m",pid="1"} 1.0
`, unknownBut(func(s *pool.Sample) {
		s.Waiting, s.Running, s.KVUsage, s.Blocks, s.BlockTokens = 1, 3, 0.125, 19958, 32
	}), ""},
	{"Triton with TensorRT-LLM", "triton-tensorrt-llm", `nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="context",version="1"} 9
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="scheduled",version="1"} 4
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="waiting",version="1"} 6
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="max",version="1"} 512
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction",model="tensorrt_llm",version="1"} 0.5
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="tokens_per",model="tensorrt_llm",version="1"} 64
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="used",model="tensorrt_llm",version="1"} 100
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max",model="tensorrt_llm",version="1"} 6239
`, unknownBut(func(s *pool.Sample) {
		s.Waiting, s.Running, s.KVUsage, s.Blocks, s.BlockTokens = 6, 4, 0.5, 6239, 64
	}), ""},
	{"Triton, whose executions are no running requests", "triton", `nv_inference_pending_request_count{model="a",version="1"} 3
nv_inference_pending_request_count{model="b",version="1"} 4
nv_inference_exec_count{model="a",version="1"} 1000000
`, unknownBut(func(s *pool.Sample) { s.Waiting = 7 }), ""},
}

func TestScanKnowsEachEngine(t *testing.T) {
	seen := map[string]bool{"vllm": true} // by its recordings
	for _, tt := range dialects {
		t.Run(tt.name, func(t *testing.T) {
			seen[tt.engine] = true
			s := NewScanner(engineNamed(t, tt.engine), nil)
			r := s.Scan([]byte(tt.page))
			if diff := cmp.Diff(tt.want, r.Sample); diff != "" || len(r.Rejected) > 0 {
				t.Errorf("rejected %v, sample (-want +got):\n%s", r.Rejected, diff)
			}
			if got := strings.Join(r.Missing, ", "); got != tt.missing {
				t.Errorf("missing %q, want %q", got, tt.missing)
			}
			if n := testing.AllocsPerRun(10, func() { s.Scan([]byte(tt.page)) }); n > 1 { // the page's own copy
				t.Errorf("%v allocations a page", n)
			}
			if r := new(Scanner).Scan([]byte(tt.page)); r.Series != 0 {
				t.Errorf("vLLM's reader finds %d lines", r.Series)
			}
		})
	}
	for _, e := range engines.Builtin() {
		if !seen[e.Name] {
			t.Errorf("engine %s has no row", e.Name)
		}
	}
}

// What the parser of the library makes of a page in plain form must read as the page itself: on recordings and dialects.
func TestScanAgreesWithTheLibrary(t *testing.T) {
	pages := map[string][]byte{}
	of := map[string]engines.Engine{}
	for name := range captures {
		pages[name], of[name] = capture(t, name), engines.Builtin()[0]
	}
	for _, d := range dialects {
		pages[d.name], of[d.name] = []byte(d.page), engineNamed(t, d.engine)
	}
	for name, page := range pages {
		s := NewScanner(of[name], nil)
		direct := s.Scan(page)
		if direct.Whole {
			t.Errorf("%s: was parsed as a whole", name)
		}
		lines, ok := s.table.canonical(page)
		if !ok {
			t.Errorf("%s: the library refuses it", name)
			continue
		}
		if again := NewScanner(of[name], nil).Scan(lines); !cmp.Equal(direct.Sample, again.Sample) || again.Series != direct.Series {
			t.Errorf("%s: differs: %s", name, cmp.Diff(direct.Sample, again.Sample))
		}
	}
}

func TestScanReadsRareFormsByTheLibrary(t *testing.T) {
	for _, tt := range []struct {
		name, page string
		waiting    int32
		whole      bool
	}{
		{"a name in quotes", `{"vllm:num_requests_waiting",engine="0"} 3` + "\n", 3, true},
		{"a name in quotes without need, at the end of the page", `{"vllm:num_requests_waiting"} 3`, 3, true},
		{"a quoted name that is not ours", "vllm:num_requests_waiting 3\n" + `{"http.requests"} 4` + "\n", 3, true},
		{"a quoted label", `vllm:num_requests_waiting{"engine.id"="0"} 3` + "\n", 3, true},
		{"a rare form on a page that the library refuses", "vllm:num_requests_waiting 3\n" + `{"x"} y` + "\n", 3, false},
		{"a name in quotes at which the library panics or errs", `{"vllm:num_requests_waiting` + "\n", -1, false},
		{"OpenMetrics needs no library", "vllm:num_requests_waiting 3 1700000000.123 # {trace_id=\"x\"} 1 2.5\n# EOF\n", 3, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var s Scanner
			if r := s.Scan([]byte(tt.page)); r.Sample.Waiting != tt.waiting || r.Whole != tt.whole {
				t.Errorf("waiting %d, whole %v; rejected %v", r.Sample.Waiting, r.Whole, r.Rejected)
			}
		})
	}
}

func TestScanReadsWhatAConfigurationAsksFor(t *testing.T) {
	e := engines.Engine{Name: "atom", Reads: [engines.NumSignals][]engines.Source{
		engines.Waiting: {{Spec: mustSpec(t, `atom:requests{state=waiting,kind="a\"b"}`)}},
	}, Custom: []engines.Custom{
		{Key: "heat", Spec: mustSpec(t, "atom:heat_ratio")},
		{Key: "cold", Spec: mustSpec(t, "atom:cold")},
		{Key: "hits", Spec: mustSpec(t, "atom:hits{tier=gpu}")},
		{Key: "absent", Spec: mustSpec(t, "atom:absent")},
		{Key: "bad", Spec: mustSpec(t, "atom:bad")},
	}}
	page := []byte(`atom:requests{kind="a\"b",state="waiting",rank="0"} 3
atom:requests{kind="a\"b",state="waiting",rank="1"} 4
atom:requests{kind="other",state="waiting"} 100
atom:requests{kind="a\"b"} 100
atom:heat_ratio{rank="0"} 0.5
atom:heat_ratio{rank="1"} 0.75
atom:cold -3.5
atom:hits_total{tier="gpu"} 10
atom:hits_total{tier="cpu"} 90
atom:bad NaN
vllm:num_requests_waiting 1000
`)
	s := NewScanner(e, nil)
	r := s.Scan(page)
	want := pool.NoSample()
	want.Waiting = 7
	want.Custom = []pool.Attribute{{Name: "cold", Value: -3.5}, {Name: "heat", Value: 0.75}, {Name: "hits", Value: 10}}
	if diff := cmp.Diff(want, r.Sample); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"atom:absent"}, r.Missing); diff != "" {
		t.Errorf("missing: %s", diff)
	}
	if len(r.Rejected) != 1 || r.Rejected[0].Series != "atom:bad" {
		t.Errorf("rejected %v", r.Rejected)
	}
	first := r.Sample.Custom
	s.Scan(bytes.Replace(page, []byte("-3.5"), []byte("-4.5"), 1))
	if first[0].Value != -3.5 {
		t.Error("a list that was handed out has changed")
	}
	s.Scan(page)
	page = page[:bytes.Index(page, []byte("atom:bad"))]
	s.Scan(page)
	if n := testing.AllocsPerRun(10, func() { s.Scan(page) }); n != 0 {
		t.Errorf("%v allocations a page", n)
	}
}

// FuzzDialects reads a page as one of each engine, and compares with what is read of it after the library has put it into
// plain form.
func FuzzDialects(f *testing.F) {
	all := engines.Builtin()
	var tables []*table
	for i, e := range all {
		e.Custom = []engines.Custom{{Key: "x", Spec: mustSpec(f, "x_total{a=b}")}, {Key: "y", Spec: mustSpec(f, "y_ratio")}}
		tables = append(tables, newTable(e))
		for _, d := range dialects {
			if d.engine == e.Name {
				f.Add(byte(i), []byte(d.page))
			}
		}
	}
	f.Add(byte(0), []byte("x_total{a=\"b\"} 1 5\nx_total{a=\"b\"} 2 4\nx 3\ny_ratio{model_name=\"m\"} -1e-3\ny_ratio{model=\"n\"} 5\n"))
	f.Add(byte(1), []byte("sglang:num_running_reqs{tp_rank=\"1\",model_name=\"m\"} 3\nsglang:num_running_reqs{tp_rank=\"2\",model_name=\"n\"} 4 1000\n"))
	f.Fuzz(func(t *testing.T, engine byte, page []byte) {
		s := scannerOf(tables[int(engine)%len(tables)], []string{"m"})
		got := s.Scan(page)
		check := func(what string, v float64, most float64) {
			if v != -1 && !(v >= 0 && v <= most) {
				t.Errorf("%s is %v", what, v)
			}
		}
		check("waiting", float64(got.Sample.Waiting), 1<<31-1)
		check("running", float64(got.Sample.Running), 1<<31-1)
		check("usage", got.Sample.KVUsage, 1)
		for _, a := range got.Sample.Custom {
			if a.Value-a.Value != 0 {
				t.Errorf("%s is %v", a.Name, a.Value)
			}
		}
		if quotedName.Match(page) || glued.Match(page) {
			return
		}
		parser := expfmt.NewTextParser(model.LegacyValidation)
		families, err := parser.TextToMetricFamilies(bytes.NewReader(page))
		if err != nil {
			return
		}
		for name := range s.table.lines {
			if kind := families[name].GetType(); kind == dto.MetricType_HISTOGRAM || kind == dto.MetricType_SUMMARY {
				return
			}
		}
		lines, ok := s.table.canonical(page)
		if !ok {
			return
		}
		want := scannerOf(s.table, []string{"m"}).Scan(lines)
		if diff := cmp.Diff(want.Sample, got.Sample, cmpopts.EquateApprox(1e-9, 0)); diff != "" {
			t.Errorf("page %q\nin plain form %q\nrejected %v and %v (-plain +got):\n%s", page, lines, want.Rejected, got.Rejected, diff)
		}
	})
}
