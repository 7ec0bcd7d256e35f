package flow

import (
	"slices"

	"github.com/fairlead/fairlead/pkg/pool"
	"github.com/fairlead/fairlead/pkg/reason"
)

// Inherit has c take its place in what from has: those that wait there wait on in the bands and under the policies of c as soon as
// that is attached, with their places, and tenants keep what they were served. Until then nothing changes for from, and from then on
// both are one queue: requests that came under the other configuration go by the same order, to endpoints that theirs chooses.
// Bands and bounds must be the same; policies may be others.
func (c *Control) Inherit(from *Control) { c.common = from.common }

// Shares reports whether two controls are one queue.
func (c *Control) Shares(o *Control) bool { return c.common == o.common }

// Attach gives it its pools, once, and puts its settings in force.
func (c *Control) Attach(pools []*pool.Pool, sink reason.Sink) {
	c.asking.Lock()
	defer c.asking.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if sink != nil {
		c.sink = sink
	}
	c.in.Store(rulesOf(c.settings))
	c.mine = nil
	for _, p := range pools {
		c.mine = append(c.mine, c.lineOf(p))
	}
	lines := slices.Clone(c.mine)
	for _, l := range c.lines {
		if slices.Contains(lines, l) {
			continue
		}
		if l.gone = l.waiting.Load() == 0; !l.gone {
			lines = append(lines, l)
		}
	}
	c.lines, c.turn = lines, 0
	for _, l := range c.lines {
		c.follow(l)
	}
}

// lineOf returns the line of a pool, made if there is none.
func (c *Control) lineOf(p *pool.Pool) *line {
	if i := slices.IndexFunc(c.lines, func(l *line) bool { return l.pool == p }); i >= 0 {
		return c.lines[i]
	}
	return &line{pool: p}
}

// follow has the bands of a line follow the rules in force, by which all that wait are asked anew.
func (c *Control) follow(l *line) {
	o := c.rules()
	l.trials = trials{}
	here := slices.DeleteFunc(slices.Clone(o.Bands), func(s BandSettings) bool { return s.Pool != "" && s.Pool != l.pool.Name })
	for _, b := range l.bands {
		i := slices.IndexFunc(here, func(s BandSettings) bool { return s.Priority == b.Priority })
		if b.static = i >= 0; b.static {
			b.BandSettings = here[i]
		} else {
			b.BandSettings = o.like(b.Priority)
		}
		b.looked = trials{}
		for _, f := range b.waiting {
			f.reorder(b.BandSettings)
			f.parked, f.seeks = 0, search{}
		}
	}
	for _, s := range here {
		if !slices.ContainsFunc(l.bands, func(b *Band) bool { return b.Priority == s.Priority }) {
			l.add(&Band{BandSettings: s, static: true})
		}
	}
}

// reorder has those that wait in a flow go by the order of these settings.
func (f *Flow) reorder(s BandSettings) {
	all := slices.Clone(f.heap)
	f.heap, f.timely = f.heap[:0], 0
	for _, it := range all {
		it.key = s.Ordering.Key(it.r, it.at, s.TTL)
		f.push(it)
	}
}

// like returns the settings of a band that is made for a priority.
func (s *Settings) like(priority int32) BandSettings {
	b := s.Default
	if priority < 0 {
		b = s.DefaultNegative
	}
	b.Priority = priority
	return b
}

// everyLine returns the lines of all pools. They are replaced, and never modified.
func (c *Control) everyLine() []*line {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lines
}
