package config

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// upstreamSections is what the sections of llm-d's endpoint picker ask for that Fairlead must agree with or refuse.
type upstreamSections struct {
	legacyMetrics bool // the gate is on
	flowControl   bool // the gate is on
	flowControlAt pos  // of the gate, if it is on
	flow          flowSection
	detector      detectorDecl // at its old place

	injectDefaults   bool
	injectDefaultsAt pos // zero: not given
	sources          []sourceDecl
	discovery        refDecl
	parsers          []refDecl
	parsersAt        pos
}

// sourceDecl binds a source of metrics to what reads them.
type sourceDecl struct {
	refDecl
	extractors []refDecl
}

// notSupported is the advice for a section without counterpart.
const notSupported = "not supported by this version: remove it"

// gates are those that are known, of llm-d's present version and of older ones.
var gates = []string{"flowControl", "haPopulateNonLeaderDatastore", "dataLayer", "prepareDataPlugins", "enableLegacyMetrics"}

func (r *reader) featureGates(key, value *yaml.Node, d *document) {
	items, _ := r.list(key, value, "")
	seen := map[string]pos{}
	for _, item := range items {
		text, ok := r.text(key, item, "")
		if !ok {
			continue
		}
		name, setting, given := strings.Cut(text, "=")
		on := true
		if given {
			if on = strings.EqualFold(setting, "true"); !on && !strings.EqualFold(setting, "false") {
				r.errorf(at(item), CodeOutOfBounds, fmt.Sprintf("write %s=true or %s=false", name, name), "featureGates: %q is neither on nor off", text)
				continue
			}
		}
		if first, twice := seen[name]; twice {
			r.errorf(at(item), CodeDuplicateName, "keep one of the two", "featureGates: %q is given twice, first in line %d", name, first.line)
			continue
		}
		seen[name] = at(item)
		switch name {
		case "flowControl":
			if d.upstream.flowControl = on; on {
				d.upstream.flowControlAt = at(item)
			}
		case "haPopulateNonLeaderDatastore":
			if !on {
				r.warnf(at(item), CodeNoEffect, "remove it: there is no leader election, each replica serves", "featureGates: %s has no effect", text)
			}
		case "dataLayer":
			r.warnf(at(item), CodeNoEffect, "remove it: engines are always scraped", "featureGates: %s has no effect", text)
		case "prepareDataPlugins":
			r.warnf(at(item), CodeNoEffect, "remove it: what plugins need is always made before they run", "featureGates: %s has no effect", text)
		case "enableLegacyMetrics":
			d.upstream.legacyMetrics = on
		default:
			r.errorf(at(item), CodeUnknownField, didYouMeanOr(name, gates), "featureGates: unknown gate %q", name)
		}
	}
}

// pluginRef reads a table whose only member is pluginRef.
func (r *reader) pluginRef(key, value *yaml.Node, where string) (refDecl, bool) {
	return r.ref(value, prefix(where)+key.Value, false)
}

// refuse reports a section that has no counterpart.
func (r *reader) refuse(where string) func(key, value *yaml.Node) {
	return func(key, _ *yaml.Node) {
		r.errorf(at(key), CodeUnsupported, notSupported, "%s%s", prefix(where), key.Value)
	}
}

func (r *reader) dataLayer(key, value *yaml.Node, d *document) {
	if r.leftOut(key, value) {
		return
	}
	u := &d.upstream
	r.table(value, "dataLayer", "field", []field{
		{"injectDefaults", func(k, v *yaml.Node) {
			u.injectDefaultsAt = at(v)
			u.injectDefaults = r.boolean(k, v, "dataLayer")
		}},
		{"sources", func(k, v *yaml.Node) {
			items, _ := r.list(k, v, "dataLayer")
			for i, item := range items {
				r.source(item, fmt.Sprintf("dataLayer: sources[%d]", i), u)
			}
		}},
		{"discovery", func(k, v *yaml.Node) { u.discovery, _ = r.pluginRef(k, v, "dataLayer") }},
		{"peerDiscovery", r.refuse("dataLayer")},
		{"crossReplicaSyncerPluginRef", r.refuse("dataLayer")},
		{"crossReplicaSyncInterval", r.refuse("dataLayer")},
	})
}

func (r *reader) source(item *yaml.Node, where string, u *upstreamSections) {
	var s sourceDecl
	r.table(item, where, "field", []field{
		{"pluginRef", func(k, v *yaml.Node) { s.at = at(v); s.ref, _ = r.text(k, v, where) }},
		{"extractors", func(k, v *yaml.Node) {
			items, _ := r.list(k, v, where)
			for i, e := range items {
				if ref, ok := r.ref(e, fmt.Sprintf("%s: extractors[%d]", where, i), false); ok {
					s.extractors = append(s.extractors, ref)
				}
			}
		}},
	})
	if s.at == (pos{}) {
		r.errorf(at(item), CodeMissing, "add pluginRef with the name of a plugin", "%s: pluginRef is missing", where)
	} else if s.ref != "" {
		u.sources = append(u.sources, s)
	}
}

// leftOut reports whether a section has no value, and warns.
func (r *reader) leftOut(key, value *yaml.Node) bool {
	n := r.resolve(value)
	if n != nil && isNull(n) {
		r.warnf(at(key), CodeNoEffect, "remove it", "%s has no value and counts as left out", key.Value)
		return true
	}
	return n == nil
}

func (r *reader) requestHandler(key, value *yaml.Node, d *document) {
	if r.leftOut(key, value) {
		return
	}
	r.table(value, "requestHandler", "field", []field{{"parsers", func(k, v *yaml.Node) {
		items, _ := r.list(k, v, "requestHandler")
		d.upstream.parsersAt = at(k)
		for i, item := range items {
			if ref, ok := r.ref(item, fmt.Sprintf("requestHandler: parsers[%d]", i), false); ok {
				d.upstream.parsers = append(d.upstream.parsers, ref)
			}
		}
	}}})
}

func (r *reader) parser(key, value *yaml.Node, d *document) {
	if r.leftOut(key, value) {
		return
	}
	r.warnf(at(key), CodeDeprecated, "write requestHandler: {parsers: [{pluginRef: …}]}", "parser is the old place of requestHandler.parsers")
	if ref, ok := r.pluginRef(key, value, ""); ok {
		d.upstream.parsers, d.upstream.parsersAt = append(d.upstream.parsers, ref), at(key)
	}
}

// upstreamSections holds what was read against what stands, once the types of the plugins are known.
func (r *reader) upstreamSections(d *document) {
	r.metricSources(d)
	r.metrics(d)
	r.discovery(d)
	r.parsers(d)
}

// of returns the plugin that a section refers to, if it is one of these types.
func (r *reader) of(d *document, ref refDecl, where string, types ...string) *pluginDecl {
	p := d.plugin(ref.ref)
	accept := func(p *pluginDecl) bool { return p.kind != nil && slices.Contains(types, p.kind.typ) }
	switch {
	case p == nil:
		r.errorf(ref.at, CodeUndefined, didYouMeanOr(ref.ref, d.pluginNames(accept)), "%s: no plugin is named %q", where, ref.ref)
	case p.kind == nil: // reported where it is declared
	case !accept(p):
		r.errorf(ref.at, CodeWrongRole, "one of type "+strings.Join(types, ", "), "%s: plugin %q is of type %s", where, ref.ref, p.kind.typ)
	default:
		return p
	}
	return nil
}

func (r *reader) metricSources(d *document) {
	u := &d.upstream
	engines := false
	for i, s := range u.sources {
		where := fmt.Sprintf("dataLayer: sources[%d]", i)
		engines = r.of(d, s.refDecl, where, "metrics-data-source") != nil || engines
		for j, e := range s.extractors {
			r.of(d, e, fmt.Sprintf("%s: extractors[%d]", where, j), "core-metrics-extractor")
		}
		if len(s.extractors) == 0 {
			r.errorf(s.at, CodeUnsupported, "add an extractor of type core-metrics-extractor, or remove the source", "%s: a source that nobody reads is not supported", where)
		}
	}
	if u.injectDefaultsAt != (pos{}) && !u.injectDefaults && !engines && len(u.sources) == 0 {
		r.errorf(u.injectDefaultsAt, CodeUnsupported, "remove it: engines are always scraped", "dataLayer: injectDefaults is false")
	}
}

func (r *reader) discovery(d *document) {
	ref := d.upstream.discovery
	if ref.ref == "" {
		for _, p := range d.plugins {
			if _, ok := p.value.(*FileDiscovery); ok {
				r.errorf(p.at, CodeConflict, fmt.Sprintf("add dataLayer: {discovery: {pluginRef: %s}}, or remove it and use --endpoints", p.name),
					"plugin %q: nothing refers to it", p.name)
			}
		}
		return
	}
	if p := r.of(d, ref, "dataLayer: discovery", "file-discovery"); p != nil {
		d.discovery, _ = p.value.(*FileDiscovery)
	}
}

// parsers accepts the default list, and with a warning a part of it that reads OpenAI's requests: which format a request
// has is known by its path.
func (r *reader) parsers(d *document) {
	standing := []string{"openai-parser", "anthropic-parser", "vllmhttp-parser", "passthrough-parser"}
	found := map[string]bool{}
	for i, ref := range d.upstream.parsers {
		p := r.of(d, ref, fmt.Sprintf("parsers[%d]", i), standing...)
		if p == nil {
			return
		}
		found[p.kind.typ] = true
	}
	switch {
	case len(d.upstream.parsers) == 0 || len(found) == len(standing):
	case found["openai-parser"]:
		r.warnf(d.upstream.parsersAt, CodeNoEffect, "remove it", "parsers have no effect: the format of a request is known by its path, and all known ones are read")
	default:
		r.errorf(d.upstream.parsersAt, CodeUnsupported, "remove it, or list openai-parser", "parsers without openai-parser: OpenAI's requests are always read")
	}
}
