package workload_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fairlead/fairlead/benchmarks/workload"
)

func TestFilesOfInferencePerf(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		rate       float64 // over all, 0: not looked at
		requests   int     // 0: not looked at
		prompt     int32   // of the first
	}{
		{"shared_prefix in stages", `
api: {type: chat, streaming: true, headers: {x-y: z}}
data:
  type: shared_prefix
  shared_prefix: {num_groups: 32, num_prompts_per_group: 32, system_prompt_len: 2048, question_len: 256, output_len: 256}
load:
  type: poisson
  interval: 1
  stages: [{rate: 5, duration: 400}, {rate: 15, duration: 400}]
  num_workers: 4
server: {type: vllm, model_name: m, base_url: "http://0.0.0.0:8000"}
report: {request_lifecycle: {summary: true}, goodput: {constraints: {ttft: 2, tpot: 0.05}}}
storage: {local_storage: {path: reports}}
tokenizer: {pretrained_model_name_or_path: m}
`, 10, 0, 2304},
		{"random with distributions", `
data: {type: random, input_distribution: {type: normal, mean: 4096, std_dev: 100, min: 10, max: 8192, total_count: 100}, output_distribution: {mean: 1024, std_dev: 512, min: 10, max: 2048}}
load: {type: constant, stages: [{rate: 4, duration: 100}], lora_traffic_split: [{name: a, split: 0.25}, {name: b, split: 0.75}]}
`, 4, 400, 0},
		{"a closed loop", `
data: {type: synthetic, input_distribution: {type: fixed, mean: 100}, output_distribution: {type: fixed, mean: 10}}
load: {type: concurrent, stages: [{num_requests: 300, concurrency_level: 8}]}
`, 0, 300, 100},
		{"conversations", `
data:
  type: conversation_replay
  conversation_replay:
    seed: 1
    num_conversations: 10
    shared_system_prompt_len: 3000
    dynamic_system_prompt_len: {type: fixed, mean: 1000}
    turns_per_conversation: {type: fixed, mean: 3}
    input_tokens_per_turn: {type: lognormal, mean: 1500, std_dev: 1, min: 1500, max: 1500}
    output_tokens_per_turn: {type: fixed, mean: 425}
    tool_call_latency_sec: {type: fixed, mean: 15}
    max_model_len: 262144
load: {type: concurrent, stages: [{num_requests: 10, concurrency_level: 5}]}
`, 0, 30, 5500},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if !workload.IsInferencePerf([]byte(tt.text)) {
				t.Error("it is not recognised")
			}
			s, targets, err := workload.FromInferencePerf([]byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			rs := all(t, s, 1, time.Second)
			if tt.requests > 0 && (len(rs) < tt.requests-1 || len(rs) > tt.requests) {
				t.Errorf("%d requests, want %d", len(rs), tt.requests)
			}
			if tt.rate > 0 {
				mean, _ := gaps(rs)
				near(t, "the rate", 1/mean, tt.rate, 0.06)
			}
			if tt.prompt > 0 && rs[0].Prompt != tt.prompt {
				t.Errorf("the first prompt has %d tokens, want %d", rs[0].Prompt, tt.prompt)
			}
			if rs[0].MaxTokens != rs[0].Output {
				t.Errorf("a client allows %d tokens of %d", rs[0].MaxTokens, rs[0].Output)
			}
			if strings.Contains(tt.text, "goodput") && (targets.TTFT != 2*time.Second || targets.ITL != 50*time.Millisecond) {
				t.Errorf("targets %+v", targets)
			}
		})
	}
	for text, want := range map[string]string{
		"data: {type: shareGPT}\nload: {type: constant, stages: [{rate: 1, duration: 1}]}\n":                                           `"shareGPT"`,
		"data: {type: random}\nload: {type: constant, stagess: []}\n":                                                                  "stagess",
		"data: {type: random}\nload: {type: constant}\n":                                                                               "no stages",
		"data: {type: random}\nload: {type: poisson, stages: [{rate: 0, duration: 5}]}\n":                                              "both above 0",
		"data: {type: random}\nload: {type: trace_replay, stages: [{rate: 1, duration: 5}]}\n":                                         `"trace_replay"`,
		"data: {type: random}\nload: {type: poisson, stages: [{rate: 1, duration: 5}], lora_traffic_split: [{name: a, split: 0.5}]}\n": "sum to 1",
	} {
		if _, _, err := workload.FromInferencePerf([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
	if workload.IsInferencePerf([]byte("requests: 5\n")) {
		t.Error("a workload of our own is taken for one of inference-perf")
	}
}
