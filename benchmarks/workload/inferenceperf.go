package workload

import (
	"errors"
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"
)

// Targets are what a file of inference-perf calls goodput constraints; 0 is none.
type Targets struct{ TTFT, ITL time.Duration }

// perfFile is the part of an inference-perf configuration that says what is asked. The other blocks (server, metrics, storage,
// report beyond goodput, tokenizer, circuit_breakers) say where and how it is measured, and are read over.
type perfFile struct {
	API    yaml.Node `yaml:"api"`
	Data   perfData  `yaml:"data"`
	Load   perfLoad  `yaml:"load"`
	Server yaml.Node `yaml:"server"`
	Report struct {
		Goodput struct {
			Constraints map[string]float64 `yaml:"constraints"`
		} `yaml:"goodput"`
		Rest map[string]yaml.Node `yaml:",inline"`
	} `yaml:"report"`
	Metrics         yaml.Node `yaml:"metrics"`
	Storage         yaml.Node `yaml:"storage"`
	Tokenizer       yaml.Node `yaml:"tokenizer"`
	CircuitBreakers yaml.Node `yaml:"circuit_breakers"`
}

type perfData struct {
	Type         string            `yaml:"type"`
	Path         string            `yaml:"path"`
	Input        *perfDistribution `yaml:"input_distribution"`
	Output       *perfDistribution `yaml:"output_distribution"`
	SharedPrefix *perfShared       `yaml:"shared_prefix"`
	Conversation *perfConversation `yaml:"conversation_replay"`
}

type perfDistribution struct {
	Type   string  `yaml:"type"`
	Min    float64 `yaml:"min"`
	Max    float64 `yaml:"max"`
	Mean   float64 `yaml:"mean"`
	StdDev float64 `yaml:"std_dev"`
	Skew   float64 `yaml:"skew"`
	Count  int     `yaml:"total_count"`
}

type perfShared struct {
	Groups       int               `yaml:"num_groups"`
	UniqueSystem int               `yaml:"num_unique_system_prompts"`
	Prompts      int               `yaml:"num_prompts_per_group"`
	Users        int               `yaml:"num_users_per_system_prompt"`
	System       float64           `yaml:"system_prompt_len"`
	Question     float64           `yaml:"question_len"`
	Output       float64           `yaml:"output_len"`
	Questions    *perfDistribution `yaml:"question_distribution"`
	Outputs      *perfDistribution `yaml:"output_distribution"`
	MultiTurn    bool              `yaml:"enable_multi_turn_chat"`
	Seed         int64             `yaml:"seed"`
	Multimodal   yaml.Node         `yaml:"multimodal"`
}

type perfConversation struct {
	Seed          int64             `yaml:"seed"`
	Conversations int               `yaml:"num_conversations"`
	Shared        float64           `yaml:"shared_system_prompt_len"`
	System        *perfDistribution `yaml:"dynamic_system_prompt_len"`
	Turns         *perfDistribution `yaml:"turns_per_conversation"`
	Input         *perfDistribution `yaml:"input_tokens_per_turn"`
	Output        *perfDistribution `yaml:"output_tokens_per_turn"`
	Tool          *perfDistribution `yaml:"tool_call_latency_sec"`
	MaxModelLen   int32             `yaml:"max_model_len"`
}

type perfLoad struct {
	Type     string      `yaml:"type"`
	Stages   []perfStage `yaml:"stages"`
	LoRA     []perfSplit `yaml:"lora_traffic_split"`
	Interval float64     `yaml:"interval"`
	Seed     int64       `yaml:"base_seed"`
	Timeout  float64     `yaml:"request_timeout"`
	Sweep    *yaml.Node  `yaml:"sweep"`

	Workers     int       `yaml:"num_workers"`
	Concurrency int       `yaml:"worker_max_concurrency"`
	Connections int       `yaml:"worker_max_tcp_connections"`
	Trace       yaml.Node `yaml:"trace"`
}

type perfStage struct {
	Rate        float64 `yaml:"rate"`
	Duration    float64 `yaml:"duration"`
	Requests    int     `yaml:"num_requests"`
	Concurrency int     `yaml:"concurrency_level"`
	Sessions    int     `yaml:"concurrent_sessions"`
	SessionRate float64 `yaml:"session_rate"`
	NumSessions int     `yaml:"num_sessions"`
	Timeout     float64 `yaml:"timeout"`
}

type perfSplit struct {
	Name  string  `yaml:"name"`
	Split float64 `yaml:"split"`
}

// IsInferencePerf reports whether a text looks like a configuration of inference-perf: it has data and load.
func IsInferencePerf(text []byte) bool {
	var top map[string]yaml.Node
	if yaml.Unmarshal(text, &top) != nil {
		return false
	}
	_, data := top["data"]
	_, load := top["load"]
	return data && load
}

// FromInferencePerf reads a configuration of inference-perf (docs/config.md there): data of the types random, synthetic, mock,
// shared_prefix and conversation_replay, load of the types constant, poisson and concurrent. Constant loads have even gaps
// here; inference-perf draws exponential ones and stretches them. Clients say how long answers may get, as there. A member that
// is not known, or a type that needs data from elsewhere, is an error.
func FromInferencePerf(text []byte) (*Spec, Targets, error) {
	var n yaml.Node
	var f perfFile
	if err := yaml.Unmarshal(text, &n); err != nil {
		return nil, Targets{}, fmt.Errorf("inference-perf: %w", err)
	}
	if err := strict(&n, &f); err != nil {
		return nil, Targets{}, fmt.Errorf("inference-perf: %w", err)
	}
	s := &Spec{ClientBound: true}
	if err := f.Data.content(s); err != nil {
		return nil, Targets{}, fmt.Errorf("inference-perf: data: %w", err)
	}
	if err := f.Load.arrivals(s); err != nil {
		return nil, Targets{}, fmt.Errorf("inference-perf: load: %w", err)
	}
	if s.Conversation != nil && s.Requests == 0 && f.Data.Conversation != nil && f.Data.Conversation.Conversations > 0 {
		s.Requests = f.Data.Conversation.Conversations
	}
	t := Targets{}
	for name, v := range f.Report.Goodput.Constraints {
		d := time.Duration(v * float64(time.Second))
		switch name {
		case "ttft":
			t.TTFT = d
		case "tpot", "itl":
			t.ITL = d
		default:
			return nil, t, fmt.Errorf("inference-perf: goodput constraint %q; ttft, tpot and itl are kept here", name)
		}
	}
	return s, t, s.complete()
}

func (d *perfData) content(s *Spec) error {
	switch d.Type {
	case "random", "synthetic", "mock":
		in, err := d.Input.distribution("input_distribution", 512)
		if err != nil {
			return err
		}
		out, err := d.Output.distribution("output_distribution", 128)
		if err != nil {
			return err
		}
		s.Independent = &Independent{Input: in, Output: out}
	case "shared_prefix":
		if d.SharedPrefix == nil {
			return errors.New("shared_prefix: the block is missing")
		}
		return d.SharedPrefix.content(s)
	case "conversation_replay":
		if d.Conversation == nil {
			return errors.New("conversation_replay: the block is missing")
		}
		return d.Conversation.content(s)
	default:
		return fmt.Errorf("type %q; random, synthetic, mock, shared_prefix and conversation_replay need no data from elsewhere. For traces use a workload with trace", d.Type)
	}
	return nil
}

func (p *perfShared) content(s *Spec) error {
	groups, prompts := max(p.Groups, p.UniqueSystem), max(p.Prompts, p.Users)
	question, err := p.Questions.distribution("question_distribution", p.Question)
	if err != nil {
		return err
	}
	output, err := p.Outputs.distribution("output_distribution", p.Output)
	if err != nil {
		return err
	}
	if p.MultiTurn {
		// Users go on with their conversations for as long as the load lasts; a session here is long enough to count as endless.
		s.Conversation = &Conversation{Shared: int32(p.System), Turns: Fixed(1000), Input: question, Output: output, MaxTokens: 32_768}
		return nil
	}
	s.SharedPrefix = &SharedPrefix{Groups: groups, Prompts: prompts, System: Fixed(p.System), Question: question, Output: output}
	return nil
}

func (p *perfConversation) content(s *Spec) error {
	c := &Conversation{Shared: int32(p.Shared), MaxTokens: p.MaxModelLen}
	for _, part := range []struct {
		to        *Distribution
		from      *perfDistribution
		name      string
		otherwise float64
	}{
		{&c.System, p.System, "dynamic_system_prompt_len", 0}, {&c.Turns, p.Turns, "turns_per_conversation", 1},
		{&c.Input, p.Input, "input_tokens_per_turn", 512}, {&c.Output, p.Output, "output_tokens_per_turn", 128},
		{&c.Wait, p.Tool, "tool_call_latency_sec", 0},
	} {
		d, err := part.from.distribution(part.name, part.otherwise)
		if err != nil {
			return err
		}
		*part.to = d
	}
	s.Conversation = c
	return nil
}

// distribution translates d; without one the value is otherwise.
func (d *perfDistribution) distribution(name string, otherwise float64) (Distribution, error) {
	if d == nil {
		return Fixed(otherwise), nil
	}
	typ := d.Type
	switch typ {
	case "":
		typ = "normal"
	case "skew_normal":
		typ = "skew-normal"
	}
	out := Distribution{Type: typ, Min: d.Min, Max: d.Max, Mean: d.Mean, StdDev: d.StdDev, Skew: d.Skew}
	if err := out.check(); err != nil {
		return out, fmt.Errorf("%s: %w", name, err)
	}
	return out, nil
}

func (l *perfLoad) arrivals(s *Spec) error {
	sum := 0.0
	for _, split := range l.LoRA {
		s.Adapters = append(s.Adapters, split.Split)
		sum += split.Split
	}
	if len(l.LoRA) > 0 && (sum < 1-1e-9 || sum > 1+1e-9) {
		return fmt.Errorf("the shares of lora_traffic_split sum to %v; they must sum to 1", sum)
	}
	switch {
	case l.Sweep != nil:
		return errors.New("sweep; use fairlead bench sweep or --capacity in its place")
	case len(l.Stages) == 0:
		return errors.New("no stages")
	}
	switch l.Type {
	case "constant", "poisson":
		s.Arrivals.Type = l.Type
		for i, st := range l.Stages {
			if !(st.Rate > 0 && st.Duration > 0) {
				return fmt.Errorf("stage %d has rate %v for %v s; both above 0", i, st.Rate, st.Duration)
			}
			s.Arrivals.Stages = append(s.Arrivals.Stages, Stage{Rate: st.Rate, Duration: time.Duration(st.Duration * float64(time.Second))})
		}
	case "concurrent", "trace_session_replay":
		if len(l.Stages) > 1 {
			return fmt.Errorf("%d stages of concurrency; one at a time", len(l.Stages))
		}
		st := l.Stages[0]
		s.Arrivals.Type, s.Arrivals.Users = "closed", max(st.Concurrency, st.Sessions)
		s.Requests = max(st.Requests, st.NumSessions)
		if s.Arrivals.Users < 1 || s.Requests < 1 {
			return fmt.Errorf("a stage with %d requests at a concurrency of %d; both at least 1", s.Requests, s.Arrivals.Users)
		}
	default:
		return fmt.Errorf("type %q; constant, poisson and concurrent are read", l.Type)
	}
	return nil
}
