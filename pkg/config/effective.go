package config

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/fairlead/fairlead/pkg/plugins"
)

// order brings the document into canonical order, in which texts that mean the same are equal. What runs in the order of
// the list keeps it: stages and hooks among the plugins, filters in a profile, profiles, pools. Scorers are sorted: their
// order changes nothing but the last bit of a sum, and that must not depend on how a file is laid out.
func (d *document) order() {
	rank := func(p *pluginDecl) int {
		switch {
		case ordered(p):
			return 0
		case isHandler(p):
			return 1
		case isFilter(p):
			return 2
		case isScorer(p):
			return 3
		case isPicker(p):
			return 4
		}
		return 5
	}
	slices.SortStableFunc(d.plugins, func(a, b *pluginDecl) int {
		if x, y := rank(a), rank(b); x != y || x == 0 {
			return cmp.Compare(x, y)
		}
		return strings.Compare(a.name, b.name)
	})
	refRank := func(ref refDecl) int {
		switch p := d.plugin(ref.ref); {
		case isFilter(p):
			return 1
		case isScorer(p):
			return 2
		case isPicker(p):
			return 3
		}
		return 0
	}
	for _, prof := range d.profiles {
		slices.SortStableFunc(prof.refs, func(a, b refDecl) int {
			if x, y := refRank(a), refRank(b); x != y || x != 2 {
				return cmp.Compare(x, y)
			}
			return strings.Compare(a.ref, b.ref)
		})
		for i := range prof.refs {
			ref := &prof.refs[i]
			switch scorer := isScorer(d.plugin(ref.ref)); {
			case !scorer:
				ref.weight = 0
			case ref.weightAt == pos{}:
				ref.weight = 1
			}
		}
	}
}

// spec makes the framework's view of a document without errors, in canonical order.
func (d *document) spec() plugins.Spec {
	var s plugins.Spec
	for _, p := range d.plugins {
		if p.kind.entry != nil {
			s.Plugins = append(s.Plugins, plugins.PluginSpec{Name: p.name, Type: p.kind.typ, Construct: p.construct})
		}
	}
	for _, prof := range d.profiles {
		ps := plugins.ProfileSpec{Name: prof.name}
		for _, ref := range prof.refs {
			ps.Plugins = append(ps.Plugins, plugins.RefSpec{Ref: ref.ref, Weight: ref.weight})
		}
		s.Profiles = append(s.Profiles, ps)
	}
	for _, p := range d.pools {
		ps := plugins.PoolSpec{Name: p.name, Handler: p.handler}
		for _, m := range p.models {
			model := plugins.Model{Name: m.name}
			for _, a := range m.aliases {
				model.Aliases = append(model.Aliases, a.name)
			}
			ps.Models = append(ps.Models, model)
		}
		for _, prof := range p.profiles {
			ps.Profiles = append(ps.Profiles, prof.name)
		}
		s.Pools = append(s.Pools, ps)
	}
	for _, o := range d.objectives {
		s.Objectives = append(s.Objectives, plugins.Objective{Name: o.name, Priority: o.priority, Pool: o.pool.name})
	}
	if d.stagesGiven {
		s.Stages = []string{}
		for _, ref := range d.stages {
			s.Stages = append(s.Stages, ref.ref)
		}
	}
	return s
}

// construct makes a fresh instance; its parameters were decoded without problems before.
func (p *pluginDecl) construct() (any, error) {
	v := p.kind.make()
	var again reader
	again.decode(p.params, plugins.Params(v), p.name, "", nil)
	if HasErrors(again.problems) {
		return nil, again.problems[0]
	}
	return v, nil
}

// effective prints the document with everything filled in.
func (d *document) effective() []byte {
	var root tableNode
	root.add("apiVersion", text(OwnVersion))
	root.add("kind", text(Kind))
	if d.upstream.legacyMetrics {
		root.add("featureGates", sequence([]*yaml.Node{text("enableLegacyMetrics")}))
	}
	var list []*yaml.Node
	for _, p := range d.plugins {
		if p.kind.entry == nil && p.value != any(d.discovery) && !asksForMore(p) {
			continue // stands without a plugin
		}
		var t tableNode
		t.add("name", text(p.name))
		t.add("type", text(p.kind.typ))
		if params := parametersNode(plugins.Params(p.value)); len(params.Content) > 0 {
			t.add("parameters", params)
		}
		list = append(list, t.node())
	}
	root.add("plugins", sequence(list))

	list = nil
	for _, prof := range d.profiles {
		var t tableNode
		t.add("name", text(prof.name))
		var refs []*yaml.Node
		for _, ref := range prof.refs {
			var rt tableNode
			rt.add("pluginRef", text(ref.ref))
			if isScorer(d.plugin(ref.ref)) {
				rt.add("weight", number(ref.weight))
			}
			refs = append(refs, rt.node())
		}
		t.add("plugins", sequence(refs))
		list = append(list, t.node())
	}
	root.add("schedulingProfiles", sequence(list))

	if d.poolsGiven {
		root.add("pools", d.poolsNode())
	}
	if d.stagesGiven {
		list = nil
		for _, ref := range d.stages {
			var t tableNode
			t.add("pluginRef", text(ref.ref))
			list = append(list, t.node())
		}
		root.add("stages", sequence(list))
	}
	if len(d.objectives) > 0 {
		root.add("objectives", d.objectivesNode())
	}
	if d.discovery != nil {
		var ref, layer tableNode
		ref.add("pluginRef", text(d.upstream.discovery.ref))
		layer.add("discovery", ref.node())
		root.add("dataLayer", layer.node())
	}

	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(root.node()); err != nil {
		panic("config: the effective configuration cannot be printed: " + err.Error())
	}
	return out.Bytes()
}

func (d *document) poolsNode() *yaml.Node {
	var list []*yaml.Node
	for _, p := range d.pools {
		var t tableNode
		t.add("name", text(p.name))
		if len(p.models) > 0 {
			var models []*yaml.Node
			for _, m := range p.models {
				var mt tableNode
				mt.add("name", text(m.name))
				if len(m.aliases) > 0 {
					mt.add("aliases", texts(m.aliases))
				}
				models = append(models, mt.node())
			}
			t.add("models", sequence(models))
		}
		t.add("profiles", texts(p.profiles))
		t.add("handler", text(p.handler))
		list = append(list, t.node())
	}
	return sequence(list)
}

// digest names an effective text.
func digest(effective []byte) string {
	sum := sha256.Sum256(effective)
	return hex.EncodeToString(sum[:])
}

// tableNode builds a table in the order in which members are added.
type tableNode struct{ content []*yaml.Node }

func (t *tableNode) add(name string, value *yaml.Node) {
	t.content = append(t.content, text(name), value)
}

func (t *tableNode) node() *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: t.content}
	if len(t.content) == 0 {
		n.Style = yaml.FlowStyle
	}
	return n
}

func sequence(items []*yaml.Node) *yaml.Node {
	n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: items}
	if len(items) == 0 {
		n.Style = yaml.FlowStyle
	}
	return n
}

// text prints plainly what every reader of YAML takes for the same text, and quotes everything else.
func text(s string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	for _, c := range s {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_./", c)) {
			n.Style = yaml.DoubleQuotedStyle
		}
	}
	if plain := (&yaml.Node{Kind: yaml.ScalarNode, Value: s}); s == "" || plain.ShortTag() != "!!str" || s[0] == '-' || slices.Contains(oldBooleans, strings.ToLower(s)) {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

// oldBooleans are true or false to readers of YAML 1.1.
var oldBooleans = []string{"y", "n", "yes", "no", "on", "off"}

func number(f float64) *yaml.Node {
	return plain(strconv.FormatFloat(f, 'g', -1, 64))
}

func plain(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: s} }

func texts(names []named) *yaml.Node {
	var items []*yaml.Node
	for _, n := range names {
		items = append(items, text(n.name))
	}
	list := sequence(items)
	list.Style = yaml.FlowStyle
	return list
}

// parametersNode prints parameters that are not absent, in the order of the struct.
func parametersNode(params []plugins.Param) *yaml.Node {
	var t tableNode
	for _, p := range params {
		if !p.Absent() {
			t.add(p.Name, valueNode(p))
		}
	}
	return t.node()
}

func valueNode(p plugins.Param) *yaml.Node {
	switch p.Kind {
	case plugins.ParamStruct:
		return parametersNode(p.Fields())
	case plugins.ParamList:
		var items []*yaml.Node
		for _, item := range p.Items {
			items = append(items, valueNode(item))
		}
		return sequence(items)
	case plugins.ParamMap:
		var t tableNode
		for key, item := range p.Items {
			t.add(key, valueNode(item))
		}
		return t.node()
	case plugins.ParamBool, plugins.ParamInt, plugins.ParamFloat:
		return plain(p.Text())
	}
	return text(p.Text())
}
