package server_test

import (
	"bufio"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/simulator/engine"
	"github.com/fairlead/fairlead/simulator/server"
)

// family is what a metrics page says of a family's form.
type family struct {
	kind    string
	labels  map[string][]string // with their values
	buckets []string
}

var (
	typeLine   = regexp.MustCompile(`^# TYPE (\S+) (\S+)$`)
	sampleLine = regexp.MustCompile(`^([a-z0-9_:]+)\{(.*)\} (\S+)$`)
	labelPair  = regexp.MustCompile(`([a-z_]+)="((?:[^"\\]|\\.)*)"`)
	nameSuffix = regexp.MustCompile(`_(bucket|count|sum)$`)
)

// readPage returns the families of a metrics page in their order, and the value of every sample by name and labels.
func readPage(t testing.TB, page string) (order []string, families map[string]*family, values map[string]float64) {
	t.Helper()
	families, values = map[string]*family{}, map[string]float64{}
	lines := bufio.NewScanner(strings.NewReader(page))
	for lines.Scan() {
		line := lines.Text()
		if m := typeLine.FindStringSubmatch(line); m != nil {
			order = append(order, m[1])
			families[m[1]] = &family{kind: m[2], labels: map[string][]string{}}
			continue
		}
		if strings.HasPrefix(line, "# HELP ") {
			continue
		}
		m := sampleLine.FindStringSubmatch(line)
		if m == nil {
			t.Fatalf("line %q is no sample", line)
		}
		v, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		values[m[1]+"{"+m[2]+"}"] = v
		f := families[m[1]]
		if f == nil {
			f = families[nameSuffix.ReplaceAllString(m[1], "")]
		}
		if f == nil {
			t.Fatalf("line %q comes before its TYPE", line)
		}
		for _, l := range labelPair.FindAllStringSubmatch(m[2], -1) {
			if l[1] == "le" {
				f.buckets = append(f.buckets, l[2])
			} else if !slices.Contains(f.labels[l[1]], l[2]) {
				f.labels[l[1]] = append(f.labels[l[1]], l[2])
			}
		}
	}
	return order, families, values
}

// TestThePageHasTheFormOfVLLMs compares families, their order, types, labels and buckets with those of a real server, as
// recorded in testdata.
func TestThePageHasTheFormOfVLLMs(t *testing.T) {
	profile := engine.Profiles()[0]
	profile.MaxModelLen = 4096 // as the recorded server had: buckets of token counts end with it
	f := start(t, server.Options{Profile: profile, Adapters: []server.Adapter{{Name: "tiny-lora"}}})
	do(t, "POST", url(f, 0, chat), chatBody(t, map[string]any{"max_tokens": 5}, "hello"))
	_, page := do(t, "GET", url(f, 0, "/metrics"), "")
	order, got, _ := readPage(t, page)

	recorded, err := os.ReadFile("testdata/vllm-0.32.0-families.txt")
	if err != nil {
		t.Fatal(err)
	}
	var wantOrder []string
	for line := range strings.Lines(string(recorded)) {
		fields := strings.Fields(line)
		if fields[0] == "#" {
			continue
		}
		name := fields[0]
		wantOrder = append(wantOrder, name)
		f := got[name]
		if f == nil {
			t.Errorf("%s is missing", name)
			continue
		}
		if f.kind != fields[1] {
			t.Errorf("%s is a %s, want %s", name, f.kind, fields[1])
		}
		want := map[string]string{}
		for _, label := range strings.Split(fields[2], ",") {
			l, values, _ := strings.Cut(label, "=")
			want[l] = values
		}
		for label, values := range f.labels {
			fixed, ok := want[label]
			slices.Sort(values)
			if !ok || fixed != "" && strings.Join(values, "|") != fixed {
				t.Errorf("%s has %s=%v; recorded: %s", name, label, values, fields[2])
			}
		}
		// The real cache_config_info has more of the configuration than a simulated engine has.
		if name != "vllm:cache_config_info" && len(f.labels) != len(want) {
			t.Errorf("%s has the labels %v; recorded: %s", name, slices.Sorted(maps.Keys(f.labels)), fields[2])
		}
		if len(fields) > 3 && strings.Join(f.buckets, ",") != fields[3] {
			t.Errorf("%s has the buckets %v; recorded: %s", name, f.buckets, fields[3])
		}
	}
	if !slices.Equal(order, wantOrder) {
		t.Errorf("order\n%s\nrecorded\n%s", strings.Join(order, "\n"), strings.Join(wantOrder, "\n"))
	}
}

func TestThePageCountsWhatHappened(t *testing.T) {
	f := start(t, server.Options{ServedNames: []string{`a "quoted" name`}})
	body := chatBody(t, map[string]any{"max_tokens": 10}, strings.Repeat("four", 100))
	first := decode(t, second(do(t, "POST", url(f, 0, chat), body)))
	do(t, "POST", url(f, 0, chat), body)
	_, page := do(t, "GET", url(f, 0, "/metrics"), "")
	_, _, values := readPage(t, page)
	prompt := float64(first.Usage.Prompt)
	cached := float64((first.Usage.Prompt - 1) / 16 * 16)
	labels := `{engine="0",model_name="a \"quoted\" name"}`
	for name, want := range map[string]float64{
		"vllm:prefix_cache_queries_total" + labels:                                                       2 * prompt,
		"vllm:prefix_cache_hits_total" + labels:                                                          cached,
		"vllm:prompt_tokens_total" + labels:                                                              2 * prompt,
		"vllm:prompt_tokens_cached_total" + labels:                                                       cached,
		"vllm:generation_tokens_total" + labels:                                                          20,
		"vllm:num_requests_running" + labels:                                                             0,
		"vllm:kv_cache_usage_perc" + labels:                                                              0,
		"vllm:time_to_first_token_seconds_count" + labels:                                                2,
		"vllm:inter_token_latency_seconds_count" + labels:                                                18,
		"vllm:iteration_tokens_total_count" + labels:                                                     20,
		"vllm:iteration_tokens_total_sum" + labels:                                                       2*prompt - cached + 18,
		"vllm:request_prefill_kv_computed_tokens_sum" + labels:                                           2*prompt - cached,
		`vllm:request_success_total{engine="0",finished_reason="length",` + labels[len(`{engine="0",`):]: 2,
	} {
		if got, ok := values[name]; !ok || got != want {
			t.Errorf("%s is %v (present: %v), want %v", name, got, ok, want)
		}
	}
	// Engine time: the whole takes 20 steps of about 6.64 ms, whatever the wall says.
	if got := values["vllm:e2e_request_latency_seconds_sum"+labels]; got < 0.1325 || got > 0.15 {
		t.Errorf("e2e sum is %v s, want about 20 steps of 6.64 ms", got)
	}
	if !strings.Contains(page, `block_size="16"`) || !strings.Contains(page, `num_gpu_blocks="29205"`) {
		t.Error("cache_config_info does not tell the blocks")
	}
}

func TestAdaptersOnThePage(t *testing.T) {
	f := start(t, server.Options{Adapters: []server.Adapter{{Name: "one"}, {Name: "two"}}, Speed: 1, Faults: server.Faults{Slow: 1000}})
	_, page := do(t, "GET", url(f, 0, "/metrics"), "")
	if !strings.Contains(page, `vllm:lora_requests_info{max_lora="1",running_lora_adapters="",waiting_lora_adapters=""} `) {
		t.Error("the idle engine has no empty label set")
	}
	for _, model := range []string{"one", "two"} {
		stop := background(t, url(f, 0, chat), chatBody(t, map[string]any{"model": model, "max_tokens": 5}, "hello"))
		defer stop()
		until(t, f, 0, func(g engine.Gauges) bool { return model == "one" && g.Running == 1 || g.Waiting == 1 })
	}
	_, page = do(t, "GET", url(f, 0, "/metrics"), "")
	_, _, values := readPage(t, page)
	idle := values[`vllm:lora_requests_info{max_lora="1",running_lora_adapters="",waiting_lora_adapters=""}`]
	busy := values[`vllm:lora_requests_info{max_lora="1",running_lora_adapters="one",waiting_lora_adapters="two"}`]
	if !(busy > idle && idle > 0) {
		t.Errorf("busy series %v, idle series %v: want both, the busy one later", busy, idle)
	}
	_, list := do(t, "GET", url(f, 0, "/v1/models"), "")
	for _, want := range []string{`"id":"one"`, `"id":"two"`, `"parent":"meta-llama/Llama-3.1-8B-Instruct"`, `"id":"llama-3.1-8b"`} {
		if !strings.Contains(list, want) {
			t.Errorf("/v1/models lacks %s: %s", want, list)
		}
	}
}
