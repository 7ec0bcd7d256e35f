package config

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/fairlead/fairlead/pkg/plugins"
)

// Explanation is what a configuration means: what was filled in, who runs when, what is read and seen of a request and why.
type Explanation struct {
	File       string            `json:"file"`
	APIVersion string            `json:"apiVersion"`
	Digest     string            `json:"digest"`
	Plugins    []PluginExplained `json:"plugins"`
	Answers    Answers           `json:"answers"`
	plugins.Layout

	// Objectives are the priorities that requests can ask for by name, in the order of the text.
	Objectives []ObjectiveExplained `json:"objectives,omitempty"`

	// Endpoints says where they come from; empty leaves it to the command line.
	Endpoints string `json:"endpoints,omitempty"`
}

// PluginExplained is one plugin with all its parameters.
type PluginExplained struct {
	Name string `json:"name"`
	Type string `json:"type"`
	// Line is where the text declares it; 0 for one that the text leaves out.
	Line int `json:"line,omitempty"`
	// Added says why a plugin is there that the text leaves out; empty for one that it declares.
	Added string `json:"added,omitempty"`
	// Idle reports that nothing runs it, and Stands that what it asks for is done without a plugin.
	Idle       bool             `json:"idle,omitempty"`
	Stands     bool             `json:"standsWithoutPlugin,omitempty"`
	Parameters []ParameterValue `json:"parameters,omitempty"`
}

// ObjectiveExplained is the priority of the requests that name it, in one pool or, with none, in all.
type ObjectiveExplained struct {
	Name     string `json:"name"`
	Priority int32  `json:"priority"`
	Pool     string `json:"pool,omitempty"`
}

// ParameterValue is the value of one parameter. Given is false where it is the default.
type ParameterValue struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
	Text  string          `json:"-"`
	Given bool            `json:"given"`
}

// Answers says what is seen of answers.
type Answers struct {
	Mode string   `json:"mode"` // edges, edges + usage, or full
	Why  []string `json:"why"`
}

// Explain says what the configuration means. built is what Build returned.
func (f *File) Explain(built *plugins.Built) Explanation {
	x := Explanation{File: f.Name, APIVersion: f.APIVersion, Digest: f.digest, Layout: built.Layout()}
	x.Answers = answersOf(x.Wants)
	if built.Evicts() {
		x.Answers.Why = append(x.Answers.Why, "requests of a priority below 0 may be taken back until their answer's headers come; not where a gateway shows no response headers (mode blind)")
	}
	for _, l := range x.Layout.Plugins {
		p := PluginExplained{Name: l.Name, Type: l.Type, Idle: l.Idle}
		decl := f.doc.plugin(l.Name)
		switch {
		case l.Added:
			p.Added = "by default, for facts that somebody reads: " + strings.Join(madeBy(x.Layout, l.Name), ", ")
		case decl.at == (pos{}):
			p.Added = "by default, since the text names none"
		default:
			p.Line = decl.at.line
		}
		var value any
		given := map[string]pos{}
		if l.Added {
			i := slices.IndexFunc(f.entries, func(e plugins.Entry) bool { return e.Type == l.Type })
			value = f.entries[i].New()
		} else {
			value, given = decl.value, decl.given
		}
		p.parameters(value, given)
		x.Plugins = append(x.Plugins, p)
	}
	for _, decl := range f.doc.plugins {
		if decl.kind.entry == nil {
			p := PluginExplained{Name: decl.name, Type: decl.kind.typ, Line: decl.at.line, Stands: true}
			p.parameters(decl.value, decl.given)
			x.Plugins = append(x.Plugins, p)
		}
	}
	for _, o := range f.doc.objectives {
		x.Objectives = append(x.Objectives, ObjectiveExplained{o.name, o.priority, o.pool.name})
	}
	if f.Discovery != nil {
		x.Endpoints = "the file " + f.Discovery.Path
		if f.Discovery.Watch {
			x.Endpoints += ", read again when it changes"
		}
	}
	return x
}

func (p *PluginExplained) parameters(value any, given map[string]pos) {
	for _, param := range plugins.Params(value) {
		_, is := given[param.Name]
		p.Parameters = append(p.Parameters, ParameterValue{Name: param.Name, Value: jsonOf(param), Text: textOf(param), Given: is})
	}
}

// madeBy lists the facts that a plugin makes and somebody reads.
func madeBy(l plugins.Layout, plugin string) []string {
	var facts []string
	for _, p := range l.Pools {
		for _, f := range p.Facts {
			if f.MadeBy == plugin && !slices.Contains(facts, f.Name) {
				facts = append(facts, f.Name)
			}
		}
	}
	return facts
}

// answersOf works out the response mode that the wants of all plugins add up to. What a gateway can show is known per request.
func answersOf(wants []plugins.WantLayout) Answers {
	var all plugins.Parts
	var why []string
	for _, w := range wants {
		all |= w.Parts
		why = append(why, fmt.Sprintf("%s wants %s", w.Plugin, w.What))
	}
	switch {
	case all&(plugins.Chunks|plugins.Rewrite) != 0:
		return Answers{"full", why}
	case all&plugins.Usage != 0:
		return Answers{"edges + usage", why}
	}
	return Answers{"edges", append(why, "no plugin wants usage or chunks: bookings need the first byte and the end alone")}
}

// textOf is a parameter's value in YAML on one line.
func textOf(p plugins.Param) string {
	if p.Absent() {
		return "unset"
	}
	var parts []string
	switch p.Kind {
	case plugins.ParamStruct:
		for _, m := range p.Fields() {
			if !m.Absent() {
				parts = append(parts, m.Name+": "+textOf(m))
			}
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case plugins.ParamMap:
		for key, item := range p.Items {
			parts = append(parts, key+": "+textOf(item))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case plugins.ParamList:
		for _, item := range p.Items {
			parts = append(parts, textOf(item))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case plugins.ParamString:
		if p.Text() == "" {
			return `""`
		}
	}
	return p.Text()
}

// jsonOf is a parameter's value as JSON; durations and quantities are texts.
func jsonOf(p plugins.Param) json.RawMessage {
	if p.Absent() {
		return json.RawMessage("null")
	}
	member := func(name string, value json.RawMessage) string { return quoted(name) + ":" + string(value) }
	var parts []string
	switch p.Kind {
	case plugins.ParamStruct:
		for _, m := range p.Fields() {
			if !m.Absent() {
				parts = append(parts, member(m.Name, jsonOf(m)))
			}
		}
		return json.RawMessage("{" + strings.Join(parts, ",") + "}")
	case plugins.ParamMap:
		for key, item := range p.Items {
			parts = append(parts, member(key, jsonOf(item)))
		}
		return json.RawMessage("{" + strings.Join(parts, ",") + "}")
	case plugins.ParamList:
		for _, item := range p.Items {
			parts = append(parts, string(jsonOf(item)))
		}
		return json.RawMessage("[" + strings.Join(parts, ",") + "]")
	case plugins.ParamBool, plugins.ParamInt, plugins.ParamFloat:
		return json.RawMessage(p.Text())
	}
	return json.RawMessage(quoted(p.Text()))
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return `""`
	}
	return string(b)
}
