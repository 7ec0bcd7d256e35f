package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fairlead/fairlead/pkg/plugins"
)

// Difference is one thing in which two configurations mean something else.
type Difference struct {
	Path   string `json:"path"`             // such as "profiles.default.scorers.queue-scorer.weight"
	Change string `json:"change"`           // "added", "removed" or "changed"
	Before string `json:"before,omitempty"` // the value of the first; empty for what was added
	After  string `json:"after,omitempty"`  // the value of the second; empty for what was removed
}

// Diff lists in what two configurations differ once all defaults are filled in, in a fixed order: what stands in another
// order or form and means the same is no difference. The layouts are those of what Build returned.
func Diff(a, b *File, la, lb plugins.Layout) []Difference {
	var d differ
	d.compare(a.meaning(la), b.meaning(lb))
	return d
}

// meaning is a configuration as paths with values; lists whose order counts are one value. The parts of a path are joined by
// separator, since names have dots.
type meaning struct {
	order   []string
	values  map[string]string
	details map[string]string // what is told of a path that is added or removed as a whole, if more than its value
}

const separator = "\x00"

func (m *meaning) add(value string, path ...string) {
	p := strings.Join(path, separator)
	if _, has := m.values[p]; !has {
		m.order = append(m.order, p)
	}
	m.values[p] = value
}

func (f *File) meaning(l plugins.Layout) *meaning {
	m := &meaning{values: map[string]string{}, details: map[string]string{}}
	ordered := func(refs []refDecl, is func(*pluginDecl) bool) string {
		var names []string
		for _, ref := range refs {
			if is(f.doc.plugin(ref.ref)) {
				names = append(names, ref.ref)
			}
		}
		return strings.Join(names, ", ")
	}
	for _, p := range f.doc.plugins {
		if p.kind.entry == nil && p.value != any(f.doc.discovery) && !asksForMore(p) {
			continue // stands without a plugin
		}
		m.plugin(p.name, p.kind.typ, plugins.Params(p.value), plugins.Params(p.kind.make()))
	}
	for _, p := range l.Plugins {
		if p.Added {
			i := slices.IndexFunc(f.entries, func(e plugins.Entry) bool { return e.Type == p.Type })
			m.plugin(p.Name, p.Type, plugins.Params(f.entries[i].New()), plugins.Params(f.entries[i].New()))
		}
	}
	for _, p := range f.doc.profiles {
		m.add("", "profiles", p.name)
		if filters := ordered(p.refs, isFilter); filters != "" {
			m.add(filters, "profiles", p.name, "filters")
		}
		for _, ref := range p.refs {
			if isScorer(f.doc.plugin(ref.ref)) {
				m.add(strconv.FormatFloat(ref.weight, 'g', -1, 64), "profiles", p.name, "scorers", ref.ref, "weight")
			}
		}
		m.add(ordered(p.refs, isPicker), "profiles", p.name, "picker")
	}
	for _, p := range f.doc.pools {
		m.add("", "pools", p.name)
		for _, model := range p.models {
			m.add(joined(model.aliases), "pools", p.name, "models", model.name)
		}
		m.add(joined(p.profiles), "pools", p.name, "profiles")
		m.add(p.handler, "pools", p.name, "handler")
	}
	for _, o := range f.doc.objectives {
		path := []string{"objectives", o.name, "priority"}
		if o.pool.name != "" {
			path = []string{"objectives", o.name, "pools", o.pool.name, "priority"}
		}
		m.add(strconv.Itoa(int(o.priority)), path...)
	}
	var stages []string
	for _, s := range l.Stages {
		stages = append(stages, s.Plugin)
	}
	if len(stages) > 0 {
		m.add(strings.Join(stages, ", "), "stages")
	}
	if f.Discovery != nil {
		m.add(f.Discovery.Path, "endpoints", "file")
	}
	if f.LegacyMetrics {
		m.add("on", "featureGates", "enableLegacyMetrics")
	}
	return m
}

// plugin adds a plugin; defaults are the parameters of a fresh one.
func (m *meaning) plugin(name, typ string, params, defaults []plugins.Param) {
	m.add(typ, "plugins", name)
	var other []string
	for i, p := range params {
		m.add(textOf(p), "plugins", name, p.Name)
		if textOf(p) != textOf(defaults[i]) {
			other = append(other, p.Name+": "+textOf(p))
		}
	}
	if len(other) > 0 {
		m.details[strings.Join([]string{"plugins", name}, separator)] = fmt.Sprintf("%s {%s}", typ, strings.Join(other, ", "))
	}
}

func joined(names []named) string {
	var all []string
	for _, n := range names {
		all = append(all, n.name)
	}
	return strings.Join(all, ", ")
}

// differ gathers differences.
type differ []Difference

func (d *differ) compare(a, b *meaning) {
	d.lacking(a, b, func(path, value string) Difference { return Difference{Path: path, Change: "removed", Before: value} })
	for _, path := range a.order {
		if before, after := a.values[path], b.values[path]; before != after && b.has(path) {
			*d = append(*d, Difference{Path: shownPath(path), Change: "changed", Before: before, After: after})
		}
	}
	d.lacking(b, a, func(path, value string) Difference { return Difference{Path: path, Change: "added", After: value} })
}

// lacking tells what m has and other has not; of what is lacking as a whole, no part is told.
func (d *differ) lacking(m, other *meaning, tell func(path, value string) Difference) {
	for _, path := range m.order {
		if other.has(path) {
			continue
		}
		part := false
		for i := strings.LastIndex(path, separator); i > 0 && !part; i = strings.LastIndex(path[:i], separator) {
			part = m.has(path[:i]) && !other.has(path[:i])
		}
		if part {
			continue
		}
		value := m.values[path]
		if detail := m.details[path]; detail != "" {
			value = detail
		}
		*d = append(*d, tell(shownPath(path), value))
	}
}

func (m *meaning) has(path string) bool { _, has := m.values[path]; return has }

func shownPath(path string) string { return strings.ReplaceAll(path, separator, ".") }

// String prints a difference on one line.
func (d Difference) String() string {
	none := func(s string) string {
		if s == "" {
			return "none"
		}
		return s
	}
	switch d.Change {
	case "added":
		return strings.TrimSuffix(fmt.Sprintf("+ %s: %s", d.Path, d.After), ": ")
	case "removed":
		return strings.TrimSuffix(fmt.Sprintf("- %s: %s", d.Path, d.Before), ": ")
	}
	return fmt.Sprintf("~ %s: %s → %s", d.Path, none(d.Before), none(d.After))
}
