package config

import (
	"fmt"
	"slices"

	"github.com/fairlead/fairlead/pkg/plugins"
)

// DefaultText is the configuration that applies where none is given: the complete cost of a request, with
// prefixes that many share copied ahead of need. Where engines have no memory for more, requests wait here, by priority and tenant,
// and those that can be in time go first; nobody is refused for having waited, but by a bound of its own.
const DefaultText = `apiVersion: fairlead.dev/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: approx-prefix-cache-producer
- type: load-model-producer
- type: health-filter
- type: hot-prefix-filter
- type: cost-scorer
- type: max-score-picker
- type: load-detector
  parameters: {maxBacklog: 0s, maxPending: 0, atHand: 4}
- type: flow-control
  parameters: {saturationDetectorRef: load-detector, defaultRequestTTL: 0s, holdWhenEmpty: false, yieldAfter: 1s}
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: health-filter
  - pluginRef: hot-prefix-filter
  - pluginRef: cost-scorer
  - pluginRef: max-score-picker
`

// ClassicText is what a configuration means that names neither plugins nor profiles: the weights of llm-d's endpoint picker.
const ClassicText = `apiVersion: fairlead.dev/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: queue-scorer
- type: kv-cache-utilization-scorer
- type: prefix-cache-scorer
- type: max-score-picker
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: queue-scorer
    weight: 2
  - pluginRef: kv-cache-utilization-scorer
    weight: 2
  - pluginRef: prefix-cache-scorer
    weight: 3
  - pluginRef: max-score-picker
`

// The types that are added where a configuration leaves them out.
const (
	defaultProfile  = "default"
	defaultPool     = "default"
	defaultHandler  = "single-profile-handler"
	defaultPicker   = "max-score-picker"
	randomPicker    = "random-picker" // the one that looks at no score
	defaultResolver = "model-resolver"
	priorities      = "objective-resolver"
)

// defaultRefs are the plugins of the profile that applies where nothing is configured.
var defaultRefs = [...]refDecl{{ref: "queue-scorer", weight: 2}, {ref: "kv-cache-utilization-scorer", weight: 2},
	{ref: "prefix-cache-scorer", weight: 3}, {ref: "max-score-picker"}}

// complete fills in what the document leaves out. It adds no weights: a scorer without one gets 1 in order.
func (r *reader) complete(d *document, entries []plugins.Entry) {
	r.dropIdle(d)
	if !d.pluginsGiven && !d.profilesGiven {
		r.defaultScheduling(d, entries)
	}
	if !d.profilesGiven && len(d.profiles) == 0 {
		p := &profileDecl{name: defaultProfile}
		for _, it := range d.plugins {
			if isFilter(it) && !aside(d, it) || isScorer(it) || isPicker(it) {
				p.refs = append(p.refs, refDecl{ref: it.name, at: it.at})
			}
		}
		d.profiles = append(d.profiles, p)
	}
	for _, p := range d.profiles {
		r.defaultPicker(d, p, entries)
	}
	if !d.poolsGiven {
		d.pools = []*poolDecl{{name: defaultPool}}
	}
	for _, p := range d.pools {
		if !p.profilesGiven && (len(d.pools) == 1 || len(d.profiles) == 1) {
			for _, prof := range d.profiles {
				p.profiles = append(p.profiles, named{prof.name, p.at})
			}
		}
		if p.handler == "" && p.handlerAt == (pos{}) {
			r.defaultHandler(d, p, entries)
		}
	}
	if len(d.objectives) > 0 {
		r.objectiveResolver(d, entries)
	}
	if len(d.pools) > 1 || slices.ContainsFunc(d.pools, func(p *poolDecl) bool { return len(p.models) > 0 }) {
		r.modelResolver(d, entries)
	}
}

// aside reports whether a policy that is a filter too stays out of the profile of a text without profiles: in our own texts, where it is
// declared for a queue, and where it was added for llm-d's section. A text with llm-d's section or gate is llm-d's, though it may have our
// version for the sake of its objectives.
func aside(d *document, it *pluginDecl) bool {
	u := &d.upstream
	own := d.version == OwnVersion && u.flow.at == (pos{}) && u.flowControlAt == (pos{}) && u.detector.at == (pos{})
	return servedBy(it) != "" && (own || it.at == (pos{}))
}

// dropIdle takes references to plugins that were left out from profiles and stages; what was said of the plugin is enough.
func (r *reader) dropIdle(d *document) {
	idle := func(ref refDecl) bool {
		p := d.plugin(ref.ref)
		return p != nil && p.idle
	}
	for _, p := range d.profiles {
		p.refs = slices.DeleteFunc(p.refs, idle)
	}
	d.stages = slices.DeleteFunc(d.stages, idle)
}

func (r *reader) defaultScheduling(d *document, entries []plugins.Entry) {
	p := &profileDecl{name: defaultProfile}
	for _, ref := range defaultRefs {
		it := r.add(d, ref.ref, entries)
		if it == nil {
			continue
		}
		ref.ref, ref.at = it.name, it.at
		if ref.weight != 0 {
			ref.weightAt = pos{1, 1}
		}
		p.refs = append(p.refs, ref)
	}
	d.profiles = append(d.profiles, p)
}

// add returns the first plugin of this type, and adds one, named like its type, if there is none.
func (r *reader) add(d *document, typ string, entries []plugins.Entry) *pluginDecl {
	for _, p := range d.plugins {
		if p.kind != nil && p.kind.typ == typ {
			return p
		}
	}
	i := slices.IndexFunc(entries, func(e plugins.Entry) bool { return e.Type == typ })
	if i < 0 {
		r.errorf(pos{}, CodeNotAvailable, "write plugins and schedulingProfiles out", "the default plugin %q is not part of this build", typ)
		return nil
	}
	if taken := d.plugin(typ); taken != nil {
		if taken.kind != nil {
			r.errorf(taken.at, CodeDuplicateName, "rename it", "plugin %q: its name is that of the type %s, which is added by default", taken.name, typ)
		}
		return nil
	}
	p := &pluginDecl{name: typ, typ: typ, given: map[string]pos{}, kind: &typeInfo{typ: typ, entry: &entries[i], make: entries[i].New}}
	p.value = p.kind.make()
	d.add(p)
	return p
}

// defaultPicker gives a profile without a picker one: the max-score-picker that is declared, else the first picker that is,
// else a max-score-picker.
func (r *reader) defaultPicker(d *document, p *profileDecl, entries []plugins.Entry) {
	for _, ref := range p.refs {
		if it := d.plugin(ref.ref); it == nil || it.kind == nil || isPicker(it) {
			return // it has one, or names something that is reported and may have been meant to be one
		}
	}
	var declared []*pluginDecl
	for _, it := range d.plugins {
		if isPicker(it) {
			declared = append(declared, it)
		}
	}
	var chosen *pluginDecl
	for _, it := range declared {
		if chosen == nil || it.kind.typ == defaultPicker && chosen.kind.typ != defaultPicker {
			chosen = it
		}
	}
	if chosen == nil {
		chosen = r.add(d, defaultPicker, entries)
	} else if len(declared) > 1 {
		r.hintf(p.at, "add the picker that is meant to the profile", "profile %q names no picker, and %d are declared; it uses %q", p.name, len(declared), chosen.name)
	}
	if chosen != nil {
		p.refs = append(p.refs, refDecl{ref: chosen.name, at: p.at})
	}
}

// defaultHandler gives a pool without a handler the only one that is declared, or a single-profile-handler if it has one
// profile.
func (r *reader) defaultHandler(d *document, p *poolDecl, entries []plugins.Entry) {
	where := ""
	if d.poolsGiven {
		where = fmt.Sprintf("pool %q: ", p.name)
	}
	var declared []*pluginDecl
	for _, it := range d.plugins {
		if isHandler(it) {
			declared = append(declared, it)
		} else if it.kind == nil {
			return // its type is reported; it may have been meant to be the handler
		}
	}
	switch {
	case len(declared) == 1:
		p.handler, p.handlerAt = declared[0].name, declared[0].at
	case len(declared) > 1:
		suggestion := "keep one"
		if d.poolsGiven {
			suggestion = "name the pool's handler"
		}
		r.errorf(declared[1].at, CodeConflict, suggestion, "%stwo profile handlers, %q and %q", where, declared[0].name, declared[1].name)
	case len(p.distinctProfiles(d)) > 1:
		at := p.distinctProfiles(d)[1].at
		if !d.poolsGiven {
			at = d.profiles[1].at
		}
		r.errorf(at, CodeMissing, "add a plugin that is a profile handler, or keep one profile",
			"%sseveral profiles and no profile handler that says which of them runs", where)
	default:
		if it := r.add(d, defaultHandler, entries); it != nil {
			p.handler, p.handlerAt = it.name, it.at
		}
	}
}

// modelResolver has the stage that finds a model's pool run first, unless the document declares it.
func (r *reader) modelResolver(d *document, entries []plugins.Entry) {
	it := r.add(d, defaultResolver, entries)
	if it == nil || it.at != (pos{}) {
		return
	}
	d.plugins = slices.Insert(d.plugins[:len(d.plugins)-1], 0, it)
	if d.stagesGiven {
		d.stages = slices.Insert(d.stages, 0, refDecl{ref: it.name})
	}
}
