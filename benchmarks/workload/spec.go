package workload

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Spec is a workload.
type Spec struct {
	// BlockTokens is the size of the blocks in which prompts are named and engines cut their memory; 0 is 64. Smaller blocks
	// are nearer to an engine's own 16 and cost time.
	BlockTokens int32 `yaml:"blockTokens"`

	// Model is the name that requests ask for.
	Model string `yaml:"model"`

	// Requests and Duration bound the arrivals of the whole workload; of sessions and of siblings, their beginnings. 0 is no bound, but one of
	// the two is needed unless a trace or stages end by themselves.
	Requests int           `yaml:"requests"`
	Duration time.Duration `yaml:"duration"`

	// Arrivals are those of every stream that has none of its own, in proportion to its share.
	Arrivals Arrivals `yaml:"arrivals"`

	// ClientBound: clients say how long the answer may get, and it gets so long. Without it they say nothing.
	ClientBound bool `yaml:"clientBound"`

	// OutputNoise makes answers of other lengths than their contents say: the standard deviation of the logarithm of a factor,
	// whose mean is 1. The client's bound stays. What later turns of a conversation contain of an answer has its old length.
	OutputNoise float64 `yaml:"outputNoise"`

	// Streams are what runs side by side. A workload with one stream may say its members at the top instead.
	Streams []Stream `yaml:"streams"`
	Stream  `yaml:",inline"`
}

// Stream is one kind of requests. Exactly one content is given.
type Stream struct {
	Name string `yaml:"name"`

	// Share of the workload's arrivals; 0 is 1 where there is one stream.
	Share float64 `yaml:"share"`

	// Own are arrivals of the stream's own.
	Own *Arrivals `yaml:"ownArrivals"`

	// Tenants is over how many tenants the stream's requests spread; 0 is 1. Priority is what they claim.
	Tenants  int   `yaml:"tenants"`
	Priority int32 `yaml:"priority"`

	// SLO is what clients say that they want; nothing where it is left out. Aborts are those that do not wait for the end.
	SLO    SLO    `yaml:"slo"`
	Aborts Aborts `yaml:"aborts"`

	// Adapters are shares of requests by adapter, the first of adapter 1; what is left asks for the base model.
	Adapters []float64 `yaml:"adapters"`

	SharedPrefix *SharedPrefix `yaml:"sharedPrefix"`
	Conversation *Conversation `yaml:"conversation"`
	Documents    *Documents    `yaml:"documents"`
	Independent  *Independent  `yaml:"independent"`
	Siblings     *Siblings     `yaml:"siblings"`
	Trace        *Trace        `yaml:"trace"`
	Like         *Like         `yaml:"like"`
}

// SLO is a time to the first token and one between tokens; 0 is nothing said.
type SLO struct {
	TTFT time.Duration `yaml:"ttft"`
	ITL  time.Duration `yaml:"itl"`
}

// Aborts are requests whose clients go away before the answer's end: a share of all, so many seconds after they came. One
// whose answer is complete by then is not aborted.
type Aborts struct {
	Share float64      `yaml:"share"`
	After Distribution `yaml:"after"`
}

func (a *Aborts) check() error {
	switch {
	case !(a.Share >= 0 && a.Share <= 1):
		return fmt.Errorf("aborts: share is %v; 0 to 1", a.Share)
	case a.Share > 0 && !a.After.given():
		return errors.New("aborts: after is missing; the seconds after which clients go away")
	case a.Share > 0:
		return a.After.check()
	}
	return nil
}

// Parse reads a workload from YAML. A member that is not known is an error with its line.
func Parse(text []byte) (*Spec, error) {
	var n yaml.Node
	if err := yaml.Unmarshal(text, &n); err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	return Decode(&n)
}

// Decode reads a workload from a node.
func Decode(n *yaml.Node) (*Spec, error) {
	s := &Spec{}
	if err := strict(n, s); err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	return s, s.complete()
}

// strict decodes n into to and refuses members that to has not. The decoder of yaml knows strictness for text alone.
func strict(n *yaml.Node, to any) error {
	text, err := yaml.Marshal(n)
	if err != nil {
		return err
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(to); err != nil {
		return errors.New(strings.ReplaceAll(strings.TrimPrefix(err.Error(), "yaml: "), "\n  ", " "))
	}
	return nil
}

// complete fills in defaults and refuses what makes no sense.
func (s *Spec) complete() error {
	if s.BlockTokens == 0 {
		s.BlockTokens = 64
	}
	if len(s.Streams) == 0 {
		s.Streams = []Stream{s.Stream}
	} else if s.Stream.contents() > 0 {
		return errors.New("workload: streams, and a content beside them; put it into a stream")
	}
	if !(s.OutputNoise >= 0 && s.OutputNoise <= 3) {
		return fmt.Errorf("workload: outputNoise %v; 0 to 3", s.OutputNoise)
	}
	if s.BlockTokens < 1 || s.Requests < 0 || s.Duration < 0 {
		return fmt.Errorf("workload: blockTokens %d, requests %d, duration %v; none may be negative", s.BlockTokens, s.Requests, s.Duration)
	}
	bounded := s.Requests > 0 || s.Duration > 0
	s.Streams = slices.Clone(s.Streams)
	for i := range s.Streams {
		if err := s.completeStream(i, bounded); err != nil {
			return err
		}
	}
	return nil
}

func (s *Spec) completeStream(i int, bounded bool) error {
	st := &s.Streams[i]
	if st.Name == "" {
		st.Name = fmt.Sprint("stream-", i)
	}
	where := fmt.Sprintf("workload: stream %q", st.Name)
	if st.Share == 0 && len(s.Streams) == 1 {
		st.Share = 1
	}
	if st.Tenants == 0 {
		st.Tenants = 1
	}
	sum := 0.0
	for _, share := range st.Adapters {
		sum += share
	}
	switch n := st.contents(); {
	case n != 1:
		return fmt.Errorf("%s has %d contents; exactly one of sharedPrefix, conversation, documents, independent, siblings, trace and like", where, n)
	case st.Tenants < 1:
		return fmt.Errorf("%s has %d tenants; at least 1", where, st.Tenants)
	case st.SLO.TTFT < 0 || st.SLO.ITL < 0:
		return fmt.Errorf("%s: slo of %v and %v; neither may be negative", where, st.SLO.TTFT, st.SLO.ITL)
	case sum > 1+1e-9:
		return fmt.Errorf("%s: the shares of its adapters sum to %v; at most 1", where, sum)
	}
	if err := st.Aborts.check(); err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	if st.Trace != nil {
		return st.Trace.check(where, s.BlockTokens)
	}
	a := &s.Arrivals
	if st.Own != nil {
		a = st.Own
	} else if !(st.Share > 0) {
		return fmt.Errorf("%s has share %v; above 0, or ownArrivals", where, st.Share)
	}
	if err := a.check(); err != nil {
		return fmt.Errorf("%s: %w", where, err)
	}
	if st.Siblings != nil && a.Type == "closed" {
		return fmt.Errorf("%s: siblings come together, and not one when another ends; arrivals may not be closed", where)
	}
	if !bounded && len(a.Stages) == 0 {
		return fmt.Errorf("%s never ends; say requests or duration", where)
	}
	for _, c := range [...]interface{ check() error }{st.SharedPrefix, st.Conversation, st.Documents, st.Independent, st.Siblings, st.Like} {
		if err := c.check(); err != nil {
			return fmt.Errorf("%s: %w", where, err)
		}
	}
	return nil
}

func (st *Stream) contents() int {
	n := 0
	for _, given := range [...]bool{st.SharedPrefix != nil, st.Conversation != nil, st.Documents != nil, st.Independent != nil, st.Siblings != nil, st.Trace != nil, st.Like != nil} {
		if given {
			n++
		}
	}
	return n
}

// Scale returns the workload with every rate, and the speed of every trace, multiplied. Users of closed loops stay.
func (s *Spec) Scale(by float64) *Spec {
	out := *s
	out.Arrivals.scale(by)
	out.Streams = slices.Clone(s.Streams)
	for i := range out.Streams {
		st := &out.Streams[i]
		if st.Own != nil {
			own := *st.Own
			own.scale(by)
			st.Own = &own
		}
		if st.Trace != nil {
			t := *st.Trace
			t.Speed *= by
			st.Trace = &t
		}
	}
	return &out
}

func (a *Arrivals) scale(by float64) {
	if len(a.Stages) > 0 && a.Rate == 0 {
		a.Rate = 1
	}
	a.Rate *= by
}

// Classes names the streams, by the class that their requests carry.
func (s *Spec) Classes() []string {
	var names []string
	for i := range s.Streams {
		names = append(names, s.Streams[i].Name)
	}
	return names
}

// Tenants is how many tenants there are in all; their numbers begin with 0 and go by stream.
func (s *Spec) Tenants() int {
	n := 0
	for i := range s.Streams {
		n += s.Streams[i].Tenants
	}
	return n
}
