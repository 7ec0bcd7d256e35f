package config

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/fairlead/fairlead/pkg/plugins"
)

// decode sets params from a table of parameters; those that it does not name keep their defaults. n may be nil.
// where names the plugin, and group the group in it that params are. p, if given, learns where each parameter stands; more
// are members that are no parameters.
func (r *reader) decode(n *yaml.Node, params []plugins.Param, where, group string, p *pluginDecl, more ...field) {
	seen := make([]pos, len(params))
	if n != nil {
		fields := more
		for i, param := range params {
			set := func(key, value *yaml.Node, old bool) {
				if seen[i] != (pos{}) {
					r.errorf(at(key), CodeDuplicateKey, "keep one of the two", "%s: parameter %q is given twice, first in line %d", where, param.Name, seen[i].line)
					return
				}
				seen[i] = at(key)
				if p != nil {
					p.given[param.Name] = at(value)
				}
				if old {
					r.warnf(at(key), CodeDeprecated, fmt.Sprintf("write %s", param.Name), "%s: parameter %q is an old name", where, key.Value)
				}
				r.set(param, value, where)
			}
			fields = append(fields, field{param.Name, func(k, v *yaml.Node) { set(k, v, false) }})
			for _, old := range param.Was {
				fields = append(fields, field{old, func(k, v *yaml.Node) { set(k, v, true) }})
			}
		}
		if !r.table(n, where+group, "parameter", fields) {
			return
		}
	}
	for i, param := range params {
		if param.Required && seen[i] == (pos{}) {
			place := pos{}
			if n != nil {
				place = at(n)
			} else if p != nil {
				place = p.at
			}
			r.errorf(place, CodeMissing, "add it under parameters: "+param.Kind.String(), "%s: parameter %q is missing", where, param.Path)
		}
	}
}

// set gives one parameter the value of a node.
func (r *reader) set(param plugins.Param, value *yaml.Node, where string) {
	n := r.resolve(value)
	if n == nil {
		return
	}
	refuse := func(err error) {
		if err != nil {
			code := CodeOutOfBounds
			if strings.Contains(err.Error(), "; write ") {
				code = CodeWrongType
			}
			message, suggestion, _ := strings.Cut(err.Error(), "; ")
			r.errorf(at(value), code, suggestion, "%s: %s", where, message)
		}
	}
	switch {
	case isNull(n):
		suggestion := "give it a value or remove it"
		if d := defaultText(param); d != "" {
			suggestion = fmt.Sprintf("remove it to have the default %s", d)
		}
		r.errorf(at(value), CodeWrongType, suggestion, "%s: %s has no value", where, param.Path)
		return
	case param.Kind == plugins.ParamStruct && n.Kind == yaml.MappingNode:
		r.decode(value, param.Fields(), where, ": "+param.Path, nil)
		return
	case param.Kind == plugins.ParamList && n.Kind == yaml.SequenceNode:
		param.Clear()
		for _, item := range n.Content {
			param.Append(func(e plugins.Param) { r.set(e, item, where) })
		}
		refuse(param.Check())
		return
	case param.Kind == plugins.ParamMap && n.Kind == yaml.MappingNode:
		r.entries(param, n, where)
		refuse(param.Check())
		return
	case n.Kind != yaml.ScalarNode || n.ShortTag() == "!!merge":
		r.errorf(at(value), CodeWrongType, "write "+param.Kind.String(), "%s: %s is %s", where, param.Path, shown(n))
		return
	}
	switch n.ShortTag() {
	case "!!bool":
		var v bool
		if n.Decode(&v) == nil {
			refuse(param.SetBool(v))
			return
		}
	case "!!int":
		var v int64
		if n.Decode(&v) == nil {
			refuse(param.SetInt(v))
			return
		}
		var f float64
		if param.Kind == plugins.ParamFloat && n.Decode(&f) == nil {
			refuse(param.SetFloat(f))
			return
		}
		r.errorf(at(value), CodeOutOfBounds, "write a smaller number", "%s: %s is %s", where, param.Path, shortened(n.Value))
		return
	case "!!float":
		if param.Kind != plugins.ParamFloat && strings.Trim(n.Value, "+-0123456789") == "" {
			r.errorf(at(value), CodeOutOfBounds, "write a smaller number", "%s: %s is %s", where, param.Path, shortened(n.Value))
			return
		}
		var v float64
		if n.Decode(&v) == nil {
			refuse(param.SetFloat(v))
			return
		}
	case "!!str":
		// Line ends are the form of a block of lines.
		if text := strings.TrimRight(n.Value, "\n"); strings.TrimSpace(text) != text {
			r.errorf(at(value), CodeOutOfBounds, "remove it", "%s: %s is %q, with a space or line end too many", where, param.Path, shortened(n.Value))
			return
		}
		refuse(param.SetString(n.Value))
		return
	}
	r.errorf(at(value), CodeWrongType, "write "+param.Kind.String(), "%s: %s is %s", where, param.Path, shown(n))
}

// entries fills a table of names and values, whose names are the user's own.
func (r *reader) entries(param plugins.Param, n *yaml.Node, where string) {
	param.Clear()
	seen := map[string]pos{}
	for i := 0; i+1 < len(n.Content) && !r.full(); i += 2 {
		key, value := r.resolve(n.Content[i]), n.Content[i+1]
		if key == nil {
			return
		}
		place := at(n.Content[i])
		if key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" {
			suggestion := "write the names out"
			if key.Kind == yaml.ScalarNode && key.ShortTag() != "!!merge" {
				suggestion = fmt.Sprintf("write it in quotes: %q", key.Value)
			}
			r.errorf(place, CodeWrongType, suggestion, "%s: %s: a name is wanted here, not %s", where, param.Path, shown(key))
			continue
		}
		if first, twice := seen[key.Value]; twice {
			r.errorf(place, CodeDuplicateKey, "keep one of the two", "%s: %s: name %q is given twice, first in line %d", where, param.Path, key.Value, first.line)
			continue
		}
		seen[key.Value] = place
		param.Put(key.Value, func(e plugins.Param) { r.set(e, value, where) })
	}
}

// defaultText is the present value of a parameter where it can be said in a word.
func defaultText(param plugins.Param) string {
	switch {
	case param.Absent(), param.Kind == plugins.ParamStruct, param.Kind == plugins.ParamList, param.Kind == plugins.ParamMap:
		return ""
	case param.Kind == plugins.ParamString:
		return fmt.Sprintf("%q", param.Text())
	}
	return param.Text()
}
