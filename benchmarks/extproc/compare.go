package extproc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Comparison measures an endpoint picker against the floor, each as a process of its own, in turn, with the same bytes.
type Comparison struct {
	// Load is the traffic of one slot, which one server has for itself. Its Target, Chars and First are set here.
	Load Load
	// Sizes are the prompt sizes in characters.
	Sizes []int
	// Rounds is the number of slots that each server has per size. Medians are over rounds, ratios of the two slots of a
	// round, whose order alternates.
	Rounds int
	// WarmUp is the length of an unmeasured slot per server and size before the first round.
	WarmUp time.Duration
	// Idle is how long each server is watched at rest to learn its background.
	Idle time.Duration
	// NoOp is a command that takes the flags of the no-op server: fairlead bench extproc.
	NoOp []string
	// EPP is a command that takes the flags of an endpoint picker: fairlead epp.
	EPP []string
	// Config is the picker's configuration; nil for queue, KV utilisation and prefix scorers, 2:2:3, and max-score.
	Config []byte
	// Endpoints is the number of model servers, whose metrics pages this process serves.
	Endpoints int
	// Environment is added to that of both servers, NAME=value.
	Environment []string
	// Progress is told of each slot; nil for nobody.
	Progress io.Writer
}

// NewComparison returns five rounds of 2 s slots with prompts of 200, 8,000 and 100,000 characters and 8 endpoints.
func NewComparison(noop, epp []string) Comparison {
	load := NewLoad("")
	load.Duration = 2 * time.Second
	return Comparison{
		Load: load, Sizes: []int{200, 8000, 100_000}, Rounds: 5, WarmUp: time.Second, Idle: 2 * time.Second,
		NoOp: noop, EPP: epp, Endpoints: 8,
	}
}

// Report is what a comparison found.
type Report struct {
	Load      Load         `json:"load"`
	Rounds    int          `json:"rounds"`
	Endpoints int          `json:"endpoints"`
	Sizes     []SizeReport `json:"sizes"`
}

// SizeReport is the comparison at one prompt size.
type SizeReport struct {
	Chars int  `json:"chars"`
	NoOp  Side `json:"noop"`
	EPP   Side `json:"epp"`
	// Ratio is the median over rounds of the picker's figure divided by the floor's in the same round.
	Ratio Figures `json:"ratio"`
}

// Side is one server at one size.
type Side struct {
	// Median is over rounds.
	Median Figures `json:"median"`
	// Rounds are the figures of each.
	Rounds     []Figures            `json:"rounds"`
	Decisions  uint64               `json:"decisions"`
	Failed     uint64               `json:"failed"`
	Faults     map[FaultKind]uint64 `json:"faults,omitempty"`
	Examples   []string             `json:"examples,omitempty"`
	Background Background           `json:"background"`
}

func (s *Side) add(r *Result, c Cost) {
	s.Rounds = append(s.Rounds, figuresOf(r, c))
	s.Decisions += r.Decisions
	s.Failed += r.Failed()
	for kind, n := range r.Faults {
		if s.Faults == nil {
			s.Faults = map[FaultKind]uint64{}
		}
		s.Faults[kind] += n
	}
	s.Examples = append(s.Examples, r.Examples[:min(len(r.Examples), maxExamples-len(s.Examples))]...)
	s.Background = c.Background
}

// check refuses what cannot be run before any process is started.
func (c *Comparison) check() error {
	switch {
	case len(c.Sizes) == 0:
		return errors.New("no prompt size; name at least one")
	case c.Rounds < 1 || c.Rounds > 1000:
		return fmt.Errorf("rounds is %d; between 1 and 1000", c.Rounds)
	case c.Idle <= 0:
		return fmt.Errorf("idle is %v; above 0", c.Idle)
	}
	for _, chars := range c.Sizes {
		if _, err := NewPrompts(0, chars, c.Load.Model); err != nil {
			return err
		}
	}
	l := c.Load
	l.Target = "a child process"
	return l.check()
}

// Run starts both servers, measures, and stops them, also when ctx ends.
func (c *Comparison) Run(ctx context.Context) (report *Report, err error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "fairlead-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	e, err := startEngines(c.Endpoints, c.Load.Model)
	if err != nil {
		return nil, err
	}
	defer e.close()
	noop, err := startNoOp(ctx, c.NoOp, c.Environment, e.names(), c.Load.TLS)
	if err != nil {
		return nil, err
	}
	defer noop.stop()
	probe := c.Load
	probe.Chars = c.Sizes[0]
	epp, err := startEPP(ctx, c.EPP, c.Environment, dir, e, c.Config, probe)
	if err != nil {
		return nil, err
	}
	defer epp.stop()

	both := [2]*server{noop, epp}
	if err := c.prepare(ctx, both); err != nil {
		return nil, err
	}
	report = &Report{Load: c.Load, Rounds: c.Rounds, Endpoints: c.Endpoints, Sizes: make([]SizeReport, len(c.Sizes))}
	for round := range c.Rounds {
		for i, chars := range c.Sizes {
			size := &report.Sizes[i]
			size.Chars = chars
			sides := [2]*Side{&size.NoOp, &size.EPP}
			for turn := range both {
				which := (turn + round + i) % 2
				r, cost, err := c.slot(ctx, both[which], chars, uint64(round+1)<<24)
				if err != nil {
					return nil, err
				}
				sides[which].add(r, cost)
			}
		}
	}
	for i := range report.Sizes {
		report.Sizes[i].sum()
	}
	return report, nil
}

// prepare warms both servers up at every size and then learns what they use at rest.
func (c *Comparison) prepare(ctx context.Context, both [2]*server) error {
	for _, s := range both {
		for _, chars := range c.Sizes {
			if c.WarmUp <= 0 {
				continue
			}
			l := c.Load
			l.Target, l.Chars, l.First, l.Requests, l.Duration = s.target, chars, 0, 0, c.WarmUp
			if _, err := Run(ctx, l); err != nil {
				return s.child.During("warming up", err)
			}
		}
	}
	for _, s := range both {
		c.tell("%-8s at rest for %v", s.name, c.Idle)
		if err := s.meter.Calibrate(ctx, c.Idle); err != nil {
			return s.child.During("at rest", err)
		}
	}
	return nil
}

// slot measures one server at one size.
func (c *Comparison) slot(ctx context.Context, s *server, chars int, first uint64) (*Result, Cost, error) {
	l := c.Load
	l.Target, l.Chars, l.First = s.target, chars, first
	r, cost, err := s.meter.Measure(ctx, l)
	if err != nil {
		return nil, cost, s.child.During("under load", err)
	}
	f := figuresOf(r, cost)
	c.tell("%-8s %6d characters: %7.0f decisions/s, CPU %6.0f us, %5.0f allocations, %8.0f bytes, %d failed",
		s.name, chars, f.PerSecond, f.CPUMicros, f.Allocs, f.Bytes, r.Failed())
	return r, cost, nil
}

func (c *Comparison) tell(format string, args ...any) {
	if c.Progress != nil {
		fmt.Fprintf(c.Progress, format+"\n", args...)
	}
}

// sum fills in medians and ratios.
func (s *SizeReport) sum() {
	s.NoOp.Median, s.EPP.Median = medians(s.NoOp.Rounds), medians(s.EPP.Rounds)
	ratios := make([]Figures, len(s.EPP.Rounds))
	for i := range ratios {
		ratios[i] = s.EPP.Rounds[i].over(s.NoOp.Rounds[i])
	}
	s.Ratio = medians(ratios)
}
