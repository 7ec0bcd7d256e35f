package policy

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/fairlead/fairlead/pkg/exchange"
	"github.com/fairlead/fairlead/pkg/openai"
	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/simulator/fleet"
)

// maxReplicas bounds how many schedulers stand beside each other.
const maxReplicas = 64

// replicated reads replicas=N:NAME, which is N schedulers of the policy NAME beside each other, as behind a service: each
// request comes to one of them, drawn, and each knows its own bookings alone. Readings and cache events of engines come to all. In
// replicas=N@T:NAME they tell each other what they book, which arrives after the time T, such as 2ms: at 0s each knows all before it
// decides, and what is left against one scheduler alone is what they do not tell. In replicas=N@T+W:NAME what they have chosen waits
// for the time W for what others tell, and not for what is the default; 0s is not at all.
func replicated(name string) (Policy, bool, error) {
	rest, ok := strings.CutPrefix(name, "replicas=")
	if !ok {
		return Policy{}, false, nil
	}
	count, of, ok := strings.Cut(rest, ":")
	count, late, tell := strings.Cut(count, "@")
	late, hold, holds := strings.Cut(late, "+")
	n, err := strconv.Atoi(count)
	if !ok || err != nil || n < 1 || n > maxReplicas {
		return Policy{}, true, fmt.Errorf("policy %q: want replicas=N:NAME with N from 1 to %d", name, maxReplicas)
	}
	p, err := Named(of)
	if err != nil {
		return Policy{}, true, err
	}
	delay := time.Duration(0)
	if tell {
		if delay, err = time.ParseDuration(late); err != nil || delay < 0 || delay > time.Minute {
			return Policy{}, true, fmt.Errorf("policy %q: what replicas tell arrives after %q; want a duration from 0s to 1m", name, late)
		}
	}
	var set func(*exchange.Options)
	if holds {
		wait, err := time.ParseDuration(hold)
		if err != nil || wait < 0 || wait > exchange.MaxReplicaWait {
			return Policy{}, true, fmt.Errorf("policy %q: what replicas choose waits for %q; want a duration from 0s to %v", name, hold, exchange.MaxReplicaWait)
		}
		set = func(o *exchange.Options) { o.ReplicaWait = wait }
	}
	one := p.make
	p.Name, p.Text, p.make = name, "", func(seed uint64, _ func(*exchange.Options)) (fleet.Decider, error) {
		r := &replicas{random: rand.New(rand.NewPCG(seed, 'R')), at: map[uint64]int{}}
		for i := range n {
			d, err := one(seed+uint64(i)<<48, set)
			if err != nil {
				return nil, err
			}
			r.all = append(r.all, d)
		}
		if tell {
			if err := r.acquaint(pool.Instant(delay)); err != nil {
				return nil, fmt.Errorf("policy %q: %w", name, err)
			}
		}
		switch r.all[0].(type) {
		case fleet.Listener:
			return hearing{r}, nil
		case fleet.Onlooker:
			return onlooking{r}, nil
		}
		return r, nil
	}
	return p, true, nil
}

// replicas are schedulers that do not know of each other.
type replicas struct {
	all    []fleet.Decider
	random *rand.Rand
	at     map[uint64]int // whose a request is that has not ended
	*grapevine
}

func (r *replicas) Members(now pool.Instant, m []pool.Endpoint) {
	r.spread(now)
	for _, d := range r.all {
		d.Members(now, m)
	}
}

func (r *replicas) Observe(now pool.Instant, member int32, s pool.Sample) {
	r.spread(now)
	for _, d := range r.all {
		d.Observe(now, member, s)
	}
}

// hearing are replicas that hear the engines' cache events.
type hearing struct{ *replicas }

// Blocks brings a batch to all; whoever asks for all that a member caches, the answer comes to all.
func (h hearing) Blocks(now pool.Instant, member int32, b *fleet.Batch) (ask bool) {
	for _, d := range h.all {
		if d.(fleet.Listener).Blocks(now, member, b) {
			ask = true
		}
	}
	return ask
}

// onlooking are replicas that look into the engines.
type onlooking struct{ *replicas }

// Look gives all the way to look.
func (o onlooking) Look(cached func(member int32, hashes []uint64) int) {
	for _, d := range o.all {
		d.(fleet.Onlooker).Look(cached)
	}
}

func (r *replicas) Arrive(now pool.Instant, number uint64, from *fleet.Request, s *openai.Summary) fleet.Answer {
	r.spread(now)
	at := r.random.IntN(len(r.all))
	r.at[number] = at
	return r.note(r.all[at].Arrive(now, number, from, s), number)
}

// note forgets a request that was refused.
func (r *replicas) note(a fleet.Answer, number uint64) fleet.Answer {
	if !a.Held && a.Refused != "" {
		delete(r.at, number)
	}
	return a
}

func (r *replicas) Unreachable(now pool.Instant, number uint64, member int32) fleet.Answer {
	r.spread(now)
	return r.note(r.all[r.at[number]].Unreachable(now, number, member), number)
}

func (r *replicas) FirstToken(now pool.Instant, number uint64) {
	r.spread(now)
	r.all[r.at[number]].FirstToken(now, number)
}

func (r *replicas) Finish(now pool.Instant, number uint64, u openai.Usage, clean bool) {
	r.spread(now)
	at := r.at[number]
	delete(r.at, number)
	r.all[at].Finish(now, number, u, clean)
}

func (r *replicas) Due(now pool.Instant, released []fleet.Answer) (_ []fleet.Answer, next pool.Instant) {
	r.spread(now)
	for _, d := range r.all {
		before := len(released)
		var due pool.Instant
		released, due = d.Due(now, released)
		for _, a := range released[before:] {
			r.note(a, a.Number)
		}
		if next == 0 || due != 0 && due < next {
			next = due
		}
	}
	if at := r.next(); at != 0 && (next == 0 || at < next) {
		next = at
	}
	return released, next
}

// productions returns those of them that are the production scheduler.
func (r *replicas) productions() (all []*Production) {
	for _, d := range r.all {
		if it, ok := d.(interface{ production() *Production }); ok {
			all = append(all, it.production())
		}
	}
	return all
}

// Noted returns how often each reason was noted by any of them, by code.
func (r *replicas) Noted() map[string]int {
	noted := map[string]int{}
	for _, d := range r.all {
		if p, ok := d.(interface{ Noted() map[string]int }); ok {
			for code, n := range p.Noted() {
				noted[code] += n
			}
		}
	}
	return noted
}

// Left says what is still booked or under way at any of them, once all have heard what was told; empty for nothing. See
// [Production.Left].
func (r *replicas) Left() string {
	var left []string
	r.flush()
	for i, d := range r.all {
		if l, ok := d.(interface{ Left() string }); ok {
			if what := l.Left(); what != "" {
				left = append(left, fmt.Sprintf("replica %d: %s", i, what))
			}
		}
	}
	return strings.Join(left, "; ")
}
