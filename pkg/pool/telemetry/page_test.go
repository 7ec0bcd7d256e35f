package telemetry

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fairlead/fairlead/pkg/pool"
)

// unknownBut returns NoSample with some of it known.
func unknownBut(change func(*pool.Sample)) pool.Sample {
	s := pool.NoSample()
	change(&s)
	return s
}

func waits(n int32) pool.Sample {
	return unknownBut(func(s *pool.Sample) { s.Waiting = n })
}

func TestScan(t *testing.T) {
	const (
		w = "vllm:num_requests_waiting"
		k = "vllm:kv_cache_usage_perc"
		g = "vllm:gpu_cache_usage_perc"
		c = "vllm:cache_config_info"
		l = "vllm:lora_requests_info"
		f = "vllm:time_to_first_token_seconds"
	)
	kv := func(v float64) pool.Sample { return unknownBut(func(s *pool.Sample) { s.KVUsage = v }) }
	cache := func(n, size int32) pool.Sample {
		return unknownBut(func(s *pool.Sample) { s.Blocks, s.BlockTokens = n, size })
	}
	lora := func(running, waiting string, most int32) pool.Sample {
		return unknownBut(func(s *pool.Sample) {
			s.Adapters, s.AdaptersWaiting, s.AdaptersMax = append([]string{}, strings.Fields(running)...), append([]string{}, strings.Fields(waiting)...), most
		})
	}
	unknown := pool.NoSample()
	tests := []struct {
		name, page string
		want       pool.Sample
		rejected   string // series, why: joined by "; "
	}{
		{"an empty page says nothing", "", unknown, ""},
		{"a page of comments says nothing", "# HELP " + w + " 5\n# TYPE " + w + " gauge\n", unknown, ""},
		{"no labels", w + " 3\n", waits(3), ""},
		{"labels", w + `{engine="0",model_name="m"} 3.0` + "\n", waits(3), ""},
		{"no line feed at the end", w + " 12", waits(12), ""},
		{"ranks are summed", w + `{engine="0"} 3` + "\n" + w + `{engine="1"} 4` + "\n", waits(7), ""},
		{"models are summed", w + `{model_name="a"} 3` + "\n" + w + `{model_name="b"} 50` + "\n", waits(53), ""},
		{"a label set given twice counts once: the later line", w + `{a="1"} 3` + "\n" + w + `{a="1"} 4` + "\n", waits(4), ""},
		{"the order of labels does not matter", w + `{a="1",b="2"} 3` + "\n" + w + `{b="2",a="1"} 4` + "\n", waits(4), ""},
		{"values of swapped labels are another set", w + `{a="1",b="2"} 3` + "\n" + w + `{b="1",a="2"} 4` + "\n", waits(7), ""},
		{"the newer timestamp counts, in order", w + ` 3 1000` + "\n" + w + ` 4 2000` + "\n", waits(4), ""},
		{"the newer timestamp counts, out of order", w + ` 4 2000` + "\n" + w + ` 3 1000` + "\n", waits(4), ""},
		{"a histogram's count and sum", f + `_bucket{le="+Inf"} 3` + "\n" + f + "_count 3\n" + f + "_sum 1.5\n",
			unknownBut(func(s *pool.Sample) { s.FirstTokens = pool.Timed{Count: 3, Seconds: 1.5} }), ""},
		{"a count without its sum says nothing", f + "_count 3\n", unknown, ""},
		{"the gaps of an engine of before 0.11", "vllm:time_per_output_token_seconds_sum 1.5\nvllm:time_per_output_token_seconds_count 3\n",
			unknownBut(func(s *pool.Sample) { s.Gaps = pool.Timed{Count: 3, Seconds: 1.5} }), ""},
		{"a sum that is no number", f + "_sum NaN\n" + f + "_count 3\n", unknown, f + "_sum is not finite: NaN"},
		{"requests that were sent back", "vllm:num_preemptions_total 7\n", unknownBut(func(s *pool.Sample) { s.Preemptions = 7 }), ""},
		{"a longer name is another series", w + `_by_reason{reason="capacity"} 3` + "\n", unknown, ""},
		{"a shorter name is another series", "vllm:num_requests 3\nvllm:num_requests_waitin 3\n", unknown, ""},
		{"carriage returns", w + " 3\r\n" + k + " 0.5\r\n", unknownBut(func(s *pool.Sample) { s.Waiting, s.KVUsage = 3, 0.5 }), ""},
		{"blanks and tabs everywhere", " \t" + w + " \t{ a = \"1\" ,\tb=\"2\" , } \t3 \t1000 \n", waits(3), ""},
		{"a brace within quotes", w + `{a="}",b="{x=\"y\"} 9"} 3` + "\n", waits(3), ""},
		{"an exemplar", w + ` 3 # {trace_id="x"} 0.5 1.5` + "\n", waits(3), ""},
		{"a timestamp with a fraction and an exemplar", w + ` 3 1700000000.5 # {trace_id="x"} 0.5` + "\n", waits(3), ""},
		{"an exponent", w + " 1.2e1\n", waits(12), ""},
		{"a negative zero is zero", w + " -0\n", waits(0), ""},

		{"NaN", w + " NaN\n", unknown, w + " is not finite: NaN"},
		{"infinity", w + " +Inf\n", unknown, w + " is not finite: +Inf"},
		{"out of a float's range", w + " 1e309\n", unknown, w + " is not finite: 1e309"},
		{"negative", w + " -1\n", unknown, w + " is negative: -1"},
		{"at the limit", w + " 1000000\n", waits(1000000), ""},
		{"one beyond", w + " 1000001\n", unknown, w + " is larger than any engine's: 1000001"},
		{"a part of a request", w + " 1.5\n", unknown, w + " is not a whole number: 1.5"},
		{"a sum with a bad part is no sum", w + `{e="0"} 3` + "\n" + w + `{e="1"} NaN` + "\n", unknown, w + " is not finite: NaN"},
		{"a bad value that was replaced does not matter", w + " NaN 1000\n" + w + " 2 2000\n", waits(2), ""},
		{"no value", w + "\n" + k + " 1\n", kv(1), w + " cannot be read"},
		{"a word for a value", w + " many\n", unknown, w + " cannot be read: many"},
		{"an underscore", w + " 1_000\n", unknown, w + " cannot be read: 1_000"},
		{"words after the timestamp", w + " 3 1000 x\n", unknown, w + " cannot be read: 3"},
		{"an open quote", w + `{a="1} 3` + "\n" + k + " 1\n", kv(1), w + " cannot be read"},
		{"an open brace", w + `{a="1" 3` + "\n", unknown, w + " cannot be read"},
		{"a label without a name", w + `{="1"} 3` + "\n", unknown, w + " cannot be read"},
		{"a bad line elsewhere does no harm", "vllm:nonsense{{{ \n\x00\xff\n" + w + " 3\n", waits(3), ""},

		{"KV usage by its name", k + `{model_name="m"} 0.42` + "\n", kv(0.42), ""},
		{"KV usage by its old name", g + `{model_name="m"} 0.42` + "\n", kv(0.42), ""},
		{"both names: the new one", g + " 0.1\n" + k + " 0.42\n" + g + " 0.9\n", kv(0.42), ""},
		{"a bad new name is not covered up by the old one", g + " 0.1\n" + k + " 42\n", unknown, k + " is larger than any engine's: 42"},
		{"the fullest rank counts", k + `{engine="0"} 0.2` + "\n" + k + `{engine="1"} 0.7` + "\n" + k + `{engine="2"} 0.1` + "\n", kv(0.7), ""},
		{"full is full", k + " 1\n", kv(1), ""},
		{"a percentage is rejected", k + " 42\n", unknown, k + " is larger than any engine's: 42"},

		{"the cache's size", c + `{block_size="16",num_gpu_blocks="100",x="y"} 1.0` + "\n", cache(100, 16), ""},
		{"blocks of ranks are summed", c + `{block_size="16",num_gpu_blocks="100",engine="0"} 1` + "\n" + c + `{block_size="16",num_gpu_blocks="90",engine="1"} 1` + "\n", cache(190, 16), ""},
		{"not yet known is unknown", c + `{block_size="16",num_gpu_blocks="None"} 1` + "\n", cache(-1, 16), ""},
		{"without the labels it is unknown", c + ` 1` + "\n", unknown, ""},
		{"a bad size", c + `{block_size="-4",num_gpu_blocks="many"} 1` + "\n", unknown,
			c + " num_gpu_blocks cannot be read: many; " + c + " block_size is negative: -4"},
		{"sizes that differ", c + `{block_size="16",engine="0"} 1` + "\n" + c + `{block_size="32",engine="1"} 1` + "\n", unknown, c + " block_size differs between ranks: 16"},

		{"no adapters is known to be none", l + `{max_lora="1",running_lora_adapters="",waiting_lora_adapters=""} 1.7e9` + "\n", lora("", "", 1), ""},
		{"adapters are sorted, trimmed and each once", l + `{running_lora_adapters="b, a,,",waiting_lora_adapters="c,a"} 1` + "\n", lora("a b", "a c", -1), ""},
		{"the latest line of adapters counts", l + `{running_lora_adapters="old"} 5` + "\n" + l + `{running_lora_adapters="new"} 7` + "\n" + l + `{running_lora_adapters="older"} 3` + "\n", lora("new", "", -1), ""},
		{"an escaped adapter", l + `{running_lora_adapters="a\\b\"c"} 1` + "\n", lora(`a\b"c`, "", -1), ""},
		{"as many adapters as fit, with one that waits", l + `{max_lora="2",running_lora_adapters="a,b",waiting_lora_adapters="c"} 1` + "\n", lora("a b", "c", 2), ""},
		{"a bad maximum leaves the lists", l + `{max_lora="2.5",running_lora_adapters="a"} 1` + "\n", lora("a", "", -1), l + " is not a whole number: 2.5"},
		{"a maximum beyond belief", l + `{max_lora="1e9",running_lora_adapters="a"} 1` + "\n", lora("a", "", -1), l + " is larger than any engine's: 1e9"},
		{"a bad line of adapters", l + `{running_lora_adapters="a"} NaN` + "\n", unknown, l + " is not finite: NaN"},

		{"the start of the process", "process_start_time_seconds 1.79600689983e+09\n",
			unknownBut(func(s *pool.Sample) { s.ProcessStart = 1.79600689983e+09 }), ""},
		{"tokens taken in by all processes", "vllm:prompt_tokens_total{engine=\"0\"} 1e3\nvllm:prompt_tokens_total{engine=\"1\"} 24\n",
			unknownBut(func(s *pool.Sample) { s.PromptTokens = 1024 }), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var s Scanner
			r := s.Scan([]byte(tt.page))
			if diff := cmp.Diff(tt.want, r.Sample); diff != "" {
				t.Errorf("sample (-want +got):\n%s", diff)
			}
			var got []string
			for _, x := range r.Rejected {
				got = append(got, x.Series+" "+x.Why)
			}
			if g := strings.Join(got, "; "); g != tt.rejected {
				t.Errorf("rejected %q, want %q", g, tt.rejected)
			}
		})
	}
}

func TestScanBounds(t *testing.T) {
	var s Scanner
	var page strings.Builder
	for i := range maxLabelSets {
		page.WriteString("vllm:num_requests_waiting{engine=\"" + strings.Repeat("x", i) + "\"} 1\n")
	}
	if r := s.Scan([]byte(page.String())); r.Sample.Waiting != maxLabelSets {
		t.Errorf("with %d label sets waiting is %d", maxLabelSets, r.Sample.Waiting)
	}
	page.WriteString("vllm:num_requests_waiting 1\n")
	r := s.Scan([]byte(page.String()))
	if r.Sample.Waiting != -1 || len(r.Rejected) != 1 || r.Rejected[0].Why != "has too many label sets" {
		t.Errorf("one label set more: %+v", r)
	}
	if r := s.Scan([]byte("vllm:num_requests_waiting 1\n")); r.Sample.Waiting != 1 || len(r.Rejected) != 0 {
		t.Errorf("the next page suffers from the last: %+v", r)
	}
	if r := s.Scan([]byte("vllm:num_requests_waiting{x=\"" + strings.Repeat("y", 1<<20) + "\"} 1\n")); r.Sample.Waiting != 1 {
		t.Errorf("a line of 1 MB: %+v", r)
	}
}

var captures = map[string]pool.Sample{
	"vllm-0.23.0": {Waiting: 0, Running: 0, Blocks: 65536, BlockTokens: 32, KVUsage: 0, Adapters: []string{}, AdaptersWaiting: []string{}, AdaptersMax: 1, ProcessStart: 1.79600827411e+09, PromptTokens: 3763,
		FirstTokens: pool.Timed{Count: 13, Seconds: 1.0506343841552734}, Gaps: pool.Timed{Count: 351, Seconds: 1.7615913449994878}},
	"vllm-0.32.0": {Waiting: 0, Running: 0, Blocks: 65536, BlockTokens: 32, KVUsage: 0, Adapters: []string{}, AdaptersWaiting: []string{}, AdaptersMax: 1, ProcessStart: 1.79600689983e+09, PromptTokens: 3763,
		FirstTokens: pool.Timed{Count: 13, Seconds: 0.4955170154571533}, Gaps: pool.Timed{Count: 351, Seconds: 1.5591149779997977}},
	"vllm-0.32.0-busy": {Waiting: 2, Running: 1, Blocks: 512, BlockTokens: 32, KVUsage: 0.06849315068493156, Adapters: nil, AdaptersMax: -1, ProcessStart: -1, PromptTokens: 31000,
		FirstTokens: pool.Timed{Count: 62, Seconds: 3.3590433597564697}, Gaps: pool.Timed{Count: 2337, Seconds: 8.908525241999996}},
}

func capture(t testing.TB, name string) []byte {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	return page
}

func TestScanReadsRealPages(t *testing.T) {
	for name, want := range captures {
		t.Run(name, func(t *testing.T) {
			page := capture(t, name)
			var s Scanner
			r := s.Scan(page)
			if diff := cmp.Diff(want, r.Sample); diff != "" || len(r.Rejected) > 0 {
				t.Errorf("rejected %v, sample (-want +got):\n%s", r.Rejected, diff)
			}
		})
	}
}

func TestScanAllocatesNothing(t *testing.T) {
	for name := range captures {
		page := capture(t, name)
		var s Scanner
		s.Scan(page)
		if n := testing.AllocsPerRun(20, func() { s.Scan(page) }); n != 0 {
			t.Errorf("%s: %v allocations a page", name, n)
		}
	}
}

func BenchmarkScan(b *testing.B) {
	for name := range captures {
		page := capture(b, name)
		b.Run(name, func(b *testing.B) {
			var s Scanner
			b.SetBytes(int64(len(page)))
			b.ReportAllocs()
			for b.Loop() {
				s.Scan(page)
			}
		})
	}
}
