package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// windowReference is the context, in tokens, at which the memory of sliding-window layers is counted: beyond its window a
// layer keeps nothing.
const windowReference = 8192

// modelConfig is what is read of a Hugging Face config.json. Families name the same thing differently.
type modelConfig struct {
	ModelType string `json:"model_type"`
	Name      string `json:"_name_or_path"`

	Hidden       float64 `json:"hidden_size"`
	Layers       int     `json:"num_hidden_layers"`
	Heads        int     `json:"num_attention_heads"`
	KVHeads      int     `json:"num_key_value_heads"`
	HeadDim      int     `json:"head_dim"`
	Intermediate float64 `json:"intermediate_size"`
	Vocabulary   float64 `json:"vocab_size"`
	Tied         bool    `json:"tie_word_embeddings"`
	MaxLen       int32   `json:"max_position_embeddings"`
	TorchType    string  `json:"torch_dtype"`
	Type         string  `json:"dtype"`

	Window        *int     `json:"sliding_window"`
	UseWindow     *bool    `json:"use_sliding_window"`
	WindowPattern int      `json:"sliding_window_pattern"`
	LayerTypes    []string `json:"layer_types"`

	Experts          int     `json:"num_experts"`
	LocalExperts     int     `json:"num_local_experts"`
	RoutedExperts    int     `json:"n_routed_experts"`
	ExpertsPerToken  int     `json:"num_experts_per_tok"`
	ExpertSize       float64 `json:"moe_intermediate_size"`
	SharedExperts    float64 `json:"n_shared_experts"`
	SharedExpertSize float64 `json:"shared_expert_intermediate_size"`
	FirstDense       int     `json:"first_k_dense_replace"`
	DenseLayers      []int   `json:"mlp_only_layers"`

	QueryRank int `json:"q_lora_rank"`
	KVRank    int `json:"kv_lora_rank"`
	RopeDim   int `json:"qk_rope_head_dim"`
	NopeDim   int `json:"qk_nope_head_dim"`
	ValueDim  int `json:"v_head_dim"`

	Quantization *quantization   `json:"quantization_config"`
	Text         json.RawMessage `json:"text_config"`
}

type quantization struct {
	Method string  `json:"quant_method"`
	Bits   float64 `json:"bits"`
	Group  float64 `json:"group_size"`
	Groups map[string]struct {
		Weights struct {
			Bits float64 `json:"num_bits"`
			Type string  `json:"type"`
		} `json:"weights"`
		Activations *struct{} `json:"input_activations"`
	} `json:"config_groups"`
}

// ModelFromConfig reads a Hugging Face config.json. Of models with several parts it takes the language model; feed-forward
// layers are taken to have three matrices, as in all current families. Name is how the model is called; empty is the
// config's own name. What the file does not tell (a quantisation unknown here, for instance) is an error that names it.
func ModelFromConfig(data []byte, name string) (Model, error) {
	var c modelConfig
	if err := json.Unmarshal(data, &c); err != nil {
		return Model{}, fmt.Errorf("model config: %w", err)
	}
	if len(c.Text) > 0 && string(c.Text) != "null" {
		// Quantisation stands outside, sizes inside.
		if err := json.Unmarshal(c.Text, &c); err != nil {
			return Model{}, fmt.Errorf("model config: text_config: %w", err)
		}
	}
	if name == "" {
		name = c.Name
	}
	if name == "" {
		name = c.ModelType
	}
	for _, f := range [...]struct {
		name  string
		value float64
	}{
		{"hidden_size", c.Hidden}, {"num_hidden_layers", float64(c.Layers)}, {"num_attention_heads", float64(c.Heads)},
		{"intermediate_size", max(c.Intermediate, c.ExpertSize)}, {"vocab_size", c.Vocabulary}, {"max_position_embeddings", float64(c.MaxLen)},
	} {
		if f.value <= 0 {
			return Model{}, fmt.Errorf("model config: %s is %v or missing; at least 1", f.name, f.value)
		}
	}
	flag := strings.ToLower(name[strings.LastIndexByte(name, '/')+1:])
	m := Model{Flag: flag, Name: name, Layers: int32(c.Layers), MaxLen: c.MaxLen}
	bytesPerWeight, eight, err := c.bytesPerWeight()
	if err != nil {
		return Model{}, err
	}
	m.Eight = eight
	c.attention(&m)

	experts := max(c.Experts, c.LocalExperts, c.RoutedExperts)
	dense, sparse := c.Layers, 0
	var perExpert, shared float64
	if experts > 1 {
		if c.ExpertsPerToken < 1 || c.ExpertsPerToken > experts {
			return Model{}, fmt.Errorf("model config: num_experts_per_tok is %d of %d experts", c.ExpertsPerToken, experts)
		}
		m.Experts, m.ExpertsPerToken = int32(experts), int32(c.ExpertsPerToken)
		dense = max(c.FirstDense, len(c.DenseLayers))
		sparse = c.Layers - dense
		size := c.ExpertSize
		if size == 0 {
			size = c.Intermediate
		}
		perExpert = 3 * c.Hidden * size
		shared = 3*c.Hidden*(c.SharedExperts*size+c.SharedExpertSize) + c.Hidden*float64(experts)
	}
	embeddings := c.Vocabulary * c.Hidden
	if !c.Tied {
		embeddings *= 2
	}
	routed := float64(sparse) * float64(experts) * perExpert
	rest := float64(c.Layers)*c.attentionWeights() + float64(dense)*3*c.Hidden*c.Intermediate + float64(sparse)*shared
	m.Parameters = embeddings + rest + routed
	m.Active = embeddings + rest
	if experts > 1 {
		m.Active += routed * float64(c.ExpertsPerToken) / float64(experts)
	}
	m.ExpertBytes = routed * bytesPerWeight
	m.WeightBytes = m.ExpertBytes + rest*bytesPerWeight + embeddings*c.plainBytes()
	return m, nil
}

// attention sets what m caches per token and computes per token of context.
func (c *modelConfig) attention(m *Model) {
	full, sliding := c.windows()
	// Of a sliding layer's cache the window is all that stays.
	kept := float64(full)
	if sliding > 0 {
		kept += float64(sliding) * min(1, float64(*c.Window)/windowReference)
	}
	if c.KVRank > 0 {
		m.KVBytesPerToken, m.KVShards = int64(float64(2*(c.KVRank+c.RopeDim))*kept), 1
		m.AttentionFLOPs = 2 * kept * float64(c.Heads) * float64(c.NopeDim+c.RopeDim+c.ValueDim)
		return
	}
	m.KVBytesPerToken = int64(float64(2*2*c.kvHeads()*c.headDim()) * kept)
	m.KVShards = int32(c.kvHeads())
	m.AttentionFLOPs = 4 * kept * float64(c.Heads) * float64(c.headDim())
}

func (c *modelConfig) kvHeads() int {
	if c.KVHeads == 0 {
		return c.Heads
	}
	return c.KVHeads
}

func (c *modelConfig) headDim() int {
	if c.HeadDim == 0 {
		return int(c.Hidden) / c.Heads
	}
	return c.HeadDim
}

// windows returns how many layers see the whole context and how many a window of it.
func (c *modelConfig) windows() (full, sliding int) {
	if c.Window == nil || *c.Window <= 0 || c.UseWindow != nil && !*c.UseWindow {
		return c.Layers, 0
	}
	switch {
	case len(c.LayerTypes) > 0:
		for _, t := range c.LayerTypes {
			if t == "sliding_attention" {
				sliding++
			}
		}
	case c.WindowPattern > 1:
		sliding = c.Layers - c.Layers/c.WindowPattern
	default:
		sliding = c.Layers
	}
	return c.Layers - sliding, sliding
}

// attentionWeights is the number of weights in one layer's attention.
func (c *modelConfig) attentionWeights() float64 {
	heads := float64(c.Heads)
	if c.KVRank > 0 {
		key := heads * float64(c.NopeDim+c.RopeDim)
		query := c.Hidden * key
		if c.QueryRank > 0 {
			query = float64(c.QueryRank) * (c.Hidden + key)
		}
		return query + c.Hidden*float64(c.KVRank+c.RopeDim) + float64(c.KVRank)*heads*float64(c.NopeDim+c.ValueDim) + heads*float64(c.ValueDim)*c.Hidden
	}
	d := float64(c.headDim())
	return 2*c.Hidden*heads*d + 2*c.Hidden*float64(c.kvHeads())*d
}

// plainBytes is the bytes of a weight that is not quantised.
func (c *modelConfig) plainBytes() float64 {
	if t := c.TorchType + c.Type; strings.Contains(t, "float32") {
		return 4
	}
	return 2
}

// bytesPerWeight returns the bytes of a weight in a quantised layer, scales and zero points included, and whether products
// are made in 8 bits. Embeddings stay as they are.
func (c *modelConfig) bytesPerWeight() (float64, bool, error) {
	q := c.Quantization
	if q == nil {
		return c.plainBytes(), false, nil
	}
	grouped := func(bits float64) float64 {
		group := q.Group
		if group <= 0 {
			group = 128
		}
		return (bits + (16+bits)/group) / 8 // a 16-bit scale and a zero point per group
	}
	switch q.Method {
	case "fp8":
		return 1, true, nil
	case "awq", "gptq":
		if q.Bits == 0 {
			q.Bits = 4
		}
		return grouped(q.Bits), false, nil
	case "compressed-tensors":
		var bits float64
		eight := false
		for _, g := range q.Groups {
			bits = max(bits, g.Weights.Bits)
			eight = eight || g.Weights.Bits == 8 && g.Activations != nil
		}
		switch bits {
		case 0:
			return 0, false, errors.New("model config: quantization_config has no config_groups with num_bits")
		case 8:
			return 1, eight, nil
		}
		return grouped(bits), false, nil
	}
	return 0, false, fmt.Errorf("model config: quant_method is %q; fp8, awq, gptq and compressed-tensors are known", q.Method)
}
