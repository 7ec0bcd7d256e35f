package telemetry

import (
	"bytes"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/fairlead/fairlead/pkg/pool"
)

// The names of vLLM's series.
const (
	nameWaiting      = "vllm:num_requests_waiting"
	nameRunning      = "vllm:num_requests_running"
	nameUsage        = "vllm:kv_cache_usage_perc"
	nameUsageLegacy  = "vllm:gpu_cache_usage_perc"
	nameCacheConfig  = "vllm:cache_config_info"
	nameAdapters     = "vllm:lora_requests_info"
	nameProcessStart = "process_start_time_seconds"
	namePromptTokens = "vllm:prompt_tokens_total"
)

// slowly reads a page with Prometheus' own parser and a map: the model that Scan is compared with. It has no opinion
// (false) on pages that the parser refuses, and on quoted names, which engines use only when asked to.
func slowly(page []byte) (pool.Sample, bool) {
	if quotedName.Match(page) || glued.Match(page) { // on some of the former the parser panics
		return pool.Sample{}, false
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(page))
	if err != nil {
		return pool.Sample{}, false
	}
	s := pool.NoSample()
	wanted := map[string][]*dto.Metric{}
	for _, name := range []string{nameWaiting, nameRunning, nameUsage, nameUsageLegacy, nameCacheConfig, nameAdapters, nameProcessStart, namePromptTokens} {
		f := families[name]
		switch f.GetType() {
		case dto.MetricType_GAUGE, dto.MetricType_COUNTER, dto.MetricType_UNTYPED:
			wanted[name] = f.GetMetric()
		default:
			return pool.Sample{}, false
		}
		if len(wanted[name]) > maxLabelSets {
			return pool.Sample{}, false
		}
	}
	count := func(name string, of map[string]*float64, most float64) int32 {
		if len(of) == 0 {
			return -1
		}
		sum := 0.0
		for _, v := range of {
			if math.IsNaN(*v) || *v < 0 || *v > most || *v != math.Trunc(*v) {
				return -1
			}
			sum += *v
		}
		if sum > math.MaxInt32 {
			return -1
		}
		return int32(sum)
	}
	top := func(of map[string]*float64, most float64) float64 {
		level := -1.0
		for _, v := range of {
			if math.IsNaN(*v) || *v < 0 || *v > most {
				return -1
			}
			level = math.Max(level, math.Abs(*v))
		}
		return level
	}
	s.Waiting = count(nameWaiting, distinct(wanted[nameWaiting], metricValue), 1e6)
	s.Running = count(nameRunning, distinct(wanted[nameRunning], metricValue), 1e6)
	if u := distinct(wanted[nameUsage], metricValue); len(u) > 0 {
		s.KVUsage = top(u, 1)
	} else {
		s.KVUsage = top(distinct(wanted[nameUsageLegacy], metricValue), 1)
	}
	if start := top(distinct(wanted[nameProcessStart], metricValue), math.MaxFloat64); start > 0 {
		s.ProcessStart = start
	}
	if taken := distinct(wanted[namePromptTokens], metricValue); len(taken) > 0 {
		if s.PromptTokens = 0; top(taken, 1e18) < 0 {
			s.PromptTokens = -1
		} else {
			for _, v := range taken {
				s.PromptTokens += *v
			}
		}
	}
	s.Blocks = count("", distinct(wanted[nameCacheConfig], labelNumber("num_gpu_blocks")), 1e8)
	sizes := map[float64]bool{}
	bad := false
	for _, v := range distinct(wanted[nameCacheConfig], labelNumber("block_size")) {
		bad = bad || math.IsNaN(*v) || *v < 0 || *v > 65536 || *v != math.Trunc(*v)
		sizes[*v] = true
	}
	if len(sizes) == 1 && !bad {
		for v := range sizes {
			s.BlockTokens = int32(v)
		}
	}
	latest := -1.0
	for _, m := range wanted[nameAdapters] {
		v := *metricValue(m)
		if math.IsNaN(v) || math.IsInf(v, 0) || v < latest || v < 0 {
			continue
		}
		latest = v
		s.Adapters, s.AdaptersWaiting, s.AdaptersMax = []string{}, []string{}, -1
		for _, l := range m.Label {
			list := map[string]*[]string{"running_lora_adapters": &s.Adapters, "waiting_lora_adapters": &s.AdaptersWaiting}[l.GetName()]
			if list == nil {
				continue
			}
			for name := range strings.SplitSeq(l.GetValue(), ",") {
				if name = strings.TrimSpace(name); name != "" && !slices.Contains(*list, name) {
					*list = append(*list, name)
				}
			}
			slices.Sort(*list)
			if len(*list) > maxAdapters {
				return pool.Sample{}, false
			}
		}
		if most := labelNumber("max_lora")(m); most != nil && *most >= 0 && *most <= maxAdapters && *most == math.Trunc(*most) {
			s.AdaptersMax = int32(*most)
		}
	}
	return s, true
}

// quotedName finds a quote where the text format 0.0.4 has a name.
var quotedName = regexp.MustCompile(`(?m)^[^#{]*"|^[ \t]*\{|[{,][ \t]*[^=,{}"]*"`)

// glued finds a value that follows a name without a blank, which the parser takes although the format does not.
var glued = regexp.MustCompile(`(?m)^[ \t]*[a-zA-Z_:][a-zA-Z0-9_:]*[^a-zA-Z0-9_: \t{\n]`)

// distinct returns one value per label set: the newer timestamp's, else the later line's.
func distinct(of []*dto.Metric, value func(*dto.Metric) *float64) map[string]*float64 {
	values, stamps := map[string]*float64{}, map[string]*int64{}
	for _, m := range of {
		v := value(m)
		if v == nil {
			continue
		}
		var pairs []string
		for _, l := range m.Label {
			pairs = append(pairs, strconv.Quote(l.GetName())+"="+strconv.Quote(l.GetValue()))
		}
		slices.Sort(pairs)
		key := strings.Join(pairs, ",")
		if old := stamps[key]; old != nil && m.TimestampMs != nil && *m.TimestampMs < *old {
			continue
		}
		values[key], stamps[key] = v, m.TimestampMs
	}
	return values
}

func metricValue(m *dto.Metric) *float64 {
	switch {
	case m.Gauge != nil:
		return m.Gauge.Value
	case m.Counter != nil:
		return m.Counter.Value
	}
	return m.Untyped.Value
}

// labelNumber reads a number from a label; NaN for one that cannot be read. The timestamps of such lines count for
// nothing, as the labels are the value.
func labelNumber(name string) func(*dto.Metric) *float64 {
	return func(m *dto.Metric) *float64 {
		m.TimestampMs = nil
		for _, l := range m.Label {
			if l.GetName() == name && l.GetValue() != "None" {
				v, err := strconv.ParseFloat(l.GetValue(), 64)
				if err != nil && !math.IsInf(v, 0) || strings.ContainsAny(l.GetValue(), "pP_") {
					v = math.NaN()
				}
				return &v
			}
		}
		return nil
	}
}

// FuzzPage compares Scan with Prometheus' own parser on every page that the latter accepts, and on all others demands that
// nothing out of range comes out.
func FuzzPage(f *testing.F) {
	for name := range captures { // of each real page the lines that matter: a whole one slows the fuzzer to a crawl
		var few []byte
		for line := range bytes.Lines(capture(f, name)) {
			if bytes.Contains(line, []byte("vllm:num_")) || bytes.Contains(line, []byte("vllm:prompt_")) || bytes.Contains(line, []byte("usage_perc")) || bytes.Contains(line, []byte("_info")) || bytes.Contains(line, []byte("process_start")) {
				few = append(few, line...)
			}
		}
		f.Add(few)
	}
	for _, page := range []string{
		"vllm:num_requests_waiting{engine=\"0\"} 3\nvllm:num_requests_waiting{engine=\"1\"} 4 1000\n",
		"# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running 3 2000\nvllm:num_requests_running 4 1000\n",
		"vllm:kv_cache_usage_perc NaN\nvllm:gpu_cache_usage_perc 0.5\n",
		"vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"None\"} 1\n",
		"vllm:lora_requests_info{running_lora_adapters=\"a\\\"\\\\,b\",waiting_lora_adapters=\"c\"} 1.5\n",
		" \tvllm:num_requests_waiting \t{ a = \"}\\n\" , } 1e2 -5\nprocess_start_time_seconds 1.7e9",
	} {
		f.Add([]byte(page))
	}
	var s Scanner
	f.Fuzz(func(t *testing.T, page []byte) {
		got := s.Scan(page)
		check := func(name string, v int32, most int32) {
			if v < -1 || v > most {
				t.Errorf("%s is %d", name, v)
			}
		}
		check("waiting", got.Sample.Waiting, math.MaxInt32)
		check("running", got.Sample.Running, math.MaxInt32)
		check("blocks", got.Sample.Blocks, math.MaxInt32)
		check("block tokens", got.Sample.BlockTokens, maxBlockTokens)
		if u := got.Sample.KVUsage; u != -1 && !(u >= 0 && u <= 1) {
			t.Errorf("usage is %v", u)
		}
		want, ok := slowly(page)
		if !ok {
			return
		}
		g := got.Sample
		if g.Waiting != want.Waiting || g.Running != want.Running || g.Blocks != want.Blocks || g.BlockTokens != want.BlockTokens ||
			g.KVUsage != want.KVUsage || g.ProcessStart != want.ProcessStart ||
			math.Abs(g.PromptTokens-want.PromptTokens) > 1e-9*math.Abs(want.PromptTokens) ||
			g.AdaptersMax != want.AdaptersMax || !sameList(g.Adapters, want.Adapters) || !sameList(g.AdaptersWaiting, want.AdaptersWaiting) {
			t.Errorf("page %q\ngot  %+v\nwant %+v\nrejected %v", page, g, want, got.Rejected)
		}
	})
}

// sameList tells an unknown list from an empty one.
func sameList(a, b []string) bool { return (a == nil) == (b == nil) && slices.Equal(a, b) }

// The seeds alone would prove little if the model had no opinion on them.
func TestTheModelReadsRealPages(t *testing.T) {
	for name, want := range captures {
		got, ok := slowly(capture(t, name))
		if !ok || got.Waiting != want.Waiting || got.Blocks != want.Blocks || got.KVUsage != want.KVUsage || got.ProcessStart != want.ProcessStart {
			t.Errorf("%s: %v %+v", name, ok, got)
		}
	}
}
