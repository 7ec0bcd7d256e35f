// Package scenarios has the fleets and workloads that ship with Fairlead, as YAML: which pods, how well they are seen, what
// happens to them, what is asked of them, and what the scenario must show.
//
// The workload is kept as it stands in the file; whoever makes requests of it reads it (benchmarks/workload).
package scenarios

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/fairlead/fairlead/simulator/engine"
)

//go:embed *.yaml
var files embed.FS

// Scenario is one of them.
type Scenario struct {
	Name  string `yaml:"name"`
	Title string `yaml:"title"`

	// Shows says what must come out, Needs which part of it waits for what Fairlead cannot do yet; empty for nothing.
	Shows string `yaml:"shows"`
	Needs string `yaml:"needs"`

	// Copies is how many such fleets stand side by side on the devices, each with its own requests; 0 is 1.
	Copies int `yaml:"copies"`

	Fleet   []Group `yaml:"fleet"`
	Signals Signals `yaml:"signals"`
	Events  []Event `yaml:"events"`
	Targets Targets `yaml:"targets"`

	// Transfer is the way of keys and values between pods that share a request. Its figures are estimates unless Source says
	// otherwise.
	Transfer Transfer `yaml:"transfer"`

	// Devices are how many pieces of each hardware there are; a fleet that needs more does not fit. None: as many as it needs.
	Devices map[string]int `yaml:"devices"`

	// Warmup is how long arrivals are left out of the figures, while caches fill. Until cuts the run off; 0: it ends by itself.
	Warmup time.Duration `yaml:"warmup"`
	Until  time.Duration `yaml:"until"`

	Workload yaml.Node `yaml:"workload"`
}

// Group is a number of pods of one kind.
type Group struct {
	Pods     int    `yaml:"pods"`
	Hardware string `yaml:"hardware"`
	Model    string `yaml:"model"`

	// TensorParallel is how many devices a pod has; 0 is what the model needs.
	TensorParallel int32 `yaml:"tensorParallel"`

	// KVTokens, MaxModelLen and MaxSeqs replace the profile's figures; 0 keeps them.
	KVTokens    int64 `yaml:"kvTokens"`
	MaxModelLen int32 `yaml:"maxModelLen"`
	MaxSeqs     int32 `yaml:"maxSeqs"`

	// MaxWaiting bounds an engine's queue. Adapters is how many LoRA adapters there are, MaxLoras how many may run at a time.
	MaxWaiting int32 `yaml:"maxWaiting"`
	Adapters   int32 `yaml:"adapters"`
	MaxLoras   int32 `yaml:"maxLoras"`

	// Slow is how many times as long the pods' steps take from the start, without anybody being told; 0 is 1.
	Slow float64 `yaml:"slow"`

	// StepFactor and PrefillFactor multiply what a step takes without prompts, and what a prompt's token takes, without anybody
	// being told; 0 is 1.
	StepFactor    float64 `yaml:"stepFactor"`
	PrefillFactor float64 `yaml:"prefillFactor"`

	// Role is prefill, decode, or empty for both.
	Role string `yaml:"role"`

	Labels map[string]string `yaml:"labels"`
}

// Signals say how well the engines are seen.
type Signals struct {
	// Every is the period of readings; 0 is a second. Age is how long they take, Jitter what is drawn on top; Loss the share that
	// do not arrive.
	Every  time.Duration `yaml:"every"`
	Age    time.Duration `yaml:"age"`
	Jitter time.Duration `yaml:"jitter"`
	Loss   float64       `yaml:"loss"`

	// TokenError is by how much token counts are off, and the share of prompts whose blocks cannot be told.
	TokenError float64 `yaml:"tokenError"`

	// EventDelay is how long the engines' cache events take to those policies that hear them, EventJitter what is drawn on top;
	// EventLoss the share of an engine's messages that do not arrive.
	EventDelay  time.Duration `yaml:"eventDelay"`
	EventJitter time.Duration `yaml:"eventJitter"`
	EventLoss   float64       `yaml:"eventLoss"`
}

// Transfer says how long keys and values take: Setup, and their bytes at BytesPerSecond; 0 is the hardware's network.
type Transfer struct {
	Setup          time.Duration `yaml:"setup"`
	BytesPerSecond float64       `yaml:"bytesPerSecond"`
	Source         string        `yaml:"source"`
}

// Event is something planned.
type Event struct {
	At       time.Duration `yaml:"at"`
	Kind     string        `yaml:"kind"`
	Pod      int32         `yaml:"pod"`
	Factor   float64       `yaml:"factor"`
	Detected time.Duration `yaml:"detected"`
}

// Targets are what makes an answer good: its first token within TTFT, the mean time between tokens within ITL. Prompts of
// LongPrompt tokens and more have LongTTFT. 0 is no target.
type Targets struct {
	TTFT       time.Duration `yaml:"ttft" json:"ttftNanos"`
	ITL        time.Duration `yaml:"itl" json:"itlNanos"`
	LongPrompt int32         `yaml:"longPrompt" json:"longPromptTokens,omitempty"`
	LongTTFT   time.Duration `yaml:"longTTFT" json:"longTTFTNanos,omitempty"`
}

// Names returns the names of the scenarios that ship, in order: the numbered ones (s, then h: hot prefixes), the cells of
// comparisons (c-), the layouts of sets, what others published (p-).
func Names() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(err) // an embedded folder is always there
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(sortable(a), sortable(b)) })
	return names
}

// numbered are the names that may be given by their number alone.
var numbered = regexp.MustCompile(`^[sh][0-9]+$`)

// sortable puts s2 before s10, h1 behind those, and sets of layouts behind all.
func sortable(name string) string {
	head, _, _ := strings.Cut(name, "-")
	switch {
	case !numbered.MatchString(head):
		return "z" + name
	case name[0] == 'h':
		name = "t" + name[1:]
	}
	if len(head) == 2 {
		return name[:1] + "0" + name[1:]
	}
	return name
}

// Get returns a scenario that ships, by its name or the part before the first hyphen, such as s1.
func Get(name string) (*Scenario, error) {
	for _, n := range Names() {
		if head, _, _ := strings.Cut(n, "-"); n == name || numbered.MatchString(head) && strings.EqualFold(head, name) {
			text, err := files.ReadFile(n + ".yaml")
			if err != nil {
				return nil, err
			}
			return Parse(text)
		}
	}
	return nil, fmt.Errorf("no scenario %q; there are %s", name, strings.Join(Names(), ", "))
}

// Parse reads a scenario. A member that is not known is an error with its line.
func Parse(text []byte) (*Scenario, error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	s := &Scenario{}
	if err := d.Decode(s); err != nil {
		return nil, fmt.Errorf("scenario: %s", strings.ReplaceAll(strings.TrimPrefix(err.Error(), "yaml: "), "\n  ", " "))
	}
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("scenario %q: %w", s.Name, err)
	}
	return s, nil
}

func (s *Scenario) check() error {
	switch {
	case s.Name == "":
		return errors.New("no name")
	case len(s.Fleet) == 0:
		return errors.New("no fleet; at least one group of pods")
	case s.Workload.Kind == 0:
		return errors.New("no workload")
	case s.Signals.EventDelay < 0 || s.Signals.EventJitter < 0:
		return errors.New("signals: neither eventDelay nor eventJitter may be negative")
	case !(s.Signals.EventLoss >= 0 && s.Signals.EventLoss <= 1):
		return fmt.Errorf("signals: eventLoss is %v; a share from 0 to 1", s.Signals.EventLoss)
	case s.Signals.Every < 0 || s.Signals.Age < 0 || s.Signals.Jitter < 0:
		return errors.New("signals: none of every, age and jitter may be negative")
	}
	if s.Transfer.Setup < 0 || s.Transfer.BytesPerSecond < 0 {
		return errors.New("transfer: neither setup nor bytesPerSecond may be negative")
	}
	if s.Signals.Every == 0 {
		s.Signals.Every = time.Second
	}
	for i := range s.Fleet {
		g := &s.Fleet[i]
		if g.Pods < 1 {
			return fmt.Errorf("group %d has %d pods; at least 1", i, g.Pods)
		}
		if g.StepFactor < 0 || g.PrefillFactor < 0 {
			return fmt.Errorf("group %d has stepFactor %v and prefillFactor %v; neither may be negative", i, g.StepFactor, g.PrefillFactor)
		}
		if g.Role != "" && g.Role != "prefill" && g.Role != "decode" {
			return fmt.Errorf("group %d has role %q; prefill, decode or none", i, g.Role)
		}
	}
	return nil
}

// Pods is how many pods there are from the start.
func (s *Scenario) Pods() int {
	n := 0
	for i := range s.Fleet {
		n += s.Fleet[i].Pods
	}
	return n
}

// Fits says which hardware the fleet needs more of than there is; nil if it fits.
func (s *Scenario) Fits() error {
	if len(s.Devices) == 0 {
		return nil
	}
	need := map[string]int{}
	for i := range s.Fleet {
		g := &s.Fleet[i]
		need[g.Hardware] += g.Pods * int(max(g.TensorParallel, 1)) * max(s.Copies, 1)
	}
	for _, hardware := range slices.Sorted(maps.Keys(need)) {
		if n, there := need[hardware], s.Devices[hardware]; n > there {
			return fmt.Errorf("it needs %d x %s, and there are %d", n, hardware, there)
		}
	}
	return nil
}

// Set returns the names of the scenarios that begin with prefix and a hyphen: layouts of the same hardware for the same
// requests.
func Set(prefix string) []string {
	var out []string
	for _, n := range Names() {
		if strings.HasPrefix(n, prefix+"-") {
			out = append(out, n)
		}
	}
	return out
}

// Engine returns what each pod of the group is. The error shows the arithmetic of a model that does not fit.
func (g *Group) Engine() (engine.Profile, engine.Options, error) {
	p, err := engine.ProfileWith(g.Hardware, g.Model, engine.Choice{TensorParallel: g.TensorParallel})
	if err != nil {
		return p, engine.Options{}, err
	}
	if g.KVTokens > 0 {
		p.Blocks = int32(g.KVTokens/int64(p.BlockTokens)) + 1
	}
	if g.MaxModelLen > 0 {
		p.MaxModelLen = g.MaxModelLen
	}
	if g.MaxSeqs > 0 {
		p.MaxSeqs = g.MaxSeqs
	}
	o := engine.Options{MaxWaiting: g.MaxWaiting, Adapters: g.Adapters, MaxLoras: g.MaxLoras}
	if g.Adapters > 0 && g.MaxLoras == 0 {
		o.MaxLoras = 1
	}
	return p, o, nil
}
