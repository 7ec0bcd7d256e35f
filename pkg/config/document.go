package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// Kind is the kind of the only document that this package reads.
const Kind = "EndpointPickerConfig"

// OwnVersion is the API version under which pools, stages and objectives stand, and under which effective configurations are printed.
const OwnVersion = "fairlead.dev/v1alpha1"

// Versions returns the API versions that are read. They mean the same, but for pools, stages and objectives.
func Versions() []string {
	return []string{OwnVersion, "inference.networking.x-k8s.io/v1alpha1", "llm-d.ai/v1alpha1", "llm-d.ai/v1"}
}

// document is what the text says, in its own terms: fields with their places, nothing filled in.
type document struct {
	version string

	plugins  []*pluginDecl
	named    map[string]*pluginDecl
	profiles []*profileDecl
	pools    []*poolDecl
	stages   []refDecl

	objectives []objectiveDecl

	// Whether the field was given at all: an empty list is not the same as none, but for profiles.
	pluginsGiven, profilesGiven, poolsGiven, stagesGiven bool

	// types are those of the catalogue.
	types []string

	upstream upstreamSections
	// discovery is where endpoints come from, if the document says so; nil leaves it to the command line.
	discovery *FileDiscovery
	// metrics says how engines are asked and understood.
	metrics Metrics
}

// pluginDecl is one entry of plugins.
type pluginDecl struct {
	name, typ string
	at, typAt pos
	params    *yaml.Node // nil: none given
	idle      bool       // of a type that needs no plugin: left out

	kind *typeInfo // nil: a type that is unknown or refused
	// value is an instance with its parameters decoded: it tells the roles and is printed, but never runs.
	value any
	// given says where each parameter stands.
	given map[string]pos
}

// profileDecl is one entry of schedulingProfiles.
type profileDecl struct {
	name string
	at   pos
	refs []refDecl
}

// refDecl refers to a plugin by name.
type refDecl struct {
	ref      string
	at       pos
	weight   float64
	weightAt pos // zero: no weight is given
}

func (r *reader) document(root *yaml.Node) *document {
	d := &document{}
	var kindAt, versionAt, poolsAt, stagesAt, objectivesAt pos
	kind := ""
	r.table(root, "", "field", []field{
		{"apiVersion", func(k, v *yaml.Node) { versionAt = at(v); d.version, _ = r.text(k, v, "") }},
		{"kind", func(k, v *yaml.Node) { kindAt = at(v); kind, _ = r.text(k, v, "") }},
		{"featureGates", func(k, v *yaml.Node) { r.featureGates(k, v, d) }},
		{"plugins", func(k, v *yaml.Node) { r.plugins(k, v, d) }},
		{"schedulingProfiles", func(k, v *yaml.Node) { r.profiles(k, v, d) }},
		{"pools", func(k, v *yaml.Node) { poolsAt = at(k); r.pools(k, v, d) }},
		{"stages", func(k, v *yaml.Node) { stagesAt = at(k); r.stages(k, v, d) }},
		{"objectives", func(k, v *yaml.Node) { objectivesAt = at(k); r.objectives(k, v, d) }},
		{"dataLayer", func(k, v *yaml.Node) { r.dataLayer(k, v, d) }},
		{"flowControl", func(k, v *yaml.Node) { r.flowControl(k, v, d) }},
		{"requestHandler", func(k, v *yaml.Node) { r.requestHandler(k, v, d) }},
		{"saturationDetector", func(k, v *yaml.Node) { r.detector(k, v, "saturationDetector", &d.upstream.detector) }},
		{"parser", func(k, v *yaml.Node) { r.parser(k, v, d) }},
	})
	if root.Kind != yaml.MappingNode {
		return d
	}

	switch {
	case kindAt == pos{}:
		r.errorf(at(root), CodeMissing, "add kind: "+Kind, "kind is missing")
	case kind != "" && kind != Kind:
		r.errorf(kindAt, CodeVersion, "write "+Kind, "kind is %q", kind)
	}
	switch {
	case versionAt == pos{}:
		r.errorf(at(root), CodeMissing, "add apiVersion: "+OwnVersion, "apiVersion is missing")
	case d.version != "" && !slices.Contains(Versions(), d.version):
		r.errorf(versionAt, CodeVersion, didYouMeanOr(d.version, Versions()), "apiVersion is %q", d.version)
	case d.version != "" && d.version != OwnVersion:
		for _, own := range []struct {
			name string
			at   pos
		}{{"pools", poolsAt}, {"stages", stagesAt}, {"objectives", objectivesAt}} {
			if own.at != (pos{}) {
				r.errorf(own.at, CodeVersion, fmt.Sprintf("set apiVersion: %s in line %d, or remove it", OwnVersion, versionAt.line),
					"%s is no part of %s", own.name, d.version)
			}
		}
	}
	return d
}

func (r *reader) plugins(key, value *yaml.Node, d *document) {
	var items []*yaml.Node
	items, d.pluginsGiven = r.list(key, value, "")
	for i, item := range items {
		p := &pluginDecl{at: at(item), given: map[string]pos{}}
		where := fmt.Sprintf("plugins[%d]", i)
		if name := peek(item, "name"); name != "" {
			where = fmt.Sprintf("plugin %q", shortened(name))
		} else if typ := peek(item, "type"); typ != "" {
			where = fmt.Sprintf("plugin %q", shortened(typ))
		}
		named, typed := false, false
		ok := r.table(item, where, "field", []field{
			{"name", func(k, v *yaml.Node) { named = true; p.at = at(v); p.name, _ = r.text(k, v, where) }},
			{"type", func(k, v *yaml.Node) { typed = true; p.typAt = at(v); p.typ, _ = r.text(k, v, where) }},
			{"parameters", func(k, v *yaml.Node) {
				if n := r.resolve(v); n != nil && !isNull(n) {
					p.params = v
				}
			}},
		})
		if !ok {
			continue
		}
		if !typed {
			r.errorf(at(item), CodeMissing, "add type", "%s: type is missing", where)
		}
		if !named {
			p.name, p.at = p.typ, p.typAt
		}
		if item.Kind == yaml.AliasNode {
			p.at = at(item)
		}
		if p.name == "" {
			continue
		}
		if first := d.plugin(p.name); first != nil {
			suggestion := "give each a name of its own"
			if first.typ != p.typ {
				suggestion = "rename one of the two"
			}
			r.errorf(p.at, CodeDuplicateName, suggestion, "plugin %q: the name is taken by the plugin in line %d", p.name, first.at.line)
			continue
		}
		if bad := unprintable(p.name); bad != "" {
			r.errorf(p.at, CodeOutOfBounds, "use letters, digits and -", "plugin %s: the name has %s", strconv.Quote(p.name), bad)
			continue
		}
		d.add(p)
	}
}

// add appends a plugin whose name is not taken.
func (d *document) add(p *pluginDecl) {
	if d.named == nil {
		d.named = map[string]*pluginDecl{}
	}
	d.named[p.name] = p
	d.plugins = append(d.plugins, p)
}

// plugin returns the plugin of this name, or nil.
func (d *document) plugin(name string) *pluginDecl { return d.named[name] }

// pluginNames lists the names for suggestions, those that accept says yes to.
func (d *document) pluginNames(accept func(*pluginDecl) bool) []string {
	var names []string
	for _, p := range d.plugins {
		if accept(p) {
			names = append(names, p.name)
		}
	}
	return names
}

// maxNameBytes bounds names: they are metric labels.
const maxNameBytes = 253

// unprintable says what keeps a name from being a metric label and a word in a log line, or "".
func unprintable(name string) string {
	if len(name) > maxNameBytes {
		return fmt.Sprintf("%d bytes, more than %d", len(name), maxNameBytes)
	}
	for _, c := range name {
		if c <= ' ' || c == 0x7f || !strconv.IsPrint(c) {
			return "a space or control character"
		}
	}
	return ""
}

func (r *reader) profiles(key, value *yaml.Node, d *document) {
	var items []*yaml.Node
	items, _ = r.list(key, value, "")
	d.profilesGiven = len(items) > 0
	for i, item := range items {
		p := &profileDecl{at: at(item)}
		where := fmt.Sprintf("schedulingProfiles[%d]", i)
		if name := peek(item, "name"); name != "" {
			where = fmt.Sprintf("profile %q", shortened(name))
		}
		named := false
		ok := r.table(item, where, "field", []field{
			{"name", func(k, v *yaml.Node) { named = true; p.at = at(v); p.name, _ = r.text(k, v, where) }},
			{"plugins", func(k, v *yaml.Node) {
				refs, _ := r.list(k, v, where)
				for j, ref := range refs {
					if one, ok := r.ref(ref, fmt.Sprintf("%s: plugins[%d]", where, j), true); ok {
						p.refs = append(p.refs, one)
					}
				}
			}},
		})
		if ok && !named {
			r.errorf(at(item), CodeMissing, "add name", "%s: name is missing", where)
		}
		if p.name == "" {
			continue
		}
		if bad := unprintable(p.name); bad != "" {
			r.errorf(p.at, CodeOutOfBounds, "use letters, digits and -", "profile %s: the name has %s", strconv.Quote(p.name), bad)
			continue
		}
		if first := d.profile(p.name); first != nil {
			r.errorf(p.at, CodeDuplicateName, "rename one of the two", "profile %q is defined twice, first in line %d", p.name, first.at.line)
			continue
		}
		d.profiles = append(d.profiles, p)
	}
}

// profile returns the profile of this name, or nil.
func (d *document) profile(name string) *profileDecl {
	for _, p := range d.profiles {
		if p.name == name {
			return p
		}
	}
	return nil
}

func (d *document) profileNames() []string {
	var names []string
	for _, p := range d.profiles {
		names = append(names, p.name)
	}
	return names
}

// ref reads a table with pluginRef and, if weighted, weight.
func (r *reader) ref(item *yaml.Node, where string, weighted bool) (ref refDecl, ok bool) {
	if name := peek(item, "pluginRef"); name != "" && weighted {
		where = fmt.Sprintf("%s (%s)", where, shortened(name))
	}
	given := false
	fields := []field{{"pluginRef", func(k, v *yaml.Node) { given = true; ref.at = at(v); ref.ref, _ = r.text(k, v, where) }}}
	if weighted {
		fields = append(fields, field{"weight", func(k, v *yaml.Node) {
			if w, ok := r.number(k, v, where); ok {
				ref.weight, ref.weightAt = w, at(v)
				r.weight(ref, where)
			}
		}})
	}
	if !r.table(item, where, "field", fields) {
		return ref, false
	}
	if !given {
		r.errorf(at(item), CodeMissing, "add pluginRef with the name of a plugin", "%s: pluginRef is missing", where)
	}
	return ref, ref.ref != ""
}

// maxWeight bounds weights: a million times another scorer's say is a mistake, and totals stay exact enough.
const maxWeight = 1e6

func (r *reader) weight(ref refDecl, where string) {
	switch w := ref.weight; {
	case math.IsNaN(w) || math.IsInf(w, 0):
		r.errorf(ref.weightAt, CodeOutOfBounds, "write a finite number", "%s: weight is %v", where, w)
	case w < 0:
		r.errorf(ref.weightAt, CodeOutOfBounds, "write 0 to switch the scorer off, or use one that prefers the opposite", "%s: weight is %v", where, w)
	case w > maxWeight:
		r.errorf(ref.weightAt, CodeOutOfBounds, fmt.Sprintf("at most %d", int(maxWeight)), "%s: weight is %v", where, w)
	}
}
