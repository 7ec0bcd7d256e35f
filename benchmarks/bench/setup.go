package bench

import (
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/fairlead/fairlead/benchmarks/policy"
	"github.com/fairlead/fairlead/benchmarks/traces"
	"github.com/fairlead/fairlead/benchmarks/workload"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/simulator/engine"
	"github.com/fairlead/fairlead/simulator/fleet"
	"github.com/fairlead/fairlead/simulator/scenarios"
)

// Setup is a scenario that is ready to run.
type Setup struct {
	*scenarios.Scenario
	Requests *workload.Spec

	// Scale multiplies the rates; 1 is the scenario's own.
	Scale float64

	pods []fleet.Pod
	slow []float64
}

// Load returns the scenario of this name, or that of a file. The error says what is wrong with it.
func Load(name string) (*Setup, error) {
	var s *scenarios.Scenario
	var err error
	if strings.ContainsAny(name, "./") {
		var text []byte
		if text, err = os.ReadFile(name); err != nil {
			return nil, err
		}
		s, err = scenarios.Parse(text)
	} else {
		s, err = scenarios.Get(name)
	}
	if err != nil {
		return nil, err
	}
	return Prepare(s)
}

// Prepare makes a scenario ready. The error says which part of it makes no sense, or which model does not fit where.
func Prepare(s *scenarios.Scenario) (*Setup, error) {
	spec, err := workload.Decode(&s.Workload)
	if err != nil {
		return nil, fmt.Errorf("scenario %q: %w", s.Name, err)
	}
	if err := s.Fits(); err != nil {
		return nil, fmt.Errorf("scenario %q does not fit: %w", s.Name, err)
	}
	out := &Setup{Scenario: s, Requests: spec, Scale: 1}
	for i := range s.Fleet {
		g := &s.Fleet[i]
		p, o, err := g.Engine()
		if err != nil {
			return nil, fmt.Errorf("scenario %q, group %d: %w", s.Name, i, err)
		}
		hardware, err := engine.HardwareFor(g.Hardware)
		if err != nil {
			return nil, fmt.Errorf("scenario %q, group %d: %w", s.Name, i, err)
		}
		labels := hardware.Labels()
		for k, v := range g.Labels {
			labels[k] = v
		}
		if g.Role != "" {
			labels["llm-d.ai/role"] = g.Role
		}
		p.Step = scaled(p.Step, g.StepFactor, g.PrefillFactor)
		var adapters []string
		for a := range g.Adapters {
			adapters = append(adapters, workload.AdapterName(a+1))
		}
		for range g.Pods {
			out.pods = append(out.pods, fleet.Pod{Profile: p, Options: o, Labels: labels, AdapterNames: adapters})
			out.slow = append(out.slow, g.Slow)
		}
	}
	return out, nil
}

// WithWorkload returns the setup with the requests of a file: a workload, or a configuration of inference-perf, whose goodput
// constraints become the targets if it has any. The warm-up is none then.
func (s *Setup) WithWorkload(path string) (*Setup, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	out, scenario := *s, *s.Scenario
	out.Scenario = &scenario
	scenario.Warmup = 0
	if workload.IsInferencePerf(text) {
		spec, targets, err := workload.FromInferencePerf(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if targets != (workload.Targets{}) {
			scenario.Targets = scenarios.Targets{TTFT: targets.TTFT, ITL: targets.ITL}
		}
		out.Requests = spec
		return &out, nil
	}
	if out.Requests, err = workload.Parse(text); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &out, nil
}

// Scaled returns the setup at a multiple of its rates.
func (s *Setup) Scaled(by float64) *Setup {
	out := *s
	out.Scale *= by
	out.Requests = s.Requests.Scale(by)
	return &out
}

// WithPods returns the setup with n pods of the first group's kind and none else.
func (s *Setup) WithPods(n int) *Setup {
	out := *s
	out.pods, out.slow = nil, nil
	for range n {
		out.pods, out.slow = append(out.pods, s.pods[0]), append(out.slow, s.slow[0])
	}
	return &out
}

// Unlabelled returns the setup with pods whose labels do not say on what hardware they run.
func (s *Setup) Unlabelled() *Setup {
	out := *s
	out.pods = slices.Clone(s.pods)
	for i := range out.pods {
		labels := maps.Clone(out.pods[i].Labels)
		maps.DeleteFunc(labels, func(name, _ string) bool { return strings.HasPrefix(name, "nvidia.com/") })
		out.pods[i].Labels = labels
	}
	return &out
}

// WithSignals returns the setup with readings that are taken every so often and arrive so late.
func (s *Setup) WithSignals(every, age time.Duration) *Setup {
	out, scenario := *s, *s.Scenario
	scenario.Signals.Every, scenario.Signals.Age = every, age
	out.Scenario = &scenario
	return &out
}

// WithEvents returns the setup with cache events that take so long, and of whose messages such a share is lost.
func (s *Setup) WithEvents(delay time.Duration, loss float64) *Setup {
	out, scenario := *s, *s.Scenario
	scenario.Signals.EventDelay, scenario.Signals.EventLoss = delay, loss
	out.Scenario = &scenario
	return &out
}

// Lasting returns the setup with arrivals for so long, and a warm-up of that share of it. It is meant for streams with arrivals of
// their own in time; traces and numbers of requests end as they did.
func (s *Setup) Lasting(warmup, arrivals time.Duration) *Setup {
	out, scenario, requests := *s, *s.Scenario, *s.Requests
	scenario.Warmup, requests.Duration = warmup, arrivals
	out.Scenario, out.Requests = &scenario, &requests
	return &out
}

// Perturbation makes engines and answers others than they are known to be. The zero values of its members change nothing.
type Perturbation struct {
	Step    float64 // factor of what a step takes without prompts
	Prefill float64 // factor of what a prompt's token takes
	Output  float64 // standard deviation of the logarithm of a factor for each answer's length
}

// Perturbed returns the setup with its engines and answers changed. Nobody is told.
func (s *Setup) Perturbed(by Perturbation) *Setup {
	out := *s
	out.pods = slices.Clone(s.pods)
	for i := range out.pods {
		out.pods[i].Profile.Step = scaled(out.pods[i].Profile.Step, by.Step, by.Prefill)
	}
	requests := *s.Requests
	requests.OutputNoise = max(by.Output, requests.OutputNoise)
	out.Requests = &requests
	return &out
}

// scaled returns step times with their parts multiplied; 0 is 1.
func scaled(t engine.StepTime, step, prefill float64) engine.StepTime {
	times := func(d *time.Duration, by float64) {
		if by > 0 {
			*d = time.Duration(math.Round(float64(*d) * by))
		}
	}
	for _, d := range []*time.Duration{&t.Base, &t.PerSequence, &t.PerContextToken, &t.AllExperts} {
		times(d, step)
	}
	times(&t.PerPrefillToken, prefill)
	return t
}

// PodCount is how many pods there are from the start.
func (s *Setup) PodCount() int { return len(s.pods) }

// Run runs the scenario under a policy. Seed makes the requests and the readings; salt only the policy's own choices, so that
// two salts are two runs of one policy on the same requests.
func (s *Setup) Run(p policy.Policy, seed, salt uint64) (*fleet.Result, error) {
	d, err := p.New(seed ^ salt<<32)
	if err != nil {
		return nil, err
	}
	if p.Reads > 0 && p.Reads < s.Signals.Every {
		s = s.WithSignals(p.Reads, s.Signals.Age)
	}
	r, err := s.RunWith(d, seed)
	if err != nil {
		return nil, fmt.Errorf("scenario %q under %q: %w", s.Name, p.Name, err)
	}
	return r, nil
}

// RunWith runs the scenario under a decider of the caller's.
func (s *Setup) RunWith(d fleet.Decider, seed uint64) (*fleet.Result, error) {
	source, err := workload.New(s.Requests, seed)
	if err != nil {
		return nil, err
	}
	o := fleet.Options{
		Seed: seed, Pods: s.pods, Decider: d, Source: source, Until: pool.Instant(s.Until),
		Transfer: fleet.Transfer{Setup: s.Transfer.Setup, BytesPerSecond: s.Transfer.BytesPerSecond},
		Signals: fleet.Signals{
			Every: pool.Instant(s.Signals.Every), Age: pool.Instant(s.Signals.Age), Jitter: pool.Instant(s.Signals.Jitter),
			Loss: s.Signals.Loss, TokenError: s.Signals.TokenError,
			EventDelay: pool.Instant(s.Signals.EventDelay), EventJitter: pool.Instant(s.Signals.EventJitter), EventLoss: s.Signals.EventLoss,
		},
	}
	for i, factor := range s.slow {
		if factor > 0 {
			o.Events = append(o.Events, fleet.Event{Kind: fleet.Slow, Pod: int32(i), Factor: factor})
		}
	}
	for _, e := range s.Events {
		o.Events = append(o.Events, fleet.Event{
			At: pool.Instant(e.At), Kind: fleet.Kind(e.Kind), Pod: e.Pod, Factor: e.Factor, Detected: pool.Instant(e.Detected),
		})
	}
	f, err := fleet.New(o)
	if err != nil {
		return nil, err
	}
	r, err := f.Run()
	if err == nil {
		err = source.Err()
	}
	return r, err
}

// Runs says why the scenario cannot run here, nil if it can: a trace that it replays may be absent.
func (s *Setup) Runs() error {
	for i := range s.Requests.Streams {
		if t := s.Requests.Streams[i].Trace; t != nil {
			if _, err := traces.Find(t.File); err != nil {
				return err
			}
		}
	}
	return nil
}

// Closed reports whether every stream waits for its answers: then there is no rate to raise.
func (s *Setup) Closed() bool {
	for i := range s.Requests.Streams {
		st := &s.Requests.Streams[i]
		a := &s.Requests.Arrivals
		if st.Own != nil {
			a = st.Own
		}
		if st.Trace != nil || a.Type != "closed" {
			return false
		}
	}
	return true
}
