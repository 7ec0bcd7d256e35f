package server_test

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/simulator/engine"
	"github.com/fairlead/fairlead/simulator/server"
)

// TestThePageHasTheFamiliesOfVLLM026 compares the page of that dialect, both ways, with the list in testdata: families,
// types, labels and buckets. cache_config_info and lora_requests_info, which have labels of their own, stand beside it.
func TestThePageHasTheFamiliesOfVLLM026(t *testing.T) {
	p := engine.Profiles()[0]
	p.MaxModelLen = 4096
	f := start(t, server.Options{Profile: p, Dialect: server.DialectVLLM026, Adapters: []server.Adapter{{Name: "l"}}})
	do(t, "POST", url(f, 0, chat), chatBody(t, map[string]any{"max_tokens": 5}, "hello"))
	_, page := do(t, "GET", url(f, 0, "/metrics"), "")
	_, got, _ := readPage(t, page)
	list, err := os.ReadFile("testdata/vllm-0.26.0-families.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(list)) {
		fields := strings.Fields(line)
		if fields[0] == "#" {
			continue
		}
		name := "vllm:" + fields[0]
		g := got[name]
		if g == nil {
			t.Errorf("%s is missing", name)
			continue
		}
		delete(got, name)
		if g.kind != fields[1] {
			t.Errorf("%s is a %s, want %s", name, g.kind, fields[1])
		}
		labels := map[string]string{"engine": "0", "model_name": p.Model}
		if fields[2] != "-" {
			label, values, _ := strings.Cut(fields[2], "=")
			labels[label] = values
		}
		if len(g.labels) != len(labels) {
			t.Errorf("%s has the labels %v, want %v", name, g.labels, labels)
		}
		for label, values := range labels {
			has := slices.Sorted(slices.Values(g.labels[label]))
			if strings.Join(has, "|") != values {
				t.Errorf("%s has %s=%q, want %s", name, label, has, values)
			}
		}
		var bounds, want []float64
		for _, b := range g.buckets {
			if b != "+Inf" {
				bounds = append(bounds, number(t, b))
			}
		}
		if len(fields) > 3 {
			for b := range strings.SplitSeq(fields[3], ",") {
				want = append(want, number(t, b))
			}
		}
		if !slices.Equal(bounds, want) {
			t.Errorf("%s has the buckets %v, want %v", name, bounds, want)
		}
	}
	for name := range got {
		// The text format's own companion of each counter and histogram.
		if !strings.HasSuffix(name, "_created") && name != "vllm:cache_config_info" && name != "vllm:lora_requests_info" {
			t.Errorf("%s is not in the list", name)
		}
	}
}

func number(t *testing.T, s string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestOtherDialects(t *testing.T) {
	model := engine.Profiles()[0].Model
	for _, c := range []struct {
		dialect server.Dialect
		has     []string
		hasNot  []string
	}{
		{server.DialectVLLM08, []string{
			`vllm:num_requests_waiting{model_name="` + model + `"} 0.0`,
			`vllm:gpu_cache_usage_perc{model_name="` + model + `"} 0.0`,
			`vllm:cpu_cache_usage_perc{model_name="` + model + `"} 0.0`,
			`vllm:num_requests_swapped{model_name="` + model + `"} 0.0`,
			`vllm:gpu_prefix_cache_queries_total{model_name="` + model + `"} `,
			`vllm:time_per_output_token_seconds_count{model_name="` + model + `"} 4.0`,
			`vllm:time_per_output_token_seconds_bucket{le="0.01",model_name="` + model + `"} 4.0`,
			`vllm:cache_config_info{block_size="16",num_gpu_blocks="29205"} 1.0`,
		}, []string{"kv_cache_usage_perc", "inter_token_latency", "engine="}},
		{server.DialectSGLang, []string{
			`sglang:num_queue_reqs{model_name="` + model + `"} 0.0`,
			`sglang:num_running_reqs{model_name="` + model + `"} 0.0`,
			`sglang:token_usage{model_name="` + model + `"} 0.0`,
			`sglang:generation_tokens_total{model_name="` + model + `"} 5.0`,
			`sglang:cache_config_info{model_name="` + model + `",page_size="16",num_pages="29205"} 1.0`,
			`sglang:time_to_first_token_seconds_count{model_name="` + model + `"} 1.0`,
		}, []string{"vllm:", "engine="}},
	} {
		f := start(t, server.Options{Dialect: c.dialect})
		do(t, "POST", url(f, 0, chat), chatBody(t, map[string]any{"max_tokens": 5}, "hello"))
		_, page := do(t, "GET", url(f, 0, "/metrics"), "")
		readPage(t, page)
		for _, want := range c.has {
			if !strings.Contains(page, want) {
				t.Errorf("%s: the page lacks %s", c.dialect, want)
			}
		}
		for _, not := range c.hasNot {
			if strings.Contains(page, not) {
				t.Errorf("%s: the page has %s", c.dialect, not)
			}
		}
	}
	if _, err := server.Start(t.Context(), server.Options{Dialect: "tgi"}); err == nil || !strings.Contains(err.Error(), `metrics dialect is "tgi"; vllm, vllm-0.26`) {
		t.Errorf("an unknown dialect: %v", err)
	}
}
