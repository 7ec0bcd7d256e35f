package kvindex

import (
	"math"
	"sync"
)

// popular counts which prefixes are asked for most, by the hash of their last block, in bounded memory: space-saving (Metwally,
// Agrawal, El Abbadi 2005) with counts that decay. A prefix that is not counted takes the place of the least one and inherits
// its count as the error of its own. Most prefixes come once: who is not known yet only leaves a mark, and is counted when it
// comes again before another one has left its own there.
type popular struct {
	mu     sync.Mutex // for Hot: decisions and what is heard of others come from different goroutines
	of     [counted]prefix
	weight [counted]float64 // apart, since the least is looked for at each miss
	heads  [buckets]int16   // first of a chain through prefix.next; 0 is none, i+1 is i
	marks  [doors]uint16
	used   int16
	origin float64 // seconds: the instant whose arrivals weigh 1
}

type prefix struct {
	hash   uint64
	excess float64 // of the weight, inherited
	since  float64 // seconds
	workMS float64 // running mean of what a request costs where the prefix is cached
	copyAt float64 // seconds: when the next copy may be made
	waited float64 // milliseconds, decayed: what its requests waited for want of one more copy
	at     float64 // seconds: when waited was reckoned last
	next   int16
}

const (
	counted = 256
	buckets = 512
	doors   = 4096

	// smoothing is the share of the newest request in a mean of work.
	smoothing = 0.05

	// rescaleAt is how many half-lives the weights may have grown by.
	rescaleAt = 64
)

// Seconds: half is the half-life of counts, burst is what a rate outlives, halfWaits the half-life of what requests waited.
const (
	half      = 10.0
	burst     = 2.0
	halfWaits = 60.0
)

// touch counts one more request for the prefix at now and returns its place, -1 where it has none yet.
func (p *popular) touch(hash uint64, now float64) int16 {
	grown := (now - p.origin) / half
	if grown > rescaleAt {
		by := math.Exp2(-grown)
		for i := range p.used {
			p.weight[i] *= by
			p.of[i].excess *= by
		}
		p.origin, grown = now, 0
	}
	i := p.find(hash)
	if i < 0 {
		mixed := hash * 0x9e3779b97f4a7c15
		door, mark := &p.marks[mixed>>52], uint16(mixed>>36)|1
		if *door != mark {
			*door = mark
			return -1
		}
		*door = 0
		i = p.place(hash, now)
	}
	p.weight[i] += math.Exp2(grown)
	return i
}

func (p *popular) find(hash uint64) int16 {
	i := p.heads[bucket(hash)] - 1
	for i >= 0 && p.of[i].hash != hash {
		i = p.of[i].next - 1
	}
	return i
}

func bucket(hash uint64) int { return int(hash * 0x9e3779b97f4a7c15 >> 55) }

// place gives a prefix a place, that of the least one where all are taken.
func (p *popular) place(hash uint64, now float64) int16 {
	i := p.used
	if i < counted {
		p.used++
	} else {
		i = 0
		for k := range p.weight {
			if p.weight[k] < p.weight[i] {
				i = int16(k)
			}
		}
		at := &p.heads[bucket(p.of[i].hash)]
		for *at != i+1 {
			at = &p.of[*at-1].next
		}
		*at = p.of[i].next
	}
	head := &p.heads[bucket(hash)]
	p.of[i] = prefix{hash: hash, excess: p.weight[i], since: now, next: *head}
	*head = i + 1
	return i
}

// rate returns how many requests a second ask for the prefix at place i, at least: by two standard deviations less than were
// counted, and 0 while it is counted for less than two seconds, so that a burst of siblings is no rate. While a prefix is counted for less than a few half-lives, what decay has left
// of a steady rate is less than of a long one.
func (p *popular) rate(i int16, now float64) float64 {
	if now-p.of[i].since < burst {
		return 0
	}
	w := (p.weight[i] - p.of[i].excess) * math.Exp2((p.origin-now)/half)
	w = max(w-2*math.Sqrt(w), 0)
	since := max(now-p.of[i].since, half/2)
	return w * math.Ln2 / half / (1 - math.Exp2(-since/half))
}

// cost takes into account what one request costs, and returns the mean.
func (p *popular) cost(i int16, ms float64) float64 {
	o := &p.of[i]
	if o.workMS == 0 {
		o.workMS = ms
	}
	o.workMS += smoothing * (ms - o.workMS)
	return o.workMS
}

// wait takes into account that a request for the prefix at place i waits so many milliseconds for want of one more copy, and returns what all
// of them waited of late.
func (p *popular) wait(i int16, now, ms float64) float64 {
	o := &p.of[i]
	o.waited, o.at = float64(o.waited*math.Exp2((o.at-now)/halfWaits))+ms, now
	return o.waited
}
