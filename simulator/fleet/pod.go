package fleet

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/simulator/engine"
)

// Pod is a kind of member: an engine and how it is labelled.
type Pod struct {
	Profile engine.Profile
	Options engine.Options
	Labels  map[string]string

	// AdapterNames are what readings call the adapters 1, 2, …
	AdapterNames []string
}

const nobody = -1

// counted is how many of something there were, and how long they took together. It is kept in whole nanoseconds, so that rows of
// steps add up to what single ones do.
type counted struct {
	n    int64
	took time.Duration
}

func (c *counted) add(n int, took time.Duration) {
	c.n += int64(n)
	c.took += took
}

func (c counted) timed() pool.Timed {
	return pool.Timed{Count: float64(c.n), Seconds: c.took.Seconds()}
}

// pod is one member and the requests in it.
type pod struct {
	number int32
	name   string
	spec   Pod
	engine *engine.Engine

	live    []int64 // request number by the engine's slot; nobody for none
	running int     // requests in the engine, waiting ones included

	up, listed, draining, hung, blind bool
	hungSince                         pool.Instant
	slowdown                          float64
	started                           float64 // seconds since the Unix epoch, as its metrics page would say
	firstTokens, gaps                 counted // of its process
	scrapeAt                          pool.Instant
	unlistAt                          pool.Instant // when the membership learns of its crash; 0: nothing to learn

	requests int64
	busy     time.Duration
	earlier  engine.Counters // of processes that are gone

	outbox outbox // cache events on their way, where somebody listens

	loads [2][]int32 // scratch of adapters
}

// start gives the pod a new process.
func (f *Fleet) start(p *pod) error {
	o := p.spec.Options
	o.BlockEvents = f.listener != nil
	e, err := engine.New(p.spec.Profile, o)
	if err != nil {
		return fmt.Errorf("pod %d: %w", p.number, err)
	}
	p.engine, p.up = e, true
	p.firstTokens, p.gaps = counted{}, counted{}
	e.SetSlowdown(p.slowdown)
	// Any origin does: what counts is that two processes differ.
	p.started = 1e9 + time.Duration(f.now).Seconds()
	for i := range p.live {
		p.live[i] = nobody
	}
	return nil
}

// join adds a pod of a kind.
func (f *Fleet) join(spec Pod) error {
	n := int32(len(f.pods))
	p := &pod{number: n, name: fmt.Sprintf("pod-%d", n), spec: spec, listed: true, slowdown: 1}
	if f.listener != nil {
		p.outbox.random = rand.New(rand.NewPCG(f.seed, 'b'<<32|uint64(n)))
	}
	if err := f.start(p); err != nil {
		return err
	}
	p.spec.Profile = p.engine.Profile()
	if every := f.telemetry.Every; every > 0 {
		p.scrapeAt = f.now + 1 + pool.Instant(f.telemetry.random.Float64()*float64(every))
	}
	f.pods = append(f.pods, p)
	f.steps.grow(len(f.pods))
	return nil
}

// announce tells the decider the membership.
func (f *Fleet) announce() {
	members := make([]pool.Endpoint, 0, len(f.pods))
	for _, p := range f.pods {
		if !p.listed {
			p.cutOff()
		} else {
			members = append(members, pool.Endpoint{
				Namespace: "default", Name: p.name, Addr: Addr(p.number), Labels: p.spec.Labels, Draining: p.draining,
			})
		}
	}
	f.decider.Members(f.now, members)
}

func (p *pod) keepCounters() {
	p.earlier = sum(p.earlier, p.engine.Counters())
}

func sum(a, b engine.Counters) engine.Counters {
	a.Steps += b.Steps
	a.Finished += b.Finished
	a.Aborted += b.Aborted
	a.Preemptions += b.Preemptions
	a.PrefixQueries += b.PrefixQueries
	a.PrefixHits += b.PrefixHits
	a.PromptTokens += b.PromptTokens
	a.CachedPromptTokens += b.CachedPromptTokens
	a.GenerationTokens += b.GenerationTokens
	return a
}

// adapters names those with running and those with waiting requests, each list sorted.
func (p *pod) adapters() (running, waiting []string) {
	n := int(p.spec.Options.Adapters) + 1
	for i := range p.loads {
		if len(p.loads[i]) < n {
			p.loads[i] = make([]int32, n)
		}
	}
	p.engine.AdapterLoads(p.loads[0], p.loads[1])
	return p.named(p.loads[0]), p.named(p.loads[1])
}

// named returns the names of the adapters with a load.
func (p *pod) named(loads []int32) []string {
	names := []string{}
	for a := 1; a < len(loads); a++ {
		if loads[a] > 0 && a <= len(p.spec.AdapterNames) {
			names = append(names, p.spec.AdapterNames[a-1])
		}
	}
	slices.Sort(names)
	return names
}
