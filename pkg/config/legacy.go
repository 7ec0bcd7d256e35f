package config

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/fairlead/fairlead/pkg/plugins"
)

// legacyType is a type of older pickers that another one has taken the place of, beyond a mere change of name.
type legacyType struct {
	typ  string
	use  string                                                       // the type that it becomes
	also string                                                       // a second type that must be there
	as   func(l *legacy, p *pluginDecl, params *yaml.Node) *yaml.Node // the parameters of use; nil keeps them
}

// legacyTypes lists them. A catalogue that has the old type, or knows it by As, wins.
var legacyTypes = [...]legacyType{
	{typ: "by-label", use: "label-selector-filter", as: byLabel},
	{typ: "by-label-selector", use: "label-selector-filter"},
	{typ: "active-request-filter", use: "utilization-filter"},
	{typ: "tokenizer", use: "token-producer"},
	{typ: "pd-profile-handler", use: "disagg-profile-handler"},
	{typ: "precise-prefix-cache-scorer", use: "prefix-cache-scorer", also: "precise-prefix-cache-producer", as: preciseScorer},
}

// idleTypes did something in older pickers that needs no plugin here: they are left out.
var idleTypes = [...]struct{ typ, why string }{
	{"prefill-header-handler", "the profile handler writes the headers of prefill and decode"},
	{"disagg-headers-handler", "the profile handler writes the headers of prefill and decode"},
}

// legacyParameters are parameters that older configurations give, and what has become of them: another path, nothing, or an
// error that says what to do. A plugin that knows the old name itself wins.
var legacyParameters = [...]struct{ typ, old, path, ignored, refused string }{
	{typ: "precise-prefix-cache-producer", old: "tokenProcessorConfig.blockSize", path: "tokenProcessorConfig.blockSizeTokens"},
	{typ: "active-request-scorer", old: "requestTimeout", ignored: "requests count until they end"},
	{typ: "no-hit-lru-scorer", old: "prefixPluginName", path: "prefixMatchInfoProducerName"},
	{typ: "no-hit-lru-scorer", old: "prefixPluginType", ignored: "the producer is found by its name"},
	{typ: "program-aware-fairness", old: "lasDecayFactor", refused: "write lasHalfLifeSeconds, the time in which attained service halves"},
	{typ: "predicted-latency-producer", old: "samplingMean", ignored: "no tokens are sampled"},
	{typ: "predicted-latency-producer", old: "maxDecodeTokenSamplesForPrediction", ignored: "no tokens are sampled"},
	{typ: "disagg-profile-handler", old: "decodeProfile", path: "profiles.decode"},
	{typ: "disagg-profile-handler", old: "prefillProfile", path: "profiles.prefill"},
	{typ: "disagg-profile-handler", old: "encodeProfile", path: "profiles.encode"},
	{typ: "disagg-profile-handler", old: "prefillDeciderPluginName", path: "deciders.prefill"},
	{typ: "disagg-profile-handler", old: "encodeDeciderPluginName", path: "deciders.encode"},
	{typ: "disagg-profile-handler", old: "deciderPluginName", path: "deciders.prefill"},
}

// legacy reads what older configurations say into what is said today.
type legacy struct {
	*reader
	doc     *document
	entries []plugins.Entry
}

// has reports whether a type is in the catalogue or stands without a plugin.
func (l *legacy) has(typ string) bool {
	return slices.ContainsFunc(l.entries, func(e plugins.Entry) bool { return e.Type == typ }) ||
		slices.ContainsFunc(standingTypes[:], func(s typeInfo) bool { return s.typ == typ })
}

// modernise gives a plugin of an old type the type and parameters of today. A plugin that needs none any more is gone
// afterwards; one that cannot be had today stays, to be refused.
func (l *legacy) modernise(p *pluginDecl) {
	if l.has(p.typ) || slices.ContainsFunc(l.entries, func(e plugins.Entry) bool { return slices.Contains(e.Renamed, p.typ) }) {
		return
	}
	for _, idle := range idleTypes {
		if idle.typ == p.typ {
			l.warnf(p.typAt, CodeDeprecated, "remove it", "plugin %q: type %q has no effect: %s", p.name, p.typ, idle.why)
			p.idle = true
			return
		}
	}
	for _, t := range legacyTypes {
		if t.typ != p.typ || !l.has(t.use) || t.also != "" && !l.has(t.also) {
			continue
		}
		params := p.params
		if t.as != nil {
			params = t.as(l, p, l.mapping(p.params))
		}
		l.warnf(p.typAt, CodeDeprecated, "write type: "+t.use+others(t.also), "plugin %q: type %q is an old one", p.name, p.typ)
		p.typ, p.params = t.use, params
	}
}

func others(also string) string {
	if also == "" {
		return ""
	}
	return " and declare " + also
}

// mapping returns the table that n is, alias or not; an empty one for nothing or anything else.
func (l *legacy) mapping(n *yaml.Node) *yaml.Node {
	if n != nil {
		if n = l.resolve(n); n != nil && n.Kind == yaml.MappingNode {
			return n
		}
	}
	return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
}

// member returns the index of a key in a table, or -1.
func member(table *yaml.Node, name string) int {
	for i := 0; i+1 < len(table.Content); i += 2 {
		if table.Content[i].Kind == yaml.ScalarNode && table.Content[i].Value == name {
			return i
		}
	}
	return -1
}

// word makes a text that stands where another node does.
func word(text string, from *yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text, Line: from.Line, Column: from.Column}
}

// with returns a copy of a table in which path, through tables that are made where they are missing, has a value.
func with(table *yaml.Node, path []string, value *yaml.Node) *yaml.Node {
	t := *table
	t.Content = slices.Clone(table.Content)
	if len(path) == 1 {
		t.Content = append(t.Content, word(path[0], value), value)
		return &t
	}
	if i := member(&t, path[0]); i >= 0 && t.Content[i+1].Kind == yaml.MappingNode {
		t.Content[i+1] = with(t.Content[i+1], path[1:], value)
	} else {
		inner := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: value.Line, Column: value.Column}
		t.Content = append(t.Content, word(path[0], value), with(inner, path[1:], value))
	}
	return &t
}

// without returns a copy of a table that lacks path, and the key and value that stood there; nil where nothing did.
func without(table *yaml.Node, path []string) (rest, key, value *yaml.Node) {
	i := member(table, path[0])
	if i < 0 {
		return table, nil, nil
	}
	t := *table
	t.Content = slices.Clone(table.Content)
	key, value = t.Content[i], t.Content[i+1]
	if len(path) == 1 {
		t.Content = slices.Delete(t.Content, i, i+2)
		return &t, key, value
	}
	if value.Kind != yaml.MappingNode {
		return table, nil, nil
	}
	t.Content[i+1], key, value = without(value, path[1:])
	return &t, key, value
}

// renameParameters moves the parameters of older configurations to where a plugin has them today.
func (l *legacy) renameParameters(p *pluginDecl) {
	for _, old := range legacyParameters {
		path := strings.Split(old.old, ".")
		if old.typ != p.typ || p.params == nil || knows(plugins.Params(p.kind.make()), path) {
			continue
		}
		rest, key, value := without(l.mapping(p.params), path)
		if key == nil {
			continue
		}
		switch {
		case old.refused != "":
			l.errorf(at(key), CodeUnsupported, old.refused, "plugin %q: parameter %q is gone", p.name, old.old)
		case old.path == "":
			l.warnf(at(key), CodeDeprecated, "remove it", "plugin %q: parameter %q has no effect: %s", p.name, old.old, old.ignored)
		default:
			l.warnf(at(key), CodeDeprecated, "write "+old.path, "plugin %q: parameter %q is an old name", p.name, old.old)
			rest = with(rest, strings.Split(old.path, "."), value)
		}
		p.params = rest
	}
}

// knows reports whether a plugin has a parameter at this path, by its name or a deprecated one.
func knows(params []plugins.Param, path []string) bool {
	for _, p := range params {
		if p.Name == path[0] || slices.Contains(p.Was, path[0]) {
			return len(path) == 1 || knows(p.Fields(), path[1:])
		}
	}
	return false
}

// byLabel turns label, validValues and allowsNoLabel into one expression of a selector.
func byLabel(l *legacy, p *pluginDecl, params *yaml.Node) *yaml.Node {
	where := fmt.Sprintf("plugin %q", p.name)
	var label string
	var values []*yaml.Node
	noLabel, labelAt, noLabelAt := false, pos{}, p.at
	l.table(params, where, "parameter", []field{
		{"label", func(k, v *yaml.Node) { labelAt = at(v); label, _ = l.text(k, v, where) }},
		{"validValues", func(k, v *yaml.Node) { values, _ = l.list(k, v, where) }},
		{"allowsNoLabel", func(k, v *yaml.Node) { noLabelAt = at(v); noLabel = l.boolean(k, v, where) }},
	})
	if labelAt == (pos{}) {
		l.errorf(p.at, CodeMissing, "add it under parameters: text", `%s: parameter "label" is missing`, where)
		return nil
	}
	from := &yaml.Node{Line: labelAt.line, Column: labelAt.column}
	operator := "In"
	switch {
	case noLabel && len(values) > 0:
		// No selector says both, and endpoints without the label would be lost without a word.
		l.errorf(noLabelAt, CodeUnsupported, "give those endpoints the label, or list what is not wanted with operator NotIn",
			"%s: allowsNoLabel beside validValues has no counterpart in label-selector-filter", where)
	case noLabel:
		operator = "DoesNotExist"
	case len(values) == 0:
		operator = "Exists"
	}
	expression := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: from.Line, Column: from.Column,
		Content: []*yaml.Node{word("key", from), word(label, from), word("operator", from), word(operator, from)}}
	if operator == "In" {
		expression.Content = append(expression.Content, word("values", from),
			&yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: from.Line, Column: from.Column, Content: values})
	}
	list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: from.Line, Column: from.Column, Content: []*yaml.Node{expression}}
	return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: from.Line, Column: from.Column, Content: []*yaml.Node{word("matchExpressions", from), list}}
}

// preciseScorer declares the producer that the scorer once was as well, and hands it the parameters.
func preciseScorer(l *legacy, p *pluginDecl, params *yaml.Node) *yaml.Node {
	const typ = "precise-prefix-cache-producer"
	name := l.declareBeside(p, typ, params)
	from := &yaml.Node{Line: p.at.line, Column: p.at.column}
	return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: from.Line, Column: from.Column,
		Content: []*yaml.Node{word("prefixMatchInfoProducerName", from), word(name, from)}}
}

// declareBeside declares a plugin that an old one stood for as well, unless its type is declared, and returns its name.
func (l *legacy) declareBeside(p *pluginDecl, typ string, params *yaml.Node) string {
	for _, other := range l.doc.plugins {
		if other.typ == typ {
			if len(params.Content) > 0 {
				l.warnf(at(params), CodeNoEffect, fmt.Sprintf("give them to %q", other.name), "plugin %q: its parameters are those of %s, which is declared in line %d", p.name, typ, other.at.line)
			}
			return other.name
		}
	}
	name := typ
	if l.doc.plugin(name) != nil {
		name = p.name + "-producer"
	}
	beside := &pluginDecl{name: name, typ: typ, at: p.at, typAt: p.typAt, given: map[string]pos{}}
	if len(params.Content) > 0 {
		beside.params = params
	}
	l.doc.add(beside)
	return name
}

// prefixScorerParameters are those that prefix-cache-scorer had while it kept an index itself, and what they are called today.
// Its hashBlockSize counted characters: blocks are cut by tokens.
var prefixScorerParameters = [...]struct{ old, name string }{
	{"blockSize", "blockSizeTokens"}, {"blockSizeTokens", "blockSizeTokens"}, {"hashBlockSize", ""}, {"autoTune", "autoTune"},
	{"maxPrefixBlocksToMatch", "maxPrefixBlocksToMatch"}, {"maxPrefixTokensToMatch", "maxPrefixTokensToMatch"},
	{"lruCapacityPerServer", "lruCapacityPerServer"},
}

// splitPrefixScorer hands the parameters of the index, which older configurations give to the scorer, to its producer.
func (l *legacy) splitPrefixScorer(p *pluginDecl) {
	const producer = "approx-prefix-cache-producer"
	if p.typ != "prefix-cache-scorer" || p.params == nil || !l.has(producer) {
		return
	}
	rest := l.mapping(p.params)
	moved := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: rest.Line, Column: rest.Column}
	blocks, tokens := false, false
	for _, param := range prefixScorerParameters {
		if knows(plugins.Params(p.kind.make()), []string{param.old}) {
			continue
		}
		var key, value *yaml.Node
		if rest, key, value = without(rest, []string{param.old}); key == nil {
			continue
		}
		if param.name == "" {
			l.warnf(at(key), CodeDeprecated, "remove it", "plugin %q: parameter %q has no effect: a prompt is cut into blocks of tokens", p.name, param.old)
			continue
		}
		l.warnf(at(key), CodeDeprecated, fmt.Sprintf("declare %s and write %s there", producer, param.name), "plugin %q: parameter %q is one of %s today", p.name, param.old, producer)
		named := *key
		named.Value = param.name
		moved.Content = append(moved.Content, &named, value)
		blocks = blocks || param.name == "maxPrefixBlocksToMatch"
		tokens = tokens || param.name == "maxPrefixTokensToMatch"
	}
	if rest == l.mapping(p.params) {
		return
	}
	p.params = rest
	if blocks && !tokens {
		// The bound in tokens, which the older scorer did not have, would win.
		i := member(moved, "maxPrefixBlocksToMatch")
		moved.Content = append(moved.Content, word("maxPrefixTokensToMatch", moved.Content[i]),
			&yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: "0", Line: moved.Content[i].Line, Column: moved.Content[i].Column})
	}
	if len(moved.Content) > 0 {
		l.declareBeside(p, producer, moved)
	}
}
