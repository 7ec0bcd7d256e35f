package engine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"time"

	"go.yaml.in/yaml/v3"
)

// profileFile is how a profile is written down.
type profileFile struct {
	Hardware              string                `yaml:"hardware"`
	ModelFlag             string                `yaml:"modelFlag"`
	Model                 string                `yaml:"model"`
	TensorParallel        int32                 `yaml:"tensorParallel"`
	Blocks                int32                 `yaml:"blocks"`
	BlockTokens           int32                 `yaml:"blockTokens"`
	MaxBatchedTokens      int32                 `yaml:"maxBatchedTokens"`
	MaxSeqs               int32                 `yaml:"maxSeqs"`
	MaxModelLen           int32                 `yaml:"maxModelLen"`
	KVBytesPerToken       int64                 `yaml:"kvBytesPerToken"`
	PeerBytesPerSecond    float64               `yaml:"peerBytesPerSecond"`
	NetworkBytesPerSecond float64               `yaml:"networkBytesPerSecond"`
	Step                  stepFile              `yaml:"step"`
	Sources               map[string]sourceFile `yaml:"sources"`
}

type stepFile struct {
	Base             time.Duration `yaml:"base"`
	PerPrefillToken  time.Duration `yaml:"perPrefillToken"`
	AttentionTokens  int64         `yaml:"attentionTokens"`
	PerSequence      time.Duration `yaml:"perSequence"`
	PerContextToken  time.Duration `yaml:"perContextToken"`
	ReferenceContext int64         `yaml:"referenceContext"`
	AllExperts       time.Duration `yaml:"allExperts,omitempty"`
	Experts          int32         `yaml:"experts,omitempty"`
	ExpertsPerToken  int32         `yaml:"expertsPerToken,omitempty"`
}

type sourceFile struct {
	Kind Kind   `yaml:"kind"`
	Text string `yaml:"text"`
}

// byName returns the sources by the names that they have in a file.
func (s *Sources) byName() map[string]*Source {
	return map[string]*Source{
		"blocks": &s.Blocks, "limits": &s.Limits, "base": &s.Base, "perPrefillToken": &s.PerPrefillToken, "attention": &s.Attention,
		"perSequence": &s.PerSequence, "perContextToken": &s.PerContextToken, "experts": &s.Experts, "hardware": &s.Hardware,
	}
}

// Encode returns the profile as YAML, which DecodeProfile reads.
func (p Profile) Encode() ([]byte, error) {
	f := profileFile{
		p.Hardware, p.ModelFlag, p.Model, p.TensorParallel, p.Blocks, p.BlockTokens, p.MaxBatchedTokens, p.MaxSeqs, p.MaxModelLen,
		p.KVBytesPerToken, p.PeerBytesPerSecond, p.NetworkBytesPerSecond, p.Step.file(), map[string]sourceFile{},
	}
	for name, s := range p.Sources.byName() {
		if s.Kind != "" {
			f.Sources[name] = sourceFile(*s)
		}
	}
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(f); err != nil {
		return nil, fmt.Errorf("writing profile: %w", err)
	}
	return b.Bytes(), nil
}

func (t StepTime) file() stepFile {
	return stepFile(t)
}

// DecodeProfile reads a profile from YAML. Durations are written as 6.63ms; each figure says where it comes from under
// sources, as kind (measured, fitted or derived) and text. The error names the line of a member that is not known, or the
// figure that makes no sense.
func DecodeProfile(data []byte) (Profile, error) {
	var f profileFile
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(&f); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("it is empty")
		}
		return Profile{}, fmt.Errorf("profile: %w", err)
	}
	p := Profile{
		Hardware: f.Hardware, ModelFlag: f.ModelFlag, Model: f.Model, TensorParallel: f.TensorParallel,
		Blocks: f.Blocks, BlockTokens: f.BlockTokens, MaxBatchedTokens: f.MaxBatchedTokens, MaxSeqs: f.MaxSeqs, MaxModelLen: f.MaxModelLen,
		KVBytesPerToken: f.KVBytesPerToken, PeerBytesPerSecond: f.PeerBytesPerSecond, NetworkBytesPerSecond: f.NetworkBytesPerSecond,
		Step: StepTime{
			Base: f.Step.Base, PerPrefillToken: f.Step.PerPrefillToken, AttentionTokens: f.Step.AttentionTokens,
			PerSequence: f.Step.PerSequence, PerContextToken: f.Step.PerContextToken, ReferenceContext: f.Step.ReferenceContext,
			AllExperts: f.Step.AllExperts, Experts: f.Step.Experts, ExpertsPerToken: f.Step.ExpertsPerToken,
		},
	}
	byName := p.Sources.byName()
	for name, s := range f.Sources {
		into := byName[name]
		if into == nil {
			return Profile{}, fmt.Errorf("profile: sources has %q, which is no figure", name)
		}
		if s.Kind != Measured && s.Kind != Fitted && s.Kind != Derived {
			return Profile{}, fmt.Errorf("profile: the source of %s is of kind %q; measured, fitted or derived", name, s.Kind)
		}
		*into = Source(s)
	}
	if p.Model == "" || p.Hardware == "" {
		return Profile{}, fmt.Errorf("profile: model is %q and hardware %q; both are needed", p.Model, p.Hardware)
	}
	if err := p.check(); err != nil {
		return Profile{}, fmt.Errorf("profile: %w", err)
	}
	return p, nil
}
