package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fairlead/fairlead/pkg/plugins"
)

// schemaID names the schema; nothing is fetched from there.
const schemaID = "https://fairlead.dev/v1alpha1/EndpointPickerConfig.schema.json"

// Patterns of the values that are written as texts.
const (
	durationPattern = `^[-+]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$`
	quantityPattern = `^[-+]?[0-9.]+([eE][-+]?[0-9]+)?(k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?B?$`
)

// object is a JSON object; encoding sorts its keys, so that one schema has one text.
type object = map[string]any

// Schema returns a JSON Schema (2020-12) of configurations that may use these plugin types. Structure, types, bounds and
// defaults are those of the structs that are decoded into; texts are the doc comments by "import/path.Type" and
// "import/path.Type.Field", and may be nil. What [Load] accepts the schema accepts; what only the whole of a document shows,
// such as a reference to nothing, it cannot refuse.
func Schema(entries []plugins.Entry, texts map[string]string) []byte {
	s := schemaPrinter{entries: entries, texts: texts}
	params := plugins.Params(&documentShape{})
	s.say = plugins.InNamesOf(params)
	doc := s.group(params, true)
	doc["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	doc["$id"] = schemaID
	doc["title"] = Kind
	doc["allOf"] = []any{object{
		"if":   object{"properties": object{"apiVersion": object{"not": object{"const": OwnVersion}}}, "required": []string{"apiVersion"}},
		"then": object{"properties": object{"pools": false, "stages": false, "objectives": false}},
	}}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(doc); err != nil {
		panic("config: the schema cannot be printed: " + err.Error())
	}
	return out.Bytes()
}

type schemaPrinter struct {
	entries []plugins.Entry
	texts   map[string]string
	say     func(string) string // comments in the names of the parameters at hand
}

// group describes parameters that stand together. Of the document itself, lists and sections may have no value.
func (s *schemaPrinter) group(params []plugins.Param, document bool) object {
	properties := object{}
	required := []string{}
	for _, p := range params {
		one := s.param(p, document)
		properties[p.Name] = one
		for _, old := range p.Was {
			properties[old] = deprecated(one)
		}
		if p.Required && len(p.Was) == 0 {
			required = append(required, p.Name)
		}
	}
	g := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		g["required"] = required
	}
	return g
}

func deprecated(of object) object {
	old := object{"deprecated": true}
	for key, value := range of {
		if key != "default" {
			old[key] = value
		}
	}
	return old
}

// param describes one parameter or field.
func (s *schemaPrinter) param(p plugins.Param, document bool) object {
	o := s.value(p, document)
	if document {
		o = s.field(p, o)
	} else if !p.Absent() && !p.Required && p.Kind != plugins.ParamStruct {
		o["default"] = jsonOf(p)
	}
	if text := s.texts[p.Owner+"."+p.Field]; text != "" {
		o["description"] = strings.Join(strings.Fields(s.say(text)), " ")
	}
	return o
}

// value describes the values that a parameter takes.
func (s *schemaPrinter) value(p plugins.Param, document bool) object {
	switch p.Kind {
	case plugins.ParamBool:
		return object{"type": "boolean"}
	case plugins.ParamInt:
		return numberBounds(object{"type": "integer"}, p, "minimum", "maximum")
	case plugins.ParamFloat:
		return numberBounds(object{"type": "number"}, p, "minimum", "maximum")
	case plugins.ParamDuration:
		return object{"type": "string", "pattern": durationPattern}
	case plugins.ParamQuantity:
		return object{"type": []string{"integer", "string"}, "pattern": quantityPattern}
	case plugins.ParamStruct:
		return s.group(p.Fields(), document)
	case plugins.ParamList:
		return numberBounds(object{"type": "array", "items": s.value(p.Elem(), document)}, p, "minItems", "maxItems")
	case plugins.ParamMap:
		return numberBounds(object{"type": "object", "additionalProperties": s.value(p.Elem(), document)}, p, "minProperties", "maxProperties")
	}
	o := object{"type": "string"}
	if len(p.Enum) > 0 {
		o["enum"] = p.Enum
	}
	// Bounds on texts count bytes, and a schema counts characters, of which there are fewer.
	if p.Min == "1" || document {
		o["minLength"] = 1
	}
	if n, err := strconv.Atoi(p.Max); err == nil {
		o["maxLength"] = n
	}
	return o
}

func numberBounds(o object, p plugins.Param, least, most string) object {
	if p.Min != "" {
		o[least] = json.Number(p.Min)
	}
	if p.Max != "" {
		o[most] = json.Number(p.Max)
	}
	return o
}

// field corrects what a struct cannot say of a field of the document.
func (s *schemaPrinter) field(p plugins.Param, o object) object {
	switch p.Path {
	case "apiVersion":
		return object{"type": "string", "enum": Versions()}
	case "featureGates":
		o["items"] = object{"type": "string", "pattern": "^(" + strings.Join(gates, "|") + ")(=([tT][rR][uU][eE]|[fF][aA][lL][sS][eE]))?$"}
	case "stages":
		o["items"] = object{"anyOf": []any{object{"type": "string", "minLength": 1}, s.group(plugins.Params(&refShape{}), true)}}
	case "plugins":
		item := o["items"].(object)
		item["properties"].(object)["type"].(object)["enum"] = s.types()
		item["properties"].(object)["parameters"].(object)["type"] = []string{"object", "null"}
		delete(item["properties"].(object)["parameters"].(object), "additionalProperties")
		item["allOf"] = s.parameters()
	}
	if p.Kind == plugins.ParamList || p.Kind == plugins.ParamStruct && !p.Required {
		o["type"] = []string{o["type"].(string), "null"}
	}
	return o
}

// types lists every type that loads, deprecated ones last.
func (s *schemaPrinter) types() []string {
	var current, old []string
	l := legacy{entries: s.entries}
	for _, e := range s.entries {
		current = append(current, e.Type)
		old = append(old, e.Renamed...)
	}
	for _, t := range standingTypes {
		if !slices.Contains(current, t.typ) {
			current = append(current, t.typ)
		}
	}
	for _, t := range legacyTypes {
		if !slices.Contains(append(current, old...), t.typ) && l.has(t.use) && (t.also == "" || l.has(t.also)) {
			old = append(old, t.typ)
		}
	}
	for _, t := range idleTypes {
		if !slices.Contains(append(current, old...), t.typ) {
			old = append(old, t.typ)
		}
	}
	return append(current, old...)
}

// parameters describes, type by type, what parameters a plugin takes.
func (s *schemaPrinter) parameters() []any {
	var all []any
	for _, typ := range s.types() {
		group, ok := s.parametersOf(typ)
		if !ok {
			continue
		}
		then := object{"properties": object{"parameters": group}}
		if _, required := group["required"]; required {
			then["required"] = []string{"parameters"}
		} else {
			group["type"] = []string{"object", "null"}
		}
		all = append(all, object{"if": object{"properties": object{"type": object{"const": typ}}, "required": []string{"type"}}, "then": then})
	}
	return all
}

// parametersOf describes the parameters of a type; ok is false for one that takes any.
func (s *schemaPrinter) parametersOf(typ string) (group object, ok bool) {
	for _, e := range s.entries {
		if e.Type == typ || slices.Contains(e.Renamed, typ) {
			return s.withOld(e.Type, e.New()), true
		}
	}
	for _, t := range standingTypes {
		if t.typ != typ {
			continue
		}
		group := s.withOld(typ, t.make())
		for _, name := range t.empty {
			group["properties"].(object)[name] = object{"anyOf": []any{object{"type": "null"}, object{"type": "object", "maxProperties": 0}, object{"type": "array", "maxItems": 0}}}
		}
		return group, true
	}
	for _, t := range legacyTypes {
		switch {
		case t.typ != typ:
		case typ == "by-label":
			return s.group(plugins.Params(&byLabelShape{}), false), true
		case t.also != "":
			return s.parametersOf(t.also)
		default:
			return s.parametersOf(t.use)
		}
	}
	return nil, false
}

// withOld describes the parameters of a plugin, and what older configurations call them.
func (s *schemaPrinter) withOld(typ string, v any) object {
	params := plugins.Params(v)
	before := s.say
	s.say = plugins.InNamesOf(params)
	defer func() { s.say = before }()
	group := s.group(params, false)
	for _, old := range legacyParameters {
		if path := strings.Split(old.old, "."); old.typ == typ && old.refused == "" && !knows(params, path) {
			offer(group, path, fmt.Sprintf("An old name: %s.", orIgnored(old.path)))
		}
	}
	if typ == "prefix-cache-scorer" {
		for _, old := range prefixScorerParameters {
			if !knows(params, []string{old.old}) {
				offer(group, []string{old.old}, "A parameter of approx-prefix-cache-producer.")
			}
		}
	}
	return group
}

func orIgnored(path string) string {
	if path == "" {
		return "it has no effect"
	}
	return "write " + path
}

// offer adds a deprecated parameter at a path of a group, with any value.
func offer(group object, path []string, about string) {
	properties := group["properties"].(object)
	if len(path) == 1 {
		properties[path[0]] = object{"deprecated": true, "description": about}
		return
	}
	if inner, ok := properties[path[0]].(object); ok && inner["properties"] != nil {
		offer(inner, path[1:], about)
	}
}
