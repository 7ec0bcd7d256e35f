package calibration_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/benchmarks/calibration"
)

func lifecycle(more string) string {
	return `{"load_summary":{"count":660,"requested_rate":11.0,"achieved_rate":11.01},"successes":{"count":660,"latency":{
		"request_latency":{"mean":0.68},"time_per_output_token":{"mean":0.005},"time_to_first_token":{"mean":0.05}},
		"throughput":{"requests_per_sec":10.5},"prompt_len":{"mean":192.0},"output_len":{"mean":64.0}` + more + `},"failures":{"count":0}}`
}

func TestReadStage(t *testing.T) {
	s, err := calibration.ReadStage("run/stage_3_lifecycle_metrics.json", []byte(lifecycle("")), 128)
	want := calibration.Stage{Name: "stage 3", Offered: 11, Served: 10.5, TTFT: 50, ITL: 10, Prompt: 192, Output: 64, Uncached: 64}
	s.ITL = math.Round(s.ITL*1e9) / 1e9 // (680-50)/63
	if err != nil || s != want {
		t.Errorf("got %+v, %v; want %+v", s, err, want)
	}
	s, err = calibration.ReadStage("x.json", []byte(lifecycle(`,"prompt_tokens":{"total":126720,"cached":84480,"uncached":42240}`)), 0)
	if err != nil || s.Uncached != 64 || s.Name != "x.json" {
		t.Errorf("got %+v, %v; want what the report tells of cached tokens", s, err)
	}
	for _, c := range []struct {
		name, data string
		cached     float64
		want       string
	}{
		{"no JSON", `[`, 0, "x.json: unexpected end"},
		{"no successes", `{}`, 0, "no request succeeded"},
		{"no streaming", strings.Replace(lifecycle(""), `"time_to_first_token":{"mean":0.05}`, `"time_to_first_token":null`, 1), 0, "a streaming run is needed"},
		{"answers of one token", strings.Replace(lifecycle(""), `"output_len":{"mean":64.0}`, `"output_len":{"mean":1.0}`, 1), 0, "1 output tokens"},
		{"more cached than there is", lifecycle(""), 200, "lower --cached"},
	} {
		if _, err := calibration.ReadStage("x.json", []byte(c.data), c.cached); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
}

// page is a metrics page after so many steps of 8 ms, each with 4 decoding requests and 30 prompt tokens.
func page(steps int) string {
	var b strings.Builder
	for name, v := range map[string]float64{
		"iteration_tokens_total_count": float64(steps), "iteration_tokens_total_sum": float64(steps) * 34,
		"inter_token_latency_seconds_count": float64(steps) * 4, "inter_token_latency_seconds_sum": float64(steps) * 4 * 0.008,
		"time_to_first_token_seconds_count": float64(steps) / 10, "time_to_first_token_seconds_sum": float64(steps) / 10 * 0.02,
		"request_prompt_tokens_count": float64(steps) / 10, "request_prompt_tokens_sum": float64(steps) / 10 * 300,
		"request_generation_tokens_count": float64(steps) / 10, "request_generation_tokens_sum": float64(steps) / 10 * 41,
		"generation_tokens_total": float64(steps) * 4.1,
	} {
		fmt.Fprintf(&b, "# TYPE vllm:%s counter\nvllm:%s{engine=\"0\",model_name=\"a b\"} %v\n", name, name, v)
	}
	return b.String()
}

func TestReadScrapes(t *testing.T) {
	list, err := calibration.ReadScrapes([]string{"a", "b", "c"}, [][]byte{[]byte(page(1000)), []byte(page(3000)), []byte(page(4000))})
	if err != nil || len(list) != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	s := list[0]
	if math.Abs(s.ITL-8) > 1e-6 || math.Abs(s.Prefill-30) > 1e-6 || math.Abs(s.Sequences-4.1) > 1e-6 || math.Abs(s.TTFT-20) > 1e-6 || s.Name != "a to b" {
		t.Errorf("%+v; want 8 ms a step with 30 prompt tokens and 4.1 requests", s)
	}
	for _, c := range []struct {
		name  string
		pages []string
		want  string
	}{
		{"one page", []string{page(10)}, "at least two scrapes"},
		{"another engine's page", []string{"sglang:x 1\n", page(10)}, "there is no vllm:iteration_tokens_total_count"},
		{"a line without a value", []string{"vllm:x{}\n", page(10)}, "has no value"},
		{"the wrong order", []string{page(20), page(10)}, "the later page second"},
	} {
		pages := make([][]byte, len(c.pages))
		for i, p := range c.pages {
			pages[i] = []byte(p)
		}
		if _, err := calibration.ReadScrapes([]string{"a", "b"}[:len(pages)], pages); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
}
