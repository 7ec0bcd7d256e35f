package config

import (
	"errors"
	"strings"

	"github.com/fairlead/fairlead/pkg/plugins"
)

// File is a configuration that loaded: checked, completed, in canonical order. It is immutable.
type File struct {
	// Name is what problems call it: the path that it was read from.
	Name string
	// APIVersion is the version that the text names.
	APIVersion string
	// Spec is what the framework builds.
	Spec plugins.Spec
	// Discovery says where endpoints come from; nil leaves it to the command line.
	Discovery *FileDiscovery
	// Metrics says how engines are asked for their metrics pages and what those call their quantities.
	Metrics Metrics
	// LegacyMetrics has our own metrics printed under their older names too.
	LegacyMetrics bool

	doc       *document
	entries   []plugins.Entry
	effective []byte
	digest    string
}

// Load reads a configuration. file is its name in problems; entries are the plugin types that it may use. The problems come
// in the order of the text; the File is nil if one of them is an error.
func Load(data []byte, file string, entries []plugins.Entry) (*File, []Problem) {
	r := &reader{log: log{file: file}}
	root := r.parse(data)
	if root == nil {
		return nil, r.sorted()
	}
	d := r.document(root)
	r.resolveTypes(d, entries)
	r.upstreamSections(d)
	r.flow(d, entries)
	r.complete(d, entries)
	r.check(d)
	if HasErrors(r.problems) {
		return nil, r.sorted()
	}
	d.order()
	f := &File{Name: file, APIVersion: d.version, Spec: d.spec(), Discovery: d.discovery, Metrics: d.metrics, LegacyMetrics: d.upstream.legacyMetrics, doc: d, entries: entries, effective: d.effective()}
	f.digest = digest(f.effective)
	return f, r.sorted()
}

// Default returns the configuration that applies where none is given. It has problems only if entries lack one of its types.
func Default(entries []plugins.Entry) (*File, []Problem) {
	return Load([]byte(DefaultText), "default configuration", entries)
}

// Effective returns the configuration as it was understood: YAML in canonical order with all defaults filled in, which loads
// again to the same Spec and Discovery. It must not be modified.
func (f *File) Effective() []byte { return f.effective }

// Digest names the effective configuration: its SHA-256 in hexadecimal. Texts that mean the same have the same digest.
func (f *File) Digest() string { return f.digest }

// Build makes the configuration run. ports are the edge's halves of plugins. What a plugin refuses or warns of is given its
// place in the text: that of the parameter it speaks of, else its own. The result is nil if one of the problems is an error.
func (f *File) Build(ports ...any) (*plugins.Built, []Problem) {
	r := &log{file: f.Name}
	built, err := plugins.Build(f.Spec, f.entries, ports...)
	if err == nil {
		for _, w := range built.Warnings() {
			f.warn(r, w)
		}
		f.warnOfIdle(r, built.Layout())
		return built, r.sorted()
	}
	for _, e := range flatten(err) {
		var of *plugins.BuildError
		if !errors.As(e, &of) {
			r.errorf(pos{}, CodeBuild, "", "%v", e)
			continue
		}
		text := of.Error()
		if p := f.doc.plugin(of.Plugin); p != nil && f.doc.ofSection(p) && isQueue(p) {
			text = "flowControl: " + of.Err.Error()
		}
		message, suggestion, _ := strings.Cut(text, "; ")
		r.errorf(f.place(of), CodeBuild, suggestion, "%s", message)
	}
	return nil, r.sorted()
}

// warn enters a plugin's warning, unless it is about a parameter that the text leaves to its default.
func (f *File) warn(r *log, w plugins.Warning) {
	p, place := f.doc.plugin(w.Plugin), pos{}
	if p != nil {
		place = f.doc.placeOf(p)
	}
	if w.Parameter != "" {
		name := w.Parameter
		if i := strings.IndexAny(name, ".["); i >= 0 {
			name = name[:i]
		}
		if p == nil {
			return
		}
		given, ok := p.given[name]
		if !ok {
			return
		}
		place = given
	}
	message, suggestion, _ := strings.Cut(w.Message, "; ")
	r.warnf(place, CodeNoEffect, suggestion, "plugin %q: %s", w.Plugin, message)
}

// warnOfIdle tells of producers that nobody reads and policies that nobody refers to; for other roles the text alone shows it.
func (f *File) warnOfIdle(r *log, l plugins.Layout) {
	for _, p := range l.Plugins {
		decl := f.doc.plugin(p.Name)
		if p.Idle && decl != nil && servedBy(decl) != "" {
			r.warnf(decl.at, CodeNoEffect, "remove it, or name it in a plugin that takes "+article(servedBy(decl)), "plugin %q: nobody refers to it", p.Name)
			continue
		}
		if p.Idle && decl != nil && makesFacts(decl) && !isFilter(decl) && !isScorer(decl) && !isPicker(decl) && !isHandler(decl) {
			r.warnf(decl.at, CodeNoEffect, "remove it, or add a plugin that reads what it makes", "plugin %q: nobody reads what it makes", p.Name)
		}
	}
}

// flatten returns the single errors that were joined, those joined inside a BuildError each under its plugin.
func flatten(err error) []error {
	switch e := err.(type) { //nolint:errorlint // it takes the wrapping apart itself
	case interface{ Unwrap() []error }:
		var all []error
		for _, one := range e.Unwrap() {
			all = append(all, flatten(one)...)
		}
		return all
	case *plugins.BuildError:
		var all []error
		for _, one := range flatten(e.Err) {
			all = append(all, &plugins.BuildError{Plugin: e.Plugin, Err: one})
		}
		return all
	}
	return []error{err}
}

// place finds the parameter that a plugin objects to, else the plugin; nowhere for one that was added by default.
func (f *File) place(e *plugins.BuildError) pos {
	p := f.doc.plugin(e.Plugin)
	if p == nil {
		return pos{}
	}
	words := strings.FieldsFunc(e.Err.Error(), func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9')
	})
	for _, w := range words {
		if at, ok := p.given[w]; ok && at != (pos{}) {
			return at
		}
	}
	return f.doc.placeOf(p)
}
