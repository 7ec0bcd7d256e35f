package fleet

import (
	"fmt"
	"slices"

	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/pool"
)

// Kind is what a planned event does to a pod.
type Kind string

// The kinds of events.
const (
	Crash   Kind = "crash"   // its requests fail, nobody listens; cache and queue are lost
	Restart Kind = "restart" // after a crash, or of a running pod: a new process with an empty cache
	Slow    Kind = "slow"    // its steps take Factor times as long
	Hang    Kind = "hang"    // it stands still and answers no reading
	Resume  Kind = "resume"  // it goes on
	Blind   Kind = "blind"   // its readings do not arrive
	See     Kind = "see"     // they do again
	Gap     Kind = "gap"     // its cache events are lost
	Rejoin  Kind = "rejoin"  // those to come arrive again
	Add     Kind = "add"     // a pod of the given kind joins, with an empty cache
	Drain   Kind = "drain"   // it takes nothing new, and leaves when it is idle
)

// Event is something planned.
type Event struct {
	At   pool.Instant
	Kind Kind

	// Pod is the number of the pod that it happens to; for Add, of the pod that the new one is like.
	Pod int32

	// Factor is how many times as long the steps of a slow pod take; 1 ends it.
	Factor float64

	// Detected is how long the membership lags behind: the time until a crashed pod is listed no more.
	Detected pool.Instant
}

func (e *Event) check(pods int32) error {
	switch e.Kind {
	case Crash, Restart, Hang, Resume, Blind, See, Gap, Rejoin, Add, Drain:
	case Slow:
		if !(e.Factor > 0) {
			return fmt.Errorf("event %q at %v: factor is %v; above 0", e.Kind, e.At, e.Factor)
		}
	default:
		return fmt.Errorf("event %q at %v: no such kind; there are crash, restart, slow, hang, resume, blind, see, gap, rejoin, add and drain", e.Kind, e.At)
	}
	if e.At < 0 || e.Detected < 0 {
		return fmt.Errorf("event %q: at %v, detected %v; neither may be negative", e.Kind, e.At, e.Detected)
	}
	if e.Pod < 0 || e.Pod >= pods {
		return fmt.Errorf("event %q at %v: pod %d; there are %d by then, numbered from 0", e.Kind, e.At, e.Pod, pods)
	}
	return nil
}

// happen makes a planned event.
func (f *Fleet) happen(e *Event) error {
	p := f.pods[e.Pod]
	f.bring(p)
	switch e.Kind {
	case Crash:
		if !p.up {
			return nil
		}
		f.breakOff(p, "crashed")
		p.up = false
		p.unlistAt = f.now + e.Detected
		f.unlist()
	case Restart:
		if p.up {
			f.breakOff(p, "restarted")
		}
		if err := f.start(p); err != nil {
			return err
		}
		p.unlistAt = 0
		if !p.listed {
			p.listed = true
			f.announce()
		}
	case Slow:
		p.slowdown = e.Factor
		p.engine.SetSlowdown(e.Factor)
		f.plan(p)
	case Hang:
		if p.up && !p.hung {
			p.hung, p.hungSince = true, f.now
			f.steps.set(p.number, never)
		}
	case Resume:
		if p.hung {
			p.hung = false
			if _, busy := p.engine.Next(); busy {
				p.engine.Stall(f.asElapsed(f.now - p.hungSince))
			} else {
				f.step(p, f.asElapsed(f.now)) // begin with what came meanwhile
			}
			f.plan(p)
		}
	case Blind:
		p.blind = true
	case See:
		p.blind = false
	case Gap:
		p.outbox.gap = true
	case Rejoin:
		p.outbox.gap = false
	case Add:
		if err := f.join(p.spec); err != nil {
			return err
		}
		f.announce()
	case Drain:
		p.draining = true
		f.announce()
		f.leaveIfIdle(p)
	}
	return nil
}

// breakOff ends every request in a pod as failed.
func (f *Fleet) breakOff(p *pod, why string) {
	f.steps.set(p.number, never)
	p.hung = false
	var broken []int64
	for slot, number := range p.live {
		if number != nobody {
			broken = append(broken, number)
			p.live[slot] = nobody
		}
	}
	slices.Sort(broken)
	for _, number := range broken {
		f.abandonOther(p, number)
		f.end(uint64(number), Failed, why)
		f.decider.Finish(f.now, uint64(number), openai.NoUsage, false)
	}
	p.running = 0
	p.keepCounters()
}

// unlist takes pods out of the membership whose crash has been noticed.
func (f *Fleet) unlist() {
	changed := false
	f.unlistNext = 0
	for _, p := range f.pods {
		if p.unlistAt == 0 {
			continue
		}
		if p.unlistAt <= f.now {
			p.unlistAt, p.listed, changed = 0, false, true
		} else if f.unlistNext == 0 || p.unlistAt < f.unlistNext {
			f.unlistNext = p.unlistAt
		}
	}
	if changed {
		f.announce()
	}
}

// leaveIfIdle takes a draining pod out of the membership when nothing runs on it.
func (f *Fleet) leaveIfIdle(p *pod) {
	if p.draining && p.running == 0 && p.listed {
		p.listed = false
		f.announce()
	}
}
