package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/fairlead/fairlead/pkg/plugins"
)

// typeInfo is a plugin type that a configuration may name: one of the catalogue, or one of other pickers whose default
// behaviour stands here without a plugin.
type typeInfo struct {
	typ   string
	entry *plugins.Entry // nil for a standing type
	make  func() any

	// Of a standing type: what stands, for messages; parameters of which only the empty value is supported; parameters that
	// may have any value.
	stands      string
	empty, free []string
}

// resolveTypes finds what each plugin is and decodes its parameters.
func (r *reader) resolveTypes(d *document, entries []plugins.Entry) {
	for _, e := range entries {
		d.types = append(d.types, e.Type)
	}
	old := &legacy{reader: r, doc: d, entries: entries}
	for i := 0; i < len(d.plugins); i++ { // old types may declare further ones at the end
		p := d.plugins[i]
		if p.typ == "" {
			continue
		}
		if old.modernise(p); p.idle {
			continue
		}
		if p.kind = r.findType(p, entries); p.kind == nil {
			continue
		}
		p.typ = p.kind.typ
		old.renameParameters(p)
		old.splitPrefixScorer(p)
		p.value = p.kind.make()
		params := plugins.Params(p.value)
		r.decode(p.params, params, fmt.Sprintf("plugin %q", p.name), "", p, r.emptyOnly(p)...)
		if p.kind.entry == nil {
			r.refuseOthers(p, params)
		}
	}
	d.plugins = slices.DeleteFunc(d.plugins, func(p *pluginDecl) bool { return p.idle })
}

func (r *reader) findType(p *pluginDecl, entries []plugins.Entry) *typeInfo {
	for i := range entries {
		e := &entries[i]
		if e.Type == p.typ {
			return &typeInfo{typ: e.Type, entry: e, make: e.New}
		}
		if slices.Contains(e.Renamed, p.typ) {
			r.warnf(p.typAt, CodeDeprecated, fmt.Sprintf("write type: %s", e.Type), "plugin %q: type %q is an old name", p.name, p.typ)
			return &typeInfo{typ: e.Type, entry: e, make: e.New}
		}
	}
	for _, s := range standingTypes {
		if s.typ == p.typ {
			return &s
		}
	}
	for _, o := range otherTypes {
		if o.typ == p.typ {
			r.errorf(p.typAt, CodeNotAvailable, o.advice(entries), "plugin %q: type %q is not available in this version", p.name, p.typ)
			return nil
		}
	}
	r.errorf(p.typAt, CodeUnknownType, adviceOnUnknown(p.typ, entries), "plugin %q: unknown type %q", p.name, p.typ)
	return nil
}

// adviceOnUnknown suggests the nearest type of the catalogue, of those that stand without a plugin, or of other pickers.
func adviceOnUnknown(typ string, entries []plugins.Entry) string {
	var types, known []string
	for _, e := range entries {
		types = append(types, e.Type)
	}
	known = append(known, types...)
	for _, s := range standingTypes {
		known = append(known, s.typ)
	}
	all := slices.Clone(known)
	for _, o := range otherTypes {
		all = append(all, o.typ)
	}
	near := nearest(typ, all)
	if slices.Contains(known, near) {
		return fmt.Sprintf("did you mean %q?", near)
	}
	if i := slices.IndexFunc(otherTypes[:], func(o otherType) bool { return o.typ == near }); i >= 0 {
		return fmt.Sprintf("if %q is meant, it is not available in this version: %s", near, otherTypes[i].advice(entries))
	}
	return "one of " + strings.Join(types, ", ")
}

// NoSuchType says of a type that the catalogue does not have what it is and what to use in its place.
func NoSuchType(typ string, entries []plugins.Entry) string {
	for _, s := range standingTypes {
		if s.typ == typ {
			return fmt.Sprintf("%q needs no plugin: a configuration may name it, and %s", typ, cmp.Or(s.stands, "it changes nothing"))
		}
	}
	for _, idle := range idleTypes {
		if idle.typ == typ {
			return fmt.Sprintf("%q has no effect: %s", typ, idle.why)
		}
	}
	l := legacy{entries: entries}
	for _, t := range legacyTypes {
		if t.typ == typ && l.has(t.use) && (t.also == "" || l.has(t.also)) {
			return fmt.Sprintf("type %q is an old one; write %s%s", typ, t.use, others(t.also))
		}
	}
	for _, o := range otherTypes {
		if o.typ == typ {
			return fmt.Sprintf("type %q is not available in this version; %s", typ, o.advice(entries))
		}
	}
	return fmt.Sprintf("there is no type %q; %s", typ, adviceOnUnknown(typ, entries))
}

// roles tell where a plugin may be named.
func isScorer(p *pluginDecl) bool  { _, ok := p.value.(plugins.Scorer); return ok }
func isFilter(p *pluginDecl) bool  { _, ok := p.value.(plugins.Filter); return ok }
func isPicker(p *pluginDecl) bool  { _, ok := p.value.(plugins.Picker); return ok }
func isHandler(p *pluginDecl) bool { _, ok := p.value.(plugins.ProfileHandler); return ok }
func isStage(p *pluginDecl) bool   { _, ok := p.value.(plugins.Stage); return ok }

func makesFacts(p *pluginDecl) bool {
	switch p.value.(type) {
	case plugins.Producer, plugins.Describer, plugins.Observer:
		return true
	}
	return false
}

// inProfile reports whether a profile may name p.
func inProfile(p *pluginDecl) bool { return isScorer(p) || isFilter(p) || isPicker(p) || makesFacts(p) }

// ordered reports whether the place of p in the list of plugins matters: stages and hooks run in its order.
func ordered(p *pluginDecl) bool {
	switch p.value.(type) {
	case plugins.Stage, plugins.Producer, plugins.Describer, plugins.Observer, plugins.RequestHook, plugins.AttemptHook, plugins.ResponseHook, plugins.AnswerHook,
		plugins.Settler, plugins.Ticker:
		return true
	}
	return false
}

// article puts "a" or "an" before what a policy serves as.
func article(serves string) string {
	if strings.HasPrefix(serves, "o") {
		return "an " + serves
	}
	return "a " + serves
}

// role says what p is, for messages.
func role(p *pluginDecl) string {
	switch {
	case isHandler(p):
		return "a profile handler"
	case isStage(p):
		return "a stage"
	case servedBy(p) != "":
		return article(servedBy(p))
	case isFilter(p):
		return "a filter"
	case isScorer(p):
		return "a scorer"
	case isPicker(p):
		return "a picker"
	case makesFacts(p):
		return "a producer"
	}
	return "none of filter, scorer and picker"
}
