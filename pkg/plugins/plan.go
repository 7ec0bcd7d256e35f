package plugins

import (
	"fmt"
	"slices"
)

// Plan is how one pool decides: its profiles, its handler, and what must run before them.
type Plan struct {
	Pool  PoolSpec
	Index int

	built    *Built
	handler  *instance
	profiles []*profile

	describers []*instance      // plugins whose request facts somebody reads, in order
	describes  []func(*Request) // request facts that the framework makes itself
	producers  []*instance      // plugins whose endpoint facts somebody reads
	observers  []*instance      // those of them that look at samples and books
	witnesses  []*instance      // those of them that look at what was chosen
	admitters  []*instance      // those who may refuse a request before a profile runs
	fills      []func(*Cycle)   // endpoint facts that come from the pool
	claimers   []*instance      // those who are told of bookings inside the lock
	bookers    []*instance      // those who are told, inside the lock too, when a booking stands
	commits    []*instance      // request hooks of this pool
	attempts   []*instance      // attempt hooks of this pool
	responds   []*instance      // response hooks of this pool
	answers    []*instance      // answer hooks of this pool

	reads Reads // what the facts that its plugins read are made of
}

type profile struct {
	name    string
	filters []*instance
	scorers []weighted
	picker  *instance
	reads   []int32 // slots that its plugins read, for the record
}

type weighted struct {
	*instance
	weight float64
}

// planPool resolves a pool's profiles and works out which facts somebody of them reads: only those are made.
func (b *Built) planPool(index int) (*Plan, error) {
	spec := b.Spec.Pools[index]
	p := &Plan{Pool: spec, Index: index, built: b}
	where := fmt.Sprintf("pool %q", spec.Name)

	if p.handler = b.find(spec.Handler); p.handler == nil {
		return nil, fmt.Errorf("%s: no plugin is named %q; its handler must be one of the plugins", where, spec.Handler)
	}
	if _, ok := p.handler.value.(ProfileHandler); !ok {
		return nil, fmt.Errorf("%s: %q is no profile handler", where, spec.Handler)
	}
	member := map[*instance]bool{p.handler: true}
	for _, name := range spec.Profiles {
		i := slices.IndexFunc(b.Spec.Profiles, func(s ProfileSpec) bool { return s.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("%s: no profile is named %q", where, name)
		}
		prof, err := b.planProfile(b.Spec.Profiles[i], p.handler)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", where, err)
		}
		p.profiles = append(p.profiles, prof)
		for _, it := range prof.members() {
			member[it] = true
		}
	}
	for _, it := range b.instances {
		if _, ok := it.value.(Admitter); ok {
			p.admitters = append(p.admitters, it)
			member[it] = true
		}
	}
	p.needed(member)
	p.hooks(member)
	return p, nil
}

func (b *Built) planProfile(spec ProfileSpec, handler *instance) (*profile, error) {
	prof := &profile{name: spec.Name}
	for _, ref := range spec.Plugins {
		it := b.find(ref.Ref)
		if it == nil {
			return nil, fmt.Errorf("profile %q: no plugin is named %q", spec.Name, ref.Ref)
		}
		known := false
		if _, ok := it.value.(Filter); ok {
			prof.filters, known = append(prof.filters, it), true
		}
		if _, ok := it.value.(Scorer); ok {
			prof.scorers, known = append(prof.scorers, weighted{it, ref.Weight}), true
		}
		if _, ok := it.value.(Picker); ok {
			if prof.picker != nil {
				return nil, fmt.Errorf("profile %q: %q is a second picker beside %q; keep one", spec.Name, it.name, prof.picker.name)
			}
			prof.picker, known = it, true
		}
		if !known && !it.makesFacts() {
			return nil, fmt.Errorf("profile %q: %q (%s) is no filter, scorer or picker", spec.Name, it.name, it.typ)
		}
	}
	if prof.picker == nil {
		return nil, fmt.Errorf("profile %q has no picker; add max-score-picker", spec.Name)
	}
	for _, it := range append(prof.members(), handler) {
		for _, slot := range it.needs {
			if !slices.Contains(prof.reads, slot) {
				prof.reads = append(prof.reads, slot)
			}
		}
	}
	slices.Sort(prof.reads)
	return prof, nil
}

func (p *profile) members() []*instance {
	all := slices.Clone(p.filters)
	for _, s := range p.scorers {
		all = append(all, s.instance)
	}
	return append(all, p.picker)
}

// needed follows the needs of the pool's plugins, and of whoever provides for them, to the facts that must be made.
func (p *Plan) needed(member map[*instance]bool) {
	b := p.built
	wanted := make([]bool, len(b.facts))
	var want func(it *instance)
	want = func(it *instance) {
		for _, slot := range it.needs {
			if wanted[slot] {
				continue
			}
			wanted[slot] = true
			if b.facts[slot].describe != nil {
				p.reads = max(p.reads, b.facts[slot].reads)
			}
			if by := b.facts[slot].provider; by != nil {
				member[by] = true
				want(by)
			}
		}
	}
	if by := b.facts[b.expectedOutput.slot].provider; by != nil { // booking wants it always
		member[by] = true
	}
	for _, it := range b.instances { // in order, so that the outcome has one
		if member[it] {
			want(it)
		}
	}
	for slot := 1; slot < len(b.facts); slot++ {
		f := &b.facts[slot]
		switch {
		case f.provider != nil:
		case f.describe != nil: // cheap, and booking wants prompt-tokens always
			p.describes = append(p.describes, f.describe)
		case wanted[slot] && f.fill != nil:
			p.fills = append(p.fills, f.fill)
		}
	}
	for _, it := range b.providersFirst() {
		if !member[it] {
			continue
		}
		if _, ok := it.value.(Describer); ok {
			p.describers = append(p.describers, it)
			p.reads = max(p.reads, describerReads(it.value))
		}
		if _, ok := it.value.(Producer); ok {
			p.producers = append(p.producers, it)
		}
		if _, ok := it.value.(Observer); ok {
			p.observers = append(p.observers, it)
		}
		if _, ok := it.value.(Witness); ok {
			p.witnesses = append(p.witnesses, it)
		}
	}
}

// providersFirst returns the instances in order, but each after those that provide what it needs, so that a producer can
// read what another has made.
func (b *Built) providersFirst() []*instance {
	var out []*instance
	placed := map[*instance]bool{}
	var place func(it *instance)
	place = func(it *instance) {
		if placed[it] {
			return
		}
		placed[it] = true // before its needs: who needs what it provides itself waits for nobody
		for _, slot := range it.needs {
			if by := b.facts[slot].provider; by != nil {
				place(by)
			}
		}
		out = append(out, it)
	}
	for _, it := range b.instances {
		place(it)
	}
	return out
}

// hooks takes the pool's own plugins and those that belong to no profile at all, such as stages.
func (p *Plan) hooks(member map[*instance]bool) {
	inProfiles := map[string]bool{}
	for _, prof := range p.built.Spec.Profiles {
		for _, ref := range prof.Plugins {
			inProfiles[ref.Ref] = true
		}
	}
	for _, it := range p.built.instances {
		if !member[it] && (inProfiles[it.name] || it.makesFacts()) {
			continue
		}
		if _, ok := it.value.(Claimer); ok {
			p.claimers = append(p.claimers, it)
		}
		if _, ok := it.value.(Booker); ok {
			p.bookers = append(p.bookers, it)
		}
		if _, ok := it.value.(RequestHook); ok {
			p.commits = append(p.commits, it)
		}
		if _, ok := it.value.(AttemptHook); ok {
			p.attempts = append(p.attempts, it)
		}
		if _, ok := it.value.(ResponseHook); ok {
			p.responds = append(p.responds, it)
		}
		if _, ok := it.value.(AnswerHook); ok {
			p.answers = append(p.answers, it)
		}
	}
}

// describerReads is the whole body, unless a describer says that it needs less.
func describerReads(d any) Reads {
	if r, ok := d.(BodyReader); ok {
		return r.Reads()
	}
	return ReadsBody
}

// FactNames returns the names of the facts that the plugins of the pool's profiles read, sorted.
func (p *Plan) FactNames() []string {
	var names []string
	for _, prof := range p.profiles {
		names = append(names, p.built.factNames(prof.reads)...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// ProfileNames returns the names of the pool's profiles, in order.
func (p *Plan) ProfileNames() []string { return p.Pool.Profiles }
