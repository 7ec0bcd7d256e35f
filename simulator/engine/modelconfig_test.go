package engine_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fairlead/fairlead/simulator/engine"
)

// The published counts of each model, from files with the members of its config.json that matter.
func TestModelsFromTheirConfigs(t *testing.T) {
	for _, c := range []struct {
		file               string
		parameters, active float64 // billions
		weights            float64 // GB
		kvBytes            int64
		shards             int32
		experts            int32
		eight              bool
	}{
		{"llama-3.1-8b", 8.03, 8.03, 16.06, 131_072, 8, 0, false},
		{"llama-3.1-8b-fp8", 8.03, 8.03, 9.1, 131_072, 8, 0, true},
		{"llama-3.1-70b-awq", 70.55, 70.55, 40, 327_680, 8, 0, false},
		{"llama-3.1-8b-w4a16", 8.03, 8.03, 5.7, 131_072, 8, 0, false},
		{"qwen3-30b-a3b", 30.53, 3.35, 61.06, 98_304, 4, 128, false},
		{"deepseek-r1", 671, 37.5, 673, 70_272, 1, 256, true},
		// 26 layers of 4 heads of 256, of which every sixth sees everything and the others a window of 1024: of these 1/8
		// counts at 8192 tokens. (4 + 22/8)·2·2·1·256 for its single key-value head.
		{"gemma-3-1b", 1.0, 1.0, 2.0, 6912, 1, 0, false},
		{"mixtral-8x7b", 46.7, 12.9, 93.4, 131_072, 8, 8, false},
	} {
		data, err := os.ReadFile(filepath.Join("testdata", "configs", c.file+".json"))
		if err != nil {
			t.Fatal(err)
		}
		m, err := engine.ModelFromConfig(data, "org/"+c.file)
		if err != nil {
			t.Errorf("%s: %v", c.file, err)
			continue
		}
		near := func(what string, got, want float64) {
			if math.Abs(got/want-1) > 0.02 {
				t.Errorf("%s: %s is %.4g, want %.4g", c.file, what, got, want)
			}
		}
		near("parameters", m.Parameters/1e9, c.parameters)
		near("active parameters", m.Active/1e9, c.active)
		near("weights", m.WeightBytes/1e9, c.weights)
		if m.KVBytesPerToken != c.kvBytes || m.KVShards != c.shards || m.Experts != c.experts || m.Eight != c.eight || m.Flag != c.file {
			t.Errorf("%s: %+v", c.file, m)
		}
		for _, built := range engine.Models() {
			if built.Flag == c.file {
				near("experts against the built-in model", m.ExpertBytes+1, built.ExpertBytes+1)
				near("attention against the built-in model", m.AttentionFLOPs, built.AttentionFLOPs)
			}
		}
	}
}

func TestModelConfigsRefused(t *testing.T) {
	whole := `"hidden_size":64,"num_hidden_layers":2,"num_attention_heads":2,"intermediate_size":64,"vocab_size":10,"max_position_embeddings":100`
	for _, c := range []struct{ name, config, want string }{
		{"no JSON", `{`, "model config: unexpected end"},
		{"nothing in it", `{}`, "hidden_size is 0 or missing"},
		{"an unknown quantisation", `{` + whole + `,"quantization_config":{"quant_method":"bitnet"}}`, `quant_method is "bitnet"; fp8, awq, gptq`},
		{"compressed tensors without bits", `{` + whole + `,"quantization_config":{"quant_method":"compressed-tensors"}}`, "no config_groups"},
		{"experts that nobody uses", `{` + whole + `,"num_experts":8}`, "num_experts_per_tok is 0 of 8"},
	} {
		if _, err := engine.ModelFromConfig([]byte(c.config), ""); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
}
