package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/fairlead/fairlead/pkg/plugins"
)

// objectiveDecl is one entry of objectives.
type objectiveDecl struct {
	name     string
	at       pos
	priority int32
	pool     named // zero: every pool
}

// maxObjectives bounds the list: each may open a band of its own.
const maxObjectives = 1000

func (r *reader) objectives(key, value *yaml.Node, d *document) {
	items, _ := r.list(key, value, "")
	if len(items) > maxObjectives {
		r.errorf(at(value), CodeOutOfBounds, fmt.Sprintf("at most %d", maxObjectives), "objectives has %d entries", len(items))
		return
	}
	for i, item := range items {
		o := objectiveDecl{at: at(item)}
		where := fmt.Sprintf("objectives[%d]", i)
		if name := peek(item, "name"); name != "" {
			where = fmt.Sprintf("objective %q", shortened(name))
		}
		given := false
		ok := r.table(item, where, "field", []field{
			{"name", func(k, v *yaml.Node) { given = true; o.at = at(v); o.name, _ = r.text(k, v, where) }},
			{"priority", func(k, v *yaml.Node) { o.priority = r.priority(k, v, where) }},
			{"pool", func(k, v *yaml.Node) { o.pool.at = at(v); o.pool.name, _ = r.text(k, v, where) }},
		})
		if ok && !given {
			r.errorf(at(item), CodeMissing, "add name", "%s: name is missing", where)
		}
		if o.name == "" {
			continue
		}
		if bad := unprintable(o.name); bad != "" {
			r.errorf(o.at, CodeOutOfBounds, "use letters, digits and -", "objective %s: the name has %s", strconv.Quote(o.name), bad)
			continue
		}
		if first := slices.IndexFunc(d.objectives, func(p objectiveDecl) bool { return p.name == o.name && p.pool.name == o.pool.name }); first >= 0 {
			r.errorf(o.at, CodeDuplicateName, "keep one of the two", "%s is defined twice, first in line %d", where, d.objectives[first].at.line)
			continue
		}
		d.objectives = append(d.objectives, o)
	}
}

// priority reads a whole number of 32 bits; no value is 0.
func (r *reader) priority(key, value *yaml.Node, where string) int32 {
	if n := r.resolve(value); n == nil || isNull(n) {
		return 0
	}
	n, ok := r.number(key, value, where)
	if ok && (n != math.Trunc(n) || n < math.MinInt32 || n > math.MaxInt32) {
		r.errorf(at(value), CodeOutOfBounds, "write a whole number of 32 bits", "%s: priority is %v", where, n)
		return 0
	}
	return int32(n)
}

// checkObjectives holds the objectives' pools against those that there are.
func (r *reader) checkObjectives(d *document) {
	for _, o := range d.objectives {
		if o.pool.name != "" && d.pool(o.pool.name) == nil {
			var pools []string
			for _, p := range d.pools {
				pools = append(pools, p.name)
			}
			r.errorf(o.pool.at, CodeUndefined, didYouMeanOr(o.pool.name, pools), "objective %q: no pool is named %q", o.name, o.pool.name)
		}
	}
}

// objectiveResolver has the stage that reads objectives run first, unless the document declares it. It is put in before the
// stage that finds a request's pool is, which then stands before it.
func (r *reader) objectiveResolver(d *document, entries []plugins.Entry) {
	it := r.add(d, priorities, entries)
	if it == nil || it.at != (pos{}) {
		return
	}
	after := slices.IndexFunc(d.plugins, func(p *pluginDecl) bool { return p.kind != nil && p.kind.typ == defaultResolver }) + 1
	d.plugins = slices.Insert(d.plugins[:len(d.plugins)-1], after, it)
	if d.stagesGiven {
		after = slices.IndexFunc(d.stages, func(ref refDecl) bool {
			p := d.plugin(ref.ref)
			return p != nil && p.kind != nil && p.kind.typ == defaultResolver
		}) + 1
		d.stages = slices.Insert(d.stages, after, refDecl{ref: it.name})
	}
}

func (d *document) objectivesNode() *yaml.Node {
	var list []*yaml.Node
	for _, o := range d.objectives {
		var t tableNode
		t.add("name", text(o.name))
		t.add("priority", plain(strconv.Itoa(int(o.priority))))
		if o.pool.name != "" {
			t.add("pool", text(o.pool.name))
		}
		list = append(list, t.node())
	}
	return sequence(list)
}
