package config

import (
	"fmt"
	"slices"
)

// check holds the completed document against the rules that no single field shows.
func (r *reader) check(d *document) {
	used := map[string]bool{}
	for _, p := range d.profiles {
		r.checkProfile(d, p, used)
	}
	for _, p := range d.pools {
		r.checkPool(d, p)
		used[p.handler] = true
	}
	r.checkStages(d)
	r.checkObjectives(d)
	for _, p := range d.profiles {
		if !slices.ContainsFunc(d.pools, func(pool *poolDecl) bool {
			return slices.ContainsFunc(pool.profiles, func(n named) bool { return n.name == p.name })
		}) {
			r.hintf(p.at, "remove it, or add it to a pool's profiles", "profile %q: no pool uses it", p.name)
		}
	}
	for _, it := range d.plugins {
		if used[it.name] || it.kind == nil || ordered(it) {
			continue
		}
		switch {
		case isHandler(it):
			r.hintf(it.at, "remove it, or name it as a pool's handler", "plugin %q: no pool uses the handler", it.name)
		case servedBy(it) != "": // whether somebody refers to it shows when it is built
		case isFilter(it), isScorer(it), isPicker(it):
			r.hintf(it.at, "remove it, or add it to a profile", "plugin %q: no profile uses it", it.name)
		}
	}
}

func (r *reader) checkProfile(d *document, p *profileDecl, used map[string]bool) {
	where := fmt.Sprintf("profile %q", p.name)
	var picker, scorer *refDecl
	weighs := false // a scorer has a weight above 0
	seen := map[string]pos{}
	complete := true
	for i := range p.refs {
		ref := &p.refs[i]
		it := d.plugin(ref.ref)
		if it == nil {
			r.errorf(ref.at, CodeUndefined, r.declare(d, ref.ref, inProfile), "%s: no plugin is named %q", where, ref.ref)
			complete = false
			continue
		}
		used[ref.ref] = true
		if first, twice := seen[ref.ref]; twice {
			r.errorf(ref.at, CodeDuplicateName, "keep one of the two", "%s: %q is listed twice, first in line %d", where, ref.ref, first.line)
			continue
		}
		seen[ref.ref] = ref.at
		if it.kind == nil {
			complete = false // its type is reported
			continue
		}
		switch {
		case !inProfile(it):
			suggestion := "remove it from the profile"
			if isHandler(it) {
				suggestion += ": a handler runs profiles and belongs under plugins alone"
			} else if isStage(it) {
				suggestion += ": a stage runs before scheduling and belongs under plugins alone"
			}
			r.errorf(ref.at, CodeWrongRole, suggestion, "%s: %q (%s) is %s", where, it.name, it.typ, role(it))
		case isPicker(it):
			if picker != nil {
				r.errorf(ref.at, CodeConflict, "keep one", "%s: two pickers, %q and %q", where, picker.ref, ref.ref)
			}
			picker = ref
		}
		if isScorer(it) {
			scorer = ref
			weighs = weighs || ref.weightAt == (pos{}) || ref.weight > 0
			if ref.weightAt != (pos{}) && ref.weight == 0 {
				r.hintf(ref.weightAt, "remove the scorer from the profile", "%s: %q has weight 0 and no effect", where, ref.ref)
			}
		} else if ref.weightAt != (pos{}) {
			r.hintf(ref.weightAt, "remove it", "%s: the weight of %q has no effect: it is %s", where, ref.ref, role(it))
		}
	}
	if !complete || picker == nil {
		return
	}
	switch blind := d.plugin(picker.ref).kind.typ == randomPicker; {
	case scorer == nil && !blind:
		r.hintf(p.at, "add a scorer, such as queue-scorer", "%s has no scorer: all endpoints are equally good, and one is drawn at random", where)
	case scorer != nil && blind:
		at := scorer.at
		r.hintf(at, "use max-score-picker, or remove the scorers", "%s: its scorers have no effect: %q draws whatever the scores are", where, picker.ref)
	case scorer != nil && !weighs:
		r.hintf(p.at, "give a scorer a weight above 0", "%s: all its scorers have weight 0: one endpoint is drawn at random", where)
	}
}

// declare is the advice for a reference to nothing: the type of this name, if there is one, is to be declared; else another
// name was meant.
func (r *reader) declare(d *document, name string, accept func(*pluginDecl) bool) string {
	for _, typ := range d.types {
		if typ == name {
			return fmt.Sprintf("add - type: %s to plugins", name)
		}
	}
	return didYouMeanOr(name, d.pluginNames(accept))
}

func (r *reader) checkPool(d *document, p *poolDecl) {
	where := fmt.Sprintf("pool %q", p.name)
	seen := map[string]pos{}
	for _, prof := range p.profiles {
		if d.profile(prof.name) == nil {
			r.errorf(prof.at, CodeUndefined, didYouMeanOr(prof.name, d.profileNames()), "%s: no profile is named %q", where, prof.name)
		}
		if first, twice := seen[prof.name]; twice {
			r.errorf(prof.at, CodeDuplicateName, "keep one of the two", "%s: profile %q is listed twice, first in line %d", where, prof.name, first.line)
		}
		seen[prof.name] = prof.at
	}
	if len(p.profiles) == 0 && len(d.profiles) > 0 {
		r.errorf(p.at, CodeMissing, "add profiles with the names of those that decide for it", "%s has no profiles, and there are several pools and profiles", where)
	}
	if len(p.models) == 0 && len(d.pools) > 1 {
		r.errorf(p.at, CodeMissing, "add models, so that requests find it", "%s has no models, and there are several pools", where)
	}
	if p.handler == "" {
		return
	}
	it := d.plugin(p.handler)
	switch {
	case it == nil:
		r.errorf(p.handlerAt, CodeUndefined, r.declare(d, p.handler, isHandler), "%s: no plugin is named %q", where, p.handler)
	case it.kind == nil:
	case !isHandler(it):
		r.errorf(p.handlerAt, CodeWrongRole, didYouMeanOr(p.handler, d.pluginNames(isHandler)), "%s: handler %q is %s", where, p.handler, role(it))
	case it.kind.typ == defaultHandler && len(p.distinctProfiles(d)) > 1:
		two := p.distinctProfiles(d)
		r.errorf(p.handlerAt, CodeConflict, "keep one profile, or use a handler for several",
			"%s: %s runs one profile, and there are %d: %q and %q", where, defaultHandler, len(two), two[0].name, two[1].name)
	}
}

func (r *reader) checkStages(d *document) {
	if !d.stagesGiven {
		return
	}
	seen := map[string]pos{}
	for _, s := range d.stages {
		it := d.plugin(s.ref)
		switch {
		case it == nil:
			r.errorf(s.at, CodeUndefined, r.declare(d, s.ref, isStage), "stages: no plugin is named %q", s.ref)
		case it.kind != nil && !isStage(it):
			r.errorf(s.at, CodeWrongRole, "remove it from stages", "stages: %q is %s", s.ref, role(it))
		}
		if first, twice := seen[s.ref]; twice {
			r.errorf(s.at, CodeDuplicateName, "keep one of the two", "stages: %q is listed twice, first in line %d", s.ref, first.line)
		}
		seen[s.ref] = s.at
	}
	for _, it := range d.plugins {
		if isStage(it) && !slices.ContainsFunc(d.stages, func(s refDecl) bool { return s.ref == it.name }) {
			r.errorf(it.at, CodeConflict, "add it to stages, or remove it", "plugin %q: a stage that stages does not list would never run", it.name)
		}
	}
}
