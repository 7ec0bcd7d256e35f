package config

import (
	"fmt"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/fairlead/fairlead/pkg/plugins"
)

// flowSection is llm-d's section on queueing, in its own words: nodes by name, with their places.
type flowSection struct {
	at       pos // zero: not given
	fields   nodes
	bands    []nodes
	template [2]nodes // of bands made on demand: of priorities from 0, and below
	detector detectorDecl
}

// detectorDecl names the plugin that says when a pool is full, or has the thresholds that older configurations give in its place.
type detectorDecl struct {
	at         pos // zero: not given
	ref        *yaml.Node
	thresholds nodes
}

// nodes are fields that were given.
type nodes map[string]*yaml.Node

func (n nodes) keep(names ...string) (fields []field) {
	for _, name := range names {
		fields = append(fields, field{name, func(_, v *yaml.Node) { n[name] = v }})
	}
	return fields
}

// flowControl reads the section; it is held against the gate when all is read.
func (r *reader) flowControl(key, value *yaml.Node, d *document) {
	if r.leftOut(key, value) {
		return
	}
	s := &d.upstream.flow
	s.at, s.fields = at(key), nodes{}
	band := []string{"priority", "maxBytes", "maxRequests", "fairnessPolicyRef", "orderingPolicyRef"}
	template := func(i int) func(k, v *yaml.Node) {
		return func(k, v *yaml.Node) {
			s.template[i] = nodes{}
			r.table(v, "flowControl: "+k.Value, "field", s.template[i].keep(band...))
		}
	}
	fields := []field{
		{"defaultPriorityBand", template(0)},
		{"defaultNegativePriorityBand", template(1)},
		{"priorityBands", func(k, v *yaml.Node) {
			items, _ := r.list(k, v, "flowControl")
			for i, item := range items {
				one := nodes{}
				if r.table(item, fmt.Sprintf("flowControl: priorityBands[%d]", i), "field", one.keep(band...)) {
					s.bands = append(s.bands, one)
				}
			}
		}},
		{"saturationDetector", func(k, v *yaml.Node) { r.detector(k, v, "flowControl: saturationDetector", &s.detector) }},
	}
	r.table(value, "flowControl", "field", append(fields, s.fields.keep("maxBytes", "maxRequests", "defaultRequestTTL", "noEndpointRequestTTL",
		"usageLimitPolicyPluginRef", "enableEviction")...))
}

// detectorThresholds are what a saturationDetector held before it was a plugin.
var detectorThresholds = []string{"queueDepthThreshold", "kvCacheUtilThreshold", "metricsStalenessThreshold"}

// detector reads a saturation detector, by reference or with the thresholds of older configurations.
func (r *reader) detector(key, value *yaml.Node, where string, to *detectorDecl) {
	if r.leftOut(key, value) {
		return
	}
	to.at, to.thresholds = at(key), nodes{}
	fields := append([]field{{"pluginRef", func(_, v *yaml.Node) { to.ref = v }}}, to.thresholds.keep(detectorThresholds...)...)
	if r.table(value, where, "field", fields) && to.ref != nil && len(to.thresholds) > 0 {
		r.errorf(to.at, CodeConflict, "keep pluginRef, and give the thresholds to the plugin that it names", "%s has pluginRef and thresholds of its own", where)
	}
}

// The types that llm-d's section becomes.
const (
	flowQueue    = "flow-control"
	flowShed     = "priority-shedding"
	flowDetector = "utilization-detector"
	flowFairness = "global-strict-fairness-policy"
	flowOrdering = "fcfs-ordering-policy"
	flowLimit    = "static-usage-limit-policy"
)

// The bounds that a band has in llm-d's endpoint picker where it names none.
const (
	flowBandRequests = "5000"
	flowBandBytes    = "1G"
)

// flow makes a plugin of llm-d's section: the queue while the gate is on; else, as there, requests of priorities below 0 are
// refused while the pool is full, and nobody waits. A text that says nothing of either asks for nothing.
func (r *reader) flow(d *document, entries []plugins.Entry) {
	u := &d.upstream
	detector := &u.flow.detector
	if u.detector.at != (pos{}) {
		r.warnf(u.detector.at, CodeDeprecated, "write flowControl: {saturationDetector: …}", "saturationDetector is the old place of flowControl.saturationDetector")
		if detector.at != (pos{}) {
			r.errorf(u.detector.at, CodeConflict, "remove it", "saturationDetector is given here and in flowControl")
		}
		detector = &u.detector
	}
	if u.flow.at != (pos{}) && !u.flowControl {
		rest := "flowControl has no effect: the gate flowControl is off"
		if detector.at != (pos{}) {
			rest = "flowControl has no effect but for its saturationDetector: the gate flowControl is off"
		}
		r.warnf(u.flow.at, CodeNoEffect, "add featureGates: [flowControl], or remove it", "%s, and requests are not queued", rest)
		r.flowForm(&u.flow, entries)
	}
	switch {
	case slices.ContainsFunc(d.plugins, isQueue):
		for _, asked := range []pos{u.flowControlAt, u.detector.at} {
			if asked != (pos{}) {
				r.errorf(asked, CodeConflict, "remove one of the two", "llm-d's flow control is asked for beside a queue that is declared as a plugin")
				return
			}
		}
	case u.flowControl:
		r.flowQueue(d, detector, entries)
	case detector.at != (pos{}) || u.flow.at != (pos{}) && d.version != OwnVersion:
		params := &yaml.Node{Kind: yaml.MappingNode}
		r.setRef(params, "saturationDetectorRef", r.detectorName(d, detector, entries), pos{})
		r.stage(d, flowShed, params, entries)
	}
}

func isQueue(p *pluginDecl) bool { _, ok := p.value.(plugins.Queue); return ok }

// flowQueue adds the queue that the section asks for.
func (r *reader) flowQueue(d *document, detector *detectorDecl, entries []plugins.Entry) {
	s := &d.upstream.flow
	name := r.detectorName(d, detector, entries)
	params := r.flowParams(s, func(ref *yaml.Node, typ, where string) string { return r.flowPolicy(d, ref, typ, where, entries) })
	r.setRef(params, "saturationDetectorRef", name, detector.at)
	r.stage(d, flowQueue, params, entries)
}

// flowForm holds a section whose gate is off against what its fields may be, so that it can be switched on as it stands. What it refers
// to may be missing.
func (r *reader) flowForm(s *flowSection, entries []plugins.Entry) {
	params := r.flowParams(s, func(ref *yaml.Node, _, where string) string {
		if ref != nil {
			r.text(&yaml.Node{Value: where}, ref, "")
		}
		return ""
	})
	if i := slices.IndexFunc(entries, func(e plugins.Entry) bool { return e.Type == flowQueue }); i >= 0 {
		r.decode(params, plugins.Params(entries[i].New()), flowWhere, "", nil)
	}
}

// flowWhere is what problems of the section begin with.
const flowWhere = "flowControl"

// flowParams makes the parameters of the queue. What Fairlead's own queue does otherwise where nobody says anything is said as llm-d has
// it. named returns the name of the policy that ref refers to, or of the default of its type.
func (r *reader) flowParams(s *flowSection, named func(ref *yaml.Node, typ, where string) string) *yaml.Node {
	params := &yaml.Node{Kind: yaml.MappingNode, Line: s.at.line, Column: s.at.column}
	for _, name := range []string{"maxRequests", "maxBytes"} {
		set(params, name, given(s.fields[name], "0"))
	}
	for _, name := range []string{"defaultRequestTTL", "noEndpointRequestTTL", "enableEviction"} {
		if v := s.fields[name]; v != nil {
			set(params, name, v)
		}
	}
	set(params, "lateBinding", scalar("false", "!!bool"))
	set(params, "dropLate", scalar("false", "!!bool"))
	r.setRef(params, "usageLimitPolicyRef", named(s.fields["usageLimitPolicyPluginRef"], flowLimit, "flowControl: usageLimitPolicyPluginRef"), s.at)
	band := func(b nodes, where string) *yaml.Node {
		node := &yaml.Node{Kind: yaml.MappingNode}
		set(node, "maxRequests", given(b["maxRequests"], flowBandRequests))
		set(node, "maxBytes", given(b["maxBytes"], flowBandBytes))
		r.setRef(node, "fairnessPolicyRef", named(b["fairnessPolicyRef"], flowFairness, where+": fairnessPolicyRef"), pos{})
		r.setRef(node, "orderingPolicyRef", named(b["orderingPolicyRef"], flowOrdering, where+": orderingPolicyRef"), pos{})
		return node
	}
	for i, name := range []string{"defaultPriorityBand", "defaultNegativePriorityBand"} {
		if where := "flowControl: " + name; i == 0 || s.template[i] != nil {
			r.templatePriority(s.template[i]["priority"], where)
			set(params, name, band(s.template[i], where))
		}
	}
	bands, seen := &yaml.Node{Kind: yaml.SequenceNode}, map[int32]int{}
	for i, b := range s.bands {
		where := fmt.Sprintf("flowControl: priorityBands[%d]", i)
		node := b["priority"]
		if node == nil {
			r.errorf(s.at, CodeMissing, "add priority", "%s: priority is missing", where)
			continue
		}
		priority := r.priority(&yaml.Node{Value: "priority"}, node, where)
		if first, twice := seen[priority]; twice {
			r.errorf(at(node), CodeDuplicateName, "keep one of the two", "%s: priority %d is that of priorityBands[%d]", where, priority, first)
		}
		seen[priority] = i
		one := band(b, where)
		number := scalar(strconv.Itoa(int(priority)), "!!int")
		number.Line, number.Column = node.Line, node.Column
		set(one, "priority", number)
		bands.Content = append(bands.Content, one)
	}
	if len(bands.Content) > 0 {
		set(params, "priorityBands", bands)
	}
	return params
}

// templatePriority looks at the priority of a template, which llm-d's text has room for and which says nothing.
func (r *reader) templatePriority(node *yaml.Node, where string) {
	if node == nil {
		return
	}
	if p := r.priority(&yaml.Node{Value: "priority"}, node, where); p != 0 {
		r.warnf(at(node), CodeNoEffect, "remove it, or list the band under priorityBands", "%s: priority %d has no effect: bands are made like it for all priorities that are not listed", where, p)
	}
}

// flowPolicy returns the name of the policy that is referred to, or of the default one, which is added.
//
// A name that nobody declares may be that of a type: llm-d has one of most of these by itself.
func (r *reader) flowPolicy(d *document, ref *yaml.Node, typ, where string, entries []plugins.Entry) string {
	serves := servesOf(typ, entries)
	if ref == nil {
		if it := r.add(d, typ, entries); it != nil {
			return it.name
		}
		return ""
	}
	name, ok := r.text(&yaml.Node{Value: where}, ref, "")
	if !ok {
		return ""
	}
	if p := d.plugin(name); p == nil {
		switch is := servesOf(name, entries); {
		case is == serves && serves != "":
			if it := r.add(d, name, entries); it != nil {
				return it.name
			}
			return ""
		case is != "":
			r.errorf(at(ref), CodeWrongRole, "name "+article(serves), "%s: %q is %s", where, name, article(is))
			return ""
		}
		r.errorf(at(ref), CodeUndefined, didYouMeanOr(name, d.pluginNames(func(p *pluginDecl) bool { return servedBy(p) == serves })),
			"%s: no plugin is named %q", where, name)
		return ""
	} else if p.kind != nil && servedBy(p) != serves {
		r.errorf(at(ref), CodeWrongRole, "name "+article(serves), "%s: %q (%s) is %s", where, p.name, p.typ, role(p))
		return ""
	}
	return name
}

// servedBy returns as what a policy serves, "" for other plugins.
func servedBy(p *pluginDecl) string {
	if p, ok := p.value.(plugins.Policy); ok {
		return p.Serves()
	}
	return ""
}

func servesOf(typ string, entries []plugins.Entry) string {
	i := slices.IndexFunc(entries, func(e plugins.Entry) bool { return e.Type == typ })
	if i < 0 {
		return ""
	}
	return servedBy(&pluginDecl{value: entries[i].New()})
}

// detectorName returns the name of the detector that is referred to, of one with the thresholds that are given, or of the
// default.
func (r *reader) detectorName(d *document, decl *detectorDecl, entries []plugins.Entry) string {
	if decl.ref != nil || len(decl.thresholds) == 0 {
		return r.flowPolicy(d, decl.ref, flowDetector, "saturationDetector: pluginRef", entries)
	}
	it := r.add(d, flowDetector, entries)
	if it == nil {
		return ""
	}
	params := &yaml.Node{Kind: yaml.MappingNode}
	for _, name := range detectorThresholds {
		if v := decl.thresholds[name]; v != nil {
			set(params, name, v)
		}
	}
	r.give(it, params, "saturationDetector")
	return it.name
}

// stage adds a plugin that runs before scheduling, after all others.
func (r *reader) stage(d *document, typ string, params *yaml.Node, entries []plugins.Entry) {
	it := r.add(d, typ, entries)
	if it == nil {
		return
	}
	r.give(it, params, flowWhere)
	if d.stagesGiven {
		d.stages = append(d.stages, refDecl{ref: it.name})
	}
}

// give decodes the parameters of a plugin that was added. where is what of the text they come from.
func (r *reader) give(p *pluginDecl, params *yaml.Node, where string) {
	p.params = params
	r.decode(params, plugins.Params(p.value), where, "", p)
}

// ofSection reports whether a plugin was added for llm-d's section or gate.
func (d *document) ofSection(p *pluginDecl) bool {
	return p.at == (pos{}) && (isQueue(p) || servedBy(p) != "")
}

// placeOf returns where a plugin is declared; of one that was added for llm-d's section, where that stands, or what asks for it.
func (d *document) placeOf(p *pluginDecl) pos {
	if d.ofSection(p) {
		for _, at := range []pos{d.upstream.flow.at, d.upstream.flowControlAt, d.upstream.detector.at} {
			if at != (pos{}) {
				return at
			}
		}
	}
	return p.at
}

// set puts a value into a table.
func set(table *yaml.Node, name string, value *yaml.Node) {
	key := scalar(name, "!!str")
	key.Line, key.Column = value.Line, value.Column
	table.Content = append(table.Content, key, value)
}

// setRef puts the name of a plugin into a table, if there is one.
func (r *reader) setRef(table *yaml.Node, name, ref string, place pos) {
	if ref == "" {
		return
	}
	value := scalar(ref, "!!str")
	value.Line, value.Column = place.line, place.column
	set(table, name, value)
}

func scalar(value, tag string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Value: value, Tag: tag}
}

// given returns v, or what stands in its place where it is not given, or is 0.
func given(v *yaml.Node, otherwise string) *yaml.Node {
	if v == nil || v.Kind == yaml.ScalarNode && (v.Value == "0" || isNull(v)) {
		n := scalar(otherwise, "!!int")
		if v != nil {
			n.Line, n.Column = v.Line, v.Column
		}
		if otherwise != "0" && otherwise[len(otherwise)-1] > '9' {
			n.Tag = "!!str"
		}
		return n
	}
	return v
}
