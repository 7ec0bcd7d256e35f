package config

import (
	"fmt"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// poolDecl is one entry of pools.
type poolDecl struct {
	name      string
	at        pos
	models    []modelDecl
	profiles  []named
	handler   string
	handlerAt pos // zero: none is given and none was filled in

	profilesGiven bool
}

type modelDecl struct {
	named
	aliases []named
}

// named is a name and where it stands.
type named struct {
	name string
	at   pos
}

func (r *reader) pools(key, value *yaml.Node, d *document) {
	var items []*yaml.Node
	items, d.poolsGiven = r.list(key, value, "")
	if d.poolsGiven && len(items) == 0 {
		r.errorf(at(value), CodeMissing, "list a pool, or remove pools to have one that takes any model", "pools is empty")
		d.poolsGiven = false
	}
	asked := map[string]named{} // models and aliases of all pools, with the pool that has them
	for i, item := range items {
		p := &poolDecl{at: at(item)}
		where := fmt.Sprintf("pools[%d]", i)
		if name := peek(item, "name"); name != "" {
			where = fmt.Sprintf("pool %q", shortened(name))
		}
		given := false
		ok := r.table(item, where, "field", []field{
			{"name", func(k, v *yaml.Node) { given = true; p.at = at(v); p.name, _ = r.text(k, v, where) }},
			{"models", func(k, v *yaml.Node) { r.models(k, v, where, p) }},
			{"profiles", func(k, v *yaml.Node) { p.profiles, p.profilesGiven = r.names(k, v, where) }},
			{"handler", func(k, v *yaml.Node) {
				p.handlerAt = at(v)
				p.handler, _ = r.text(k, v, where)
			}},
		})
		if ok && !given {
			r.errorf(at(item), CodeMissing, "add name", "%s: name is missing", where)
		}
		for _, m := range p.models {
			r.claim(asked, m.named, p, "model")
			for _, a := range m.aliases {
				r.claim(asked, a, p, "alias")
			}
		}
		if p.name == "" {
			continue
		}
		if bad := unprintable(p.name); bad != "" {
			r.errorf(p.at, CodeOutOfBounds, "use letters, digits and -", "pool %s: the name has %s", strconv.Quote(p.name), bad)
			continue
		}
		if first := d.pool(p.name); first != nil {
			r.errorf(p.at, CodeDuplicateName, "rename one of the two", "pool %q is defined twice, first in line %d", p.name, first.at.line)
			continue
		}
		d.pools = append(d.pools, p)
	}
}

// pool returns the pool of this name, or nil.
func (d *document) pool(name string) *poolDecl {
	for _, p := range d.pools {
		if p.name == name {
			return p
		}
	}
	return nil
}

// distinctProfiles are the pool's profiles that exist, each once.
func (p *poolDecl) distinctProfiles(d *document) []named {
	var out []named
	for _, prof := range p.profiles {
		if d.profile(prof.name) != nil && !slices.ContainsFunc(out, func(n named) bool { return n.name == prof.name }) {
			out = append(out, prof)
		}
	}
	return out
}

// claim enters a name by which a client may ask for a model: it must lead to one pool only.
func (r *reader) claim(asked map[string]named, m named, p *poolDecl, what string) {
	if first, taken := asked[m.name]; taken {
		r.errorf(m.at, CodeDuplicateName, "a name that clients ask for leads to one model", "pool %q: %s %q is a name of pool %q as well, in line %d",
			p.name, what, m.name, first.name, first.at.line)
		return
	}
	asked[m.name] = named{p.name, m.at}
}

func (r *reader) models(key, value *yaml.Node, where string, p *poolDecl) {
	items, _ := r.list(key, value, where)
	for i, item := range items {
		var m modelDecl
		at0 := fmt.Sprintf("%s: models[%d]", where, i)
		ok := r.table(item, at0, "field", []field{
			{"name", func(k, v *yaml.Node) { m.at = at(v); m.name, _ = r.text(k, v, at0) }},
			{"aliases", func(k, v *yaml.Node) { m.aliases, _ = r.names(k, v, at0) }},
		})
		if ok && m.at == (pos{}) {
			r.errorf(at(item), CodeMissing, "add name", "%s: name is missing", at0)
		}
		if m.name != "" {
			p.models = append(p.models, m)
		}
	}
}

// names reads a list of texts.
func (r *reader) names(key, value *yaml.Node, where string) (names []named, given bool) {
	items, given := r.list(key, value, where)
	for _, item := range items {
		if s, ok := r.text(key, item, where); ok {
			names = append(names, named{s, at(item)})
		}
	}
	return names, given
}

func (r *reader) stages(key, value *yaml.Node, d *document) {
	var items []*yaml.Node
	items, d.stagesGiven = r.list(key, value, "")
	for i, item := range items {
		where := fmt.Sprintf("stages[%d]", i)
		// A stage is a table with pluginRef, or, as short for it, the name alone.
		if n := r.resolve(item); n != nil && n.Kind == yaml.ScalarNode {
			if s, ok := r.text(key, item, where); ok {
				d.stages = append(d.stages, refDecl{ref: s, at: at(item)})
			}
			continue
		}
		if ref, ok := r.ref(item, where, false); ok {
			d.stages = append(d.stages, ref)
		}
	}
}
